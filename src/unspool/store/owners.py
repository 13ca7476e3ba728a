"""Whose a match is: matches in; the session, its project and the turn out.

Rules
  1. A line of a session's file is of that session; one of an agent's file of the session that started the agent.
  2. A turn is known by its number, as `show --turn` has it. What an agent did belongs to the turn in which it was done,
     by the time; an overflow file to the turn of the call that it is the result of.
  3. The index knows with which lines turns begin. Of what it does not know yet, the lines are read.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.paths import project_name
from unspool.read.scan import Kind
from unspool.store.billed import milliseconds
from unspool.store.haystacks import Haystack, Reader
from unspool.store.matches import Match


class _Starts(NamedTuple):
    """Where and when the turns of a session begin, in file order."""

    offsets: list[int]
    times: list[int]


class Owners:
    """The sessions of a folder."""

    def __init__(
        self, database: sqlite3.Connection | None, file_of: Callable[[str, str], Haystack | None], reader: Reader
    ) -> None:
        self._database, self._reader = database, reader
        self._file_of = file_of
        """Finds the file of a session, near another file."""
        self._starts = lru_cache(64)(self._read_starts)
        self._about = lru_cache(1024)(self._read_about)

    def session(self, match: Match) -> str | None:
        """Return the session that a match belongs to."""
        haystack = match.haystack
        if haystack.session_id or haystack.kind != Kind.SESSION.value:
            return haystack.session_id or match.session_id
        from unspool.prices.answers import stem  # of files that are named after no session

        return stem(haystack.path)

    def agent(self, match: Match) -> str | None:
        """Return the agent that a match belongs to, if one."""
        haystack = match.haystack
        return haystack.agent_id if haystack.kind == Kind.AGENT.value else match.agent_id or haystack.agent_id

    def places(self, match: Match) -> tuple[str | None, str | None, str | None]:
        """Return the project of a match: its name, its folder, its key."""
        file = self._file(match)
        folder = (self._about(file) if file else None) or match.cwd
        key = match.haystack.project
        return project_name(folder, key), folder, key

    def turn(self, match: Match) -> int | None:
        """Return the number of the turn of a match."""
        file, haystack = self._file(match), match.haystack
        if file is None:
            return None
        if haystack.kind == Kind.SESSION.value:
            starts = self._starts(haystack, match.offset >= haystack.indexed)
            return bisect_right(starts.offsets, match.offset) or None
        if haystack.kind == Kind.TOOL_RESULT.value:
            place = self._mentioned(file, haystack.path)
            return None if place is None else bisect_right(self._starts(file).offsets, place) or None
        time = milliseconds(match.timestamp) if haystack.kind in _TIMED else None
        return None if time is None else bisect_right(self._starts(file).times, time) or None

    def overflow(self, match: Match) -> Match:
        """Return a match in an overflow file with the tool whose result it is."""
        from unspool.store.scanning import result_of, with_call_before

        file = self._file(match)
        if file is None:
            return match
        passage = match.passage
        try:
            if not (passage.call or "").startswith("toolu_") and (place := self._mentioned(file, match.haystack.path)):
                passage = passage._replace(call=result_of(self._reader.line_at(file, place)) or passage.call)
            return match._replace(passage=with_call_before(passage, self._reader, file, file.size))
        except UnspoolError:
            return match

    def _mentioned(self, file: Haystack, path: str) -> int | None:
        """Return where in a session's file an overflow file is named."""
        name = path.rpartition("/")[2].encode()
        name = name.removesuffix(b".txt") if name.startswith(b"toolu_") else name
        try:
            found = None
            for lines in self._reader.lines(file):
                at = lines.data.find(name, lines.start, lines.end)
                while at >= 0:
                    start = lines.data.rfind(b"\n", lines.start, at) + 1 or lines.start
                    found = lines.offset + start
                    at = lines.data.find(name, at + 1, lines.end)
            return found
        except UnspoolError:
            return None

    def _file(self, match: Match) -> Haystack | None:
        """Return the file of the session that a match belongs to."""
        if match.haystack.kind == Kind.SESSION.value:
            return match.haystack
        session = self.session(match)
        return self._file_of(session, match.haystack.path) if session else None

    def _read_about(self, file: Haystack) -> str | None:
        """Return the folder that a session works in."""
        if self._database is None:
            return _folder_in(self._reader, file)
        query = "SELECT cwd FROM sessions WHERE source_id = ?"
        row = self._database.execute(query, (file.source_id,)).fetchone()
        return row[0] if row else None

    def _read_starts(self, haystack: Haystack, unknown: bool = False) -> _Starts:
        if self._database is None or unknown or haystack.indexed < haystack.reached:
            found = _starts_in(self._reader, haystack)
        else:
            query = "SELECT offset, time FROM prompts WHERE source_id = ? AND generation = ? ORDER BY offset"
            found = self._database.execute(query, (haystack.source_id, haystack.generation)).fetchall()
        return _Starts([offset for offset, _ in found], list(accumulate((time or 0 for _, time in found), max)))


def _folder_in(reader: Reader, haystack: Haystack) -> str | None:
    """Return the folder that a session works in: that of its first message which names one."""
    from unspool.format.plain import whole

    with suppress(UnspoolError):
        for offset, line in _each(reader, haystack):
            for _, value in whole(line, offset):
                if isinstance(value, dict) and value.get("type") in ("user", "assistant"):
                    folder = value.get("cwd")
                    if isinstance(folder, str):
                        return folder
    return None


def _starts_in(reader: Reader, haystack: Haystack) -> list[tuple[int, int | None]]:
    """Return where and when turns begin, from the lines themselves."""
    from unspool.format.codec import decode
    from unspool.format.entry import Entry
    from unspool.graph.starts import Starts

    starts = Starts()
    with suppress(UnspoolError):
        for offset, line in _each(reader, haystack):
            if any(mark in line for mark in _MAY_BEGIN):
                for item in decode(line, offset):
                    if isinstance(item, Entry):
                        starts.take(item)
    return [(offset, milliseconds(time)) for offset, time in starts.found]


_TIMED = frozenset({Kind.AGENT.value, Kind.JOURNAL.value, Kind.HISTORY.value})
"""Files whose lines say when they were written; of others the system knows when they last changed."""

_MAY_BEGIN = (b'"user"', b'"queue-operation"', b"queued_command")
"""What lines have with which a turn may begin."""


def _each(reader: Reader, haystack: Haystack) -> Iterator[tuple[int, bytes]]:
    for offset, data, at, end in reader.lines(haystack):
        while at < end:
            stop = data.find(b"\n", at, end) + 1 or end
            yield offset + at, data[at:stop]
            at = stop
