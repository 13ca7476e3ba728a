"""`unspool doctor`: reports what is in the data, and what is unknown or damaged; and the condition of the store.

Rules
  1. A store that is damaged, newer or cannot be written is a finding: the files are examined all the same.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from unspool.cli import options, output, session_argument, store_access
from unspool.display import TextColumn, units
from unspool.edit.rules import RULES
from unspool.edit.verify import violations
from unspool.errors import Refused, Unreadable, UnspoolError
from unspool.format import Entry, parse_version
from unspool.graph import AgentClass, find_flaws
from unspool.home import Home
from unspool.paths import data_folder
from unspool.read import Finding, Kind, Report, Tree, read_items, scan, survey
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
    TextColumn("its own", right=True),
    TextColumn("store", right=True),
    TextColumn("difference", right=True),
]


@click.command()
@click.argument("path", required=False)
@click.option("--session", metavar="SESSION", help="Whether one session keeps the rules that resuming it rests on.")
@options.store_options
@options.output_options
def doctor(*, path: str | None, session: str | None, access: options.AccessOptions, as_json: bool) -> None:
    """Say what is in the data: what is known, unknown, damaged or missing.

    PATH is a config folder, one project of it, any tree, or one file; without it, the config folder is read. Then it
    says how the store is, which sessions Claude Code will delete soon, which only the archive has, and how the
    program's own statistics differ from the store's. Damage is a finding, not a failure: the exit code is 0.

    With `--session` one session is looked at closely: every rule it breaks, with file and offset.
    """
    access = access._replace(config_dir=path or access.config_dir)
    if session is not None:
        _report_session(session, access, as_json=as_json)
        return
    with _open_for_doctor(access) as (opened, problem):
        # A config folder that was deleted as a whole is still known to store and archive.
        home = Home(scan(opened.root) if opened.root.exists() else Tree(opened.root, ()))
        stored = _report_on_store(opened, home.tree, access, problem)
        with output.progress_bar(sum(source.size for source in home.tree.sources), "reading") as advance:
            report = survey(home.tree, advance)
        agents = _check_structure(home, report)
    if as_json:
        output.write_json({**_report_as_json(report), "agents": agents, **stored.as_data()})
    else:
        _print_report(report, agents)
        _print_store_report(stored)


def _check_structure(home: Home, report: Report) -> dict[str, int]:
    """Add to the report how lines and agents are linked wrongly; return the number of agents by class."""
    agents = dict.fromkeys(("linked", "unlinked", "warmup", "special"), 0)
    for source in home.tree.of(Kind.SESSION, Kind.AGENT):
        _add_flaws(source.path, report)
    for session in home.sessions():
        if not session.agent_sources:
            continue
        if sum(source.size for source in (session.source, *session.agent_sources)) > _MAX_LINKED_BYTES:
            report.warnings.append(Finding("not linked", session.path, "too large to link its agents in memory"))
            continue
        with suppress(UnspoolError):  # the survey has already reported the file
            for agent in session.agents:
                agents[_CLASSES.get(agent.kind, "special") if not agent.call else "linked"] += 1
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
    return data


def _print_report(report: Report, agents: dict[str, int]) -> None:
    output.print_heading(f"{report.root}")
    if not report.files and not report.side_files:
        output.print_line("  nothing of Claude Code's here")
        output.print_line("  `unspool demo DIR` writes data to try with")
        return
    coverage = "every byte accounted for"
    if report.accounted_bytes != report.bytes:
        coverage = f"{report.bytes - report.accounted_bytes:,} bytes not accounted for"
    sessions = f"{units.amount(report.sessions, 'session')}, {units.amount(report.agent_files, 'sub-agent')}"
    output.print_pairs(
        [
            ("files", f"{report.files:,} ({sessions})"),
            ("lines", f"{report.lines:,}"),
            ("bytes", f"{units.size(report.bytes)}, {coverage}"),
            ("side files", f"{sum(report.side_files.values()):,} ({units.size(report.side_bytes)})"),
            ("versions", _version_span(report)),
            *(
                [("agents", ", ".join(f"{count:,} {name}" for name, count in agents.items()))]
                if any(agents.values())
                else []
            ),
        ]
    )
    _print_counts("records", report.records)
    _print_counts("side files", report.side_files)
    _print_counts("unknown, kept as they are", report.unknown)
    places = [(_place(bad.file, bad.offset, report.root), bad) for bad in report.bad_lines]
    _print_findings(
        "bad lines, kept by place", [(place, f"{bad.length:,} bytes, {bad.reason}") for place, bad in places]
    )
    for kind, by_message in _group_warnings(report.warnings).items():
        findings = [(message, _extent(warnings, report.root)) for message, warnings in by_message.items()]
        _print_findings(kind, findings)
    if not report.bad_lines and not report.unknown and not report.warnings:
        output.print_line()
        output.print_line("nothing unknown, nothing damaged")


def _version_span(report: Report) -> str:
    # A line may give any text as its version.
    numbers = sorted(parse_version(name) for name in report.versions if _VERSION.fullmatch(name))
    names = [".".join(map(str, number)) for number in numbers]
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else "".join(names) or "none written"


def _print_counts(title: str, counts: Counter[str]) -> None:
    if counts:
        output.print_section(title, ((name, f"{count:,}") for name, count in counts.most_common()))


def _group_warnings(warnings: list[Finding]) -> dict[str, dict[str, list[Finding]]]:
    """Return the warnings by kind and message."""
    kinds: dict[str, dict[str, list[Finding]]] = {}
    for warning in sorted(warnings, key=lambda warning: warning.kind):
        kinds.setdefault(warning.kind, {}).setdefault(warning.message, []).append(warning)
    return kinds


def _extent(warnings: list[Finding], root: Path) -> str:
    """Return where something was found: the place, or how often and where first."""
    first, count = warnings[0], sum(warning.count for warning in warnings)
    place = _place(first.file, first.offset, root)
    if count == 1:
        return place
    where = f" in {units.amount(len(warnings), 'file')}" if len(warnings) > 1 else ""
    return f"{count:,} times{where}, first {place}"


def _place(path: Path, offset: int | None, root: Path) -> str:
    short = str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name
    return short if offset is None else f"{short}:{offset}"


def _report_session(name: str, access: options.AccessOptions, *, as_json: bool) -> None:
    """Print which rules a session breaks."""
    with session_argument.open_session(name, access) as session:
        broken = violations(session)
    if as_json:
        names = ("rule", "file", "offset", "message")
        rows = [{name: getattr(violation, name) for name in names} for violation in broken]
        output.write_json({"session": session.id, "path": str(session.path), "violations": rows})
        return
    output.print_heading(str(session.path))
    if not broken:
        output.print_line("  keeps every rule: it can be resumed as it is")
    by_rule: dict[str, list[tuple[str, str]]] = {}
    for violation in broken:
        place = f"{Path(violation.file).name}:{violation.offset}"
        by_rule.setdefault(violation.rule, []).append((place, violation.message))
    for rule, places in sorted(by_rule.items()):
        output.print_section(f"{rule}: {RULES[rule]}", places, _MAX_FINDINGS)


class _StoreReport(msgspec.Struct, frozen=True):
    """The condition of the store and what it knows; None where it was not asked or does not know."""

    store: StoreCondition | None
    deleted_soon: list[ExpiringSession]
    archive_only: list[ArchivedSession] | None
    stats_difference: StatsDifference | None
    synced: bool
    """Whether the store has read the examined folder."""
    unresolved_edits: list[str] = []
    """The ids of edits that a killed process left and that nobody could finish or take back."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, with times as they are written in JSON."""
        return {
            "store": self.store and {**self.store._asdict(), "synced": self.synced},
            "deleted_soon": [_row_as_json(session) for session in self.deleted_soon],
            "archive_only": self.archive_only and [_row_as_json(session) for session in self.archive_only],
            "stats_difference": msgspec.to_builtins(self.stats_difference),
            "unresolved_edits": self.unresolved_edits,
        }


