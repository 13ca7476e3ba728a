"""Adds up billed responses straight from the lines of files, without a store.

In: the lines of files, on disk or in the archive. Out: a `Ledger`. It is used when there is no store yet, with
`--no-store`, and for what the store does not keep.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.errors import NotFound, UnspoolError
from unspool.format import parse_timestamp
from unspool.paths import project_name
from unspool.prices import LineCounter, Price, Response, ResponseCounter, UnbilledLine, count_text, explain_cost
from unspool.read import Kind, LineChunk, ReadLimits, read_line_chunks
from unspool.store.answer_rows import PriceLookup
from unspool.store.database import IN_FOLDER, folder_parameters
from unspool.store.times import milliseconds
from unspool.store.usage.ledger import (
    KEY_COLUMNS,
    LimitNotice,
    UsageExplanation,
    UsageQuery,
    UsageSum,
    matches_project,
)

if TYPE_CHECKING:
    from unspool.store.archive.archive import Archive

_LIMITS = ReadLimits(piece=4 * 1024 * 1024)
"""Most files are read at once."""

_HOUR = len("2026-01-05T09:")


class FileLines(NamedTuple):
    """The lines of a file, wherever they come from."""

    file: str
    project: str | None
    """The key of its project."""
    lines: Iterable[LineChunk]


def read_lines(path: str, project: str | None) -> FileLines:
    """Return the lines of a file on disk."""
    return FileLines(path, project, read_line_chunks(path, _LIMITS))


def read_stored_lines(
    database: sqlite3.Connection, root: Path, open_archive: Callable[[], Archive]
) -> Iterator[FileLines]:
    """Yield the lines of sessions and agents: of the files that are there, and of all that the archive has besides."""
    query = f"""SELECT path, project, generation, gone FROM sources
        WHERE {IN_FOLDER} AND kind IN ('{Kind.SESSION.value}', '{Kind.AGENT.value}') ORDER BY path"""
    for path, project, generation, gone in database.execute(query, folder_parameters(root)).fetchall():
        if not gone:
            yield read_lines(path, project)
        for number in range(1, generation + bool(gone)):
            try:
                file = open_archive().find(path, number)
            except NotFound:  # the archive was off
                continue
            frames = open_archive().read(file)
            yield FileLines(path, project, (LineChunk(start, data, 0, len(data)) for start, data in frames))


class FileLedger:
    """What was billed in some files."""

    def __init__(self, files: Iterable[FileLines], overrides: Sequence[Price] = ()) -> None:
        self._files = files
        self._prices = PriceLookup(overrides)

    def sums(self, query: UsageQuery) -> list[UsageSum]:
        """Return the responses of a query, those of a quarter of an hour as one where that is allowed."""
        chosen = self._read.counting.responses()
        if (query.project, query.since, query.until) != (None, None, None):
            chosen = (pair for pair in chosen if self._matches(*pair, query))
        if query.exact:
            return [self._sum(source, [response]) for source, response in chosen]
        told_apart = [key for key in KEY_COLUMNS if key in query.keys]
        groups: dict[tuple[object, ...], tuple[str, list[Response]]] = {}
        for source, response in chosen:
            written = response.timestamp or ""
            time = parse_timestamp(written)
            key: tuple[object, ...]
            if time is not None and time.tzinfo is UTC:
                # The day as it is written, because that decides on the price.
                key = (written[:_HOUR], time.minute // 15, response.model)
            else:  # stands alone
                key = (written, response.model)
            if told_apart:
                project = self._project(source, response) if "project" in told_apart else None
                key += tuple(
                    project if name == "project" else getattr(response, KEY_COLUMNS[name]) for name in told_apart
                )
            if (group := groups.get(key)) is None:
                groups[key] = (source, [response])
            else:
                group[1].append(response)
        return [self._sum(source, group) for source, group in groups.values()]

    def limits(self) -> list[LimitNotice]:
        """Return when limits were reached."""
        notices = (line for _, line in self._read.dropped if line.notice)
        return [LimitNotice(milliseconds(line.timestamp), line.notice) for line in notices]

    def explain(self, query: UsageQuery) -> UsageExplanation:
        """Return which lines were counted, merged and dropped, and why."""
        counted, merged = [], []
        for once in self._read.counting.counted():
            best = once.response
            if not self._matches(once.source, best, query):
                continue
            place = {"file": once.source, "offset": best.offset}
            cost = self._prices.bill([best]).cost_micros
            why = "; ".join(explain_cost(best, self._prices.price(best)).reasons)
            counted.append({**place, "id": best.id, **_numbers(best), "cost_micros": cost, "why": why})
            for source, offset in once.merged:
                why = _why_merged(source, once.source)
                merged.append({"file": source, "offset": offset, "id": best.id, "counted": place, "why": why})
        dropped = [
            {"file": file, "offset": line.offset, "why": line.reason}
            for file, line in self._read.dropped
            if matches_project(query.project, self._read.projects.get(file))
            and _is_in_time(milliseconds(line.timestamp), query)
        ]
        return {"counted": counted, "merged": merged, "dropped": dropped}

    def _sum(self, source: str, responses: Sequence[Response]) -> UsageSum:
        """Return responses of one quarter of an hour, project, model and so on as one sum."""
        first = responses[0]
        return UsageSum(
            milliseconds(first.timestamp),
            first.session_id,
            first.agent_id,
            self._project(source, first),
            first.branch,
            first.model,
            self._prices.bill(responses),
        )

    def _project(self, source: str, response: Response) -> str | None:
        return project_name(response.cwd, self._read.projects[source])

    def _matches(self, source: str, response: Response, query: UsageQuery) -> bool:
        if query.project is not None:
            key = self._read.projects[source]
            if not matches_project(query.project, self._project(source, response), response.cwd, key):
                return False
        return _is_in_time(milliseconds(response.timestamp), query)

    @cached_property
    def _read(self) -> _ReadFiles:
        counting, projects = ResponseCounter[str](), dict[str, str | None]()
        dropped: list[tuple[str, UnbilledLine]] = []
        for file in self._files:
            projects[file.file] = file.project
            tally = LineCounter(counting, file.file, file.file)
            try:
                for lines in file.lines:
                    count_text(tally, *lines)
                    del lines  # it may be one of many megabytes: it is not held while the next one is read
            except UnspoolError:
                pass  # a file that cannot be read costs no other; `unspool doctor` names it
            tally.finish()
            if tally.unbilled:
                dropped += [(file.file, line) for line in tally.unbilled]
        return _ReadFiles(counting, dropped, projects)


class _ReadFiles(NamedTuple):
    counting: ResponseCounter[str]
    dropped: list[tuple[str, UnbilledLine]]
    projects: dict[str, str | None]


def _is_in_time(time: int | None, query: UsageQuery) -> bool:
    if query.since is None and query.until is None:
        return True
    return time is not None and (query.since or time) <= time and (query.until is None or time < query.until)


def _why_merged(source: str, counted: str) -> str:
    if source == counted:
        return "another line of the same response; the one with the most output counts"
    return "a copy of the response in another file"


def _numbers(response: Response) -> dict[str, Any]:
    return {
        "model": response.model,
        "session": response.session_id,
        "agent": response.agent_id,
        "timestamp": response.timestamp,
        "input_tokens": response.input,
        "output_tokens": response.output,
        "cache_write_tokens": response.cache_write_5m + response.cache_write_1h,
        "cache_write_5m_tokens": response.cache_write_5m,
        "cache_write_1h_tokens": response.cache_write_1h,
        "cache_read_tokens": response.cache_read,
        "web_searches": response.web_searches,
        "estimated": not response.final,
    }
