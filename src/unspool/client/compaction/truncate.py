"""Truncates texts that are too long for any window: keeps beginning and end, and notes how much is missing. Pure.

Only what is sent is truncated; the session file keeps all of it.

Rules
  1. A text that is truncated twice has one note, with the right number.
  2. Results and inputs of tools are truncated first, as little as it takes, the longest first; then texts and images;
     the recap of earlier turns (`recap.py`) last. Thinking is never truncated: the API wants it back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from unspool.client.compaction.prune import describe_media
from unspool.edit.planning import SUMMARY_BEGINNING, replace_parts

Json: TypeAlias = dict[str, Any]
MIN_CHARACTERS = 240
"""What is left of a text at the least."""
_NOTE = "\n[... {:,} characters left out ...]\n"
_NOTED = re.compile(r"\n\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n")


def shorten_text(text: str, characters: int) -> str:
    """Return beginning and end of a text that is longer than so many characters.

    >>> shorten_text("a" * 50 + "b" * 50, 40)
    'aaaa\\n[... 95 characters left out ...]\\nb'
    """
    if len(text) <= characters:
        return text
    head, tail, missing = text, text, 0
    # A text that was truncated before has a note already: its number is counted in, and the note replaced.
    if noted := _NOTED.search(text):
        head, tail, missing = text[: noted.start()], text[noted.end() :], int(noted[1].replace(",", ""))
    total = len(head) + len(tail) + missing if noted else len(text)
    space = max(2, characters - len(_NOTE.format(total)))
    first = min(len(head), -(-space * 2 // 3))
    last = min(len(tail), space - first)
    short = f"{head[:first]}{_NOTE.format(total - first - last)}{tail[len(tail) - last :]}"
    return short if len(short) < len(text) else text


def truncate_messages(
    messages: Sequence[Json], fits: Callable[[list[Json]], bool], *, recap: bool = True
) -> list[Json] | None:
    """Return messages with long texts truncated, as little as it takes to fit; None if that is not enough."""
    best = list(messages)
    for tier in (_is_tool_block, _is_no_recap, _is_any_block) if recap else (_is_tool_block, _is_no_recap):
        least = [_truncate_message(message, MIN_CHARACTERS, tier) for message in best]
        if not fits(least):
            best = least
            continue
        low = MIN_CHARACTERS
        high = max((len(text) for message in best for text in _texts(message)), default=low)
        # Bisection; exact to a sixteenth, because each try measures all messages.
        while high - low > max(16, low // 16):
            middle = (low + high) // 2
            tried = [_truncate_message(message, middle, tier) for message in best]
            if fits(tried):
                low, least = middle, tried
            else:
                high = middle
        return least
    return None


_Tier: TypeAlias = Callable[[Json], bool]


def _is_tool_block(block: Json) -> bool:
    return block.get("type") in ("tool_use", "tool_result")


def _is_no_recap(block: Json) -> bool:
    return not str(block.get("text") or "").startswith(SUMMARY_BEGINNING)


def _is_any_block(block: Json) -> bool:
    return True


def _truncate_message(message: Json, characters: int, tier: _Tier) -> Json:
    """Return a message with its long texts truncated; the same object if it has none."""
    content = message.get("content")
    if isinstance(content, str):
        text = {"type": "text", "text": content}
        return (
            {**message, "content": shorten_text(content, characters)}
            if tier(text) and len(content) > characters
            else message
        )
    blocks = [_truncate_block(block, characters, tier) for block in content] if isinstance(content, list) else []
    same = all(one is two for one, two in zip(blocks, content or (), strict=True))
    return message if same else {**message, "content": blocks}


def _truncate_block(block: Json, characters: int, tier: _Tier) -> Json:
    if not tier(block):
        return block
    match block:
        case {"type": "text", "text": str() as text} if len(text) > characters:
            return {**block, "text": shorten_text(text, characters)}
        case {"type": "tool_result", "content": str() | list() as content}:
            short = _truncate_value(content, characters, pictures=tier is not _is_tool_block)
            return block if short is content else {**block, "content": short}
        case {"type": "tool_use", "input": dict() as input}:
            short = _truncate_value(input, characters, pictures=False)
            return block if short is input else {**block, "input": short}
        case {"type": "image" | "document"} if characters <= MIN_CHARACTERS:
            return {"type": "text", "text": describe_media(block)}
        case _:
            return block


def _truncate_value(value: Any, characters: int, *, pictures: bool) -> Any:
    """Return a value with the long texts in it truncated; the same object if there are none."""

    def truncate(part: Any) -> Any:
        match part:
            case {"type": "image" | "document"}:
                # Returned as it is: the text of an image is its bytes.
                replaces = pictures and characters <= MIN_CHARACTERS
                return {"type": "text", "text": describe_media(part)} if replaces else part
            case str():
                return shorten_text(part, characters)
            case _:
                return None

    return replace_parts(value, truncate)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _texts(inner)
        case dict():
            for key, inner in value.items():
                if key not in ("data", "signature", "thinking"):
                    yield from _texts(inner)
        case _:
            pass
