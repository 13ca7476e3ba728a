"""Words in one session: what stands where, over all that its lines say. A view and words in, matches out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.export.json_data import original
from unspool.format.entry import Entry
from unspool.graph.search_text import Passage, passages

if TYPE_CHECKING:
    from unspool.page.view import View

_AROUND = 60
"""Characters before and after a match."""
_PLAIN = re.compile(r"[a-z0-9 _.,:;()=+*-]+")
"""What is written in JSON as it is."""


class Match(msgspec.Struct, frozen=True):
    """A place where the words stand."""

    key: str
    turn: int
    kind: str
    before: str
    words: str
    after: str


def find(view: View, words: str, most: int) -> list[Match]:
    """Return where words stand, in file order; case does not matter."""
    wanted = words.strip().casefold()
    found: list[Match] = []
    if not wanted:
        return found
    bytes_wanted = wanted.encode() if _PLAIN.fullmatch(wanted) else None
    for block in view.blocks():
        for start, end in view.spans_of(block):
            for item in view.lines.between(start, end):
                if isinstance(item, Entry) and (bytes_wanted is None or bytes_wanted in item.line.lower()):
                    found += _matches(view, item, wanted)
        if len(found) >= most:
            break
    return found[:most]


def _matches(view: View, entry: Entry, wanted: str) -> Iterator[Match]:
    line = original(entry)
    turn = view.index.part_at(entry.offset)
    for passage in passages(line):
        folded = passage.text.casefold()
        at = folded.find(wanted)
        if at < 0:
            continue
        if len(folded) != len(passage.text):  # folding made it longer: the place is only about right
            at = min(at, len(passage.text))
        end = at + len(wanted)
        before = passage.text[max(0, at - _AROUND) : at]
        yield Match(
            _key(view, entry, passage, line), turn, passage.kind, before, passage.text[at:end],
            passage.text[end : end + _AROUND],
        )  # fmt: skip


def _key(view: View, entry: Entry, passage: Passage, line: dict[str, Any]) -> str:
    """Return the row in which a passage is told."""
    called = view.index.calls.get(passage.call or "")
    if called is not None:
        return view.prefix + called.key
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    among = content if isinstance(content, list) and line.get("type") == "assistant" else []
    texts = ("text", "thinking")
    place = next(
        (
            number
            for number, block in enumerate(among)
            if isinstance(block, dict) and passage.text in [block.get(name) for name in texts]
        ),
        0,
    )
    return f"{view.prefix}{entry.offset}.{place}"
