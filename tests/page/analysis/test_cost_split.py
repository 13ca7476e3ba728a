"""The parts of a cost add up to what `unspool usage` says, to the micro-dollar, on every tree the tests have."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.faults.world import synced
from tests.money_trees import TREES
from unspool.page.analysis import KINDS, CostSplit, split_request
from unspool.prices import Response, cost_micros, find_price
from unspool.read.source_tree import Kind, scan
from unspool.store import PriceLookup
from unspool.store.archive.archive import Archive
from unspool.store.database import open_archive, open_store
from unspool.store.usage.ledger import Ledger, StoreLedger, UsageQuery
from unspool.store.usage.ledger_files import FileLedger, read_lines, read_stored_lines

READABLE = [name for name in TREES if not name.startswith("unreadable")]
COUNTS = st.integers(0, 400_000)


def split_of(ledger: Ledger, session: str | None = None) -> CostSplit:
    split, prices = CostSplit(5), PriceLookup()
    for counted in ledger.requests(UsageQuery(), session):
        price = prices.price(counted.response)
        split.add(split_request(*counted, price), price)
    return split


def check(ledger: Ledger) -> None:
    """The split of everything and of each session is what the sums of `usage` say."""
    by_session = Counter[str | None]()
    unpriced = Counter[str | None]()
    for one in ledger.sums(UsageQuery(frozenset({"session"}))):
        by_session[one.session] += one.bill.cost_micros
        unpriced[one.session] += one.bill.unpriced_tokens
    whole = split_of(ledger)
    assert whole.total.cost_micros == by_session.total()
    assert whole.total.unpriced_tokens == unpriced.total()
    for groups in (whole.kinds, whole.threads, whole.models, whole.tiers, whole.sessions):
        assert sum(group.cost_micros for group in groups.values()) == whole.total.cost_micros
        assert sum(group.unpriced_tokens for group in groups.values()) == whole.total.unpriced_tokens
    for session in by_session:
        own = split_of(ledger, session=session)
        assert (own.total.cost_micros, own.total.unpriced_tokens) == (by_session[session], unpriced[session]), session


@pytest.mark.parametrize("name", READABLE)
def test_parts_add_up_to_usage_from_the_store_and_from_the_files(name: str, tmp_path: Path) -> None:
    root, own = (tmp_path / "config").resolve(), tmp_path / "own"
    root.mkdir()
    TREES[name](root)
    check(open_files(root))
    synced(own, root)
    with closing(open_store(own)) as database, closing(open_archive(own)) as archive:
        lines = FileLedger(read_stored_lines(database, root, lambda: Archive(archive)))
        check(StoreLedger(database, root, lambda: lines))


def open_files(root: Path) -> FileLedger:
    sources = scan(root).of(Kind.SESSION, Kind.AGENT)
    return FileLedger(read_lines(one.place, one.project, one.session_id) for one in sources)


@given(
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 3)),
    model=st.sampled_from(["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5", "glm-4.7", None]),
    speed=st.sampled_from([None, "fast"]),
    geo=st.sampled_from([None, "us"]),
)
def test_the_parts_of_any_request_add_up_to_its_cost(
    counts: tuple[int, ...], model: str | None, speed: str | None, geo: str | None
) -> None:
    names = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_searches")
    response = replace(
        Response("m", model=model, speed=speed, inference_geo=geo), **dict(zip(names, counts, strict=True))
    )
    price = find_price(model)
    request = split_request("/p/s.jsonl", "s", None, response, price)
    assert sum(request.parts.values()) == request.cost == cost_micros(response, price)
    assert min(request.parts.values(), default=0) >= 0
    assert set(request.parts) <= set(KINDS)
    assert request.priced == (price is not None)


def test_the_most_expensive_requests_are_kept_and_no_more() -> None:
    price = find_price("claude-opus-4-5")
    split = CostSplit(3)
    for number in (5, 1, 9, 7, 3):
        response = Response(str(number), model="claude-opus-4-5", output=number * 1000)
        split.add(split_request("/p/s.jsonl", "s", None, response, price), price)
    assert [one.response.id for one in split.expensive] == ["9", "7", "5"]
    assert split.total.requests == 5
