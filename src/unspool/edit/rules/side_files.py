"""The rules of side files: S1 and S2. What lies beside a session comes in as names; nothing is opened here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from unspool.edit.rules.check import placed
from unspool.edit.rules.violation import Violation
from unspool.edit.session_view import Manuscript
from unspool.format.meta_records import FileHistoryDelta, FileHistorySnapshot
from unspool.format.records import User

_KEY = re.compile(r"[A-Za-z0-9-]{1,200}(-[0-9a-z]{1,7})?")
_OVERFLOW = re.compile(rb'"persistedOutputPath"\s*:\s*"(?:[^"\\]|\\.)*?[/\\]([^"/\\]+)"')


class Beside(msgspec.Struct, frozen=True):
    """What lies beside a session: None where nobody can know."""

    project: str | None = None
    """The name of the project's folder."""
    results: frozenset[str] | None = None
    """The names of the files that long results were written to."""
    backups: frozenset[str] | None = None
    """The names of the backups of the user's files."""
    agents: Sequence[tuple[str, Manuscript]] = ()
    """The files of agents, by path."""


def check(manuscript: Manuscript, beside: Beside, file: str = "") -> list[Violation]:
    """Return what is wrong with what lies beside a session."""
    found = placed([*_folder(beside), *_results(manuscript, beside), *_backups(manuscript, beside)], file)
    for path, agent in beside.agents:
        found += placed(_agent(manuscript.id, agent), path)
    return found


def _folder(beside: Beside) -> Iterator[Violation]:
    if beside.project is not None and not _KEY.fullmatch(beside.project):
        yield Violation("S2", 0, f"the program names no folder like this: `{beside.project}`", "project")


def _results(manuscript: Manuscript, beside: Beside) -> Iterator[Violation]:
    if beside.results is None:
        return
    for entry in manuscript.entries:
        if isinstance(entry.record, User) and b'"persistedOutputPath"' in bytes(entry.raw):
            for match in _OVERFLOW.finditer(entry.raw):
                name = match[1].decode(errors="replace")
                if name not in beside.results:
                    yield Violation("S1", entry.offset, f"a long result is not there: `{name}`", f"result {name}")


def _backups(manuscript: Manuscript, beside: Beside) -> Iterator[Violation]:
    if beside.backups is None:
        return
    seen: set[str] = set()
    for entry in manuscript.entries:
        for name in _named(entry.record):
            if name not in seen and name not in beside.backups:
                yield Violation("S1", entry.offset, f"a backup is not there: `{name}`", f"backup {name}")
            seen.add(name)


def _named(record: object) -> list[str]:
    match record:
        case FileHistorySnapshot(snapshot=snapshot):
            return [one.backup_file_name for one in snapshot.tracked_file_backups.values() if one.backup_file_name]
        case FileHistoryDelta(backup=backup) if backup and backup.backup_file_name:
            return [backup.backup_file_name]
        case _:
            return []


def _agent(session_id: str, agent: Manuscript) -> Iterator[Violation]:
    named = [entry for entry in agent.entries if entry.record.session_id not in (None, session_id)]
    if named:
        words = f"an agent's line names another session: `{named[0].record.session_id}`"
        yield Violation("S1", named[0].offset, words, f"agent {agent.id}")
