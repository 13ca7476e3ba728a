"""Whose a match is: matches in; the session, its project and the turn out.

Rules
  1. A line of a session's file is of that session; one of an agent's file of the session that started the agent.
  2. A turn is known by its number, as `show --turn` has it. What an agent did belongs to the turn in which it was done,
     by the time; an overflow file to the turn of the call that it is the result of.
  3. The index knows with which lines turns begin. Of what it does not know yet, the lines are read.

[merged: matches.py] Passages that match: a passage and its line in, what is told of it out. Pure.

Nothing heavy is imported here: a search that the index answers needs no more.

[merged: copies.py] One hit for what is there several times: scored matches in, each passage once out. Pure.

Rules
  1. A line that several files have, or that was written again, is one hit: in the file of its own session if that has
     it, rather in a file that is there than in the archive, rather as it is now than as it was.
  2. Lines without a uuid are one if their session, kind, text and time are.
  3. Structured data that repeats the result on its line is no hit of its own.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from unspool.errors import UnspoolError
from unspool.graph.search_text import Json, Passage
from unspool.paths import project_name
from unspool.read.scan import Kind
from unspool.store.search.corpus import Haystack, Reader
from unspool.store.usage.ledger import milliseconds

BEFORE, AFTER = "«", "»"
"""What marks a match in a snippet."""

_AROUND: Final = 60
_LONGEST: Final = 200
_BLANKS = re.compile(r"\s+")


class Asked(Protocol):
    """What is looked for: words, or a pattern."""

    @property
    def needle(self) -> bytes | str:
        """A pattern for re2 of what every line that matches has."""

    @property
    def is_raw(self) -> bool:
        """Whether bytes are what matters, whatever text they are in."""

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether a line could match."""

    def count(self, text: str) -> int:
        """Return how often a text matches."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text it matches."""


class Match(NamedTuple):
    """A passage that matches, and what its line says of it."""

    haystack: Haystack
    offset: int
    number: int
    passage: Passage
    """Without its text."""
    snippet: str
    times: int
    """How often it matches."""
    length: int
    """Characters of the text."""
    matched: frozenset[str]
    """What in the text matches, in lower case."""
    digest: int
    """Tells texts apart."""
    uuid: str | None
    timestamp: str | None
    session_id: str | None
    agent_id: str | None
    cwd: str | None
    indexed: bool = True
    """Whether the index would find it, were it up to date."""


def match(asked: Asked, haystack: Haystack, place: tuple[int, int], passage: Passage, line: Json) -> Match:
    """Return a passage as a match; `place` is the line's offset and the passage's number."""
    text = passage.text
    spans = asked.spans(text)
    return Match(
        haystack,
        *place,
        passage._replace(text=""),
        snippet(text, spans),
        max(len(spans), 1),
        len(text),
        frozenset(text[start:end].lower() for start, end in spans),
        hash(text),
        _text(line.get("uuid")),
        _text(line.get("timestamp")),
        _text(line.get("sessionId")) or _text(line.get("session_id")),
        _text(line.get("agentId")),
        _text(line.get("cwd")),
    )


def snippet(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the words around the first match, on one line, with all matches in them marked."""
    first, last = spans[0] if spans else (0, 0)
    start = max(first - _AROUND, 0)
    end = min(max(last + _AROUND, start + 2 * _AROUND), start + _LONGEST, len(text))
    pieces, at = ["…" if start else ""], start
    for begins, ends in spans:
        if at <= begins < end:
            ends = min(ends, end)
            pieces += [text[at:begins], BEFORE, text[begins:ends], AFTER]
            at = ends
    pieces += [text[at:end], "…" if end < len(text) else ""]
    return _BLANKS.sub(" ", "".join(pieces)).strip()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


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
        from unspool.prices.responses import stem  # of files that are named after no session

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
        from unspool.store.search.scan import result_of, with_call_before

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
    from unspool.format.plain_lines import whole

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
    from unspool.graph.turns import Starts

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


S = TypeVar("S")


class Scored(NamedTuple):
    """A match, or a row of the index that will be one when its line is read."""

    score: float
    time: int
    match: Match | None
    row: tuple[Any, ...] = ()


def one_of_each(found: Iterable[tuple[Scored, S]]) -> list[tuple[Scored, S]]:
    """Return what was found without what is there twice, the best first; whatever comes with each stays with it."""
    found = list(found)
    results = {
        _line(one.match): one.match.matched for one, _ in found if one.match and one.match.passage.kind == "tool_result"
    }
    chosen: dict[object, tuple[Scored, S]] = {}
    for one, where in sorted(found, key=lambda pair: order(pair[0])):
        match = one.match
        assert match is not None
        if match.passage.kind == "structured" and match.matched <= results.get(_line(match), frozenset()):
            continue
        same = key(match)
        known = chosen.get(same)
        if known is None:
            chosen[same] = (one, where)
        elif known[0].match is not None and _strangeness(match) < _strangeness(known[0].match):
            chosen[same] = (one._replace(score=known[0].score), where)
    return list(chosen.values())


def order(one: Scored) -> tuple[float, int, str, int, int]:
    """Return what matches are sorted by: the best first, then the newest."""
    if one.match is None:
        return (-one.score, -one.time, "", -one.row[0], one.row[2])
    return (-one.score, -one.time, one.match.haystack.path, one.match.offset, one.match.number)


def key(match: Match) -> object:
    """Return what copies of a passage have in common."""
    if match.uuid is not None:
        return match.uuid, match.passage.kind, match.number, match.digest
    if match.haystack.kind == "tool-result":
        return match.haystack.path
    return match.session_id, match.passage.kind, match.digest, match.timestamp


def _strangeness(match: Match) -> tuple[bool, int, int, str]:
    """Return how little a file is where a passage belongs."""
    haystack = match.haystack
    return match.session_id != haystack.session_id, haystack.kept, -haystack.generation, haystack.path


def place(match: Match) -> tuple[str, int, int, int]:
    """Return where a passage stands."""
    return match.haystack.path, match.haystack.generation, match.offset, match.number


def _line(match: Match | None) -> tuple[str, int, int] | None:
    return place(match)[:3] if match else None
