"""Server-sent events: bytes in, frames out. No sockets, no JSON.

Rules
  1. Where the bytes are cut does not matter, not even inside a character or between CR and LF.
  2. A frame is given when its blank line has come. What is unfinished at the end is dropped, as the standard says.
  3. A frame larger than the limit is an error, not a reason to take all memory.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LARGEST = 64 * 1024 * 1024
_END = re.compile(rb"\r\n|\n|\r")
_ONE = re.compile(rb"event: ([a-z_]+)\ndata: ([^\r\n]*)\n\n")


class Frame(NamedTuple):
    """One event: its name and its data."""

    event: str
    data: str


class TooLarge(ValueError):
    """A frame that never ends."""


class Frames:
    """A stream that is read a piece at a time."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._rest = bytearray()
        self._searched = 0
        self._size = 0
        self._first = True
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Frame]:
        """Return the frames that a piece completes."""
        if not self._rest and not self._size and not self._first:  # nothing waits: whole frames may come
            if one := _ONE.fullmatch(piece):
                return [Frame(one[1].decode(), one[2].decode(errors="replace"))]
            if piece.endswith(b"\n\n") and b"\r" not in piece:
                return [frame for part in piece[:-2].split(b"\n\n") if (frame := self._whole(part)) is not None]
        self._rest += piece
        found: list[Frame] = []
        for line in self._lines():
            if line:
                self._take(line)
            elif frame := self._frame():
                found.append(frame)
        if self._size + len(self._rest) > self._largest:
            raise TooLarge(f"an event of more than {self._largest} bytes")
        return found

    def _whole(self, part: bytes) -> Frame | None:
        """Return the frame of some whole lines: nearly always a name and one line of data."""
        name, _, data = part.partition(b"\n")
        if name.startswith(b"event: ") and data.startswith(b"data: ") and b"\n" not in data:
            return Frame(name[7:].decode(errors="replace") or "message", data[6:].decode(errors="replace"))
        for line in part.split(b"\n"):
            if line:
                self._take(line)
        return self._frame()

    def _lines(self) -> list[bytes]:
        """Return the whole lines without their ends, and forget them."""
        found: list[bytes] = []
        start = 0
        for end in _END.finditer(self._rest, self._searched):
            if end[0] == b"\r" and end.end() == len(self._rest):  # its LF may be in the next piece
                break
            found.append(bytes(self._rest[start : end.start()]))
            start = end.end()
        del self._rest[:start]
        self._searched = len(self._rest) - self._rest.endswith(b"\r")
        return found

    def _take(self, line: bytes) -> None:
        """Note a field."""
        self._size += len(line)
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
        self._first = False
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode(errors="replace"))
        elif name == b"event":
            self._event = value.decode(errors="replace")

    def _frame(self) -> Frame | None:
        self._first = False
        frame = Frame(self._event or "message", "\n".join(self._data)) if self._data else None
        self._event, self._data, self._size = "", [], 0
        return frame
