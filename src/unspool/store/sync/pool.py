"""Files read by several processes at once: tasks in, batches out, in whatever order they are ready.

Rules
  1. Workers only read; whoever asked writes what they found.
  2. A worker waits while nobody takes what it has: memory stays bounded.
  3. Workers end when the process that asked ends, however that ends.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.store.sync.read_file import Batch, Task, batches

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

WORTH_IT = 8 * 1024 * 1024
"""Bytes to read that are worth a second process."""

_BUNDLE = 2 * 1024 * 1024
"""Bytes of files that a worker is given at once: a task a message would cost more than it does."""
_TASKS = 64
"""Tasks that it is given at once at most: empty files have no bytes."""
_MUCH = 1024 * 1024
"""Bytes of frames after which a worker does not wait for the end of a bundle: what it holds, it holds twice."""
_AHEAD = 32 * 1024
"""Bytes of a message that a pipe surely takes while nobody reads from it."""


class Failed(msgspec.Struct, frozen=True):
    """A file that could not be read."""

    path: str
    reason: str


class Got(msgspec.Struct, frozen=True):
    """What a worker says: all of a bundle, or a part of it that is much already."""

    batches: list[Batch]
    failed: list[Failed]
    is_last: bool


Found: TypeAlias = Batch | Failed
_encode = msgspec.msgpack.Encoder().encode


def gathered(tasks: Sequence[tuple[int, Task]], workers: int | None = None) -> Iterator[Found]:
    """Yield what files say; a task comes with how many bytes there are to read."""
    if workers is None:
        workers = min(os.cpu_count() or 1, 8) if sum(size for size, _ in tasks) > WORTH_IT else 1
    if workers < 2 or len(tasks) < 2:
        for _, task in tasks:
            yield from _found(task)
        return
    yield from _by_workers(_bundles(tasks), workers)


def _found(task: Task) -> Iterator[Found]:
    try:
        yield from batches(task)
    except UnspoolError as error:  # a file that cannot be read costs no other
        yield Failed(task.path, error.message)


def _bundles(tasks: Sequence[tuple[int, Task]]) -> list[list[Task]]:
    """Return the tasks in bundles, the largest first, so that no worker is left with a large one at the end."""
    bundles: list[list[Task]] = []
    room = 0
    for size, task in sorted(tasks, key=lambda pair: -pair[0]):
        if room < size or not bundles or len(bundles[-1]) == _TASKS:
            bundles.append([])
            room = _BUNDLE
        bundles[-1].append(task)
        room -= size
    return bundles


def _by_workers(bundles: list[list[Task]], workers: int) -> Iterator[Found]:
    from multiprocessing.connection import wait

    hands, decode = _hands(min(workers, len(bundles))), msgspec.msgpack.Decoder(Got).decode
    try:
        waiting = [_encode(bundle) for bundle in reversed(bundles)]
        busy = {hand.connection: 0 for hand in hands}
        for connection in [*busy, *busy]:  # one bundle to work on and one to go on with
            busy[connection] += _give(connection, waiting, busy[connection])
        while any(busy.values()):
            for ready in wait([connection for connection, count in busy.items() if count]):
                connection = cast("Connection", ready)
                said = decode(connection.recv_bytes())
                if said.is_last:  # it has more to do before what it found is written
                    busy[connection] -= 1
                    while _give(connection, waiting, busy[connection]):
                        busy[connection] += 1
                yield from said.failed
                yield from said.batches
    except (EOFError, BrokenPipeError, ConnectionResetError):
        message = "a process that was reading files was ended from outside"
        raise Unreadable(message, hint="what was written is whole; the next sync goes on from there") from None
    finally:
        for hand in hands:
            hand.connection.close()
        for hand in hands:
            hand.process.join()


class _Hand(NamedTuple):
    connection: Connection
    process: BaseProcess


def _hands(count: int) -> list[_Hand]:
    """Start processes. A fork has everything loaded already; elsewhere than on Linux it is not safe."""
    import multiprocessing

    import unspool.graph.session_facts_from_entries
    import unspool.prices.from_entries
    import unspool.read.tail  # noqa: F401  # what a line may want that is more than glanced at, once for all of them

    forks = sys.platform == "linux"
    gc.freeze()  # else each would look through all that was loaded here, and have its own copy of it in the end
    context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    hands: list[_Hand] = []
    for _ in range(count):
        ours, theirs = context.Pipe()
        inherited = [ours, *(hand.connection for hand in hands)] if forks else []
        process = context.Process(target=_work, args=(theirs, inherited), daemon=True)
        process.start()
        theirs.close()
        hands.append(_Hand(ours, process))
    gc.unfreeze()  # only the others are to be spared: this process may be somebody's notebook
    return hands


def _give(connection: Connection, waiting: list[bytes], busy: int) -> int:
    """Send the next bundle, if there is one and it is surely taken; return how many were sent.

    A worker that is busy may be waiting for us to take what it found. To wait then for it to take more would be for
    ever, so it is given one bundle ahead at most, and no large one.
    """
    if not waiting or busy > 1 or (busy and len(waiting[-1]) > _AHEAD):
        return 0
    connection.send_bytes(waiting.pop())
    return 1


def _work(connection: Connection, others: list[Connection]) -> None:
    """Read what is asked for until nobody asks any more."""
    for other in others:  # copies of the asker's own ends: held open here, they would hide that it has gone
        other.close()
    decode = msgspec.msgpack.Decoder(list[Task]).decode
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        while True:
            for got in _gathered(decode(connection.recv_bytes())):
                connection.send_bytes(_encode(got))
    if sys.platform == "linux":
        os._exit(0)  # what was inherited with the fork is not ours to close


def _gathered(tasks: Sequence[Task]) -> Iterator[Got]:
    """Yield what the files of a bundle say, as little of it at once as memory wants and as much as it allows."""
    batches: list[Batch] = []
    failed: list[Failed] = []
    weight = 0
    for task in tasks:
        for found in _found(task):
            if isinstance(found, Failed):
                failed.append(found)
                continue
            batches.append(found)
            weight += sum(len(frame.data) for frame in found.frames)
            if weight > _MUCH or not found.is_last:
                yield Got(batches, failed, is_last=False)
                batches, failed, weight = [], [], 0
    yield Got(batches, failed, is_last=True)
