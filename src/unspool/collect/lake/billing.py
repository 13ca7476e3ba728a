"""Updates the billing tables of a lake: `answers` and `responses` of the devices in a batch.

Rules
  1. A device has a lock in both tables. Who finds it raised reads and counts again.
  2. `answers` comes first. Where its lock is ahead of that of `responses`, whoever was at it was killed, or is at work:
     then everything of the device is counted anew, in the place of what is there.
  3. A response counts once per device, as `unspool usage` on that machine counts it once (`prices/responses.py`).
  4. Costs are by the price list. A person's own prices are that person's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unspool.collect.lake.derive import DerivedStream, day_of
from unspool.collect.lake.lake import (
    CommitConflict,
    CommitOvertaken,
    Lake,
    any_of_predicate,
    devices_predicate,
    sql_day,
    sql_text,
    streams_predicate,
)
from unspool.collect.lake.tables import device_bucket, lake_tables
from unspool.prices import Response, ResponseCounter
from unspool.store import PriceLookup, response_from_columns
from unspool.store.columns import LINE_KINDS, response_values, to_record_batch


class BilledCandidate(NamedTuple):
    """What one file says of a response."""

    org: str
    user: str
    device: str
    stream: str
    source: str
    generation: int
    project: str | None
    response: Response

    @property
    def home(self) -> str:
        """The device, in its organisation."""
        return f"{self.org}/{self.device}"

    @property
    def place(self) -> str:
        """The order of lines that are equal in all else: the path first, as in `store/sync/write_rows.py`."""
        return f"{self.source}\0{self.generation:09}\0{self.stream}"


def read_candidates(derived: DerivedStream) -> Iterator[BilledCandidate]:
    """Yield what a stream says of responses."""
    org, user, device, stream = derived.whose
    for generation, response in derived.answers:
        yield BilledCandidate(org, user, device, stream, derived.source, generation, derived.project, response)


def answer_row(one: BilledCandidate) -> tuple[object, ...]:
    """Return a row of `answers`."""
    said = one.response
    return (
        one.org,
        one.user,
        one.device,
        one.stream,
        one.source,
        said.id,
        one.generation,
        said.offset,
        said.timestamp,
        said.counted_at,
        said.model,
        said.session_id,
        said.agent_id,
        one.project,
        said.cwd,
        said.branch,
        said.version,
        said.input,
        said.output,
        said.cache_read,
        said.cache_write_5m,
        said.cache_write_1h,
        said.web_searches,
        said.final,
        said.size,
        said.speed,
        said.service_tier,
        said.inference_geo,
        said.sidechain,
        said.from_progress,
        said.in_own_file,
        device_bucket(one.org, one.device),
    )


def candidate_from_row(row: tuple[Any, ...]) -> BilledCandidate:
    """Return what a row of `answers` was made from."""
    cell = dict(zip(lake_tables()["answers"].names, row, strict=True))
    response = response_from_columns(
        cell,
        id=cell["response_id"],
        counted_at=cell["counted_at"],
        sidechain=cell["is_sidechain"],
        from_progress=cell["retold"],
        in_own_file=cell["at_home"],
    )
    place = (cell["source_id"], cell["source"], cell["generation"], cell["project_key"])
    return BilledCandidate(cell["org"], cell["user"], cell["device"], *place, response)


def count_candidates(
    found: Iterable[BilledCandidate], pricing: PriceLookup
) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return the rows of `responses` for what the files of devices say, by device and response."""
    countings: dict[str, ResponseCounter[str]] = {}
    said: dict[tuple[str, str], dict[str, BilledCandidate]] = {}
    for one in found:
        countings.setdefault(one.home, ResponseCounter()).add(one.place, one.response)
        said.setdefault((one.home, one.response.id), {})[one.place] = one
    rows = {}
    for home, counting in countings.items():
        for counts in counting.counted():
            files = said[home, counts.response.id]
            rows[home, counts.response.id] = _row(files[counts.source], counts.response, len(files), pricing)
    return rows


def _row(place: BilledCandidate, one: Response, copies: int, pricing: PriceLookup) -> tuple[object, ...]:
    told = response_values(one, place.project, copies, pricing)
    micros = told[1]
    assert micros is None or isinstance(micros, int)
    day = day_of(micros) or 0
    return place.org, place.user, place.device, place.stream, one.id, place.generation, *told, day


_ATTEMPTS = 40
_AT_ONCE = 5000
"""Ids that are looked up at once."""

Counted = dict[tuple[str, str], tuple[object, ...]]


class _Locks(NamedTuple):
    """The numbers of devices in both tables."""

    answers: dict[str, int]
    responses: dict[str, int]

    @property
    def next(self) -> dict[str, int]:
        """The numbers that the commits give them."""
        return {home: max(number, self.responses[home]) + 1 for home, number in self.answers.items()}

    @property
    def doubtful(self) -> set[str]:
        """Devices of which all is to be counted."""
        return {home for home, number in self.answers.items() if number != self.responses[home]}


class DeviceLock(NamedTuple):
    """What the one who derives these streams holds."""

    marks: dict[str, int]
    """Its locks, and the numbers it gives them."""
    before: dict[str, int]
    """The numbers they had in `answers` when it began."""
    is_doubtful: bool
    """Whether all is to be counted anew."""


