"""Finds the first difference between the messages that Claude Code sent and those that we predict.

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


class ComparedMessage(NamedTuple):
    """A message without the fields that are not compared."""

    role: str
    blocks: list[Json]


def find_difference(sent: Sequence[Json], ours: Sequence[Json], prompt: str) -> str | None:
    """Return where the messages sent before a prompt first differ from ours; None if they do not."""
    theirs = compared_messages(sent)
    # The last one: the same words may be earlier in the conversation.
    at = max((number for number, message in enumerate(theirs) if _find_prompt(message, prompt) is not None), default=-1)
    if at < 0:
        return "the request does not contain the prompt"
    before = theirs[at].blocks[: _find_prompt(theirs[at], prompt)]
    expected = compared_messages(ours)
    if expected and expected[-1].role == "system":
        end = expected.pop()
        if not _begins_with(theirs[at + 1 :], end):
            return _show_difference(len(expected), theirs[at + 1 :][:1], end)
    end = expected.pop() if expected and expected[-1].role == "user" else ComparedMessage("user", [])
    if not _adds_only_reminders(before, end.blocks):
        return _show_difference(len(expected), ComparedMessage("user", before), end)
    for number in range(max(at, len(expected))):
        a, b = theirs[:at][number : number + 1], expected[number : number + 1]
        if a != b:
            return _show_difference(number, a and a[0], b and b[0])
    return None


def compared_messages(messages: Sequence[Json]) -> list[ComparedMessage]:
    """Return the part of messages that is compared."""
    bare = [
        ComparedMessage(
            message["role"],
            [
                {key: value for key, value in block.items() if key != "cache_control"}
                for block in content_blocks(message)
            ],
        )
        for message in messages
    ]
    return [message for message in bare if message.blocks or message.role != "system"]


def content_blocks(message: Json) -> list[Json]:
    """Return a message's content as blocks; a string is one text."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _find_prompt(message: ComparedMessage, prompt: str) -> int | None:
    """Return where in a message the prompt is."""
    places = [number for number, block in enumerate(message.blocks) if prompt in str(block.get("text"))]
    return places[-1] if places and message.role == "user" else None


def _adds_only_reminders(theirs: list[Json], ours: list[Json]) -> bool:
    """Return whether theirs are ours, in order, with nothing but reminders of the new turn between or after them."""
    waiting = [*ours]
    for block in theirs:
        if waiting and _is_same(block, waiting[0]):
            del waiting[0]
        elif not str(block.get("text")).startswith("<system-reminder>"):
            return False
    return not waiting


def _is_same(theirs: Json, ours: Json) -> bool:
    """Compare two blocks near the prompt: whether a text ends with a line end depends on what follows it."""
    if theirs["type"] == ours["type"] == "text":
        texts = [str(block["text"]).removesuffix("\n") for block in (theirs, ours)]
        return theirs == {**ours, "text": theirs["text"]} and texts[0] == texts[1]
    return theirs == ours


def _begins_with(after: list[ComparedMessage], ours: ComparedMessage) -> bool:
    """Return whether the system message after the prompt begins with ours."""
    if not after or after[0].role != "system":
        return False
    (text,), (beginning,) = after[0].blocks, ours.blocks
    return str(text["text"]).startswith(beginning["text"])


def _show_difference(number: int, theirs: object, ours: object) -> str:
    """Return where two messages differ, with some text around it."""
    a, b = json.dumps(theirs, ensure_ascii=False), json.dumps(ours, ensure_ascii=False)
    at = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    around = slice(max(0, at - 80), at + 240)
    return f"message {number}, character {at}\n  theirs: …{a[around]}\n  ours:   …{b[around]}"
