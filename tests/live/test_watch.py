"""The board kept up to date while real processes write: by events, by looks, by both, and by looks alone."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles

import anyio
import pytest

from tests.live.world import ID, World
from unspool.live.state.events import LiveEvent
from unspool.live.state.model import ActivityKind
from unspool.live.watch import FileNotifier, Watcher, follow, network_file_system
from unspool.testing.build import assistant, user

PATIENCE = 20.0
WRITER = """
import os, sys, time
path = sys.argv[1]
os.makedirs(os.path.dirname(path), exist_ok=True)
for line in sys.stdin.buffer:
    with open(path, "ab", 0) as file:
        file.write(line)
    print(time.monotonic(), flush=True)
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Writer:
    """Another process that appends to a file when told to."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", WRITER, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write(self, data: bytes) -> float:
        """Append lines and return when that was done."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(data)
        self._process.stdin.flush()
        return float([self._process.stdout.readline() for _ in data.splitlines()][-1])

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def step_until(watch: Watcher, holds: Callable[[list[LiveEvent]], bool]) -> list[LiveEvent]:
    deadline, seen = time.monotonic() + PATIENCE, list[LiveEvent]()
    while not holds(seen):
        assert time.monotonic() < deadline, seen
        seen += watch.step()
    return seen


def has(kind: str) -> Callable[[list[LiveEvent]], bool]:
    return lambda events: any(event.event == kind for event in events)


def test_what_another_process_appends_is_told(world: World) -> None:
    path = world.save(user("a"))
    watch = Watcher(world.board)
    assert [event.event for event in watch.step()] == ["mode", "status"]
    assert watch.mode == "watching"
    with Writer(path) as writer:
        writer.write(world.build(assistant("Done.")).data)
        seen = step_until(watch, has("message"))
    assert [event.text for event in seen if event.event == "message"] == ["Done."]
    assert world.row().verdict.activity.kind is ActivityKind.WAITING


def test_a_session_in_folders_that_are_made_meanwhile_is_found(world: World) -> None:
    watch = Watcher(world.board)
    watch.step()
    built = world.build(user("a"))
    with Writer(world.root / "projects" / "-new" / f"{ID}.jsonl") as writer:
        writer.write(built.data)
        step_until(watch, has("prompt"))
    agent = world.root / "projects" / "-new" / ID / "subagents" / "deep" / "agent-a1b2c3d.jsonl"
    with Writer(agent) as writer:
        writer.write(world.build(user("b"), agent="a1b2c3d").data)
        seen = step_until(watch, has("prompt"))
    assert {event.agent for event in seen if event.event == "prompt"} == {"a1b2c3d"}


def test_half_a_line_waits_for_the_other_half(world: World) -> None:
    path = world.save(user("a"))
    watch = Watcher(world.board)
    watch.step()
    data = world.build(assistant("Done.")).data
    with path.open("ab", 0) as file:
        file.write(data[:50])
        assert watch.step() == []
        file.write(data[50:])
    step_until(watch, has("message"))


def test_a_line_is_told_within_a_tenth_of_a_second(world: World) -> None:
    path = world.save(user("a"))
    watch = Watcher(world.board)
    watch.step()
    took = []
    with Writer(path) as writer:
        for number in range(20):
            written = writer.write(world.build(user(f"prompt {number}")).data)
            step_until(watch, has("prompt"))
            took.append(time.monotonic() - written)
    assert quantiles(took, n=20)[-1] < 0.1


class Broken:
    """A watcher of files that cannot be made, or breaks."""

    def __init__(self, error: Exception, breaks: bool = False) -> None:
        self.error, self.breaks = error, breaks

    def __call__(self, paths: list[str]) -> FileNotifier:
        if self.breaks:
            return self
        raise self.error

    def watch(self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: None) -> set[tuple[int, str]] | str:
        raise self.error


