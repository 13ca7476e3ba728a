"""JSON as text: finds values by their bytes, changes one without touching the rest, repairs characters.

Rules
  1. A change keeps every byte outside the changed values: key order, white space, escapes, the text of numbers, unknown
     fields, whatever stands before and after the document.
  2. Where a key is written twice the last one counts, as it does for every reader.
  3. A new key goes to the end of its object, a new element to the end of its list.
  4. Finding a value decodes nothing and does not recurse: any depth and any bytes will do. Only bracket depth and
     strings are looked at, in time linear in the bytes passed over. What lies between the ends may still be malformed;
     the decoder reports that.
  5. JavaScript writes a lone surrogate as an escape, and a crash can leave half of a UTF-8 sequence. `repair_text`
     shows both as U+FFFD; the bytes they came from are kept by whoever holds the line.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from unspool.errors import Refused
from unspool.format.base import encode_json

# Possessive, so that a string of a hundred megabytes leaves no trail of places to come back to.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+', re.DOTALL)
_MEMBER = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:{}\[\]\"]++")
_SPACE = re.compile(rb"[ \t\r\n]*+")
# What is not closed goes on to the end of the text: it must not be begun again at each quote.
_SKIPPED_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_COMMENT = re.compile(_SKIPPED_STRING + rb"|(//[^\r\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z))", re.DOTALL)
_LAST_COMMA = re.compile(_SKIPPED_STRING + rb"|(,)(?=[ \t\r\n]*+[}\]])", re.DOTALL)
_NO_LINE_END = re.compile(rb"[^\r\n]")
_OPENING = b"{["
_QUOTE = ord('"')


class Slot(NamedTuple):
    """A member of an object or an element of a list, in the text."""

    key: str | None
    start: int
    value_start: int
    end: int


def skip_space(data: bytes, at: int) -> int:
    """Return the first offset at or after `at` that is not white space."""
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


# The decoder recurses and gives up at a depth that depends on the stack, so the depth is counted before it is called.
def nesting_depth(data: bytes, start: int = 0, end: int | None = None) -> int:
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


def iter_slots(data: bytes, start: int) -> Iterator[Slot]:
    """Yield the slots of the object or list that begins at `start`, up to its end or to where the text breaks."""
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


JsonPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value: `("message", "content", 0, "text")`."""


class Remove(msgspec.Struct, frozen=True):
    """The type of `REMOVE`."""


REMOVE: Final = Remove()
"""As a new value: removes the member or element."""


def patch(line: bytes, changes: Mapping[JsonPath, object]) -> bytes:
    """Change these values in a line, one after the other."""
    for path, value in changes.items():
        line = _change(line, path, value)
    return line


def _change(line: bytes, path: JsonPath, value: object) -> bytes:
    if not path:
        raise Refused("cannot patch a whole line", hint="give the path of a value in it")
    start = line.find(b"{")
    if start < 0 or container_end(line, start) is None:
        raise Refused("cannot patch a line that is not a complete JSON object")
    *parents, last = path
    for step in parents:
        slots, index = _find_slot(line, start, step, path)
        if index is None:
            raise _missing(path)
        start = slots[index].value_start
    slots, index = _find_slot(line, start, last, path)
    if value is REMOVE:
        if index is None:
            raise _missing(path)
        return _remove(line, slots, index)
    text = encode_json(value)
    if index is None:
        return _append(line, start, slots, last, text)
    return line[: slots[index].value_start] + text + line[slots[index].end :]


def _find_slot(line: bytes, start: int, step: str | int, path: JsonPath) -> tuple[list[Slot], int | None]:
    """Return the slots of a container and the index of the one that the step names, None if it is not there yet."""
    if line[start : start + 1] != (b"{" if isinstance(step, str) else b"["):
        raise _missing(path)
    slots = list(iter_slots(line, start))
    if isinstance(step, str):
        # The last of two equal keys is the one that every reader sees.
        return slots, max((index for index, slot in enumerate(slots) if slot.key == step), default=None)
    if not 0 <= step <= len(slots):
        raise _missing(path)
    return slots, step if step < len(slots) else None


def _append(line: bytes, start: int, slots: list[Slot], step: str | int, text: bytes) -> bytes:
    at = slots[-1].end if slots else start + 1
    text = encode_json(step) + b":" + text if isinstance(step, str) else text
    return line[:at] + (b"," if slots else b"") + text + line[at:]


