"""Updates the billing tables of a lake: `answers` and `responses` of the devices in a batch.

Rules
  1. A device has a lock in both tables. An ingest that finds it raised reads and counts again.
  2. `answers` is written first. If its lock is ahead of that of `responses`, an ingest was killed in between, or is
     running: then everything of the device is counted anew and replaced.
  3. A response counts once per device, as `unspool usage` on that machine counts it once (`prices/responses.py`).
  4. Costs follow the price list; a user's own prices only apply on that user's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from unspool.collect.lake.derive import DerivedStream, StreamOwner, day_of
from unspool.collect.lake.lake import (
    CommitConflict,
    CommitOvertaken,
    Lake,
    any_of_predicate,
    devices_predicate,
    sql_day,
    streams_predicate,
)
from unspool.collect.lake.tables import WHOSE, lake_tables
from unspool.prices import Response, ResponseCounter
from unspool.store import PriceLookup, response_cells, response_from_cells
from unspool.store.columns import LINE_KINDS, response_column_cells, sql_literal, to_record_batch


class BilledCandidate(NamedTuple):
    """One file's account of a response."""

    owner: StreamOwner
    source: str
    generation: int
    project: str | None
    response: Response

    @property
    def cells(self) -> dict[str, object]:
        """What is known of the file, by column."""
        return {**dict(zip((*WHOSE, "source_id"), self.owner, strict=True)), "generation": self.generation}

    @property
    def sort_key(self) -> str:
        """The key that orders accounts equal in all else: the path first, as in `store/sync/write_rows.py`."""
        return f"{self.source}\0{self.generation:09}\0{self.owner.stream}"


def answer_row(candidate: BilledCandidate) -> tuple[object, ...]:
    """Return a candidate as a row of `answers`."""
    cells = response_cells(candidate.response) | candidate.cells
    cells |= {"source": candidate.source, "project_key": candidate.project}
    cells["bucket"] = candidate.owner.bucket
    return tuple(cells[name] for name in lake_tables()["answers"].names)


def candidate_from_row(row: tuple[Any, ...]) -> BilledCandidate:
    """Return the candidate of a row of `answers`."""
    cells = dict(zip(lake_tables()["answers"].names, row, strict=True))
    owner = StreamOwner(*(cells[name] for name in (*WHOSE, "source_id")))
    response = response_from_cells(cells)
    return BilledCandidate(owner, cells["source"], cells["generation"], cells["project_key"], response)


