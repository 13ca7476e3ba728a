"""`unspool doctor`: reports what is in the data, and what is unknown or damaged."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from unspool.cli import doctor_report as doctor_store
from unspool.cli import output
from unspool.cli import session_argument as sessions
from unspool.cli import store_access as reading
from unspool.edit.rules import RULES, Violation
from unspool.edit.verify import violations
from unspool.errors import UnspoolError
from unspool.format import Entry
from unspool.graph import AgentClass, find_flaws
from unspool.home import Home, Session
from unspool.read import Finding, Kind, Report, Tree, read_items, scan, survey

_VERSION = re.compile(r"\d+(\.\d+)*")
_SHOWN = 10
"""How many findings of a sort are shown; `--json` has them all."""


@click.command()
@click.argument("path", required=False)
@click.option("--session", metavar="SESSION", help="Whether one session keeps the rules that resuming it rests on.")
@reading.store_options
@output.output_options
def doctor(
    path: str | None, *, session: str | None, no_sync: bool, no_store: bool, as_json: bool, config_dir: str | None
) -> None:
    """Say what is in the data: what is known, unknown, damaged or missing.

    PATH is a config folder, one project of it, any tree, or one file; without it, the config folder is read. Then it
    says how the store is, which sessions Claude Code will delete soon, which only the archive has, and how the
    program's own statistics differ from the store's. Damage is a finding, not a failure: the exit code is 0.

    With `--session` one session is looked at closely: every rule it breaks, with file and offset.
    """
    if session is not None:
        report_session(session, reading.AccessOptions(path or config_dir, no_sync, no_store), as_json=as_json)
        return
    how = reading.AccessOptions(path or config_dir, no_sync, no_store)
    with doctor_store.open_for_doctor(how) as (opened, complaint):
        home = Home(scan(opened.root) if opened.root.exists() else Tree(opened.root, ()))
        stored = doctor_store.report_on_store(opened, home.tree, how, complaint)
        with output.progress_bar(sum(source.size for source in home.tree.sources), "reading") as advance:
            report = survey(home.tree, advance)
        agents = _structure(home, report)
    if as_json:
        output.write_json({**report_as_json(report), "agents": agents, **stored.as_data()})
    else:
        _show(report, agents)
        doctor_store.print_store_report(stored, _listing)


def _structure(home: Home, report: Report) -> dict[str, int]:
    """Look at how lines and agents hang together: add what does not to the report, count the agents."""
    agents = dict.fromkeys(("linked", "unlinked", "warmup", "special"), 0)
    for source in home.tree.of(Kind.SESSION, Kind.AGENT):
        _add_flaws(source.path, report)
    for session in home.sessions():
        if not session.agent_sources:
            continue
        if sum(source.size for source in (session.source, *session.agent_sources)) > _LINKED_UP_TO:
            report.warnings.append(Finding("not linked", session.path, "too large to link its agents in memory"))
            continue
        with suppress(UnspoolError):  # the survey has said so
            for agent in session.agents:
                agents[_CLASSES.get(agent.kind, "special") if not agent.call else "linked"] += 1
    agents["unlinked"] += sum(1 for _ in home.tree.of(Kind.AGENT)) - sum(agents.values())
    return agents


_LINKED_UP_TO = 64 * 1024 * 1024
"""Bytes of a session and its agents: linking holds them all."""

_CLASSES = {AgentClass.TASK: "unlinked", AgentClass.ORPHAN: "unlinked", AgentClass.WARMUP: "warmup"}


def _add_flaws(path: Path, report: Report) -> None:
    seen: dict[tuple[str, str], Finding] = {}
    try:
        found = find_flaws(item for item in read_items(path) if isinstance(item, Entry))
    except UnspoolError:  # the survey has said so
        return
    for flaw in found:
        first = seen.get((flaw.kind, flaw.message))
        count = first.count + 1 if first else 1
        offset = first.offset if first else flaw.offset
        seen[flaw.kind, flaw.message] = Finding(flaw.kind, path, flaw.message, offset, count)
    report.warnings += seen.values()


def report_as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain data, counts in order of size."""
    data = msgspec.to_builtins(report, builtin_types=(), enc_hook=str)
    assert isinstance(data, dict)
    for name in ("records", "kinds", "unknown", "versions", "side_files"):
        data[name] = dict(Counter(data[name]).most_common())
    return data


def _show(report: Report, agents: dict[str, int]) -> None:
    output.print_heading(f"{report.root}")
    if not report.files and not report.side_files:
        output.print_line("  nothing of Claude Code's here")
        output.print_line("  `unspool demo DIR` writes data to try with")
        return
    read = "every byte accounted for"
    if report.accounted_bytes != report.bytes:
        read = f"{report.bytes - report.accounted_bytes:,} bytes not accounted for"
    output.print_pairs(
        [
            ("files", f"{report.files:,} ({_sessions(report)})"),
            ("lines", f"{report.lines:,}"),
            ("bytes", f"{output.size(report.bytes)}, {read}"),
            ("side files", f"{sum(report.side_files.values()):,} ({output.size(report.side_bytes)})"),
            ("versions", _versions(report)),
            *(
                [("agents", ", ".join(f"{count:,} {name}" for name, count in agents.items()))]
                if any(agents.values())
                else []
            ),
        ]
    )
    _counts("records", report.records)
    _counts("side files", report.side_files)
    _counts("unknown, kept as they are", report.unknown)
    places = [(_place(bad.file, bad.offset, report.root), bad) for bad in report.bad_lines]
    _listing("bad lines, kept by place", [(place, f"{bad.length:,} bytes, {bad.reason}") for place, bad in places])
    for kind, found in _by_kind(report.warnings).items():
        _listing(kind, [(message, _extent(same, report.root)) for message, same in found.items()])
    if not report.bad_lines and not report.unknown and not report.warnings:
        output.print_line()
        output.print_line("nothing unknown, nothing damaged")


def _sessions(report: Report) -> str:
    return f"{output.amount(report.sessions, 'session')}, {output.amount(report.agent_files, 'sub-agent')}"


def _versions(report: Report) -> str:
    numbers = sorted([int(part) for part in name.split(".")] for name in report.versions if _VERSION.fullmatch(name))
    names = [".".join(map(str, number)) for number in numbers]
    return f"{names[0]} to {names[-1]}" if len(names) > 1 else "".join(names) or "none written"


def _counts(title: str, counts: Counter[str]) -> None:
    if counts:
        output.print_line()
        output.print_heading(title)
        output.print_pairs((name, f"{count:,}") for name, count in counts.most_common())


def _listing(title: str, found: list[tuple[str, str]]) -> None:
    if not found:
        return
    output.print_line()
    output.print_heading(f"{title}: {len(found):,}")
    output.print_pairs(found[:_SHOWN])
    if len(found) > _SHOWN:
        output.print_line(f"  … and {len(found) - _SHOWN:,} more; `--json` lists all")


def _by_kind(warnings: list[Finding]) -> dict[str, dict[str, list[Finding]]]:
    """Return the warnings by kind and message: what is alike is told once."""
    kinds: dict[str, dict[str, list[Finding]]] = {}
    for warning in sorted(warnings, key=lambda warning: warning.kind):
        kinds.setdefault(warning.kind, {}).setdefault(warning.message, []).append(warning)
    return kinds


def _extent(warnings: list[Finding], root: Path) -> str:
    """Say where something was found: the place, or how often and where first."""
    first, count = warnings[0], sum(warning.count for warning in warnings)
    place = _place(first.file, first.offset, root)
    if count == 1:
        return place
    where = f" in {output.amount(len(warnings), 'file')}" if len(warnings) > 1 else ""
    return f"{count:,} times{where}, first {place}"


def _place(path: Path, offset: int | None, root: Path) -> str:
    short = str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name
    return short if offset is None else f"{short}:{offset}"


def report_session(name: str, how: reading.AccessOptions, *, as_json: bool) -> None:
    """Say which rules a session breaks."""
    with sessions.open_session(name, how) as session:
        found = violations(session)
    if as_json:
        output.write_json({"session": session.id, "path": str(session.path), "violations": violations_as_json(found)})
    else:
        _show_doctor_session(session, found)


def violations_as_json(found: list[Violation]) -> list[dict[str, str | int]]:
    """Return violations as plain data."""
    return [{"rule": one.rule, "file": one.file, "offset": one.offset, "message": one.message} for one in found]


def _show_doctor_session(session: Session, found: list[Violation]) -> None:
    output.print_heading(str(session.path))
    if not found:
        output.print_line("  keeps every rule: it can be resumed as it is")
        return
    for rule, count in sorted(Counter(one.rule for one in found).items()):
        output.print_line()
        output.print_heading(f"{rule}: {RULES[rule]}")
        same = [one for one in found if one.rule == rule]
        output.print_pairs((f"{Path(one.file).name}:{one.offset}", one.message) for one in same[:_SHOWN])
        if count > _SHOWN:
            output.print_line(f"  … and {count - _SHOWN:,} more; `--json` lists all")
