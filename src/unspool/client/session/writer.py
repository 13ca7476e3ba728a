"""Appends lines to session files. No other module of the client writes to them.

Rules
  1. A line is written by one `write` to a file opened for appending. Either all of it is there afterwards, or none:
     if the disk is full, the part that was written is truncated.
  2. A file that ends in the middle of a line (a crash) gets a line end first: nothing is added to the torn line.
  3. Timestamps grow from line to line, also if the clock does not, and after a resume.
  4. Lines of the conversation are linked by `parentUuid`; no line has a progress line as its parent, because some
     versions of Claude Code do not know that type.
  5. Files and folders are readable by their owner alone (0600, 0700). A symbolic link is not followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from unspool.files import make_folder, raise_unwritable, write_atomically
from unspool.format import LineEnvelope, encode_line, format_timestamp
from unspool.format import written_lines as lines

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class SessionWriter:
    """Appends to one file: of a session, or of a subagent."""

    def __init__(
        self,
        path: Path,
        envelope: LineEnvelope,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        *,
        parent: str | None = None,
        last_time: datetime | None = None,
    ) -> None:
        self.path = path
        self.envelope = envelope
        self.parent = parent
        """The uuid that the next line has as its parent."""
        self._clock = clock
        self._new_id = new_id
        self.boundaries = 0
        """How many compaction boundaries were written."""
        self.bytes_written = 0
        self._last_time = last_time or datetime.min.replace(tzinfo=UTC)

    def next_timestamp(self) -> str:
        """Return the current time; a millisecond after the last timestamp if the clock is not ahead of that."""
        now = self._clock().astimezone(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._last_time = max(now, self._last_time + timedelta(milliseconds=1))
        # The time of a resumed session may have microseconds: lines have milliseconds only.
        self._last_time = self._last_time.replace(microsecond=self._last_time.microsecond // 1000 * 1000)
        return format_timestamp(self._last_time)

    def append_message(self, content: lines.AnyMessageLine) -> str:
        """Append a line of the conversation, the parent of the next one; return its uuid."""
        self.parent = self.append_beside(content)
        return self.parent

    def append_boundary(self, boundary: lines.SystemLine, summary: lines.UserLine) -> str:
        """Append a compaction boundary and the summary after it; return the uuid of the summary."""
        first, second = self._new_id(), self._new_id()
        begin = replace(self.envelope, logical_parent_uuid=self.parent)
        second_begin = replace(self.envelope, parent_uuid=first)
        # Both by one write: of a boundary alone, 2.0.76 and 2.1.29 make a conversation without a past.
        self._append(
            encode_line(begin, boundary, lines.LineEnd(first, self.next_timestamp()))
            + encode_line(second_begin, summary, lines.LineEnd(second, self.next_timestamp()))
        )
        self.parent = second
        self.boundaries += 1
        return second

    def append_beside(self, content: lines.AnyMessageLine) -> str:
        """Append a line whose parent is the last one, and which is nobody's parent; return its uuid."""
        # `self.parent` stays: 2.0.x loses everything before a `progress` line that is a parent.
        id = self._new_id()
        begin = replace(self.envelope, parent_uuid=self.parent)
        self._append(encode_line(begin, content, lines.LineEnd(id, self.next_timestamp())))
        return id

    def append_note(self, line: lines.LinePart) -> None:
        """Append a line outside of the conversation."""
        self._append(encode_line(line))

    def _append(self, data: bytes) -> None:
        append_bytes(self.path, data)
        self.bytes_written += len(data)


def append_bytes(path: Path, data: bytes) -> None:
    """Append lines to a file: all of them, or nothing."""
    with raise_unwritable(f"cannot write `{path}`", "the conversation so far is saved"):
        try:
            descriptor = os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            make_folder(path.parent)
            descriptor = os.open(path, _FLAGS, 0o600)
        try:
            _write_whole(descriptor, data)
        finally:
            os.close(descriptor)


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a small file as a whole, readable by its owner alone."""
    with raise_unwritable(f"cannot write `{path}`"):
        make_folder(path.parent)
        write_atomically(path, data)


def _write_whole(descriptor: int, data: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # A crash may have left a torn line: a line end keeps the new line apart from it.
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    written = 0
    try:
        while written < len(data):  # a second write only if the disk is nearly full
            written += os.write(descriptor, data[written:] if written else data)
    except OSError:
        # Another process may have appended meanwhile: then truncating would take its lines away.
        if written and os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise
