"""Keeps the board up to date: file system events are hints, checks of the files are the truth.

Rules
  1. The system reports which files change (watchfiles). That wakes the board at once but is never relied upon: it
     misses files in folders that were just created. Hot files are checked several times a second, all files every few
     seconds, seldom enough to use very little of a processor.
  2. Where files cannot be watched (the system's limit, a network file system, watchfiles not installed) everything is
     checked every second or so, and `mode` and an event of that kind say so.
  3. While something happens, watchfiles looks for events every millisecond; when nothing has happened for a while,
     every ten: at one, waiting alone would use three percent of a processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unspool.live.board import Board
from unspool.live.state.events import LiveEvent

if TYPE_CHECKING:
    import anyio

CHECK_SECONDS = 0.25
"""Between checks of hot files while something happens; otherwise twice that."""
LIVELY_SECONDS = 10.0
"""After a change, how long the next one is expected at any moment."""
POLL_SECONDS = 1.0
WALK_SECONDS = 5.0
"""Between checks of all files, at least."""
_WALK_SHARE = 1000
"""A check of all files may take one part in so many of the time."""
_POLL_SHARE = 50
_RETRY_SECONDS = 60.0
_WATCHING = "watching"
_NETWORK_TYPES = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "davfs", "ncpfs", "fuse.")
_LOCAL_TYPES = frozenset({"fuse.overlayfs", "fuse.fuse-overlayfs", "fuse.ext4", "fuse.bindfs"})


class FileNotifier(Protocol):
    """Waits for changes of files: `watchfiles._rust_notify.RustNotify`."""

    def watch(self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: None) -> set[tuple[int, str]] | str:
        """Wait for changes and return them, or a word that says why there are none."""


class Watcher:
    """Keeps a board up to date, in the thread that calls `step`."""

    def __init__(
        self,
        board: Board,
        *,
        notifier: Callable[[list[str]], FileNotifier] | None = None,
        mounts: Path = Path("/proc/mounts"),
    ) -> None:
        self.board = board
        self.mode = _WATCHING
        """How changes are noticed: `watching`, or `polling` and why."""
        self._make_notifier, self._mounts = notifier or _make_notifier, mounts
        self._reported_mode = ""
        self._notifier: FileNotifier | None = None
        self._paths: list[str] = []
        self._tried_at = self._walked_at = self._changed_at = float("-inf")
        self._walk_every = WALK_SECONDS
        self._has_begun = False

    def step(self) -> list[LiveEvent]:
        """Wait a moment at most and return what has happened; the first time, the status of every session."""
        hints: set[str] | None = None
        modes = self._watch_existing_folders()
        if self._has_begun:
            hints = self._wait()
            if hints:
                self._changed_at = time.monotonic()
        self._has_begun = True
        is_due = time.monotonic() - self._walked_at >= self._walk_every
        if hints is None or is_due:
            return [*modes, *self._walk()]
        return [*modes, *self.board.refresh(map(Path, hints))]

    def events(self, stop: Callable[[], bool]) -> Iterator[list[LiveEvent]]:
        """Yield what happens until `stop` is true; an empty list when nothing has, for callers that show a clock."""
        while not stop():
            yield self.step()

    def _walk(self) -> list[LiveEvent]:
        begun = time.monotonic()
        events = self.board.refresh(None)
        self._walked_at = time.monotonic()
        took = self._walked_at - begun
        is_polling = self._notifier is None
        self._walk_every = (
            max(POLL_SECONDS, took * _POLL_SHARE) if is_polling else max(WALK_SECONDS, took * _WALK_SHARE)
        )
        return events

    def _wait(self) -> set[str]:
        """Return the paths that changed within a moment."""
        if self._notifier is None:
            time.sleep(CHECK_SECONDS)
            return set()
        is_lively = time.monotonic() - self._changed_at < LIVELY_SECONDS
        step, tick = 1 if is_lively else 10, CHECK_SECONDS if is_lively or self.board.is_active else 2 * CHECK_SECONDS
        try:
            found = self._notifier.watch(step, step, round(tick * 1000), None)
        except (OSError, RuntimeError) as error:  # watchfiles raises RuntimeError for an internal error
            self._notifier, self._tried_at = None, time.monotonic()
            self.mode = _polling_mode(_failure_reason(error))
            return set()
        if found == "signal":
            raise KeyboardInterrupt
        return {path for _, path in found} if isinstance(found, set) else set()

    def _watch_existing_folders(self) -> list[LiveEvent]:
        """Watch the folders that exist; return a `mode` event if changes are noticed in another way now."""
        paths = [str(path) for path in self.board.watched_folders if os.path.lexists(path)]
        is_due = self._notifier is None and time.monotonic() - self._tried_at >= _RETRY_SECONDS
        if (self._notifier is not None and paths != self._paths) or is_due:
            self._tried_at = time.monotonic()
            self._paths = paths
            self._notifier, self.mode = self._choose_mode(paths)
            self._walked_at = float("-inf")  # to find what changed before it was watched
        if self._reported_mode == self.mode:
            return []
        self._reported_mode = self.mode
        return [LiveEvent("mode", "", self.board.now(), text=self.mode, facts={"mode": self.mode.partition(" ")[0]})]

    def _choose_mode(self, paths: list[str]) -> tuple[FileNotifier | None, str]:
        systems = [network_file_system(folder.root, self._mounts) for folder in self.board.folders]
        network = next((system for system in systems if system is not None), None)
        if network is not None:
            return None, _polling_mode(f"{network} is a network file system, which does not report changes")
        if not paths:
            return None, _polling_mode(f"{self.board.folders[0].root} does not exist yet")
        try:
            return self._make_notifier(paths), _WATCHING
        except ImportError:
            return None, _polling_mode("the `web` extra is not installed")
        except (OSError, RuntimeError) as error:
            return None, _polling_mode(_failure_reason(error))


def _polling_mode(reason: str) -> str:
    return f"polling every {POLL_SECONDS:.0f} s: {reason}"


def _failure_reason(error: Exception) -> str:
    import errno

    message = str(error)
    if (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EMFILE)) or "limit" in message.lower():
        return "the system's limit on file watches is reached"
    return f"cannot watch files: {message[:200]}"


def _make_notifier(paths: list[str]) -> FileNotifier:
    from watchfiles._rust_notify import RustNotify

    try:
        return RustNotify(paths, False, False, 300, True, False)
    except PermissionError:  # its option to ignore them would hide that the limit is reached, too
        return RustNotify(paths, False, False, 300, True, True)


def network_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the network file system that holds a path; None if it is local or unknown."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    longest, kind = "", ""
    resolved = str(path.resolve())
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        # The kernel escapes spaces, tabs and backslashes in mount points.
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if (resolved == point or resolved.startswith(point.rstrip("/") + "/")) and len(point) >= len(longest):
            longest, kind = point, fields[2]
    return kind if kind.startswith(_NETWORK_TYPES) and kind not in _LOCAL_TYPES else None


async def follow(board: Board, *, stop: anyio.Event) -> AsyncIterator[list[LiveEvent]]:
    """Yield what happens until `stop` is set: first the status of every session, then whatever is new."""
    from anyio import to_thread

    watch = Watcher(board)
    while not stop.is_set():
        events = await to_thread.run_sync(watch.step, abandon_on_cancel=True)
        if events:
            yield events