LIMIT = OSError(errno.ENOSPC, "No space left on device")
TOLD = OSError("OS file watch limit reached. (Error { kind: MaxFilesWatch, paths: [] })")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LIMIT, "the system's limit on file watches is reached"),
        (TOLD, "the system's limit on file watches is reached"),
        (ImportError("watchfiles"), "the `web` extra is not installed"),
        (RuntimeError("odd"), "cannot watch files: odd"),
    ],
)
def test_where_files_cannot_be_watched_they_are_looked_at_and_that_is_said(
    world: World, error: Exception, words: str
) -> None:
    path = world.save(user("a"))
    watch = Watcher(world.board, notifier=Broken(error))
    mode, *_ = watch.step()
    assert (mode.event, mode.text, mode.facts) == ("mode", f"polling every 1 s: {words}", {"mode": "polling"})
    with Writer(path) as writer, Writer(path.parent.parent / "-new" / "x.jsonl") as other:
        writer.write(world.build(user("seen")).data)
        other.write(world.build(user("seen too")).data)
        seen = step_until(watch, lambda events: sum(event.event == "prompt" for event in events) == 2)
    assert {event.text for event in seen if event.event == "prompt"} == {"seen", "seen too"}


def test_a_watcher_that_breaks_is_replaced_by_looks_and_that_is_said(world: World) -> None:
    path = world.save(user("a"))
    watch = Watcher(world.board, notifier=Broken(LIMIT, breaks=True))
    assert watch.step()[0].text == "watching"
    with Writer(path) as writer:
        writer.write(world.build(user("seen")).data)
        seen = step_until(watch, lambda events: has("mode")(events) and has("prompt")(events))
    assert [event.text for event in seen if event.event == "mode"] == [
        "polling every 1 s: the system's limit on file watches is reached"
    ]


def test_a_network_file_system_is_known_by_the_longest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    place = str(tmp_path.resolve()).replace(" ", "\\040")
    for kind, found in (("nfs4", "nfs4"), ("fuse.sshfs", "fuse.sshfs"), ("9p", "9p"), ("ext4", None), ("cifs", "cifs")):
        mounts.write_text(f"/dev/a / ext4 rw 0 0\nfar {place} {kind} rw 0 0\nfar {place}x nfs rw 0 0\nshort\n")
        assert network_file_system(tmp_path / "claude", mounts) == found
    assert network_file_system(tmp_path, tmp_path / "nowhere") is None


def test_on_a_network_file_system_files_are_looked_at(world: World, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"far {tmp_path.resolve()} nfs4 rw 0 0\n")
    (mode, *_) = Watcher(world.board, mounts=mounts).step()
    assert "nfs4 is a network file system" in mode.text


def test_a_folder_that_comes_to_be_is_watched_then(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.root / "projects").rmdir()
    watch = Watcher(world.board)
    watch.step()
    path = world.save(user("a"))
    step_until(watch, has("prompt"))
    world.append(path, user("b"))
    step_until(watch, has("prompt"))


def test_it_can_be_followed_from_a_loop(world: World) -> None:
    path = world.save(user("a"))

    async def run() -> list[LiveEvent]:
        stop, seen = anyio.Event(), list[LiveEvent]()
        with anyio.fail_after(PATIENCE):
            async for events in follow(world.board, stop=stop):
                seen += events
                if has("status")(seen) and not has("prompt")(seen):
                    await anyio.to_thread.run_sync(world.append, path, user("b"))
                if has("prompt")(seen):
                    stop.set()
        return seen

    assert [event.text for event in anyio.run(run) if event.event == "prompt"][:1] == ["b"]


def test_rows_may_be_asked_for_while_the_board_is_refreshed(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    over = threading.Event()
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            while not over.is_set():
                assert len(world.rows()) == 1
        except AssertionError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    for number in range(50):
        world.append(path, user(f"b {number}"))
        world.board.refresh([path] if number % 2 else None)
    over.set()
    thread.join()
    assert failures == []