def _remove(line: bytes, slots: list[Slot], index: int) -> bytes:
    """Remove a slot with a comma: the one after it, or the one before if it is the last."""
    if index + 1 < len(slots):
        return line[: slots[index].start] + line[slots[index + 1].start :]
    start = slots[index - 1].end if index else slots[index].start
    return line[:start] + line[slots[index].end :]


def _missing(path: JsonPath) -> Refused:
    return Refused(f"the line has no value at `{'.'.join(map(str, path))}`")


_SURROGATES = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Matches lone surrogates; also escaped backslashes and true pairs, only to skip them."""


def repair_text(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return JSON text that decoders accept, and what was replaced by U+FFFD in it."""
    flaws = []
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
        flaws.append("invalid UTF-8")
    if b"\\ud" not in text and b"\\uD" not in text:  # as good as always; the expression stops at every backslash
        return text, tuple(flaws)
    repaired = _SURROGATES.sub(_replace_surrogate, text)
    if repaired != text:
        flaws.append("lone surrogate")
    return repaired, tuple(flaws)


def _replace_surrogate(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return escape if match[1] or escape == rb"\\" else rb"\ufffd"


# Documents that people read: what is added is indented as the document is.


def find_indentation(document: bytes) -> str:
    """Return the indentation of one level: that of the first member, or two spaces; empty if all is on one line."""
    start = skip_space(document, 0)
    first = next(iter_slots(document, start), None)
    if first is None:
        return "  "
    before = document[start + 1 : first.start].decode(errors="replace")
    return before.rpartition("\n")[2] if "\n" in before else ""


def insert_value(document: bytes, start: int, value: object, *, key: str | None, unit: str, level: int) -> bytes:
    """Insert a member or element at the end of the object or list that begins at `start`."""
    slots = list(iter_slots(document, start))
    end_of_line = find_line_end(document)
    text = (format_value(key, "", 0) + b": " if key is not None else b"") + format_value(
        value, unit, level, end_of_line
    )
    line = end_of_line + (unit * level).encode() if unit else b""
    if slots:
        at = slots[-1].end
        return document[:at] + (b"," + line if unit else b", ") + text + document[at:]
    end = value_end(document, start)
    assert end is not None
    closing = end_of_line + (unit * (level - 1)).encode() if unit else b""
    return document[: start + 1] + line + text + closing + document[end - 1 :]


def find_line_end(document: bytes) -> bytes:
    """Return what ends the first line of a document: `\\n`, or `\\r\\n` as on Windows."""
    return b"\r\n" if document[: document.find(b"\n") + 1].endswith(b"\r\n") else b"\n"


def find_comments(document: bytes) -> list[tuple[int, int]]:
    """Return where the comments of a document begin and end: `// …` and `/* … */`."""
    return [found.span(1) for found in _COMMENT.finditer(document) if found[1] is not None]


def blank_comments(document: bytes) -> bytes:
    """Return JSON with comments as JSON of the same length: blanks for comments, and for commas before an end."""
    plain = bytearray(document)
    for start, end in find_comments(document):
        plain[start:end] = _NO_LINE_END.sub(b" ", document[start:end])
    for found in _LAST_COMMA.finditer(bytes(plain)):
        if found[1] is not None:
            plain[found.start()] = ord(" ")
    return bytes(plain)


def format_value(value: object, unit: str, level: int, line_end: bytes = b"\n") -> bytes:
    """Return a value as text whose lines, but for the first, are indented for a level."""
    import json  # start-up: lines are edited without it

    if not unit:
        return json.dumps(value, ensure_ascii=False).encode()
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return f"{line_end.decode()}{unit * level}".join(lines).encode()


def remove_value(document: bytes, path: tuple[str | int, ...]) -> bytes:
    """Remove a member or element with the comma before it, or with the one after it if it is the first."""
    start = skip_space(document, 0)
    for key in path[:-1]:
        slot = find_member(document, start, key)
        assert slot is not None
        start = slot.value_start
    slots = list(iter_slots(document, start))
    key = path[-1]
    at = key if isinstance(key, int) else max(number for number, slot in enumerate(slots) if slot.key == key)
    if at:
        return document[: slots[at - 1].end] + document[slots[at].end :]
    if len(slots) > 1:
        return document[: slots[0].start] + document[slots[1].start :]
    end = value_end(document, start)
    assert end is not None
    return document[: start + 1] + document[end - 1 :]


def find_member(document: bytes, start: int, key: str | int) -> Slot | None:
    """Return a member or element; of a key that is written twice the last, as every JSON reader does."""
    slots = list(iter_slots(document, start))
    if isinstance(key, int):
        return slots[key]
    return next((slot for slot in reversed(slots) if slot.key == key), None)
