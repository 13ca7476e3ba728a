"""Starts worker processes that answer messages over pipes, and ends them.

Rules
  1. A worker process answers one message after another. It waits while nobody takes an answer: memory stays bounded.
  2. Worker processes end when the process that started them ends, however that ends.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from unspool.errors import Unreadable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LOST = (EOFError, BrokenPipeError, ConnectionResetError)


@contextmanager
def start_workers(
    count: int, answer: Callable[[bytes], Iterable[bytes]], lost: Unreadable
) -> Iterator[list[Connection]]:
    """Start worker processes and yield the connections to them; `lost` is raised if one is killed from outside."""
    import multiprocessing

    # A fork has everything loaded already; elsewhere than on Linux it is not safe.
    forks = sys.platform == "linux"
    context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    processes = []
    try:
        gc.freeze()  # else each fork would look through all that was loaded here, and end up with a copy of it
        for _ in range(count):
            ours, theirs = context.Pipe()
            inherited = [ours, *connections] if forks else []
            process = context.Process(target=_serve, args=(theirs, inherited, answer), daemon=True)
            process.start()
            theirs.close()
            connections.append(ours)
            processes.append(process)
        gc.unfreeze()  # only the forks are to be spared: this process may be somebody's notebook
        yield connections
    except _LOST:
        raise lost from None
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.join()


def _serve(connection: Connection, inherited: list[Connection], answer: Callable[[bytes], Iterable[bytes]]) -> None:
    """Answer messages until the parent process closes the connection."""
    # A fork inherits the parent's ends of all pipes: kept open here, they would hide that the parent has died.
    for other in inherited:
        other.close()
    with suppress(*_LOST, KeyboardInterrupt):
        while True:
            for reply in answer(connection.recv_bytes()):
                connection.send_bytes(reply)
    if sys.platform == "linux":
        os._exit(0)  # what the fork inherited (open databases) is the parent's to close
