"""Starts worker processes that send messages over pipes, and ends them.

Rules
  1. A worker process answers one message after another. It waits while nobody takes an answer: memory stays bounded.
  2. Worker processes end when the process that started them ends, however that ends.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from unspool.errors import Unreadable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LOST = (EOFError, BrokenPipeError, ConnectionResetError)
"""What the end of the process at the other end of a pipe raises."""

_PIPE_BYTES = 32 * 1024
"""Bytes of a message that a pipe surely takes while nobody reads from it."""

_PARALLEL_BYTES = 8 * 1024 * 1024
"""Bytes to read and decode that are worth a second process."""
_MAX_WORKERS = 8

T = TypeVar("T")

Answer: TypeAlias = Callable[[bytes], Iterable[tuple[bytes, bool]]]
"""Returns the replies to a message, each with whether it is the last one."""


def choose_workers(size: int, wanted: int | None, least: int = _PARALLEL_BYTES) -> int:
    """Return how many processes read so many bytes; `least` are worth a second one. `wanted`, if it is given."""
    if wanted is not None:
        return wanted
    return min(os.cpu_count() or 1, _MAX_WORKERS) if size > least else 1


def bundle_tasks(tasks: Iterable[T], size_of: Callable[[T], int], max_bytes: int, max_tasks: int) -> list[list[T]]:
    """Return tasks in bundles, the largest first, so that no process starts a large one at the very end."""
    bundles: list[list[T]] = []
    free = 0
    for task in sorted(tasks, key=lambda task: -size_of(task)):
        if free < size_of(task) or not bundles or len(bundles[-1]) == max_tasks:
            bundles.append([])
            free = max_bytes
        bundles[-1].append(task)
        free -= size_of(task)
    return bundles


@contextmanager
def start_workers(
    count: int, run: Callable[[Connection, int], None], lost: Unreadable, *, forks: bool
) -> Iterator[list[Connection]]:
    """Start processes that run a function with a connection and their number, and yield the connections to them.

    They are to end when their connection is closed. `lost` is raised if one is killed from outside.
    """
    import multiprocessing

    context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    processes = []
    try:
        gc.freeze()  # else each fork would look through all that was loaded here, and end up with a copy of it
        for number in range(count):
            ours, theirs = context.Pipe()
            inherited = [ours, *connections] if forks else []
            process = context.Process(target=_run_worker, args=(theirs, inherited, run, number), daemon=True)
            process.start()
            theirs.close()
            connections.append(ours)
            processes.append(process)
        gc.unfreeze()  # only the forks are to be spared: this process may be somebody's notebook
        yield connections
    except LOST:
        raise lost from None
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise lost


def answer_messages(
    messages: Sequence[bytes], workers: int, answer: Answer, lost: Unreadable, *, ahead: int
) -> Iterator[bytes]:
    """Yield the replies to messages, in the order they are ready.

    A process is sent so many messages ahead of the one that it works on, if they are short.
    """
    waiting = list(reversed(messages))
    # A fork has everything loaded already; elsewhere than on Linux it is not safe.
    with start_workers(workers, partial(_serve, answer), lost, forks=sys.platform == "linux") as connections:
        busy = dict.fromkeys(connections, 0)
        for _ in range(ahead + 1):
            for connection in busy:
                busy[connection] += _send(connection, waiting, busy[connection], ahead)
        while any(busy.values()):
            for connection in wait_for([connection for connection, count in busy.items() if count]):
                reply = connection.recv_bytes()
                if reply[:1] == b"\1":  # it gets the next message first, so that it works while the reply is used
                    busy[connection] -= 1
                    while _send(connection, waiting, busy[connection], ahead):
                        busy[connection] += 1
                yield reply[1:]


def answer_in_order(
    messages: Sequence[bytes], workers: int, answer: Answer, lost: Unreadable, *, window: int
) -> Iterator[tuple[bytes, bool]]:
    """Yield the replies to messages in the order of the messages, each with whether it is the last one to its message.

    Replies that come too early are held: of the `window` messages, at most, that follow the one whose turn it is.
    Messages must be short enough for a pipe to take two.
    """
    assert all(2 * len(message) <= _PIPE_BYTES for message in messages)
    held: list[deque[tuple[bytes, bool]]] = [deque() for _ in messages]
    sent = 0
    with start_workers(workers, partial(_serve, answer), lost, forks=sys.platform == "linux") as connections:
        given: dict[Connection, deque[int]] = {connection: deque() for connection in connections}
        for number in range(len(messages)):
            is_answered = False
            while not is_answered:
                # Two for each: a process has the next message at hand while this one is used.
                while sent < min(len(messages), number + window):
                    connection = min(given, key=lambda connection: len(given[connection]))
                    if len(given[connection]) > 1:
                        break
                    connection.send_bytes(messages[sent])
                    given[connection].append(sent)
                    sent += 1
                if not held[number]:
                    for connection in wait_for([connection for connection, numbers in given.items() if numbers]):
                        reply = connection.recv_bytes()
                        is_last = reply[:1] == b"\1"
                        held[given[connection][0]].append((reply[1:], is_last))
                        if is_last:
                            given[connection].popleft()
                while held[number]:
                    reply, is_answered = held[number].popleft()
                    yield reply, is_answered


def wait_for(connections: Iterable[Connection]) -> list[Connection]:
    """Wait until a connection has something to read, or was closed at its other end; return those."""
    from multiprocessing.connection import wait

    return cast("list[Connection]", wait(list(connections)))


def _send(connection: Connection, waiting: list[bytes], busy: int, ahead: int) -> int:
    """Send the next message, if there is one and the pipe surely takes it; return how many were sent.

    A busy worker may be waiting until we read its reply. To wait then until it reads our message would be a deadlock,
    so no large one is sent ahead.
    """
    if not waiting or busy > ahead or (busy and len(waiting[-1]) > _PIPE_BYTES):
        return 0
    connection.send_bytes(waiting.pop())
    return 1


def _run_worker(
    connection: Connection, inherited: list[Connection], run: Callable[[Connection, int], None], number: int
) -> None:
    # A fork inherits the parent's ends of all pipes: kept open here, they would hide that the parent has died.
    for other in inherited:
        other.close()
    with suppress(*LOST, KeyboardInterrupt):
        run(connection, number)
    if inherited:
        os._exit(0)  # what the fork inherited (open databases) is the parent's to close


def _serve(answer: Answer, connection: Connection, _: int) -> None:
    """Answer messages until the parent process closes the connection."""
    while True:
        for reply, is_last in answer(connection.recv_bytes()):
            connection.send_bytes((b"\1" if is_last else b"\0") + reply)
