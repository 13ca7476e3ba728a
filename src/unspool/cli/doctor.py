"""`unspool doctor`: reports what is in the data, and what is unknown or damaged; and the condition of the store.

Rules
  1. A store that is damaged, newer or cannot be written is a finding: the files are examined all the same.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from unspool.cli import options, output, session_argument, store_access
from unspool.display import TextColumn, units
from unspool.edit import read_session_text
from unspool.edit.rules import BREAKAGES, RULES, Breakage, find_breakages, find_error_advice
from unspool.edit.verify import violations
from unspool.errors import NothingFound, Refused, Unreadable, UnspoolError
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.format import Entry, format_timestamp, parse_version
from unspool.graph import AgentClass, find_flaws
from unspool.home import Home
from unspool.paths import data_folder, is_config_folder
from unspool.read import Finding, Kind, Report, Sighting, Tree, read_items, survey
from unspool.store import StoreAccess, preferences
from unspool.store.catalog import ArchivedSession, Comparison, ExpiringSession, StatsDifference, StoreCondition, health

T = TypeVar("T")

_VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,9}", re.ASCII)
_MAX_LINKED_BYTES = 64 * 1024 * 1024
"""Bytes of a session and its agents: linking them holds all in memory."""

_CLASSES = {AgentClass.TASK: "unlinked", AgentClass.ORPHAN: "unlinked", AgentClass.WARMUP: "warmup"}
_MAX_FINDINGS = 10
"""How many findings of a sort are printed; `--json` has them all."""
_COLUMNS = [
    TextColumn("", least=20),
    TextColumn("Claude Code", right=True),
    TextColumn("store", right=True),
    TextColumn("difference", right=True),
]


@click.command()
@click.argument("path", required=False)
@click.option(
    "--session",
    metavar="SESSION",
    shell_complete=options.complete_session,
    help="Check one session against the rules for resuming",
)
@click.option("--error", metavar="TEXT", help="Say what an error text of the Messages API means for a session")
@options.store_options
@options.output_options
@output.paged
def doctor(
    *, path: str | None, session: str | None, error: str | None, access: options.AccessOptions, as_json: bool
) -> None:
    """Check the data: unknown, damaged or missing parts.

    PATH is a config folder, a project, any tree, or one file. Without PATH, the report covers the config folder and the
    store. It lists sessions that Claude Code will delete soon, sessions that only the archive has, and differences from
    Claude Code's statistics. It also shows the sandbox for commands of `unspool chat`. The exit code is 0 even if there
    is damage.

    With `--session`, check one session and list what is broken, with file and offset, and the command that repairs it.

    With `--error`, name the command that helps against an error of the API. The exit code is 1 if the text is unknown.

    \b
    unspool doctor --session 945090a1
    unspool doctor --error "messages.3: `tool_use` ids were found without `tool_result` blocks"
    """
    if path is not None:
        access = access._replace(config_dirs=(path,))
    if error is not None:
        _explain_error(error, session, as_json=as_json)
        return
    if session is not None:
        _report_session(session, access, as_json=as_json)
        return
    with _open_for_doctor(access) as (opened, problem):
        # Not the home of the store: what is examined is on disk.
        home = Home(opened.tree)
        # Also with a store, which may have read a file before it became unreadable.
        opened.skip_unreadable()
        stored = _report_on_store(opened, home.tree, access, problem)
        with output.progress_bar(sum(source.size for source in home.tree.sources), "reading") as advance:
            report = survey(home.tree, advance)
        agents = _check_structure(home, report)
    if as_json:
        found = {**_report_as_json(report), "agents": agents, **stored.as_data(), "sandbox": _find_sandbox()}
        found["status_lines"] = _find_status_lines(opened.roots)
        output.write_document("doctor", found, opened.skipped)
    else:
        _print_report(report, agents)
        _print_store_report(stored)
        output.print_line()
        for settings, state in _find_status_lines(opened.roots).items():
            output.print_line(f"status line: {state} in {settings}")
        output.print_line(f"sandbox of commands in `unspool chat`: {_describe_sandbox()}")


def _find_status_lines(roots: Iterable[Path]) -> dict[str, str]:
    """Return whether our status line is installed, by the settings file of each config folder that has sessions."""
    from unspool.cli.claude_code.statusline import describe_status_line
    from unspool.statusline import claude_settings

    found = {}
    for root in roots:
        if not is_config_folder(root):
            continue
        path = root / "settings.json"
        try:
            data = read_whole(path, MAX_SIDE_FILE) if path.exists() else b""
            found[str(path)] = describe_status_line(claude_settings.find_status_line(data))
        except UnspoolError as error:
            found[str(path)] = f"unknown: {error.reason}"
    return found


def _find_sandbox() -> str | None:
    """Return what makes the sandbox of commands on this machine; None if nothing does."""
    from unspool.sandbox import find_mechanism  # here, because few commands need what it loads

    return find_mechanism()


def _describe_sandbox() -> str:
    from unspool.sandbox import MECHANISM_NAMES

    mechanism = _find_sandbox()
    return "none works here: unspool asks before every command" if mechanism is None else MECHANISM_NAMES[mechanism]


def _check_structure(home: Home, report: Report) -> dict[str, int]:
    """Add to the report how lines and agents are linked wrongly; return the number of agents by class."""
    agents = dict.fromkeys(("linked", "unlinked", "warmup", "special"), 0)
    for source in home.tree.of(Kind.SESSION, Kind.AGENT):
        _add_flaws(source.path, report)
    for session in home.sessions():
        if session.is_missing or not session.agent_sources:
            continue
        if sum(source.size for source in (session.source, *session.agent_sources)) > _MAX_LINKED_BYTES:
            report.warnings.append(Finding("not linked", session.path, "too large to link its agents"))
            continue
        with suppress(UnspoolError):  # the survey has already reported the file
            for agent in session.agents:
                agents["linked" if agent.is_linked else _CLASSES.get(agent.kind, "special")] += 1
    # Those of sessions that are too large, unreadable or gone.
    agents["unlinked"] += sum(1 for _ in home.tree.of(Kind.AGENT)) - sum(agents.values())
    return agents


def _add_flaws(path: Path, report: Report) -> None:
    findings: dict[tuple[str, str], Finding] = {}
    try:
        flaws = find_flaws(item for item in read_items(path) if isinstance(item, Entry))
    except UnspoolError:  # the survey has already reported the file
        return
    # Counted: a damaged file may have the same flaw on every line.
    for flaw in flaws:
        first = findings.get((flaw.kind, flaw.message))
        count = first.count + 1 if first else 1
        offset = first.offset if first else flaw.offset
        findings[flaw.kind, flaw.message] = Finding(flaw.kind, path, flaw.message, offset, count)
    report.warnings += findings.values()


def _report_as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain data, counts in order of size."""
    data = msgspec.to_builtins(report, builtin_types=(), enc_hook=str)
    assert isinstance(data, dict)
    for name in ("records", "kinds", "unknown", "versions", "side_files"):
        data[name] = dict(Counter(data[name]).most_common())
    for name in ("bad_lines", "warnings"):
        data[name] = [{"path": row["file"], **row} for row in data[name]]
    return data


