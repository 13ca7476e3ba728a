"""Search results: matches and their snippets, the session, project and turn they belong to, and their duplicates.

Nothing heavy is imported here: a search that the index answers needs no more.

Rules of owners
  1. A line of a session's file belongs to that session; one of an agent's file to the session that started the agent.
  2. A turn is known by its number, as in `show --turn`. What an agent did belongs to the turn in which it was done, by
     the time; an overflow file to the turn of the call whose result it holds.
  3. The index knows the lines with which turns begin. Where it does not reach yet, the lines are read.
  4. An agent whose lines say no time belongs to the turn in which the session started it (`add_agent_turns`).

Rules of duplicates
  1. A line that several files have, or that was written again, is one hit: preferably in the file of its own session,
     on disk rather than in the archive, in the newest generation.
  2. Lines without a uuid are one hit if their session, kind, text and time are the same.
  3. Structured data that repeats the result on its line is no hit of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from unspool.errors import UnspoolError
from unspool.format import milliseconds
from unspool.graph import Json, Passage, extract_text_passages
from unspool.paths import project_name
from unspool.read import Kind
from unspool.store.search.corpus import Corpus, CorpusReader, SearchedFile
from unspool.store.search.terms import SearchTerms

if TYPE_CHECKING:
    from unspool.store.access import StoreAccess


MATCH_START, MATCH_END = "«", "»"
"""What surrounds a match in a snippet."""

_SNIPPET_CONTEXT: Final = 60
_SNIPPET_LENGTH: Final = 200
_BLANKS = re.compile(r"\s+")
_MAX_LINKED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a session and its agents: linking them holds all in memory."""
_TIMED_KINDS = frozenset({Kind.AGENT.value, Kind.JOURNAL.value, Kind.HISTORY.value})
"""Files whose lines say when they were written; for others only the time of the last change is known."""
_TURN_MARKS = (b'"user"', b'"queue-operation"', b"queued_command")
"""One of these is in every line with which a turn may begin."""


class SearchHit(NamedTuple):
    """A result of a search, as commands and pages show it."""

    session: str | None
    agent: str | None
    project: str | None
    turn: int | None
    role: str
    kind: str
    tool: str | None
    timestamp: str | None
    snippet: str
    file: str
    offset: int
    uuid: str | None
    score: float


class SearchMatch(NamedTuple):
    """A passage that matches, and what its line says of it."""

    file: SearchedFile
    offset: int
    number: int
    """Of the passage in its line."""
    passage: Passage
    """Without its text."""
    snippet: str
    match_count: int
    """How often it matches."""
    length: int
    """Characters of the text."""
    matched: frozenset[str]
    """What in the text matches, in lower case."""
    digest: int
    """The hash of the text."""
    uuid: str | None
    timestamp: str | None
    session_id: str | None
    agent_id: str | None
    cwd: str | None
    indexed: bool = True
    """Whether the index would find it, if it were up to date."""

    @property
    def location(self) -> tuple[str, int, int, int]:
        """Where the passage stands: path, generation, offset and number."""
        return self.file.path, self.file.generation, self.offset, self.number

    @property
    def identity(self) -> object:
        """What all copies of the passage have in common."""
        if self.uuid is not None:
            return self.uuid, self.passage.kind, self.number, self.digest
        if self.file.kind == "tool-result":
            return self.file.path
        return self.session_id, self.passage.kind, self.digest, self.timestamp


def make_match(
    terms: SearchTerms, file: SearchedFile, place: tuple[int, int], passage: Passage, line: Json
) -> SearchMatch:
    """Return a passage as a match; `place` is the offset of the line and the number of the passage."""
    text = passage.text
    spans = terms.spans(text)

    def field(name: str) -> str | None:
        value = line.get(name)
        return value if isinstance(value, str) else None

    return SearchMatch(
        file,
        *place,
        passage._replace(text=""),
        make_snippet(text, spans),
        max(len(spans), 1),
        len(text),
        frozenset(text[start:end].lower() for start, end in spans),
        hash(text),
        field("uuid"),
        field("timestamp"),
        field("sessionId") or field("session_id"),
        field("agentId"),
        field("cwd"),
    )


