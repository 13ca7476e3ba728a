"""Finds tool calls with the same tool and the same input in all sessions and agents, by the index.

Rules
  1. The index finds the calls whose inputs have the same first words; their lines tell which inputs are equal.
  2. The work is bounded: so many rows of the index, lines and bytes, the newest first. If there is more, it is said.
  3. A line that several files repeat (forks, copies) counts once, where it was written.
  4. Without a store, and for an input without words, nothing is found: the session's own page has its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.format import decode_plain
from unspool.graph import Json, extract_text_passages, join_texts
from unspool.store.access import StoreAccess
from unspool.store.database import IN_FOLDER, folder_parameters
from unspool.store.search.corpus import Corpus, CorpusReader, open_corpus
from unspool.store.search.results import MatchOwners, SearchMatch, make_match, strangeness
from unspool.store.search.terms import AnyText, Term, parse_words

_MAX_WORDS: Final = 16
_MAX_CHARACTERS: Final = 2_000
"""Of an input, of which the first words are searched."""
_MAX_ROWS: Final = 20_000
_MAX_LINES: Final = 500
_MAX_BYTES: Final = 64_000_000
_CALLS: Final = f"""
SELECT p.source_id, p.generation, p.offset, p.number
FROM (SELECT rowid AS id FROM words WHERE words MATCH :words ORDER BY rowid DESC LIMIT :rows) AS found
CROSS JOIN passages p ON p.id = found.id
WHERE p.kind = 'tool_input' AND p.tool = :tool AND p.source_id IN (SELECT id FROM sources WHERE {IN_FOLDER})
ORDER BY p.id DESC LIMIT :lines
"""


class SameCall(NamedTuple):
    """A call with the same tool and input."""

    session: str | None
    agent: str | None
    project: str | None
    turn: int | None
    offset: int
    """Of its line."""
    time: str | None


class SameCalls(NamedTuple):
    """The calls that were found."""

    calls: list[SameCall]
    """The newest first."""
    is_complete: bool
    """Whether all calls that the index knows were looked at."""


def find_same_calls(access: StoreAccess, tool: str, input: Any) -> SameCalls:
    """Return the calls of a tool with an input."""
    words = parse_words('"' + join_texts(input)[:_MAX_CHARACTERS].replace('"', " ") + '"')
    if access.database is None or words is None:
        return SameCalls([], False)
    phrase = Term(words.terms[0].words[:_MAX_WORDS])
    values = {
        **folder_parameters(access.roots), "words": phrase.expression, "tool": tool, "rows": _MAX_ROWS,
        "lines": _MAX_LINES,
    }  # fmt: skip
    rows = access.database.execute(_CALLS, values).fetchall()
    corpus = open_corpus(access)
    reader = CorpusReader(corpus.archive)
    owners, is_complete = MatchOwners(corpus, reader), len(rows) < _MAX_LINES
    found: dict[object, SearchMatch] = {}
    try:
        for read, match, line in _read_rows(corpus, reader, rows):
            identity = _identify(match, line, tool, input)
            if identity and (identity not in found or strangeness(match) < strangeness(found[identity])):
                found[identity] = match
            if read > _MAX_BYTES:
                is_complete = False
                break
        calls = [_describe(owners, match) for match in found.values()]
    finally:
        reader.close()
    return SameCalls(sorted(calls, key=lambda call: call.time or "", reverse=True), is_complete)


def _read_rows(
    corpus: Corpus, reader: CorpusReader, rows: Iterable[tuple[int, int, int, int]]
) -> Iterator[tuple[int, SearchMatch, Json]]:
    """Yield the passages of rows with their lines, and how many bytes were read so far."""
    file_of, read = lru_cache(None)(corpus.file), 0
    for source, generation, offset, number in rows:
        try:
            file = file_of(source, generation)
            data = reader.line_at(file, offset)
        except (UnspoolError, StopIteration):  # the line can no longer be read
            continue
        read += len(data)
        line = next((value for _, value in decode_plain(data) if isinstance(value, dict)), {})
        passages = extract_text_passages(line)
        if number < len(passages):
            yield read, make_match(AnyText(), file, (offset, number), passages[number], line), line


def _identify(match: SearchMatch, line: Json, tool: str, input: Any) -> object:
    """Return what all copies of a call have in common, if it is of this tool and has this input."""
    call, message = match.passage.call, line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("id") == call and block.get("name") == tool:
            try:
                is_same = block.get("input") == input
            except RecursionError:  # nested without end
                is_same = False
            return (call or match.identity) if is_same else None
    return None


def _describe(owners: MatchOwners, match: SearchMatch) -> SameCall:
    return SameCall(
        owners.session(match), owners.agent(match), owners.project(match)[0], owners.turn(match), match.offset,
        match.timestamp,
    )  # fmt: skip