@contextmanager
def _open_for_doctor(access: options.AccessOptions) -> Iterator[tuple[StoreAccess, UnspoolError | None]]:
    """Open a folder with its store; if the store is damaged or newer, without it and with the error."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folder(access))
        except (Unreadable, Refused) as error:
            root, folder = options.find_config_folder(access.config_dir), data_folder(os.environ)
            # The settings may be what cannot be read: that is a finding too.
            settings = _none_if_unreadable(lambda: preferences.read_preferences(folder)) or preferences.Preferences()
            yield StoreAccess(root, folder, settings, None), error
        else:
            yield opened, None


def _report_on_store(
    opened: StoreAccess, tree: Tree, access: options.AccessOptions, problem: UnspoolError | None
) -> _StoreReport:
    """Check the store and the archive, and compare them with the files."""
    folder, database, now = opened.folder, opened.database, datetime.now().astimezone()
    if access.no_store:
        expiring = health.find_expiring_sessions(tree, folder, now, ask_archive=False)
        return _StoreReport(None, expiring, None, None, synced=False, unresolved_edits=_unresolved_edits(opened))
    condition = health.check_store(folder, archive=opened.preferences.archive, complaint=problem)
    titles = difference = None
    if database is not None:
        titles = _none_if_unreadable(lambda: health.read_gone_titles(database, opened.root))
        difference = _none_if_unreadable(lambda: health.compare_stats(database, opened.root, opened.ledger))
    soon = _none_if_unreadable(lambda: health.find_expiring_sessions(tree, folder, now))
    return _StoreReport(
        store=condition,
        # A damaged archive cannot say what it has; which files go soon is known without it.
        deleted_soon=health.find_expiring_sessions(tree, folder, now, ask_archive=False) if soon is None else soon,
        archive_only=_none_if_unreadable(lambda: health.find_archived_only(tree, folder, titles or {})),
        stats_difference=difference,
        synced=database is not None,
        unresolved_edits=_unresolved_edits(opened),
    )


def _unresolved_edits(opened: StoreAccess) -> list[str]:
    from unspool.edit.apply import read_journals  # here, because few commands need what edits load

    journals = [journal for journal in read_journals(opened.folder) if journal.is_within(opened.root)]
    return [journal.id for journal in journals if journal.state in ("unresolved", "applying", "undoing")]


def _print_store_report(report: _StoreReport) -> None:
    """Write the report as text."""
    if report.store:
        _print_condition(report.store, synced=report.synced)
    _print_findings(
        f"Claude Code deletes these within {health.SOON.days} days",
        [(session.session, _deletion_time(session)) for session in report.deleted_soon],
    )
    _print_findings(
        "edits that could not be finished or taken back",
        [(id, f"`unspool edit undo --merge {id}` puts the old bytes back") for id in report.unresolved_edits],
    )
    archived = [(row.session, f"{units.size(row.bytes)}  {row.title or ''}") for row in report.archive_only or []]
    _print_findings("only in the archive, `unspool restore` brings them back", archived)
    if report.stats_difference:
        _print_difference(report.stats_difference)


def _print_findings(title: str, findings: list[tuple[str, str]]) -> None:
    """Write a title with the number of findings, and the first of them; nothing if there are none."""
    if findings:
        output.print_section(f"{title}: {len(findings):,}", findings, _MAX_FINDINGS)


def _print_condition(state: StoreCondition, *, synced: bool) -> None:
    pairs = [("folder", state.folder)]
    if state.files is not None:
        rewritten = units.amount(state.generations or 0, "older version")
        pairs.append(("files", f"{state.files:,} ({state.gone_files:,} gone, {rewritten})"))
    columns = f"; the columns for SQL {units.size(state.column_bytes)}" if state.column_bytes else ""
    sizes = f"{units.size(state.store_bytes)}, and the archive {units.size(state.archive_bytes)}{columns}"
    pairs.append(("size", sizes))
    kept = "" if state.raw_bytes is None else f", {units.size(state.raw_bytes)} kept"
    pairs.append(("archive", f"{'on' if state.archive else 'off'}{kept}"))
    if state.passages is not None:
        waiting = f", {units.size(state.unindexed_bytes)} to go" if state.unindexed_bytes else ""
        pairs.append(("index", f"{units.amount(state.passages, 'text')}{waiting}"))
    sound = "sound" if synced else "sound; this folder is not in it yet"
    pairs.append(("state", sound if state.sound else str(state.message)))
    if state.hint:
        pairs.append(("hint", state.hint))
    output.print_section("store", pairs)


def _deletion_time(session: ExpiringSession) -> str:
    archived = {True: ", in the archive", False: ", not in the archive", None: ""}[session.archived]
    # Claude Code deletes only when it starts: what is overdue goes then.
    is_due = session.when <= datetime.now().astimezone()
    return f"{'at its next start' if is_due else f'on {session.when.astimezone():%Y-%m-%d}'}{archived}"


def _print_difference(stats: StatsDifference) -> None:
    output.print_line()
    output.print_heading(f"statistics up to {stats.last_computed_date or 'now'}: Claude Code's own, and the store's")
    rows = [("messages", stats.messages), ("sessions", stats.sessions), ("tool calls", stats.tool_calls)]
    rows += [(f"tokens of {model}", _sum_comparisons([*tokens.values()])) for model, tokens in stats.models.items()]
    output.print_table(_COLUMNS, [[name, *_cells(compared)] for name, compared in rows])
    days = sum(1 for day in stats.days if any(row.difference for row in (day.messages, day.sessions, day.tool_calls)))
    known = units.amount(len(stats.days), "day")
    output.print_line(f"{days:,} of the {known} that both know differ; `--json` lists them")


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


def _row_as_json(row: ExpiringSession | ArchivedSession) -> dict[str, Any]:
    return {
        name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for name, value in row._asdict().items()
    }
