"""JSON as text: where documents, members and values begin and end in bytes.

Rules
  1. Nothing is decoded and nothing recurses: any depth and any bytes will do.
  2. Only bracket depth and strings are looked at. What lies between the ends may still be malformed; the
     decoder says so.
  3. Time is linear in the bytes passed over.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

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
