"""Counts the billed responses of many files in several processes: files in, a `Ledger` out.

Rules
  1. A worker process reads files and reports what `ResponseCounter.add` was called with; the process that started it
     makes the same calls, in the order of the files. So the outcome is that of `FileLedger`, to the order of the rows.
  2. A file that cannot be read costs no other: its reason is reported, as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import Unreadable
from unspool.prices import Price, Response, ResponseCounter, UnbilledLine
from unspool.read import Skipped
from unspool.store.usage.ledger_files import FileLedger, ReadResponses, count_file, read_lines
from unspool.store.worker_processes import answer_messages, bundle_tasks, choose_workers

_PARALLEL_BYTES = 64 * 1024 * 1024
"""Bytes to read that are worth two more processes: one counts 600 MB in a second, and starting them takes 30 ms."""
_BUNDLE_BYTES = 8 * 1024 * 1024
_BUNDLE_FILES = 256


class BilledFile(NamedTuple):
    """A file of lines on disk."""

    path: str
    project: str | None
    session: str | None
    size: int


class _FileReport(msgspec.Struct, array_like=True, gc=False):
    """What was counted in a file."""

    number: int
    responses: list[tuple[Response, list[int]]]
    """Each response as it was reported, and the offsets of the lines that were merged into it."""
    unbilled: list[UnbilledLine]
    failed: str | None
    """Why it could not be read, or not to its end."""


class _Reports:
    """Takes the place of a `ResponseCounter` in a worker process and keeps what it is told."""

    def __init__(self) -> None:
        self.responses: list[tuple[Response, Sequence[int]]] = []

    def add(self, _: str, response: Response, others: Sequence[int] = ()) -> None:
        """Keep a response."""
        self.responses.append((response, others))


def open_file_ledger(
    files: Sequence[BilledFile],
    overrides: Sequence[Price] = (),
    on_failed: Callable[[Skipped], None] = lambda _: None,
    workers: int | None = None,
) -> FileLedger:
    """Return what was billed in some files, counted in several processes if there is much to read."""
    workers = choose_workers(sum(file.size for file in files), workers, _PARALLEL_BYTES)
    if workers < 2 or len(files) < 2:
        lines = (read_lines(file.path, file.project, file.session) for file in files)
        return FileLedger(lines, overrides, on_failed)
    return _PooledLedger(files, workers, overrides, on_failed)


class _PooledLedger(FileLedger):
    """What was billed in some files, counted in several processes."""

    def __init__(
        self,
        files: Sequence[BilledFile],
        workers: int,
        overrides: Sequence[Price],
        on_failed: Callable[[Skipped], None],
    ) -> None:
        super().__init__((), overrides, on_failed)
        self._billed, self._workers = files, workers

    @cached_property
    def _read(self) -> ReadResponses:
        reports = {report.number: report for report in _count_in_processes(self._billed, self._workers)}
        counting, dropped = ResponseCounter[str](), list[tuple[str, UnbilledLine]]()
        add = counting.add
        for number, file in enumerate(self._billed):
            path, report = file.path, reports.pop(number)
            for response, others in report.responses:
                add(path, response, others)
            dropped += [(path, line) for line in report.unbilled]
            if report.failed is not None:
                self._on_failed(Skipped(Path(path), report.failed))
        projects = {file.path: file.project for file in self._billed}
        return ReadResponses(counting, dropped, projects, {file.path: file.session for file in self._billed})


_encode = msgspec.msgpack.Encoder().encode
_decode_task = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
_decode_reports = msgspec.msgpack.Decoder(list[_FileReport]).decode


def _count_in_processes(files: Sequence[BilledFile], workers: int) -> Iterator[_FileReport]:
    """Yield the reports of files, in the order they are ready."""
    numbers = bundle_tasks(range(len(files)), lambda number: files[number].size, _BUNDLE_BYTES, _BUNDLE_FILES)
    messages = [_encode([(number, files[number].path) for number in bundle]) for bundle in numbers]
    message = "a worker process that counted responses was killed"
    lost = Unreadable(message, hint="nothing was written; run the command again")
    for data in answer_messages(messages, min(workers, len(messages)), _answer, lost, ahead=1):
        yield from _decode_reports(data)


def _answer(message: bytes) -> Iterator[tuple[bytes, bool]]:
    """Count the files of a bundle, in a worker process."""
    found = []
    for number, path in _decode_task(message):
        reports = _Reports()
        unbilled, failed = count_file(reports, read_lines(path, None))
        found.append((number, reports.responses, unbilled, failed))
    yield _encode(found), True
