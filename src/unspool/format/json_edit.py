"""Change a line without touching the rest of it.

Rules
  1. Bytes outside the changed values stay as they are: key order, white space, escapes, the text of numbers,
     unknown fields, whatever stands before and after the document.
  2. Where a key is written twice the last one counts, as it does for every reader.
  3. A new key goes to the end of its object, a new element to the end of its list.

[merged: json_text.py] JSON as text: where documents, members and values begin and end in bytes.

Rules
  1. Nothing is decoded and nothing recurses: any depth and any bytes will do.
  2. Only bracket depth and strings are looked at. What lies between the ends may still be malformed; the
     decoder says so.
  3. Time is linear in the bytes passed over.

[merged: stringify.py] Values as JSON text, as JavaScript writes it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from unspool.errors import Refused

# Possessive, so that a string of a hundred megabytes leaves no trail of places to come back to.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+', re.DOTALL)
_MEMBER = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:{}\[\]\"]++")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_OPENING = b"{["
_QUOTE = ord('"')


class Slot(NamedTuple):
    """A member of an object or an element of a list, in the text."""

    key: str | None
    start: int
    value_start: int
    end: int


def skip_space(data: bytes, at: int) -> int:
    """Return the first place at or after `at` that is not white space."""
    match = _SPACE.match(data, at)
    return match.end() if match else at


def container_end(data: bytes, start: int) -> int | None:
    """Return the end of the object or list that begins at `start`, None if it has none."""
    depth, at = 0, start
    while True:
        match = _TO_BRACKET.match(data, at)
        at = match.end() if match else at
        bracket = data[at : at + 1]
        if not bracket or bracket == b'"':  # out of text, or inside a string that never ends
            return None
        depth += 1 if bracket in _OPENING else -1
        at += 1
        if depth == 0:
            return at


def depth(data: bytes, start: int = 0, end: int | None = None) -> int:
    """Return how deeply containers are nested in this stretch of text."""
    deepest = level = 0
    at, end = start, len(data) if end is None else end
    while True:
        match = _TO_BRACKET.match(data, at, end)
        at = match.end() if match else at
        if at >= end or data[at] == _QUOTE:
            return deepest
        level += 1 if data[at] in _OPENING else -1
        deepest = max(deepest, level)
        at += 1


def value_end(data: bytes, start: int) -> int | None:
    """Return the end of the value that begins at `start`, None if there is none."""
    first = data[start : start + 1]
    if first and first in _OPENING:
        return container_end(data, start)
    match = (_STRING if first == b'"' else _SCALAR).match(data, start)
    return match.end() if match else None


def slots(data: bytes, start: int) -> Iterator[Slot]:
    """Yield what the object or list that begins at `start` holds, up to its end or to where the text breaks."""
    keyed = data[start : start + 1] == b"{"
    at = skip_space(data, start + 1)
    while True:
        key, value_start = None, at
        if keyed:
            match = _MEMBER.match(data, at)
            if match is None:
                return
            key, value_start = _key(match[1]), match.end()
        end = value_end(data, value_start)
        if end is None:
            return
        yield Slot(key, at, value_start, end)
        at = skip_space(data, end)
        if data[at : at + 1] != b",":
            return
        at = skip_space(data, at + 1)


def _key(text: bytes) -> str:
    if b"\\" in text:
        try:
            return msgspec.json.decode(text, type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return text[1:-1].decode(errors="replace")


_SURROGATE = "[\ud800-\udfff]"


def encode(value: object) -> bytes:
    """Return a value as the compact JSON that JavaScript's `JSON.stringify` writes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON as an escape, not in UTF-8
        return _encode_by_hand(value)


def _encode_by_hand(value: object) -> bytes:
    import re

    match value:
        case str():
            clean = re.split(_SURROGATE, value)
            marks = [f"\\u{ord(mark):04x}".encode() for mark in re.findall(_SURROGATE, value)] + [b""]
            pieces = [msgspec.json.encode(piece)[1:-1] + mark for piece, mark in zip(clean, marks, strict=True)]
            return b'"' + b"".join(pieces) + b'"'
        case dict():
            inner = (_encode_by_hand(key) + b":" + _encode_by_hand(item) for key, item in value.items())
            return b"{" + b",".join(inner) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_encode_by_hand, value)) + b"]"
        case _:
            return msgspec.json.encode(value)


__all__ = ["REMOVE", "Path", "Remove", "encode", "patch"]

Path: TypeAlias = tuple[str | int, ...]
"""The way to a value: `("message", "content", 0, "text")`."""


class Remove(msgspec.Struct, frozen=True):
    """The type of `REMOVE`."""


REMOVE: Final = Remove()
"""Given as a value: the member or element goes."""


def patch(line: bytes, changes: Mapping[Path, object]) -> bytes:
    """Return the line with these values changed, one after the other."""
    for path, value in changes.items():
        line = _change(line, path, value)
    return line


def _change(line: bytes, path: Path, value: object) -> bytes:
    if not path:
        raise Refused("cannot patch a whole line", hint="give the path of a value in it")
    *way, last = path
    start = _document(line)
    for step in way:
        slots = _slots(line, start, step, path)
        index = _index(slots, step)
        if index is None:
            raise _missing(path)
        start = slots[index].value_start
    slots = _slots(line, start, last, path)
    index = _index(slots, last)
    if value is not REMOVE:
        text = encode(value)
        return _append(line, start, slots, last, text) if index is None else _replace(line, slots[index], text)
    if index is None:
        raise _missing(path)
    return _remove(line, slots, index)


def _document(line: bytes) -> int:
    start = line.find(b"{")
    if start < 0 or container_end(line, start) is None:
        raise Refused("cannot patch a line that is not a whole JSON object")
    return start


def _slots(line: bytes, start: int, step: str | int, path: Path) -> list[Slot]:
    """Return the places in a container: members if the step is a key, elements if it is a number."""
    opening = b"{" if isinstance(step, str) else b"["
    if line[start : start + 1] != opening:
        raise _missing(path)
    found = list(slots(line, start))
    if isinstance(step, int) and not 0 <= step <= len(found):
        raise _missing(path)
    return found


def _index(slots: list[Slot], step: str | int) -> int | None:
    if isinstance(step, int):
        return step if step < len(slots) else None
    return max((index for index, slot in enumerate(slots) if slot.key == step), default=None)


def _replace(line: bytes, slot: Slot, text: bytes) -> bytes:
    return line[: slot.value_start] + text + line[slot.end :]


def _append(line: bytes, start: int, slots: list[Slot], step: str | int, text: bytes) -> bytes:
    at = slots[-1].end if slots else start + 1
    text = encode(step) + b":" + text if isinstance(step, str) else text
    return line[:at] + (b"," if slots else b"") + text + line[at:]


def _remove(line: bytes, slots: list[Slot], index: int) -> bytes:
    """A comma goes too: the one after it, or the one before if it is the last."""
    if index + 1 < len(slots):
        return line[: slots[index].start] + line[slots[index + 1].start :]
    start = slots[index - 1].end if index else slots[index].start
    return line[:start] + line[slots[index].end :]


def _missing(path: Path) -> Refused:
    return Refused(f"no such value in the line: `{'.'.join(map(str, path))}`")
