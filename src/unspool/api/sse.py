"""Server-sent events: bytes in, frames out. No sockets, no JSON.

Rules
  1. Where the bytes are cut does not matter, not even inside a character or between CR and LF.
  2. A frame is given when its blank line has come. What is unfinished at the end is dropped, as the standard says.
  3. A frame larger than the limit is an error, not a reason to take all memory.
"""

from __future__ import annotations

from typing import NamedTuple

LARGEST = 64 * 1024 * 1024


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
        self._rest += piece
        found: list[Frame] = []
        while (line := self._line()) is not None:
            if line:
                self._take(line)
            elif frame := self._frame():
                found.append(frame)
        if self._size + len(self._rest) > self._largest:
            raise TooLarge(f"an event of more than {self._largest} bytes")
        return found

    def _line(self) -> bytes | None:
        """Return the next whole line without its end, and forget it."""
        ends = [
            at for at in (self._rest.find(b"\n", self._searched), self._rest.find(b"\r", self._searched)) if at >= 0
        ]
        if not ends:
            self._searched = len(self._rest)
            return None
        end = min(ends)
        if self._rest[end] == 0x0D and end + 1 == len(self._rest):  # its LF may be in the next piece
            self._searched = end
            return None
        line = bytes(self._rest[:end])
        del self._rest[: end + (2 if self._rest[end : end + 2] == b"\r\n" else 1)]
        self._searched = 0
        return line

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
