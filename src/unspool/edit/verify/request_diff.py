"""What the program sent against what we say it would: the first difference, or none.

Rules
  1. Same roles, same blocks in the same order, same text. `cache_control` is not content, nor is a system message
     without any: it only carries a setting.
  2. The prompt that resumed the session ends the comparison. What ours ends with from the user is in that prompt's
     message, among reminders of the new turn; what ours ends with from the system begins the system message after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]


class Said(NamedTuple):
    """A message without what does not count."""

    role: str
    blocks: list[Json]


def difference(sent: Sequence[Json], ours: Sequence[Json], prompt: str) -> str | None:
    """Return where the messages sent before a prompt first differ from ours; None if they do not."""
    theirs = said(sent)
    at = max((number for number, message in enumerate(theirs) if _place(message, prompt) is not None), default=-1)
    if at < 0:
        return "the prompt is not in what was sent"
    before = theirs[at].blocks[: _place(theirs[at], prompt)]
    kept = said(ours)
    if kept and kept[-1].role == "system":
        end = kept.pop()
        if not _continues(theirs[at + 1 :], end):
            return _shown(len(kept), theirs[at + 1 :][:1], end)
    end = kept.pop() if kept and kept[-1].role == "user" else Said("user", [])
    if not _adds_only_reminders(before, end.blocks):
        return _shown(len(kept), Said("user", before), end)
    return _first(theirs[:at], kept)


def said(messages: Sequence[Json]) -> list[Said]:
    """Return what counts in messages."""
    bare = [
        Said(
            message["role"],
            [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks_of(message)],
        )
        for message in messages
    ]
    return [message for message in bare if message.blocks or message.role != "system"]


def blocks_of(message: Json) -> list[Json]:
    """Return a message's content as blocks; a string is one text."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _place(message: Said, prompt: str) -> int | None:
    """Return where in a message the prompt is."""
    places = [number for number, block in enumerate(message.blocks) if prompt in str(block.get("text"))]
    return places[-1] if places and message.role == "user" else None


def _adds_only_reminders(theirs: list[Json], ours: list[Json]) -> bool:
    """Tell whether theirs are ours, in order, with nothing but reminders of the new turn between or after them."""
    waiting = [*ours]
    for block in theirs:
        if waiting and _same(block, waiting[0]):
            del waiting[0]
        elif not str(block.get("text")).startswith("<system-reminder>"):
            return False
    return not waiting


def _same(theirs: Json, ours: Json) -> bool:
    """Compare two blocks near the prompt: whether a text ends with a line end depends on what follows it."""
    if theirs["type"] == ours["type"] == "text":
        return theirs == {**ours, "text": theirs["text"]} and _bare(theirs) == _bare(ours)
    return theirs == ours


def _bare(block: Json) -> str:
    return str(block["text"]).removesuffix("\n")


def _continues(after: list[Said], ours: Said) -> bool:
    """Tell whether the system's words after the prompt begin with ours."""
    if not after or after[0].role != "system":
        return False
    (text,), (beginning,) = after[0].blocks, ours.blocks
    return str(text["text"]).startswith(beginning["text"])


def _first(theirs: list[Said], ours: list[Said]) -> str | None:
    for number in range(max(len(theirs), len(ours))):
        a, b = theirs[number : number + 1], ours[number : number + 1]
        if a != b:
            return _shown(number, a and a[0], b and b[0])
    return None


def _shown(number: int, theirs: object, ours: object) -> str:
    """Show where two messages part, with some of what is around."""
    a, b = json.dumps(theirs, ensure_ascii=False), json.dumps(ours, ensure_ascii=False)
    at = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    around = slice(max(0, at - 80), at + 240)
    return f"message {number}, character {at}\n  theirs: …{a[around]}\n  ours:   …{b[around]}"