def make_snippet(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text around the first match on one line, with all matches in it marked."""
    first, last = spans[0] if spans else (0, 0)
    start = max(first - _SNIPPET_CONTEXT, 0)
    end = min(max(last + _SNIPPET_CONTEXT, start + 2 * _SNIPPET_CONTEXT), start + _SNIPPET_LENGTH, len(text))
    pieces, at = ["…" if start else ""], start
    for match_start, match_end in spans:
        if at <= match_start < end:
            match_end = min(match_end, end)
            pieces += [text[at:match_start], MATCH_START, text[match_start:match_end], MATCH_END]
            at = match_end
    pieces += [text[at:end], "…" if end < len(text) else ""]
    return _BLANKS.sub(" ", "".join(pieces)).strip()


class _TurnStarts(NamedTuple):
    """Where and when the turns of a session begin, in the order of the file."""

    offsets: list[int]
    times: list[int]

    def turn_at(self, offset: int) -> int | None:
        return bisect_right(self.offsets, offset) or None


class MatchOwners:
    """Finds the session, the project and the turn of matches in one folder."""

    def __init__(self, corpus: Corpus, reader: CorpusReader) -> None:
        self._corpus, self._reader = corpus, reader
        self._turn_starts = lru_cache(64)(self._read_turn_starts)
        self._working_folder = lru_cache(1024)(self._read_working_folder)

    def session(self, match: SearchMatch) -> str | None:
        """Return the id of the session that a match belongs to."""
        file = match.file
        if file.session_id or file.kind != Kind.SESSION.value:
            return file.session_id or match.session_id
        from unspool.prices import file_stem  # only for files that are not named after a session

        return file_stem(file.path)

    def agent(self, match: SearchMatch) -> str | None:
        """Return the id of the agent that a match belongs to, if any."""
        file = match.file
        return file.agent_id if file.kind == Kind.AGENT.value else match.agent_id or file.agent_id

    def project(self, match: SearchMatch) -> tuple[str | None, str | None, str | None]:
        """Return the project of a match: its name, its folder, its key."""
        file = self._session_file(match)
        folder = (self._working_folder(file) if file else None) or match.cwd
        key = match.file.project
        return project_name(folder, key), folder, key

    def turn(self, match: SearchMatch) -> int | None:
        """Return the number of the turn that a match belongs to."""
        session_file, file = self._session_file(match), match.file
        if session_file is None:
            return None
        if file.kind == Kind.SESSION.value:
            return self._turn_starts(file, match.offset >= file.indexed_to).turn_at(match.offset)
        if file.kind == Kind.TOOL_RESULT.value:
            offset = self._find_mention(session_file, file.path)
            return None if offset is None else self._turn_starts(session_file).turn_at(offset)
        time = milliseconds(match.timestamp) if file.kind in _TIMED_KINDS else None
        return None if time is None else bisect_right(self._turn_starts(session_file).times, time) or None

    def turn_span(self, file: SearchedFile, turn: int) -> tuple[int, int] | None:
        """Return the offsets between which a turn of a session's file is; None if it has no such turn."""
        starts = self._turn_starts(file).offsets
        if not 1 <= turn <= len(starts):
            return None
        return starts[turn - 1], starts[turn] if turn < len(starts) else max(file.read_to, file.size)

    def add_overflow_tool(self, match: SearchMatch) -> SearchMatch:
        """Return a match in an overflow file with the tool whose result the file holds."""
        file, passage = self._session_file(match), match.passage
        if file is None:
            return match
        try:
            if not (passage.call or "").startswith("toolu_") and (place := self._find_mention(file, match.file.path)):
                passage = passage._replace(call=_result_call_id(self._reader.line_at(file, place)) or passage.call)
            return match._replace(passage=add_tool_from_file(passage, self._reader, file, file.size))
        except UnspoolError:
            return match

    def _find_mention(self, file: SearchedFile, path: str) -> int | None:
        """Return the offset of the last line of a session's file that names an overflow file."""
        name = path.rpartition("/")[2].encode()
        name = name.removesuffix(b".txt") if name.startswith(b"toolu_") else name
        found = None
        with suppress(UnspoolError):
            for lines in self._reader.lines(file):
                at = lines.data.rfind(name, lines.start, lines.end)
                if at >= 0:
                    found = lines.offset + (lines.data.rfind(b"\n", lines.start, at) + 1 or lines.start)
            return found
        return None

    def _session_file(self, match: SearchMatch) -> SearchedFile | None:
        """Return the file of the session that a match belongs to."""
        if match.file.kind == Kind.SESSION.value:
            return match.file
        session = self.session(match)
        return self._corpus.session_file(session, match.file.path) if session else None

    def _read_working_folder(self, file: SearchedFile) -> str | None:
        """Return the folder that a session works in: without a store that of the first message which names one."""
        if self._corpus.database is not None:
            query = "SELECT cwd FROM sessions WHERE source_id = ?"
            row = self._corpus.database.execute(query, (file.source_id,)).fetchone()
            return row[0] if row else None
        from unspool.format import decode_plain

        with suppress(UnspoolError):
            for offset, line in self._each_line(file):
                for _, value in decode_plain(line, offset):
                    if isinstance(value, dict) and value.get("type") in ("user", "assistant"):
                        folder = value.get("cwd")
                        if isinstance(folder, str):
                            return folder
        return None

    def _read_turn_starts(self, file: SearchedFile, is_unindexed: bool = False) -> _TurnStarts:
        database = self._corpus.database
        if database is None or is_unindexed or file.indexed_to < file.read_to:
            starts = self._decode_turn_starts(file)
        else:
            query = "SELECT offset, time FROM prompts WHERE source_id = ? AND generation = ? ORDER BY offset"
            starts = database.execute(query, (file.source_id, file.generation)).fetchall()
        # A prompt may be stamped before the one above it; a search by time needs them in order.
        times = accumulate((time or 0 for _, time in starts), max)
        return _TurnStarts([offset for offset, _ in starts], list(times))

    def _decode_turn_starts(self, file: SearchedFile) -> list[tuple[int, int | None]]:
        from unspool.format import Entry, decode
        from unspool.graph import PromptTracker

        starts = PromptTracker()
        with suppress(UnspoolError):
            for offset, line in self._each_line(file):
                if any(mark in line for mark in _TURN_MARKS):
                    for item in decode(line, offset):
                        if isinstance(item, Entry):
                            starts.add(item)
        return [(offset, milliseconds(time)) for offset, time in starts.found]

    def _each_line(self, file: SearchedFile) -> Iterator[tuple[int, bytes]]:
        for offset, data, at, end in self._reader.lines(file):
            while at < end:
                stop = data.find(b"\n", at, end) + 1 or end
                yield offset + at, data[at:stop]
                at = stop


def add_tool_from_file(passage: Passage, reader: CorpusReader, file: SearchedFile, end: int) -> Passage:
    """Return a passage with the tool that its call names, wherever in the file before an offset the call is."""
    for data in reader.chunks_before(file, end):
        if (found := add_tool_from_bytes(passage, data)) is not None:
            return found
    return passage


def add_tool_from_bytes(passage: Passage, data: bytes) -> Passage | None:
    """Return a passage with the tool that its call names, if the call is in some bytes."""
    assert passage.call is not None
    id, end = f'"{passage.call}"'.encode(), len(data)
    while (at := data.rfind(id, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at) + 1 or len(data)
        for other in _passages_of(data[start:stop]):
            if other.kind == "tool_input" and other.call == passage.call:
                return passage._replace(tool=other.tool, target=other.target)
        end = start
    return None


def _result_call_id(line: bytes) -> str | None:
    """Return the id of the tool call whose result a line holds."""
    return next((passage.call for passage in _passages_of(line) if passage.kind == "tool_result"), None)


def _passages_of(line: bytes) -> Iterator[Passage]:
    from unspool.format import decode_plain  # loads the decoders, which most searches do not need

    for _, value in decode_plain(line):
        if isinstance(value, dict):
            yield from extract_text_passages(value)


class ScoredMatch(NamedTuple):
    """A match, or a row of the index that becomes one when its line is read."""

    score: float
    time: int
    match: SearchMatch | None
    row: tuple[Any, ...] = ()

    @property
    def sort_key(self) -> tuple[float, int, str, int, int]:
        """What matches are sorted by: the best first, then the newest."""
        if self.match is None:
            return (-self.score, -self.time, "", -self.row[0], self.row[2])
        return (-self.score, -self.time, self.match.file.path, self.match.offset, self.match.number)


S = TypeVar("S")


def deduplicate(found: Iterable[tuple[ScoredMatch, S]]) -> list[tuple[ScoredMatch, S]]:
    """Return matches without duplicates, the best first; whatever comes with a match stays with it."""
    pairs = [(scored, scored.match, companion) for scored, companion in found if scored.match is not None]
    results = {match.location[:3]: match.matched for _, match, _ in pairs if match.passage.kind == "tool_result"}
    chosen: dict[object, tuple[ScoredMatch, SearchMatch, S]] = {}
    for scored, match, companion in sorted(pairs, key=lambda pair: pair[0].sort_key):
        if match.passage.kind == "structured" and match.matched <= results.get(match.location[:3], frozenset()):
            continue
        key = match.identity
        if key not in chosen:
            chosen[key] = (scored, match, companion)
        elif strangeness(match) < strangeness(chosen[key][1]):
            chosen[key] = (scored._replace(score=chosen[key][0].score), match, companion)
    return [(scored, companion) for scored, _, companion in chosen.values()]


def strangeness(match: SearchMatch) -> tuple[bool, int, int, str]:
    """Return a key that is the smaller, the more a passage belongs where it was found."""
    file = match.file
    return match.session_id != file.session_id, file.is_archived, -file.generation, file.path


def add_agent_turns(hits: Sequence[SearchHit], access: StoreAccess) -> list[SearchHit]:
    """Give hits inside agents the turn in which the session started the agent: `show` has the agent's steps there."""
    sessions = {hit.session for hit in hits if hit.agent and hit.session and hit.turn is None}
    turns: dict[tuple[str, str], int] = {}
    for id in sessions:
        # Here, as the sessions are: most hits are in sessions themselves, and need neither.
        from unspool.export import find_agent_turns

        with suppress(UnspoolError):  # a session that has gone, or cannot be read
            session = access.home.session(id)
            if sum(source.size for source in (session.source, *session.agent_sources)) <= _MAX_LINKED_BYTES:
                turns |= {(id, agent): turn for agent, turn in find_agent_turns(session).items()}
    return [
        hit._replace(turn=turns.get((hit.session or "", hit.agent))) if hit.agent and hit.turn is None else hit
        for hit in hits
    ]
