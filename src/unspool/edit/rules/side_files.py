"""Checks the files beside a session against the rules S1 and S2: their names come in, nothing is opened here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from unspool.edit.rules.violation import Violation, sort_violations
from unspool.edit.session_text import SessionText
from unspool.format import FileHistoryDelta, FileHistorySnapshot, User

_PROJECT_NAME = re.compile(r"[A-Za-z0-9-]{1,200}(-[0-9a-z]{1,7})?")
_OVERFLOW = re.compile(rb'"persistedOutputPath"\s*:\s*"(?:[^"\\]|\\.)*?[/\\]([^"/\\]+)"')


class SideFileNames(msgspec.Struct, frozen=True):
    """The names of the files beside a session; None where they cannot be known."""

    project: str | None = None
    """The name of the project's folder."""
    results: frozenset[str] | None = None
    """The names of the files that long results were written to."""
    backups: frozenset[str] | None = None
    """The names of the backups of the user's files."""
    agents: Sequence[tuple[str, SessionText]] = ()
    """The files of agents, by path."""


def check_side_files(text: SessionText, names: SideFileNames, file: str = "") -> list[Violation]:
    """Return what is wrong with the files beside a session."""
    found: list[Violation] = []
    if names.project is not None and not _PROJECT_NAME.fullmatch(names.project):
        found.append(Violation("S2", 0, f"the program names no folder like this: `{names.project}`", "project"))
    if names.results is not None:
        found += _check_results(text, names.results)
    if names.backups is not None:
        found += _check_backups(text, names.backups)
    found = sort_violations(found, file)
    for path, agent in names.agents:
        found += sort_violations(_check_agent(text.id, agent), path)
    return found


def _check_results(text: SessionText, names: frozenset[str]) -> Iterator[Violation]:
    for entry in text.entries:
        # A plain search first: few lines have such a path.
        if isinstance(entry.record, User) and b'"persistedOutputPath"' in bytes(entry.raw):
            for match in _OVERFLOW.finditer(entry.raw):
                name = match[1].decode(errors="replace")
                if name not in names:
                    yield Violation("S1", entry.offset, f"a long result is not there: `{name}`", f"result {name}")


def _check_backups(text: SessionText, names: frozenset[str]) -> Iterator[Violation]:
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


def _check_agent(session_id: str, agent: SessionText) -> Iterator[Violation]:
    foreign = [entry for entry in agent.entries if entry.record.session_id not in (None, session_id)]
    if foreign:
        words = f"an agent's line names another session: `{foreign[0].record.session_id}`"
        yield Violation("S1", foreign[0].offset, words, f"agent {agent.id}")
