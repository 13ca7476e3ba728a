"""Reads the texts of a turn that say what it was about: its prompt, and its last answer.

Rules
  1. Bounded: of a turn the line of its prompt and its end are read, whatever the size of the session.
  2. What cannot be read, because the file has gone from disk and archive, is an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.graph import extract_text_passages
from unspool.store.search.corpus import Corpus, CorpusReader, SearchedFile
from unspool.store.search.results import MatchOwners, SearchHit

_MAX_LINE: Final = 1024 * 1024
"""Bytes of a line whose text is read."""


class TurnTexts(NamedTuple):
    """The texts of a turn; empty if there are none."""

    prompt: str = ""
    last_answer: str = ""


def read_turn_texts(corpus: Corpus, hit: SearchHit) -> TurnTexts:
    """Return the texts of the turn in which a hit is."""
    if hit.session is None or not hit.turn:
        return TurnTexts()
    with closing(CorpusReader(corpus.archive)) as reader, suppress(UnspoolError):
        file = corpus.session_file(hit.session, hit.file)
        span = MatchOwners(corpus, reader).turn_span(file, hit.turn) if file is not None else None
        if file is not None and span is not None:
            prompt = next(_find_texts(reader.line_at(file, span[0]), ("prompt", "queued")), "")
            return TurnTexts(prompt, _find_last_answer(reader, file, *span))
    return TurnTexts()


def _find_last_answer(reader: CorpusReader, file: SearchedFile, start: int, end: int) -> str:
    """Return the last answer of a turn that lies between two offsets."""
    lines: list[bytes] = []
    # What ends with more than this has results there, and no answer. The first line may be cut: then it is no JSON.
    for offset, data, first, stop in reader.lines(file, max(start, end - _MAX_LINE)):
        if offset + first >= end:
            break
        lines += data[first : min(stop, end - offset)].split(b"\n")
    for line in reversed(lines):
        if b'"assistant"' in line and (text := "\n".join(_find_texts(line, ("answer",)))):
            return text
    return ""


def _find_texts(line: bytes, kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of some kinds in a line; none of an agent that an old version wrote into the session's file."""
    with suppress(ValueError, RecursionError):
        value = json.loads(line) if len(line) <= _MAX_LINE else None
        if isinstance(value, dict) and value.get("isSidechain") is not True:
            yield from (one.text for one in extract_text_passages(value) if one.kind in kinds and one.text.strip())
