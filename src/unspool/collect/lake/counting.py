"""What was billed on a device, each response once: what its files say in, rows of `answers` and `responses` out.

Rules
  1. A response counts once per device, as `unspool usage` on that machine counts it once (`prices/responses.py`).
  2. Costs are by the price list. A person's own prices are that person's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from unspool.collect.lake.derive import Derived
from unspool.collect.lake.rows import day_of
from unspool.collect.lake.tables import bucket, tables
from unspool.prices.answers import Response
from unspool.prices.responses import Counting
from unspool.store.pricing import Pricing
from unspool.store.recount import cells
from unspool.store.rows import response_from


class Candidate(NamedTuple):
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
        """What decides between lines that are equal in all else: as `store/rows.py` has it, the path first."""
        return f"{self.source}\0{self.generation:09}\0{self.stream}"


def candidates(derived: Derived) -> Iterator[Candidate]:
    """Yield what a stream says of responses."""
    org, user, device, stream = derived.whose
    for generation, response in derived.answers:
        yield Candidate(org, user, device, stream, derived.source, generation, derived.project, response)


def answer_row(one: Candidate) -> tuple[object, ...]:
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
        said.retold,
        said.at_home,
        bucket(one.org, one.device),
    )


def candidate(row: tuple[Any, ...]) -> Candidate:
    """Return what a row of `answers` was made from."""
    cell = dict(zip(tables()["answers"].names, row, strict=True))
    response = response_from(
        cell,
        id=cell["response_id"],
        counted_at=cell["counted_at"],
        sidechain=cell["is_sidechain"],
        retold=cell["retold"],
        at_home=cell["at_home"],
    )
    place = (cell["source_id"], cell["source"], cell["generation"], cell["project_key"])
    return Candidate(cell["org"], cell["user"], cell["device"], *place, response)


def counted(found: Iterable[Candidate], pricing: Pricing) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return the rows of `responses` for what the files of devices say, by device and response."""
    countings: dict[str, Counting[str]] = {}
    said: dict[tuple[str, str], dict[str, Candidate]] = {}
    for one in found:
        countings.setdefault(one.home, Counting()).add(one.place, one.response)
        said.setdefault((one.home, one.response.id), {})[one.place] = one
    rows = {}
    for home, counting in countings.items():
        for counts in counting.counted():
            files = said[home, counts.response.id]
            rows[home, counts.response.id] = _row(files[counts.source], counts.response, len(files), pricing)
    return rows


def _row(place: Candidate, one: Response, copies: int, pricing: Pricing) -> tuple[object, ...]:
    told = cells(one, place.project, copies, pricing)
    micros = told[1]
    assert micros is None or isinstance(micros, int)
    day = day_of(micros) or 0
    return place.org, place.user, place.device, place.stream, one.id, place.generation, *told, day
