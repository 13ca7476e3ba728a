"""Parses server-sent events: bytes in, events out. No sockets, no JSON.

Rules
  1. Where the bytes are cut does not matter, not even inside a character or between CR and LF.
  2. An event is returned when its blank line has come. What is unfinished at the end is dropped, as the standard says.
  3. An event larger than the limit is an error, not a reason to take all memory.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_EVENT_BYTES = 64 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_PLAIN_EVENT = re.compile(rb"event: ([a-z_]+)\ndata: ([^\r\n]*)\n\n")


class ServerSentEvent(NamedTuple):
    """One event: its name and its data."""

    event: str
    data: str


class EventTooLarge(ValueError):
    """An event is larger than the limit."""


class SseParser:
    """Parses a stream that is read a piece at a time."""

    def __init__(self, largest: int = MAX_EVENT_BYTES) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._searched = 0
        self._size = 0
        self._first = True
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        """Return the events that a piece completes."""
        if not self._buffer and not self._size and not self._first:  # nothing waits: nearly every piece is whole events
            if match := _PLAIN_EVENT.fullmatch(piece):
                return [ServerSentEvent(match[1].decode(), match[2].decode(errors="replace"))]
            if piece.endswith(b"\n\n") and b"\r" not in piece:
                return [event for part in piece[:-2].split(b"\n\n") if (event := self._parse_whole(part)) is not None]
        self._buffer += piece
        events: list[ServerSentEvent] = []
        for line in self._take_lines():
            if line:
                self._add_field(line)
            elif event := self._finish():
                events.append(event)
        if self._size + len(self._buffer) > self._largest:
            raise EventTooLarge(f"an event is larger than {self._largest} bytes")
        return events

    def _parse_whole(self, part: bytes) -> ServerSentEvent | None:
        """Return the event of some whole lines: nearly always a name and one line of data."""
        name, _, data = part.partition(b"\n")
        if name.startswith(b"event: ") and data.startswith(b"data: ") and b"\n" not in data:
            return ServerSentEvent(name[7:].decode(errors="replace") or "message", data[6:].decode(errors="replace"))
        for line in part.split(b"\n"):
            if line:
                self._add_field(line)
        return self._finish()

    def _take_lines(self) -> list[bytes]:
        """Return the whole lines without their ends, and remove them from the buffer."""
        found: list[bytes] = []
        start = 0
        for end in _LINE_END.finditer(self._buffer, self._searched):
            if end[0] == b"\r" and end.end() == len(self._buffer):  # its LF may be in the next piece
                break
            found.append(bytes(self._buffer[start : end.start()]))
            start = end.end()
        del self._buffer[:start]
        self._searched = len(self._buffer) - self._buffer.endswith(b"\r")
        return found

    def _add_field(self, line: bytes) -> None:
        """Add the field of a line to the event."""
        self._size += len(line)
        if self._first:  # the standard allows a byte order mark at the very beginning
            line = line.removeprefix(b"\xef\xbb\xbf")
        self._first = False
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode(errors="replace"))
        elif name == b"event":
            self._event = value.decode(errors="replace")

    def _finish(self) -> ServerSentEvent | None:
        self._first = False
        event = ServerSentEvent(self._event or "message", "\n".join(self._data)) if self._data else None
        self._event, self._data, self._size = "", [], 0
        return event
