"""Changes that fail half way: a limit on file sizes stands for a full disk, and others append all the time."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from unspool.edit.apply.journal import Journal, lock_edits, read_journals
from unspool.edit.apply.recovery import recover
from unspool.edit.apply.transaction import FileOperation, apply, old_path, temporary_path, undo
from unspool.errors import Refused, UnspoolError

OLD, NEW = b'{"a":1}\n{"a":2}\n', b'{"a":2}\n'
ROUNDS = 4
"""The new content is written three times while lines are appended; those of the fourth time follow the rename."""


def a_line(number: int) -> bytes:
    return b'{"late":%d}\n' % number


LATE = b"".join(map(a_line, range(ROUNDS)))


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Place:
    """A session that another process has open and appends to whenever its lines are taken over."""

    def __init__(self, root: Path) -> None:
        self.own, self.path = root / "own", root / "config" / "s.jsonl"
        self.path.parent.mkdir()
        self.path.write_bytes(OLD)
        self.calls = 0

    def change(self, file: BinaryIO, at_last: Callable[[], None], *, target: Path | None = None) -> FileOperation:
        def adapt_appended(data: bytes) -> bytes:
            self.calls += 1
            if self.calls < ROUNDS:
                file.write(a_line(self.calls))
                file.flush()
            else:
                at_last()
            return data

        kind = "move" if target else "replace"
        return FileOperation(kind, self.path, NEW, base=OLD, target=target, adapt_appended=adapt_appended, decides=True)

    def apply(self, at_last: Callable[[], None], *, target: Path | None = None) -> None:
        journal = Journal("e1", "trim", "s", "s", str(self.path), "", "applying", (), within=str(self.path.parent))
        with lock_edits(self.own), self.path.open("ab") as file:
            file.write(a_line(0))
            file.flush()
            apply(self.own, journal, [self.change(file, at_last, target=target)], lambda _: None)

    def go_on(self) -> None:
        """Append a line to the file that has the name now."""
        with self.path.open("ab") as file:
            file.write(b'{"other":1}\n')

    def states(self) -> list[str]:
        return [journal.state for journal in read_journals(self.own)]

    def leftovers(self) -> list[Path]:
        return [path for path in (temporary_path(self.path), old_path(self.path)) if path.exists()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_lines_that_follow_the_rename_are_taken_over(place: Place) -> None:
    place.apply(lambda: None)
    assert place.calls == ROUNDS
    assert place.path.read_bytes() == NEW + LATE
    assert (place.states(), place.leftovers()) == (["done"], [])


def test_without_room_for_the_last_lines_the_old_file_gets_its_name_back(place: Place) -> None:
    with pytest.raises(OSError, match="File too large"):
        fail_at_the_end(place)
    assert place.path.read_bytes() == OLD + LATE
    assert (place.states(), place.leftovers()) == ([], [])


def test_without_room_and_with_a_new_file_that_was_continued_the_old_one_stays(place: Place) -> None:
    with pytest.raises(OSError, match="File too large"):
        fail_at_the_end(place, place.go_on)
    assert place.leftovers() == [old_path(place.path)]
    assert place.states() == ["applying"]
    with lock_edits(place.own):
        recover(place.own)
    content = place.path.read_bytes()
    assert sorted(content.splitlines()) == sorted((NEW + LATE + b'{"other":1}\n').splitlines())
    assert (place.states(), place.leftovers()) == (["done"], [])


def test_a_recovery_without_room_for_the_journal_is_tried_again(place: Place) -> None:
    with pytest.raises(OSError, match="File too large"):
        fail_at_the_end(place, place.go_on)
    (journal,) = place.own.glob("edits/*/journal.json")
    with lock_edits(place.own):
        with no_file_larger_than(journal.stat().st_size // 2):
            recover(place.own)
        assert place.states() == ["applying"]
        recover(place.own)
    assert sorted(place.path.read_bytes().splitlines()) == sorted((NEW + LATE + b'{"other":1}\n').splitlines())
    assert (place.states(), place.leftovers()) == (["done"], [])


def fail_at_the_end(place: Place, first: Callable[[], None] = lambda: None) -> None:
    """Apply an edit; when the last lines are to be appended, there is room for three bytes of them."""
    with ExitStack() as limits:

        def fill() -> None:
            first()
            limits.enter_context(no_file_larger_than(place.path.stat().st_size + 3))

        place.apply(fill)


def test_a_change_that_failed_after_it_was_recorded_is_taken_back(place: Place) -> None:
    target = place.path.with_name("there.jsonl")

    def stand_in_the_way() -> None:
        target.write_bytes(b"in the way")

    with pytest.raises(Refused, match="already exists"):
        place.apply(stand_in_the_way, target=target)
    assert place.path.read_bytes() == OLD + LATE
    assert target.read_bytes() == b"in the way"
    assert (place.states(), place.leftovers()) == ([], [])


def in_time(*_: object) -> None:
    raise AssertionError("a pipe is waited for")


@pytest.mark.parametrize("step", ["deciding", "decided"])
def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(place: Place, step: str) -> None:
    journal = Journal("e1", "trim", "s", "s", str(place.path), "", "applying", (), within=str(place.path.parent))

    def swap(name: str) -> None:
        if name == step:
            place.path.unlink()
            os.mkfifo(place.path)

    signal.signal(signal.SIGALRM, in_time)
    signal.alarm(20)
    try:
        with lock_edits(place.own):
            change = FileOperation("replace", place.path, NEW, base=OLD, decides=True)
            if step == "deciding":
                with pytest.raises(UnspoolError, match="not a regular file"):
                    apply(place.own, journal, [change], swap)
            else:
                done = apply(place.own, journal, [change], swap)
                with pytest.raises(UnspoolError):
                    undo(place.own, done, lambda _: None, merge=True)
    finally:
        signal.alarm(0)
    assert place.path.is_fifo()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_lines_are_not_appended_to_what_stands_in_the_place_of_the_new_file(place: Place, kind: str) -> None:
    outside = place.path.with_name("outside")
    outside.write_bytes(b"outside\n")

    def swap() -> None:
        place.path.unlink()
        place.path.symlink_to(outside) if kind == "link" else os.mkfifo(place.path)

    with pytest.raises((OSError, Refused)):
        place.apply(swap)
    assert outside.read_bytes() == b"outside\n"
    # They are still where they were written.
    assert old_path(place.path).read_bytes() == OLD + LATE


# A writer that is stopped between opening the file and writing its line, as on a busy machine.
SLOW_WRITER = """
import os, sys
path = sys.argv[1]
descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
print("open", flush=True)
while os.stat(path).st_ino == os.fstat(descriptor).st_ino:
    pass
for _ in range(2_000_000):  # the new file has its name now: whoever looks once has looked before this ends
    pass
os.write(descriptor, b'{"slow":1}\\n')
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="only Linux tells whether a file is open for writing")
def test_a_line_of_a_process_that_opened_the_file_before_the_rename_is_kept(place: Place) -> None:
    journal = Journal("e1", "trim", "s", "s", str(place.path), "", "applying", (), within=str(place.path.parent))
    command = [sys.executable, "-S", "-c", SLOW_WRITER, str(place.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with lock_edits(place.own):
            apply(
                place.own, journal, [FileOperation("replace", place.path, NEW, base=OLD, decides=True)], lambda _: None
            )
    assert place.path.read_bytes() == NEW + b'{"slow":1}\n'
    assert (place.states(), place.leftovers()) == (["done"], [])