def _print_report(report: Report, agents: dict[str, int]) -> None:
    output.print_heading(", ".join(map(str, report.roots)))
    if not report.files and not report.side_files:
        output.print_line("  no Claude Code data here")
        output.print_line("  create sample data with `unspool demo DIR`")
        return
    coverage = "every byte was read"
    if report.accounted_bytes != report.bytes:
        coverage = f"{report.bytes - report.accounted_bytes:,} bytes were not read"
    sessions = f"{units.amount(report.sessions, 'session')}, {units.amount(report.agent_files, 'sub-agent')}"
    output.print_pairs(
        [
            ("files", f"{report.files:,} ({sessions})"),
            ("lines", f"{report.lines:,}"),
            ("bytes", f"{units.size(report.bytes)}, {coverage}"),
            *([("not read", _describe_unread(report))] if report.unread_files else []),
            ("side files", f"{sum(report.side_files.values()):,} ({units.size(report.side_bytes)})"),
            ("versions", _version_span(report.versions)),
            *(
                [("agents", ", ".join(f"{count:,} {name}" for name, count in agents.items()))]
                if any(agents.values())
                else []
            ),
        ]
    )
    _print_counts("records", report.records)
    _print_counts("side files", report.side_files)
    _print_counts("unknown records (kept)", report.unknown)
    _print_sightings("unknown fields (kept)", report.undeclared_fields)
    _print_sightings("unknown tools", report.unknown_tools)
    _print_sightings("results with unknown fields (kept)", report.misfit_results)
    places = [(_place(bad.file, bad.offset, report.roots), bad) for bad in report.bad_lines]
    _print_findings("unreadable lines", [(place, f"{bad.length:,} bytes, {bad.reason}") for place, bad in places])
    for kind, by_message in _group_warnings(report.warnings).items():
        findings = [(message, _extent(warnings, report.roots)) for message, warnings in by_message.items()]
        _print_findings(kind, findings)
    novelties = report.undeclared_fields or report.unknown_tools or report.misfit_results
    if not report.bad_lines and not report.unknown and not report.warnings and not novelties:
        output.print_line()
        output.print_line("no unknown or damaged data")


