"""Reads files in several processes: tasks in, batches out, in whatever order they are ready.

Rules
  1. Worker processes only read; the process that started them writes the rows.
  2. What a worker process holds and what waits in its pipe is bounded, whatever the files hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec

from unspool.errors import Unreadable
from unspool.store.sync.read_file import Batch, FailedRead, ReadTask, read_or_fail
from unspool.store.worker_processes import answer_messages, bundle_tasks

_BUNDLE_BYTES = 2 * 1024 * 1024
"""Bytes of files in one message: a task a message would cost more than the reading does."""
_BUNDLE_TASKS = 64
"""Tasks in one message at most: empty files have no bytes."""
_REPLY_BYTES = 1024 * 1024
"""Bytes of frames after which a worker replies before the end of a bundle: what it holds, it holds twice."""


_encode = msgspec.msgpack.Encoder().encode
_decode_results = msgspec.msgpack.Decoder(list[Batch | FailedRead]).decode
_decode_tasks = msgspec.msgpack.Decoder(list[ReadTask]).decode


def read_in_processes(tasks: Sequence[tuple[int, ReadTask]], workers: int) -> Iterator[Batch | FailedRead]:
    """Yield the batches of files, read by so many processes; a task comes with how many bytes there are to read."""
    # What a line may need that cannot be glanced at: loaded once here instead of once in each fork.
    import unspool.read.tail  # noqa: F401

    bundles = bundle_tasks(tasks, itemgetter(0), _BUNDLE_BYTES, _BUNDLE_TASKS)
    message = "a worker process that read files was killed"
    lost = Unreadable(message, hint="finished work is complete; the next sync continues from there")
    messages = [_encode([task for _, task in bundle]) for bundle in bundles]
    # One ahead: a process has the next bundle at hand while this one writes.
    for data in answer_messages(messages, min(workers, len(bundles)), _answer, lost, ahead=1):
        yield from _decode_results(data)


def _answer(message: bytes) -> Iterator[tuple[bytes, bool]]:
    """Read the files of a bundle, in a worker process."""
    results: list[Batch | FailedRead] = []
    weight = 0
    for task in _decode_tasks(message):
        for result in read_or_fail(task):
            results.append(result)
            if isinstance(result, Batch):
                weight += sum(len(frame.data) for frame in result.frames)
                if weight > _REPLY_BYTES or not result.is_last:
                    yield _encode(results), False
                    results, weight = [], 0
    yield _encode(results), True
