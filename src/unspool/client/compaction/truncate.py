"""What is too large for any window, cut: texts in, their beginnings and ends out, and a note of what is missing.

Only what is sent is cut; the session's file keeps all of it.

Rules
  1. A text that is cut twice says once, rightly, how much is missing.
  2. Results and inputs of tools are cut first, as little as it takes, the longest first; then words and pictures; what
     earlier turns came to (`recap.py`) last. Thinking is never cut: the API wants it back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from unspool.client.compaction.prune import hidden
from unspool.edit.compress import BEGINNING

Json: TypeAlias = dict[str, Any]
SHORTEST = 240
"""Characters that are left of a text at the least."""
_NOTE = "\n[... {:,} characters left out ...]\n"
_NOTED = re.compile(r"\n\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n")


def shortened(text: str, characters: int) -> str:
    """Return the beginning and the end of a text, if it is longer than so many characters.

    >>> shortened("a" * 50 + "b" * 50, 40)
    'aaaa\\n[... 95 characters left out ...]\\nb'
    """
    if len(text) <= characters:
        return text
    head, tail, missing = text, text, 0
    if noted := _NOTED.search(text):
        head, tail, missing = text[: noted.start()], text[noted.end() :], int(noted[1].replace(",", ""))
    total = len(head) + len(tail) + missing if noted else len(text)
    room = max(2, characters - len(_NOTE.format(total)))
    first = min(len(head), -(-room * 2 // 3))
    last = min(len(tail), room - first)
    short = f"{head[:first]}{_NOTE.format(total - first - last)}{tail[len(tail) - last :]}"
    return short if len(short) < len(text) else text


def cut(messages: Sequence[Json], fits: Callable[[list[Json]], bool], *, recap: bool = True) -> list[Json] | None:
    """Return messages with long texts cut, as little as it takes to fit; None if nothing helps."""
    best = list(messages)
    for tier in (_tools, _words, _everything) if recap else (_tools, _words):
        least = [_cut(message, SHORTEST, tier) for message in best]
        if not fits(least):
            best = least
            continue
        low, high = SHORTEST, max((len(text) for message in best for text in _texts(message)), default=SHORTEST)
        while high - low > max(16, low // 16):
            middle = (low + high) // 2
            tried = [_cut(message, middle, tier) for message in best]
            if fits(tried):
                low, least = middle, tried
            else:
                high = middle
        return least
    return None


_Tier: TypeAlias = Callable[[Json], bool]


def _tools(block: Json) -> bool:
    return block.get("type") in ("tool_use", "tool_result")


def _words(block: Json) -> bool:
    return not str(block.get("text") or "").startswith(BEGINNING)


def _everything(block: Json) -> bool:
    return True


def _cut(message: Json, characters: int, tier: _Tier) -> Json:
    """Return a message with its long texts cut; the same object if it has none."""
    content = message.get("content")
    if isinstance(content, str):
        text = {"type": "text", "text": content}
        return (
            {**message, "content": shortened(content, characters)}
            if tier(text) and len(content) > characters
            else message
        )
    blocks = [_block(block, characters, tier) for block in content] if isinstance(content, list) else []
    same = all(one is two for one, two in zip(blocks, content or (), strict=True))
    return message if same else {**message, "content": blocks}


def _block(block: Json, characters: int, tier: _Tier) -> Json:
    if not tier(block):
        return block
    match block:
        case {"type": "text", "text": str() as text} if len(text) > characters:
            return {**block, "text": shortened(text, characters)}
        case {"type": "tool_result", "content": str() | list() as content}:
            short = _inside(content, characters, pictures=tier is not _tools)
            return block if short is content else {**block, "content": short}
        case {"type": "tool_use", "input": dict() as given}:
            short = _inside(given, characters, pictures=False)
            return block if short is given else {**block, "input": short}
        case {"type": "image" | "document"} if characters <= SHORTEST:
            return {"type": "text", "text": hidden(block)}
        case _:
            return block


def _inside(value: Any, characters: int, *, pictures: bool) -> Any:
    """Return a value with the long texts in it cut; the same object if there are none."""
    match value:
        case {"type": "image" | "document"}:
            return {"type": "text", "text": hidden(value)} if pictures and characters <= SHORTEST else value
        case str() if len(value) > characters:
            return shortened(value, characters)
        case list():
            short: Any = [_inside(inner, characters, pictures=pictures) for inner in value]
            return value if all(one is two for one, two in zip(short, value, strict=True)) else short
        case dict():
            short = {key: _inside(inner, characters, pictures=pictures) for key, inner in value.items()}
            return value if all(short[key] is value[key] for key in value) else short
        case _:
            return value


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