def _version_span(versions: Iterable[str]) -> str:
    # A line may give any text as its version.
    numbers = sorted(parse_version(name) for name in versions if _VERSION.fullmatch(name))
    names = [".".join(map(str, number)) for number in numbers]
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else "".join(names) or "none written"


def _print_sightings(title: str, sightings: dict[str, Sighting]) -> None:
    """Write what was found that nobody described: how often, and in which versions."""
    ordered = sorted(sightings.items(), key=lambda sighting: (-sighting[1].count, sighting[0]))
    findings = [(name, f"{units.amount(seen.count, 'time')}, {_version_span(seen.versions)}") for name, seen in ordered]
    _print_findings(title, findings)


def _print_counts(title: str, counts: Counter[str]) -> None:
    if counts:
        output.print_section(title, ((name, f"{count:,}") for name, count in counts.most_common()))


def _group_warnings(warnings: list[Finding]) -> dict[str, dict[str, list[Finding]]]:
    """Return the warnings by kind and message."""
    kinds: dict[str, dict[str, list[Finding]]] = {}
    for warning in sorted(warnings, key=lambda warning: warning.kind):
        kinds.setdefault(warning.kind, {}).setdefault(warning.message, []).append(warning)
    return kinds


def _extent(warnings: list[Finding], roots: list[Path]) -> str:
    """Return where something was found: the place, or how often and where first."""
    first, count = warnings[0], sum(warning.count for warning in warnings)
    place = _place(first.file, first.offset, roots)
    if count == 1:
        return place
    where = f" in {units.amount(len(warnings), 'file')}" if len(warnings) > 1 else ""
    return f"{count:,} times{where}, first {place}"


def _describe_unread(report: Report) -> str:
    return f"{units.amount(report.unread_files, 'file')}, {units.size(report.unread_bytes)}, listed below"


def _place(path: Path, offset: int | None, roots: list[Path]) -> str:
    """Return the path below the folder that was examined, whole if there are several, and the offset."""
    if len(roots) > 1:
        short = str(path)
    else:
        short = str(path.relative_to(roots[0])) if path != roots[0] and path.is_relative_to(roots[0]) else path.name
    return short if offset is None else f"{short}:{offset}"


def _report_session(name: str, access: options.AccessOptions, *, as_json: bool) -> None:
    """Print which rules a session breaks."""
    with session_argument.open_session(name, access) as session:
        broken = violations(session)
        # An agent's file is edited with its session: it has no repair of its own.
        found = [] if session.path.name.startswith("agent-") else find_breakages(read_session_text(session))
    command = options.pasteable(f"unspool edit repair {session.id}")
    if as_json:
        names = ("rule", "file", "offset", "message")
        rows = [{"path": breakage.file, **{name: getattr(breakage, name) for name in names}} for breakage in broken]
        head = {"session_id": session.id, "session": session.id, "path": str(session.path)}
        breakages = [
            {
                "breakage": breakage.kind,
                "meaning": BREAKAGES[breakage.kind],
                "offset": breakage.offset,
                "message": breakage.message,
            }
            for breakage in found
        ]
        more = {"violations": rows, "breakages": breakages, "command": command if found else None}
        output.write_document("doctor-session", {**head, **more})
        return
    output.print_heading(str(session.path))
    _print_breakages(found, command)
    if not broken and not found:
        output.print_line("  follows every rule: it can be resumed")
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for violation in broken:
        place = f"{Path(violation.file).name}:{violation.offset}"
        by_rule.setdefault(violation.rule, []).append((place, violation.message))
    for rule, places in sorted(by_rule.items()):
        output.print_section(f"{rule}: {RULES[rule]}", places, _MAX_FINDINGS)


def _print_breakages(found: list[Breakage], command: str) -> None:
    """Write what is broken, and the command that repairs it."""
    if not found:
        return
    by_kind: dict[str, list[Breakage]] = {}
    for breakage in found:
        by_kind.setdefault(breakage.kind, []).append(breakage)
    rows = []
    for kind, breakages in by_kind.items():
        times = "" if len(breakages) == 1 else f"{len(breakages):,} times, first "
        rows.append((BREAKAGES[kind], f"{times}at {breakages[0].offset}: {breakages[0].message}"))
    output.print_section("broken", rows)
    output.print_line()
    output.print_line(f"repair it with `{command}`")


