"""Lines to disk: what a line says in, the line at the end of the file out. The only writer of session files here.

Rules
  1. A line is written by one `write` to a file opened for appending. Either all of it is there afterwards, or none:
     what of it was written before the disk was full is taken back.
  2. A file that ends in the middle of a line (a crash) gets a line end first: nothing is added to the torn line.
  3. Timestamps grow from line to line, also if the clock does not, and after a session is gone on with.
  4. Lines of the conversation hang on each other; nothing hangs on a progress line, which some versions do not know.
  5. Files are for their owner alone (0600), folders too (0700). A link is not followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from unspool.errors import Unwritable

Json: TypeAlias = dict[str, Any]

FORMAT_VERSION = "2.1.29"
"""The version of Claude Code whose format is followed: `version` of every line."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_encode = msgspec.json.Encoder().encode


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What lines say of where they were written."""

    session_id: str
    cwd: str
    branch: str = ""
    slug: str | None = None
    agent_id: str | None = None

    def fields(self) -> Json:
        """Return it as lines have it."""
        found: Json = {
            "isSidechain": self.agent_id is not None,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": FORMAT_VERSION,
            "gitBranch": self.branch,
        }
        if self.agent_id is not None:
            found["agentId"] = self.agent_id
        if self.slug is not None:
            found["slug"] = self.slug
        return found


class Writer:
    """One file of lines: a session's, or an agent's."""

    def __init__(
        self, path: Path, envelope: Envelope, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self.path = path
        self.envelope = envelope
        self.parent: str | None = None
        """What the next line hangs on."""
        self._clock = clock
        self._new_id = new_id
        self.beginnings = 0
        """How often the conversation began anew."""
        self.written = 0
        """How many bytes."""
        self._last = datetime.min.replace(tzinfo=UTC)

    def go_on(self, parent: str | None, last: datetime | None) -> None:
        """Go on after a line, and after a time."""
        self.parent = parent
        if last is not None:
            self._last = max(self._last, last)

    def now(self) -> str:
        """Return a time that is later than every one before."""
        now = self._clock().astimezone(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        self._last = max(now, self._last + timedelta(milliseconds=1))
        self._last = self._last.replace(microsecond=self._last.microsecond // 1000 * 1000)
        return self._last.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def tell(self, fields: Json, *, uuid: str | None = None) -> str:
        """Write a line of the conversation; the next one hangs on it. Return its id."""
        id = uuid or self._new_id()
        self._append(self._node(fields, self.parent, id))
        self.parent = id
        return id

    def begin_again(self, boundary: Json, summary: Json) -> str:
        """Write lines on which the conversation begins anew, after all that was; return the id of the second.

        Both or neither, by one write: of a boundary alone, 2.0.76 and 2.1.29 make a conversation without a past.
        """
        first, second = self._new_id(), self._new_id()
        line = self._node(boundary, None, first)
        head = {"parentUuid": None, "logicalParentUuid": self.parent}
        self._append(
            {**head, **{key: value for key, value in line.items() if key != "parentUuid"}},
            self._node(summary, first, second),
        )
        self.parent = second
        self.beginnings += 1
        return second

    def beside(self, fields: Json) -> str:
        """Write a line beside the conversation: it hangs on the last one, and nothing hangs on it."""
        id = self._new_id()
        self._append(self._node(fields, self.parent, id))
        return id

    def note(self, fields: Json, *, timed: bool = False, named: bool = True) -> None:
        """Write a line that is outside of the conversation."""
        time = {"timestamp": self.now()} if timed else {}
        name = {"sessionId": self.envelope.session_id} if named else {}
        self._append({**fields, **time, **name})

    def _node(self, fields: Json, parent: str | None, id: str) -> Json:
        return {
            "parentUuid": parent,
            **self.envelope.fields(),
            **fields,
            "uuid": id,
            "timestamp": self.now(),
        }

    def _append(self, *lines: Json) -> None:
        try:
            data = b"".join(_encode(line) + b"\n" for line in lines)
        except UnicodeEncodeError:  # names of files may be no text
            data = b"".join(_encode(spelled(line)) + b"\n" for line in lines)
        append(self.path, data)
        self.written += len(data)


def append(path: Path, data: bytes) -> None:
    """Add a line to a file; all of it, or nothing."""
    try:
        try:
            descriptor = os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            make_folder(path.parent)
            descriptor = os.open(path, _FLAGS, 0o600)
        try:
            _add(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        words = (error.strerror or type(error).__name__).lower()
        raise Unwritable(f"cannot write `{path}`: {words}", hint="what was said before is kept") from None


def make_folder(path: Path) -> None:
    """Make a folder, and those it lies in, for their owner alone."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def spelled(value: Any) -> Any:
    """Return something as it can be written down: what is half a character becomes a mark of it."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {spelled(key): spelled(part) for key, part in value.items()}
        case list() | tuple():
            return [spelled(part) for part in value]
        case _:
            return value


def _add(descriptor: int, data: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    written = 0
    try:
        while written < len(data):  # one write does it, but where there is no room
            written += os.write(descriptor, data[written:] if written else data)
    except OSError:
        if written and os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
        raise
