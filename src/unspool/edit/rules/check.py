"""Checks a session and the files beside it against the rules of resuming, and builds the context that it resumes with.

What must be true so that Claude Code resumes a session and the Messages API takes it has one name for each rule
(`violation.py`). Checking takes time linear in the bytes of the session, whatever is in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from unspool.edit.rules.api import check_api_rules
from unspool.edit.rules.graph import check_graph_rules
from unspool.edit.rules.violation import Violation, sort_violations
from unspool.edit.session_text import SessionText
from unspool.format import BadLine, Entry, FileHistoryDelta, FileHistorySnapshot, User
from unspool.graph import build_main_graph, find_leaf, find_thread_entries_in_graph
from unspool.graph.context import ContextMessage, build_thread_context

_PROJECT_NAME = re.compile(r"[A-Za-z0-9-]{1,200}(-[0-9a-z]{1,7})?")
_OVERFLOW = re.compile(rb'"persistedOutputPath"\s*:\s*"(?:[^"\\]|\\.)*?[/\\]([^"/\\]+)"')


class ResumeContext(NamedTuple):
    """What a resumed session continues with: from which line, with which lines, with which messages."""

    leaf: str | None
    lines: list[Entry]
    messages: list[ContextMessage]


def resume_context(text: SessionText, leaf: str | None = None) -> ResumeContext:
    """Return what a session continues with, from its own leaf or from another line."""
    graph = build_main_graph(text.entries)
    tip = graph.numbers.get(leaf) if leaf is not None else find_leaf(graph)
    lines = find_thread_entries_in_graph(graph, tip, leaf)
    uuid = graph.nodes[tip].entry.record.uuid if tip is not None else None
    return ResumeContext(uuid, lines, build_thread_context(lines))


def check_rules(text: SessionText, file: str = "") -> list[Violation]:
    """Return the rules that a session's own file breaks, in order of place."""
    found = [*check_line_rules(text), *check_api_rules(resume_context(text).messages)]
    return sort_violations(found, file)


def check_line_rules(text: SessionText) -> list[Violation]:
    """Return the rules that the lines of a file break: all but those of the API."""
    return [*_check_file(text), *check_graph_rules(text)]


def check_side_files(
    text: SessionText, file: str = "", *, project: str, results: Collection[str], backups: Collection[str]
) -> list[Violation]:
    """Return what is wrong with the files beside a session, by the names of the project, long results and backups."""
    found = [*_check_results(text, results), *_check_backups(text, backups)]
    if not _PROJECT_NAME.fullmatch(project):
        found.append(Violation("S2", 0, f"the program names no folder like this: `{project}`", "project"))
    return sort_violations(found, file)


def check_agent(session_id: str, agent: SessionText, file: str = "") -> list[Violation]:
    """Return what is wrong with an agent's file: lines of another session."""
    foreign = [entry for entry in agent.entries if entry.record.session_id not in (None, session_id)]
    words = "an agent's line names another session: `{}`"
    return [
        Violation("S1", entry.offset, words.format(entry.record.session_id), f"agent {agent.id}", file)
        for entry in foreign[:1]
    ]


def _check_file(text: SessionText) -> Iterator[Violation]:
    for item in text.items:
        if isinstance(item, BadLine):
            yield Violation("F1", item.offset, f"not a whole JSON object: {item.reason}", item.reason)
    if text.data and not text.data.endswith(b"\n"):
        yield Violation("F1", text.items[-1].offset, "the last line has no line end", "end")


def _check_results(text: SessionText, names: Collection[str]) -> Iterator[Violation]:
    for entry in text.entries:
        # A plain search first: few lines have such a path.
        if isinstance(entry.record, User) and b'"persistedOutputPath"' in bytes(entry.raw):
            for match in _OVERFLOW.finditer(entry.raw):
                name = match[1].decode(errors="replace")
                if name not in names:
                    yield Violation("S1", entry.offset, f"a long result is not there: `{name}`", f"result {name}")


def _check_backups(text: SessionText, names: Collection[str]) -> Iterator[Violation]:
    seen: set[str] = set()
    for entry in text.entries:
        for name in _backup_names(entry.record):
            if name not in seen and name not in names:
                yield Violation("S1", entry.offset, f"a backup is not there: `{name}`", f"backup {name}")
            seen.add(name)


def _backup_names(record: object) -> list[str]:
    match record:
        case FileHistorySnapshot(snapshot=snapshot):
            return [one.backup_file_name for one in snapshot.tracked_file_backups.values() if one.backup_file_name]
        case FileHistoryDelta(backup=backup) if backup and backup.backup_file_name:
            return [backup.backup_file_name]
        case _:
            return []
