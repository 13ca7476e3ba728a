"""Change a line without touching the rest of it.

Rules
  1. Bytes outside the changed values stay as they are: key order, white space, escapes, the text of numbers,
     unknown fields, whatever stands before and after the document.
  2. Where a key is written twice the last one counts, as it does for every reader.
  3. A new key goes to the end of its object, a new element to the end of its list.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from unspool.errors import Refused
from unspool.format import json_text
from unspool.format.stringify import encode

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
    if start < 0 or json_text.container_end(line, start) is None:
        raise Refused("cannot patch a line that is not a whole JSON object")
    return start


def _slots(line: bytes, start: int, step: str | int, path: Path) -> list[json_text.Slot]:
    """Return the places in a container: members if the step is a key, elements if it is a number."""
    opening = b"{" if isinstance(step, str) else b"["
    if line[start : start + 1] != opening:
        raise _missing(path)
    slots = list(json_text.slots(line, start))
    if isinstance(step, int) and not 0 <= step <= len(slots):
        raise _missing(path)
    return slots


def _index(slots: list[json_text.Slot], step: str | int) -> int | None:
    if isinstance(step, int):
        return step if step < len(slots) else None
    return max((index for index, slot in enumerate(slots) if slot.key == step), default=None)


def _replace(line: bytes, slot: json_text.Slot, text: bytes) -> bytes:
    return line[: slot.value_start] + text + line[slot.end :]


def _append(line: bytes, start: int, slots: list[json_text.Slot], step: str | int, text: bytes) -> bytes:
    at = slots[-1].end if slots else start + 1
    text = encode(step) + b":" + text if isinstance(step, str) else text
    return line[:at] + (b"," if slots else b"") + text + line[at:]


def _remove(line: bytes, slots: list[json_text.Slot], index: int) -> bytes:
    """A comma goes too: the one after it, or the one before if it is the last."""
    if index + 1 < len(slots):
        return line[: slots[index].start] + line[slots[index + 1].start :]
    start = slots[index - 1].end if index else slots[index].start
    return line[:start] + line[slots[index].end :]


def _missing(path: Path) -> Refused:
    return Refused(f"no such value in the line: `{'.'.join(map(str, path))}`")