def _explain_error(error: str, session: str | None, *, as_json: bool) -> None:
    """Print what an error text of the API means, and the command that helps."""
    advice = find_error_advice(error)
    command = None
    if advice is not None:
        command = advice.command if session is None else advice.command.replace("SESSION", session)
    if as_json:
        data = {"error": error, "breakage": advice and advice.breakage, "meaning": advice and advice.message}
        output.write_document("doctor-error", {**data, "command": command})
    if advice is None or command is None:
        raise NothingFound("unknown error text", hint="check the session with `unspool doctor --session SESSION`")
    if not as_json:
        output.print_pairs([("meaning", advice.message), ("command", options.pasteable(command))])


class _StoreReport(msgspec.Struct, frozen=True):
    """The condition of the store and what it knows; None where it was not asked or does not know."""

    store: StoreCondition | None
    deleted_soon: list[ExpiringSession]
    archive_only: list[ArchivedSession] | None
    stats_differences: list[StatsDifference]
    """One for each examined config folder in which Claude Code keeps statistics."""
    synced: bool
    """Whether the store has read the examined folder."""
    unresolved_edits: list[str] = []
    """The ids of edits that a killed process left and that nobody could finish or take back."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, with times as they are written in JSON."""
        compared = msgspec.to_builtins(self.stats_differences)
        return {
            "store": self.store and {**self.store._asdict(), "synced": self.synced},
            "deleted_soon": [_row_as_json(session, "time") for session in self.deleted_soon],
            "archive_only": self.archive_only and [_row_as_json(session, "ended_at") for session in self.archive_only],
            "stats_difference": compared[0] if len(compared) == 1 else None,
            "stats_differences": compared,
            "unresolved_edits": self.unresolved_edits,
        }


