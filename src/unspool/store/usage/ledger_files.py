"""Adds up billed responses that are counted anew: those in the lines of files, or in the rows of several homes.

In: the lines of files, on disk or in the archive, or rows of the store. Out: a `Ledger`. Lines are read when there is
no store yet, with `--no-store`, and for what the store does not keep; rows where several homes have the same responses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.errors import NotFound, UnspoolError
from unspool.format import milliseconds, parse_timestamp
from unspool.paths import project_name
from unspool.prices import (
    LineCounter,
    Price,
    ReportTaker,
    Response,
    ResponseCounter,
    UnbilledLine,
    count_text,
    explain_cost,
    find_paying_session,
    known_cost,
)
from unspool.read import Kind, LineChunk, ReadLimits, Skipped, read_line_chunks
from unspool.store.answer_rows import ANSWER_SELECT, PriceLookup, response_from_row
from unspool.store.database import IN_FOLDER, Roots, folder_parameters
from unspool.store.usage.ledger import (
    FILE,
    FILE_COSTS,
    KEY_COLUMNS,
    CountedRequest,
    FileCost,
    LimitNotice,
    UsageExplanation,
    UsageQuery,
    UsageSum,
    costs_of_sums,
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
    session: str | None = None
    """The session that it belongs to by its place."""


def read_lines(path: str, project: str | None, session: str | None = None) -> FileLines:
    """Return the lines of a file on disk."""
    return FileLines(path, project, read_line_chunks(path, _LIMITS), session)


def read_stored_lines(
    database: sqlite3.Connection, roots: Roots, open_archive: Callable[[], Archive]
) -> Iterator[FileLines]:
    """Yield the lines of sessions and agents: of the files that are there, and of all that the archive has besides."""
    query = f"""SELECT path, project, session_id, generation, gone FROM sources
        WHERE {IN_FOLDER} AND kind IN ('{Kind.SESSION.value}', '{Kind.AGENT.value}') ORDER BY path"""
    for path, project, session, generation, gone in database.execute(query, folder_parameters(roots)).fetchall():
        if not gone:
            yield read_lines(path, project, session)
        for number in range(1, generation + bool(gone)):
            try:
                file = open_archive().find(path, number)
            except NotFound:  # the archive was off
                continue
            frames = open_archive().read(file)
            yield FileLines(path, project, (LineChunk(start, data, 0, len(data)) for start, data in frames), session)


def count_file(taker: ReportTaker[str], file: FileLines) -> tuple[list[UnbilledLine], str | None]:
    """Count the responses of a file; return the lines that billed nothing, and why it could not be read to its end."""
    tally = LineCounter(taker, file.file, file.file)
    failed = None
    try:
        for lines in file.lines:
            count_text(tally, *lines)
            del lines  # it may be one of many megabytes: it is not held while the next one is read
    except UnspoolError as error:  # costs no other file
        failed = error.reason
    tally.finish()
    return tally.unbilled, failed


class FileLedger:
    """What was billed in some files."""

    def __init__(
        self,
        files: Iterable[FileLines],
        overrides: Sequence[Price] = (),
        on_failed: Callable[[Skipped], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._prices = PriceLookup(overrides)
        self._on_failed = on_failed
        """Called with each file that cannot be read, or not to its end."""

    def sums(self, query: UsageQuery) -> list[UsageSum]:
        """Return the responses of a query, those of a quarter of an hour as one where that is allowed."""
        chosen = self._read.counting.responses()
        if (query.project, query.since, query.until) != (None, None, None):
            chosen = (pair for pair in chosen if self._matches(*pair, query))
        if query.exact:
            return self._sums([(source, [response]) for source, response in chosen], query)
        told_apart = [key for key in (*KEY_COLUMNS, FILE) if key in query.keys]
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
                key += tuple(self._value(name, source, response) for name in told_apart)
            if (group := groups.get(key)) is None:
                groups[key] = (source, [response])
            else:
                group[1].append(response)
        return self._sums(groups.values(), query)

    def requests(self, query: UsageQuery, session: str | None = None) -> Iterator[CountedRequest]:
        """Yield the responses of a query one by one, or only those that a session pays for."""
        for source, response in self._read.counting.responses():
            payer = self._session(source, response)
            if session in (None, payer) and self._matches(source, response, query):
                yield CountedRequest(source, payer, self._project(source, response), response)

    def file_costs(self) -> list[FileCost]:
        """Return what each file cost, by the session that pays."""
        return costs_of_sums(self.sums(FILE_COSTS))

    def _sums(self, groups: Iterable[tuple[str, Sequence[Response]]], query: UsageQuery) -> list[UsageSum]:
        sums = [self._sum(source, group) for source, group in groups]
        return sums if FILE in query.keys else [usage._replace(file=None) for usage in sums]

    def _value(self, key: str, source: str, response: Response) -> str | None:
        """Return what a response is grouped by."""
        match key:
            case "session":
                return self._session(source, response)
            case "agent":
                return response.agent_id
            case "project":
                return self._project(source, response)
            case "branch":
                return response.branch
            case _:
                return source

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
            bill = self._prices.bill([best])
            cost = known_cost(bill.cost_micros, bill.unpriced_tokens)
            why = "; ".join(explain_cost(best, self._prices.price(best)).reasons)
            paying = {"session": self._session(once.source, best)}
            counted.append({**place, "id": best.id, **_numbers(best), **paying, "cost_micros": cost, "why": why})
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
            self._session(source, first),
            first.agent_id,
            self._project(source, first),
            first.branch,
            first.model,
            source,
            self._prices.bill(responses),
        )

    def _session(self, source: str, response: Response) -> str:
        return find_paying_session(response, source, self._read.sessions[source])

    def _project(self, source: str, response: Response) -> str | None:
        return project_name(response.cwd, self._read.projects[source])

    def _matches(self, source: str, response: Response, query: UsageQuery) -> bool:
        if query.project is not None:
            key = self._read.projects[source]
            if not matches_project(query.project, self._project(source, response), response.cwd, key):
                return False
        return _is_in_time(milliseconds(response.timestamp), query)

    @cached_property
    def _read(self) -> ReadResponses:
        counting = ResponseCounter[str]()
        projects, sessions = dict[str, str | None](), dict[str, str | None]()
        dropped: list[tuple[str, UnbilledLine]] = []
        for file in self._files:
            projects[file.file], sessions[file.file] = file.project, file.session
            unbilled, failed = count_file(counting, file)
            if failed is not None:
                self._on_failed(Skipped(Path(file.file), failed))
            if unbilled:
                dropped += [(file.file, line) for line in unbilled]
        return ReadResponses(counting, dropped, projects, sessions)


class RowLedger(FileLedger):
    """What was billed in several homes that have responses in common: each counts once among all their rows."""

    def __init__(self, database: sqlite3.Connection, homes: Sequence[int], overrides: Sequence[Price] = ()) -> None:
        super().__init__((), overrides)
        self._database, self._homes = database, homes

    @cached_property
    def _read(self) -> ReadResponses:
        query = f"""SELECT {ANSWER_SELECT}, s.session_id, s.project, s.path FROM answers a
            JOIN sources s ON s.id = a.source_id
            WHERE a.home_id IN ({", ".join(map(str, self._homes))}) ORDER BY s.path, a.generation"""
        counting = ResponseCounter[str]()
        projects, sessions = dict[str, str | None](), dict[str, str | None]()
        for row in self._database.execute(query):
            session, project, path = row[-3:]
            projects[path], sessions[path] = project, session
            counting.add(path, response_from_row(row))
        return ReadResponses(counting, [], projects, sessions)


class ReadResponses(NamedTuple):
    """The responses of some files, the lines that billed nothing, and what is known of the files."""

    counting: ResponseCounter[str]
    dropped: list[tuple[str, UnbilledLine]]
    projects: dict[str, str | None]
    """The key of the project of each source."""
    sessions: dict[str, str | None]
    """The session that each source belongs to by its place."""


def _is_in_time(time: int | None, query: UsageQuery) -> bool:
    if query.since is None and query.until is None:
        return True
    return time is not None and (query.since or time) <= time and (query.until is None or time < query.until)


def _why_merged(source: str, counted: str) -> str:
    if source == counted:
        return "another line of the same response; the line with the most output counts"
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