def count_candidates(
    candidates: Iterable[BilledCandidate], pricing: PriceLookup
) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return the rows of `responses` that candidates give, by device and response."""
    counters: dict[str, ResponseCounter[str]] = {}
    by_response: dict[tuple[str, str], dict[str, BilledCandidate]] = {}
    for candidate in candidates:
        counters.setdefault(candidate.owner.home, ResponseCounter()).add(candidate.sort_key, candidate.response)
        by_response.setdefault((candidate.owner.home, candidate.response.id), {})[candidate.sort_key] = candidate
    rows = {}
    for home, counter in counters.items():
        for counts in counter.counted():
            files = by_response[home, counts.response.id]
            rows[home, counts.response.id] = _row(files[counts.source], counts.response, len(files), pricing)
    return rows


def _row(source: BilledCandidate, response: Response, copies: int, pricing: PriceLookup) -> tuple[object, ...]:
    cells = response_column_cells(response, source.project, copies, pricing) | source.cells
    cells["day"] = day_of(cells["time"]) or 0
    return tuple(cells[name] for name in lake_tables()["responses"].names)


_ATTEMPTS = 40
_IDS_PER_QUERY = 5000
"""Response ids that one query looks up."""

CountedRows = dict[tuple[str, str], tuple[object, ...]]


class _Locks(NamedTuple):
    """The lock numbers of devices in both tables."""

    answers: dict[str, int]
    responses: dict[str, int]

    @property
    def next(self) -> dict[str, int]:
        """The numbers that the next commits give them."""
        return {home: max(number, self.responses[home]) + 1 for home, number in self.answers.items()}

    @property
    def doubtful(self) -> set[str]:
        """Devices of which everything must be counted anew (rule 2)."""
        return {home for home, number in self.answers.items() if number != self.responses[home]}


class DeviceLock(NamedTuple):
    """The locks that the ingest of these streams holds in the derived tables."""

    marks: dict[str, int]
    """By lock: the number that its commits give it."""
    is_doubtful: bool
    """Whether everything must be counted anew."""


def update_billing(
    lake: Lake,
    derived: Sequence[DerivedStream],
    known: Collection[str],
    guard: DeviceLock,
    on_step: Callable[[str], None],
) -> None:
    """Bring both tables up to date with derived streams; those in `known` may have rows already."""
    lined = [stream for stream in derived if stream.kind in LINE_KINDS]
    fresh = [
        BilledCandidate(stream.owner, stream.source, generation, stream.project, response)
        for stream in lined
        for generation, response in stream.answers
    ]
    streams = {stream.owner.stream for stream in lined}
    if not fresh and not streams & set(known):
        return
    for attempt in range(_ATTEMPTS):
        try:
            # An old snapshot is found out when it is written to.
            for name in ("responses", "answers") if lake.is_near or attempt else ():
                lake.table(name, fresh=True)
            billing = _BillingAttempt(lake, lined, fresh, guard)
            # In a second attempt the first may have written `answers`: its rows are replaced, not added to.
            billing.write_answers(is_known=bool(attempt) or bool(streams & set(known)))
            on_step("answered")
            billing.write_responses()
            on_step("counted")
        except CommitOvertaken:
            # Another ingest has newer rows of these streams: the whole batch starts again, not only the billing.
            raise
        except CommitConflict:
            continue
        return
    raise CommitConflict("responses")


class _BillingAttempt:
    """One attempt to update both tables, on one snapshot of each."""

    def __init__(
        self, lake: Lake, lined: Sequence[DerivedStream], fresh: list[BilledCandidate], guard: DeviceLock
    ) -> None:
        self._lake, self._lined, self._fresh, self._guard = lake, lined, fresh, guard
        self._streams = {stream.owner.stream for stream in lined}
        homes = sorted({stream.owner.home for stream in lined})
        answers, responses = lake.versions("answers"), lake.versions("responses")
        # The number of this ingest is its own, of an attempt before.
        if any(answers.get(lock, 0) > number for lock, number in guard.marks.items()):
            raise CommitOvertaken("answers")
        self._locks = _Locks(
            {home: answers.get(home, 0) for home in homes}, {home: responses.get(home, 0) for home in homes}
        )
        self._doubtful = set(homes) if guard.is_doubtful else self._locks.doubtful
        self._existing: list[BilledCandidate] = []

    def write_answers(self, *, is_known: bool) -> None:
        """Write the candidates of the streams to `answers`."""
        # No table is refreshed before the commit: it must be made on the snapshot that the locks were read from.
        self._existing = list(self._read_existing())
        rows = [answer_row(candidate) for candidate in self._fresh]
        where = streams_predicate("answers", self._lined) if is_known else None
        marks = self._guard.marks | self._locks.next
        self._lake.write("answers", [to_record_batch(lake_tables()["answers"], rows)], marks, where)

    def write_responses(self) -> None:
        """Count the responses again and write those that have changed."""
        pricing = PriceLookup()
        others = [candidate for candidate in self._existing if candidate.owner.stream not in self._streams]
        before = {
            key: row for key, row in count_candidates(self._existing, pricing).items() if key[0] not in self._doubtful
        }
        after = count_candidates([*others, *self._fresh], pricing)
        changed = {key: row for key, row in after.items() if before.get(key) != row}
        gone = {key: row for key, row in before.items() if key not in after}
        where = self._replaced_rows(before, changed, gone)
        rows = [to_record_batch(lake_tables()["responses"], list(changed.values()))]
        for _ in range(_ATTEMPTS):
            try:
                self._lake.write("responses", rows, self._locks.next, where)
            except CommitConflict:
                # Another device's commit is no reason to count again: only the locks of these devices matter.
                self._lake.table("responses", fresh=True)
                now = self._lake.versions("responses")
                if any(now.get(home, 0) != number for home, number in self._locks.responses.items()):
                    raise
                continue
            return
        raise CommitConflict("responses")

    def _read_existing(self) -> Iterable[BilledCandidate]:
        """Yield the candidates in the table for the responses of the streams; of doubtful devices all of them."""
        columns = ", ".join(f'"{name}"' for name in lake_tables()["answers"].names)
        ids: dict[str, set[str]] = {}
        for candidate in self._fresh:
            ids.setdefault(candidate.owner.home, set()).add(candidate.response.id)
        for home, number in self._locks.answers.items():
            if not number:
                continue
            org, _, device = home.partition("/")
            where = devices_predicate([(org, device)])
            query = f"SELECT {columns} FROM t WHERE {where}"
            if home in self._doubtful:
                yield from map(candidate_from_row, self._lake.rows("answers", query, where))
                continue
            response_ids = sorted(ids.get(home, ()))
            for start in range(0, len(response_ids), _IDS_PER_QUERY):
                some = any_of_predicate("response_id", response_ids[start : start + _IDS_PER_QUERY])
                rows = self._lake.rows("answers", f"{query} AND {some}", f"{where} AND {some}")
                yield from map(candidate_from_row, rows)

    def _replaced_rows(self, before: CountedRows, changed: CountedRows, gone: CountedRows) -> str | None:
        """Return the SQL condition for the rows of `responses` to replace; None if there are none."""
        if not self._doubtful and not gone and not any(key in before for key in changed):
            return None
        wheres, days = [], set[str]()
        for home in self._locks.answers:
            org, _, device = home.partition("/")
            owner = f"org = {sql_literal(org)} AND device = {sql_literal(device)}"
            if home in self._doubtful:
                wheres.append(f"({owner})")
                continue
            ids = {id for owner_home, id in (*changed, *gone) if owner_home == home}
            if ids:
                wheres.append(f"({owner} AND {any_of_predicate('response_id', ids)})")
                for rows in (before, changed):
                    days |= {sql_day(_as_number(rows[home, id][-1])) for id in ids if (home, id) in rows}
        where = " OR ".join(wheres)
        # The days let the library skip partitions. Of a doubtful device nobody knows on which days its rows are.
        return where if self._doubtful or not where else f"({where}) AND {any_of_predicate('day', days)}"


def _as_number(cell: object) -> int:
    assert isinstance(cell, int)
    return cell