def update_billing(
    lake: Lake, made: Sequence[DerivedStream], known: Collection[str], guard: DeviceLock, at: Callable[[str], None]
) -> None:
    """Bring both tables up to date. Of streams that are known there may be rows."""
    lined = [one for one in made if one.kind in LINE_KINDS]
    fresh = [found for one in lined for found in read_candidates(one)]
    streams = {one.whose.stream for one in lined}
    if not fresh and not streams & set(known):
        return
    for attempt in range(_ATTEMPTS):
        try:
            billing = _Billing(lake, lined, fresh, guard)
            billing.add(is_known=bool(attempt) or bool(streams & set(known)))
            at("answered")
            billing.count()
            at("counted")
        except CommitOvertaken:
            raise
        except CommitConflict:
            continue
        return
    raise CommitConflict("responses")


class _Billing:
    """One attempt."""

    def __init__(
        self, lake: Lake, lined: Sequence[DerivedStream], fresh: list[BilledCandidate], guard: DeviceLock
    ) -> None:
        self._lake, self._lined, self._fresh, self._guard = lake, lined, fresh, guard
        self._streams = {one.whose.stream for one in lined}
        homes = sorted({f"{one.whose.org}/{one.whose.device}" for one in lined})
        for name in ("responses", "answers"):
            lake.table(name, fresh=True)
        answers, responses = lake.versions("answers"), lake.versions("responses")
        if not any(_has(answers, marks) for marks in (guard.before, guard.marks)):
            raise CommitOvertaken("answers")
        self._locks = _Locks(
            {home: answers.get(home, 0) for home in homes}, {home: responses.get(home, 0) for home in homes}
        )
        self._doubtful = set(homes) if guard.is_doubtful else self._locks.doubtful
        self._there: list[BilledCandidate] = []

    def add(self, *, is_known: bool) -> None:
        """Write what the streams say, to the snapshot that the locks were read from: nothing is refreshed before."""
        self._there = list(self._looked_up())
        rows = [answer_row(one) for one in self._fresh]
        where = streams_predicate("answers", self._lined) if is_known else None
        marks = self._guard.marks | self._locks.next
        self._lake.write("answers", [to_record_batch(lake_tables()["answers"], rows)], marks, where)

    def count(self) -> None:
        """Write what counts now."""
        pricing = PriceLookup()
        others = [one for one in self._there if one.stream not in self._streams]
        before = {
            key: row for key, row in count_candidates(self._there, pricing).items() if key[0] not in self._doubtful
        }
        after = count_candidates([*others, *self._fresh], pricing)
        changed = {key: row for key, row in after.items() if before.get(key) != row}
        gone = {key: row for key, row in before.items() if key not in after}
        where = self._replaced(before, changed, gone)
        rows = [to_record_batch(lake_tables()["responses"], list(changed.values()))]
        for _ in range(_ATTEMPTS):
            try:
                self._lake.write("responses", rows, self._locks.next, where)
            except CommitConflict:
                self._lake.table("responses", fresh=True)
                now = self._lake.versions("responses")
                if any(now.get(home, 0) != number for home, number in self._locks.responses.items()):
                    raise
                continue
            return
        raise CommitConflict("responses")

    def _looked_up(self) -> Iterable[BilledCandidate]:
        """Yield what is there of the responses that the streams have; of doubtful devices everything."""
        columns = ", ".join(f'"{name}"' for name in lake_tables()["answers"].names)
        ids: dict[str, set[str]] = {}
        for one in self._fresh:
            ids.setdefault(one.home, set()).add(one.response.id)
        for home, number in self._locks.answers.items():
            if not number:
                continue
            org, _, device = home.partition("/")
            query = f"SELECT {columns} FROM t WHERE {devices_predicate([(org, device)])}"
            if home in self._doubtful:
                yield from map(candidate_from_row, self._lake.rows("answers", query))
                continue
            wanted = sorted(ids.get(home, ()))
            for start in range(0, len(wanted), _AT_ONCE):
                some = any_of_predicate("response_id", wanted[start : start + _AT_ONCE])
                yield from map(candidate_from_row, self._lake.rows("answers", f"{query} AND {some}"))

    def _replaced(self, before: Counted, changed: Counted, gone: Counted) -> str | None:
        """Return what names the rows that make way; nothing if none does."""
        if not self._doubtful and not gone and not any(key in before for key in changed):
            return None
        wheres, days = [], set[str]()
        for home in self._locks.answers:
            org, _, device = home.partition("/")
            whose = f"org = {sql_text(org)} AND device = {sql_text(device)}"
            if home in self._doubtful:
                wheres.append(f"({whose})")
                continue
            ids = {id for place, id in (*changed, *gone) if place == home}
            if ids:
                wheres.append(f"({whose} AND {any_of_predicate('response_id', ids)})")
                for rows in (before, changed):
                    days |= {sql_day(_number(rows[home, id][-1])) for id in ids if (home, id) in rows}
        where = " OR ".join(wheres)
        return where if self._doubtful or not where else f"({where}) AND {any_of_predicate('day', days)}"


def _has(versions: Mapping[str, int], marks: Mapping[str, int]) -> bool:
    return all(versions.get(app, 0) == version for app, version in marks.items())


def _number(cell: object) -> int:
    assert isinstance(cell, int)
    return cell
