"""Finds text in one session: where it stands in everything that the lines say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.export import decode_line, json_data
from unspool.format import Entry
from unspool.graph import Passage, extract_passages
from unspool.page.sections import split_into_batches
from unspool.page.view import PageView

_CONTEXT_CHARACTERS = 60
"""Shown before and after a match."""
_UNESCAPED = re.compile(r"[a-z0-9 _.,:;()=+*-]+")
"""Characters that JSON writes as they are: only such text can be looked for in the bytes of a line."""


class TextMatch(msgspec.Struct, frozen=True):
    """A place where the text stands."""

    key: str
    turn: int
    kind: str
    before: str
    words: str
    after: str


def find_text(view: PageView, words: str, limit: int = 500) -> list[TextMatch]:
    """Return where words stand, in file order; case does not matter."""
    needle = words.strip().casefold()
    matches: list[TextMatch] = []
    if not needle:
        return matches
    needle_bytes = needle.encode() if _UNESCAPED.fullmatch(needle) else None
    for batch in split_into_batches(view.index):
        for start, end in view.sections.chunk_ranges(batch):
            for item in view.lines.read_range(start, end):
                # A search in the bytes spares decoding most lines.
                if isinstance(item, Entry) and (needle_bytes is None or needle_bytes in item.line.lower()):
                    matches += _matches(view, item, needle)
        if len(matches) >= limit:
            break
    return matches[:limit]


def _matches(view: PageView, entry: Entry, needle: str) -> Iterator[TextMatch]:
    line = decode_line(entry)
    turn = view.index.turn_at(entry.offset)
    for passage in extract_passages(line):
        text = passage.text
        at = text.casefold().find(needle)
        if at >= 0:
            at = min(at, len(text))  # folding may make a text longer: the place is then only about right
            end = at + len(needle)
            before, after = text[max(0, at - _CONTEXT_CHARACTERS) : at], text[end : end + _CONTEXT_CHARACTERS]
            yield TextMatch(_row_key(view, entry, passage, line), turn, passage.kind, before, text[at:end], after)


def _row_key(view: PageView, entry: Entry, passage: Passage, line: dict[str, Any]) -> str:
    """Return the key of the row that shows a passage."""
    call = view.index.calls.get(passage.call or "")
    if call is not None:
        return view.prefix + call.key
    fitting = (
        number
        for number, block in enumerate(json_data.line_blocks(line) if line.get("type") == "assistant" else ())
        if isinstance(block, dict) and passage.text in (block.get("text"), block.get("thinking"))
    )
    return f"{view.prefix}{entry.offset}.{next(fitting, 0)}"