@contextmanager
def _open_for_doctor(access: options.AccessOptions) -> Iterator[tuple[StoreAccess, UnspoolError | None]]:
    """Open a folder with its store; if the store is damaged or newer, without it and with the error."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folders(access, is_quiet=True))
        except (Unreadable, Refused) as error:
            roots, folder = options.find_config_folders(access.config_dirs), data_folder(os.environ)
            # The settings may be what cannot be read: that is a finding too.
            settings = _none_if_unreadable(lambda: preferences.read_preferences(folder)) or preferences.Preferences()
            yield StoreAccess(roots, folder, settings, None), error
        else:
            yield opened, None


def _report_on_store(
    opened: StoreAccess, tree: Tree, access: options.AccessOptions, problem: UnspoolError | None
) -> _StoreReport:
    """Check the store and the archive, and compare them with the files."""
    folder, database, now = opened.folder, opened.database, datetime.now().astimezone()
    if access.no_store:
        expiring = health.find_expiring_sessions(tree, folder, now, ask_archive=False)
        return _StoreReport(None, expiring, None, [], synced=False, unresolved_edits=_unresolved_edits(opened))
    condition = health.check_store(folder, archive=opened.preferences.archive, complaint=problem)
    titles, differences = None, list[StatsDifference]()
    if database is not None:
        titles = _none_if_unreadable(lambda: health.read_gone_titles(database, opened.roots))
        differences = _none_if_unreadable(lambda: list(_compare_stats(opened, database))) or []
    soon = _none_if_unreadable(lambda: health.find_expiring_sessions(tree, folder, now))
    return _StoreReport(
        store=condition,
        # A damaged archive cannot say what it has; which files go soon is known without it.
        deleted_soon=health.find_expiring_sessions(tree, folder, now, ask_archive=False) if soon is None else soon,
        archive_only=_none_if_unreadable(lambda: health.find_archived_only(tree, folder, titles or {})),
        stats_differences=differences,
        synced=database is not None,
        unresolved_edits=_unresolved_edits(opened),
    )


def _compare_stats(opened: StoreAccess, database: sqlite3.Connection) -> Iterator[StatsDifference]:
    """Yield how Claude Code's own statistics of each folder differ from the store's."""
    for root in opened.roots:
        ledger = StoreAccess(root, opened.folder, opened.preferences, database).ledger
        if (difference := health.compare_stats(database, root, ledger)) is not None:
            yield difference


def _unresolved_edits(opened: StoreAccess) -> list[str]:
    from unspool.edit.apply import read_journals  # here, because few commands need what edits load

    if not os.access(opened.folder, os.X_OK):  # the condition of the store says so
        return []
    journals = [journal for journal in read_journals(opened.folder) if any(map(journal.is_within, opened.roots))]
    return [journal.id for journal in journals if journal.state in ("unresolved", "applying", "undoing")]


def _print_store_report(report: _StoreReport) -> None:
    """Write the report as text."""
    if report.store:
        _print_condition(report.store, synced=report.synced)
    _print_findings(
        f"deleted by Claude Code within {health.SOON.days} days",
        [(session.session, _deletion_time(session)) for session in report.deleted_soon],
    )
    _print_findings(
        "edits that could not be completed or undone",
        [
            (id, options.pasteable(f"restore the old content with `unspool edit undo --merge {id}`"))
            for id in report.unresolved_edits
        ],
    )
    archived = [(row.session, f"{units.size(row.bytes)}  {row.title or ''}") for row in report.archive_only or []]
    _print_findings(options.pasteable("only in the archive (restore with `unspool restore SESSION`)"), archived)
    for difference in report.stats_differences:
        _print_difference(difference, is_only=len(report.stats_differences) == 1)


def _print_findings(title: str, findings: list[tuple[str, str]]) -> None:
    """Write a title with the number of findings, and the first of them; nothing if there are none."""
    if findings:
        output.print_section(f"{title}: {len(findings):,}", findings, _MAX_FINDINGS)


def _print_condition(state: StoreCondition, *, synced: bool) -> None:
    pairs = [("folder", state.folder)]
    if state.files is not None:
        rewritten = units.amount(state.generations or 0, "older version")
        pairs.append(("files", f"{state.files:,} ({state.gone_files:,} gone, {rewritten})"))
    columns = f"; SQL column files {units.size(state.column_bytes)}" if state.column_bytes else ""
    sizes = f"{units.size(state.store_bytes)}; archive {units.size(state.archive_bytes)}{columns}"
    pairs.append(("size", sizes))
    kept = "" if state.raw_bytes is None else f", {units.size(state.raw_bytes)} kept"
    pairs.append(("archive", f"{'on' if state.archive else 'off'}{kept}"))
    if state.passages is not None:
        waiting = f", {units.size(state.unindexed_bytes)} to go" if state.unindexed_bytes else ""
        pairs.append(("index", f"{units.amount(state.passages, 'text')}{waiting}"))
    sound = "sound" if synced else "valid; this folder is not synced yet"
    pairs.append(("state", sound if state.sound else str(state.message)))
    if state.hint:
        pairs.append(("hint", state.hint))
    output.print_section("store", pairs)


def _deletion_time(session: ExpiringSession) -> str:
    archived = {True: ", in the archive", False: ", not in the archive", None: ""}[session.archived]
    # Claude Code deletes only when it starts: what is overdue goes then.
    is_due = session.when <= datetime.now().astimezone()
    return f"{'at its next start' if is_due else f'on {session.when.astimezone():%Y-%m-%d}'}{archived}"


def _print_difference(stats: StatsDifference, *, is_only: bool) -> None:
    output.print_line()
    of = "" if is_only else f" in {Path(stats.path).parent}"
    output.print_heading(f"statistics{of} up to {stats.last_computed_date or 'now'}: Claude Code and the store")
    rows = [("messages", stats.messages), ("sessions", stats.sessions), ("tool calls", stats.tool_calls)]
    rows += [(f"tokens of {model}", _sum_comparisons([*tokens.values()])) for model, tokens in stats.models.items()]
    output.print_table(_COLUMNS, [[name, *_cells(compared)] for name, compared in rows])
    days = sum(1 for day in stats.days if any(row.difference for row in (day.messages, day.sessions, day.tool_calls)))
    known = units.amount(len(stats.days), "day")
    output.print_line(f"{days:,} of {known} common figures differ; list them with `--json`")


def _sum_comparisons(tokens: list[Comparison]) -> Comparison:
    ours = sum(compared.ours for compared in tokens)
    # A sum without one of its parts would look like a difference.
    if any(compared.theirs is None for compared in tokens):
        return Comparison(None, ours, None)
    theirs = sum(compared.theirs or 0 for compared in tokens)
    return Comparison(theirs, ours, ours - theirs)


def _cells(compared: Comparison) -> list[str]:
    theirs = "" if compared.theirs is None else f"{compared.theirs:,}"
    return [theirs, f"{compared.ours:,}", f"{compared.difference:+,}" if compared.difference else ""]


def _none_if_unreadable(query: Callable[[], T]) -> T | None:
    """Return the result of a query; None if store or archive cannot be read, which the condition says."""
    try:
        return query()
    except UnspoolError:
        return None


def _row_as_json(row: ExpiringSession | ArchivedSession, time_name: str) -> dict[str, Any]:
    data: dict[str, Any] = {"session_id": row.session}
    for name, value in row._asdict().items():
        if isinstance(value, datetime):
            data[time_name] = format_timestamp(value)
        data[name] = value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
    return data
