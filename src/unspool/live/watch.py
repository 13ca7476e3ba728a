"""The board kept up to date: file events as hints, a look at the files as the truth.

Rules
  1. The system tells which files change (watchfiles); that wakes the board at once, and is never believed: it misses
     files in folders that have just been made. Hot files are looked at several times a second, all files every few
     seconds, seldom enough to take very little of a processor.
  2. Where files cannot be watched (the system's limit, a network file system, watchfiles not installed) everything is
     looked at every second or so, and that is said: `mode`, and an event of that kind.
  3. While something happens the wait between looks for events is a millisecond; when nothing has happened for a while
     it is ten: at one, waiting alone would take three percent of a processor.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from unspool.live.board import Board
from unspool.live.events import Event

if TYPE_CHECKING:
    import anyio

TICK = 0.25
"""Seconds between looks at hot files while something happens; else twice that."""
LIVELY = 10.0
"""Seconds after a change in which the next one is waited for most eagerly."""
POLL = 1.0
WALK = 5.0
"""Seconds between looks at all files, at least."""
_SHARE = 1000
"""A look at all files may take one part in so many of the time."""
_POLL_SHARE = 50
_RETRY = 60.0
_NETWORKS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "davfs", "ncpfs", "fuse.")
_LOCAL = frozenset({"fuse.overlayfs", "fuse.fuse-overlayfs", "fuse.ext4", "fuse.bindfs"})


class Notifier(Protocol):
    """What waits for changes of files: `watchfiles._rust_notify.RustNotify`."""

    def watch(self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: None) -> set[tuple[int, str]] | str:
        """Wait for changes and return them, or a word why there are none."""


class Mode(msgspec.Struct, frozen=True):
    """How changes are noticed."""

    name: str
    """`watching` or `polling`."""
    words: str


WATCHING = Mode("watching", "watching")


class Watch:
    """A board and what keeps it up to date."""

    def __init__(
        self,
        board: Board,
        *,
        notifier: Callable[[list[str]], Notifier] | None = None,
        mounts: Path = Path("/proc/mounts"),
    ) -> None:
        self.board, self.mode = board, WATCHING
        self._make, self._mounts = notifier or _notifier, mounts
        self._told: Mode | None = None
        self._notifier: Notifier | None = None
        self._paths: list[str] = []
        self._tried = self._walked = self._changed = float("-inf")
        self._walk_every = WALK
        self._begun = False

    def step(self) -> list[Event]:
        """Wait a moment at most, look, and return what has happened; the first time, where everything stands."""
        hints: set[str] | None = None
        modes = self._watch_what_is_there()
        if self._begun:
            hints = self._wait()
            if hints:
                self._changed = time.monotonic()
        self._begun = True
        is_due = time.monotonic() - self._walked >= self._walk_every
        if hints is None or is_due:
            return [*modes, *self._walk()]
        return [*modes, *self.board.refresh(map(Path, hints))]

    def events(self, stop: Callable[[], bool]) -> Iterator[list[Event]]:
        """Yield what happens, until told to stop; an empty list when nothing has, for those who show a clock."""
        while not stop():
            yield self.step()

    def _walk(self) -> list[Event]:
        begun = time.monotonic()
        events = self.board.refresh(None)
        self._walked = time.monotonic()
        took = self._walked - begun
        is_polling = self._notifier is None
        self._walk_every = max(POLL, took * _POLL_SHARE) if is_polling else max(WALK, took * _SHARE)
        return events

    def _wait(self) -> set[str]:
        """Return the paths that something happened to within a moment."""
        if self._notifier is None:
            time.sleep(TICK)
            return set()
        is_lively = time.monotonic() - self._changed < LIVELY
        step, tick = 1 if is_lively else 10, TICK if is_lively or self.board.is_awake else 2 * TICK
        try:
            found = self._notifier.watch(step, step, round(tick * 1000), None)
        except (OSError, RuntimeError) as error:  # RuntimeError: what watchfiles calls an internal error
            self._notifier, self._tried = None, time.monotonic()
            self.mode = _polling(_why(error))
            return set()
        if found == "signal":
            raise KeyboardInterrupt
        return {path for _, path in found} if isinstance(found, set) else set()

    def _watch_what_is_there(self) -> list[Event]:
        """Watch the folders that exist; return what there is to say if that has become another way of noticing."""
        folders = [self.board.projects, self.board.registry, self.board.signals]
        paths = [str(path) for path in folders if path.exists()]
        is_due = self._notifier is None and time.monotonic() - self._tried >= _RETRY
        if (self._notifier is not None and paths != self._paths) or is_due:
            self._tried = time.monotonic()
            self._paths = paths
            self._notifier, self.mode = self._made(paths)
            self._walked = float("-inf")  # what happened before it was watched
        if self._told == self.mode:
            return []
        self._told = self.mode
        return [Event("mode", "", self.board.now(), text=self.mode.words, facts={"mode": self.mode.name})]

    def _made(self, paths: list[str]) -> tuple[Notifier | None, Mode]:
        kind = network_of(self.board.root, self._mounts)
        if kind is not None:
            return None, _polling(f"{kind} is a network file system, which does not tell of changes")
        if not paths:
            return None, _polling(f"{self.board.root} is not there yet")
        try:
            return self._make(paths), WATCHING
        except ImportError:
            return None, _polling("watchfiles is not installed (`pip install 'unspool[web]'`)")
        except (OSError, RuntimeError) as error:
            return None, _polling(_why(error))


def _polling(reason: str) -> Mode:
    return Mode("polling", f"polling every {POLL:.0f} s: {reason}")


def _why(error: Exception) -> str:
    import errno

    words = str(error)
    if (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EMFILE)) or "limit" in words.lower():
        return "the system's limit of watches is reached"
    return f"files cannot be watched: {words[:200]}"


def _notifier(paths: list[str]) -> Notifier:
    from watchfiles._rust_notify import RustNotify

    try:
        return RustNotify(paths, False, False, 300, True, False)
    except PermissionError:  # told to leave out what may not be read, it would not tell of the limit either
        return RustNotify(paths, False, False, 300, True, True)


def network_of(path: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the kind of a network file system that a path lies on; nothing if it is none, or nobody can tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    found = ("", "")
    place = str(path.resolve())
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(found[0]):
            found = (point, fields[2])
    is_network = found[1].startswith(_NETWORKS) and found[1] not in _LOCAL
    return found[1] if is_network else None


async def follow(board: Board, *, stop: anyio.Event) -> AsyncIterator[list[Event]]:
    """Yield what happens, until `stop` is set: first where everything stands, then each time that there is news."""
    from anyio import to_thread

    watch = Watch(board)
    while not stop.is_set():
        events = await to_thread.run_sync(watch.step, abandon_on_cancel=True)
        if events:
            yield events
