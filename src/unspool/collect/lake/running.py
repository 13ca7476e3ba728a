"""Ingests that run: once or for good, in one process or several. A job in, reports out.

Rules
  1. Workers share nothing but the tables. They end when the one who started them ends.
  2. Who follows and meets a store that does not answer says so, and tries again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from unspool.collect.lake.rounds import Environment, Ingester, Job, Report
from unspool.errors import PlaceFailed, Unreadable, UnspoolError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

EVERY = 10.0
"""Seconds between rounds."""


def once(job: Job, environment: Environment) -> Report:
    """Ingest what there is."""
    if job.workers == 1:
        return Ingester(job, environment).round()
    report = Report()
    for part in _by_workers(job, follow=None):
        assert isinstance(part, Report)
        report = report.joined(part)
    return report


def follow(job: Job, environment: Environment, every: float = EVERY) -> Iterator[Report | PlaceFailed]:
    """Ingest what there is and what comes, and yield what each round did that did anything, or why it could not."""
    if job.workers > 1:
        yield from _by_workers(job, follow=every)
        return
    ingester = Ingester(job, environment)
    while True:
        began = time.monotonic()
        yield from ingester.news()
        time.sleep(max(every - (time.monotonic() - began), 0.0))


def _by_workers(job: Job, follow: float | None) -> Iterator[Report | PlaceFailed]:
    """Run workers in processes of their own. They start afresh: the libraries' threads do not survive a fork."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    processes, ends = [], list["Connection"]()
    for number in range(job.workers):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, job, number, follow), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        ends.append(ours)
    try:
        for said in _told(ends):
            match said:
                case PlaceFailed(is_final=False) if follow is not None:
                    yield said
                case UnspoolError():
                    raise said
                case _:
                    yield said
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        hint = "what it did is whole; the next ingest goes on from there"
        raise Unreadable("a worker was ended from outside", hint=hint)


def _told(ends: list[Connection]) -> Iterator[Report | UnspoolError]:
    """Yield what workers say until all have ended."""
    from multiprocessing.connection import wait

    while ends:
        for ready in wait(ends):
            end = cast("Connection", ready)
            try:
                yield end.recv()
            except EOFError:
                ends.remove(end)


def _work(end: Connection, job: Job, number: int, follow: float | None) -> None:
    """Do a worker's part; with `follow`, until nobody listens any more."""
    try:
        ingester = Ingester(job, os.environ, number)
        while True:
            began = time.monotonic()
            if follow is None:
                end.send(ingester.round())
                return
            for told in ingester.news():
                end.send(told)
            if end.poll(max(follow - (time.monotonic() - began), 0.0)):
                return  # nothing is ever sent this way: the other end is closed
    except UnspoolError as error:
        end.send(error)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return
