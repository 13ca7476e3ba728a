"""One chain for each device: the same rows as with a chain for each stream, and requests for what is new only."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.lake.lakes import PASSING, TestLake, expected
from tests.collect.lake.sending import Device, Made
from tests.collect.lake.test_ingest import SUMS
from tests.faults.world import World
from tests.store.asking import Columns
from unspool.collect.lake.chains import ChainMark, chain_versions, read_mark
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.lake.tables import lake_tables
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import FIRST_DAY, following_day, parse_device_segment_name


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    for count in (6, 9, 4):
        made.append(made.create(), count)
    return made


def change(world: World, chance: random.Random) -> None:
    """Do anything to files."""
    for path in world.paths:
        world.append(path, chance.randint(0, 3))
    path = chance.choice(world.paths)
    match chance.randrange(6):
        case 0:
            world.replace(path)
        case 1:
            world.truncate(path, chance.randrange(3000))
        case 2:
            world.fork(path)
        case 3 if len(world.paths) > 2:
            world.delete(path)
        case _:
            world.append(world.create(), 2)


def lines_of(sent: list[Made]) -> Counter[tuple[object, ...]]:
    """Return the lines of sessions that were sent."""
    return Counter(
        (header.device, header.source, header.generation, line.offset, line.raw)
        for made in sent
        for header, lines in made.parts
        if header.kind == "session"
        for line in lines
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_both_layouts_and_one_that_goes_on_in_the_other_give_the_same_rows(
    lake: TestLake, tmp_path: Path, world: World, seed: int
) -> None:
    chance = random.Random(seed)
    lakes = [lake, TestLake(tmp_path / "chained"), TestLake(tmp_path / "changed")]
    devices = [each.device() for each in lakes]
    devices[1].is_chained = True
    sent: list[list[Made]] = [[], [], []]
    for number in range(6):
        size = chance.choice((600, 1 << 20))
        devices[2].is_chained = number >= 3
        for made, device in zip(sent, devices, strict=True):
            made += device.send(world.root, size)
        if number % 2:
            for each in lakes:
                each.ingest()
        change(world, chance)
    for each, made in zip(lakes, sent, strict=True):
        each.ingest()
        assert each.lines() == lines_of(made)
        assert each.verify(is_full=True).problems == ()
    own, *others = (each.everything() for each in lakes)
    # The digest of the last segment or part: a part is not a segment.
    digest = [name for name in lake_tables()["sources"].names if name not in PASSING].index("digest")
    for rows in (own, *others):
        rows["sources"] = Counter(row[:digest] + row[digest + 1 :] for row in rows["sources"])
    for rows in others:
        for name in own:
            assert rows[name] == own[name], name


def test_what_was_billed_is_what_usage_says(lake: TestLake, tmp_path: Path, world: World) -> None:
    device = lake.device(is_chained=True)
    for path in world.paths:
        world.append(path, 3)
        device.send(world.root)
        lake.ingest()
    own = Columns(tmp_path / "own", world.root)
    own.refresh()
    assert lake.rows(SUMS) == own.rows(SUMS)
    assert lake.rows("SELECT count(*) FROM org_responses") == own.rows("SELECT count(*) FROM responses")
    assert lake.lines() == expected(world.root)


def test_all_rows_are_derived_anew_from_chains(lake: TestLake, world: World) -> None:
    device = lake.device()
    for number in range(4):
        device.is_chained = number > 1
        device.send(world.root, 900)
        change(world, random.Random(number))
    lake.ingest()
    before = lake.everything()
    opened = open_lake(str(lake.folder), {})
    for table in ("turns", "messages", "blocks"):
        opened.table(table).delete()
    assert lake.ingest(again=True).lines == 0
    assert lake.everything() == before


class Counting(SegmentStore):
    """Counts requests by kind and first folder."""

    def __init__(self, place: SegmentStore, requests: Counter[str]) -> None:
        super().__init__(place.url, place._store, place._folder)
        self.requests = requests

    def stored(self, name: str):  # type: ignore[no-untyped-def]
        self.requests["get " + name.partition("/")[0]] += 1
        return super().stored(name)

    def overwrite(self, name: str, data: bytes) -> None:
        self.requests["put " + name.partition("/")[0]] += 1
        super().overwrite(name, data)


def grow(world: World, device: Device, count: int) -> None:
    """Send lines one by one: each is a segment."""
    for _ in range(count):
        world.append(world.paths[0], 1)
        device.send(world.root)


@pytest.mark.parametrize("lost", [False, True])
def test_a_new_line_costs_one_segment_and_one_bundle_however_many_there_are(
    lake: TestLake, world: World, lost: bool
) -> None:
    device, costs = lake.device(is_chained=True), list[Counter[str]]()
    for count in (5, 30):
        grow(world, device, count)
        lake.ingest()
        if lost:
            opened = open_lake(str(lake.folder), {}).object_store
            for listed in list(opened.names("parts")):
                opened.delete(listed.name)
        grow(world, device, 1)
        requests: Counter[str] = Counter()
        made = Ingester(IngestJob(lake.url, str(lake.folder)), {})
        made._object_store = Counting(lake.place, requests)
        made._lake.object_store = Counting(made._lake.object_store, requests)
        assert made.round().lines == 1
        costs.append(requests)
    few = {"get segments": 1, "get parts": 1, "put parts": 1}
    if not lost:
        assert [{name: cost[name] for name in few} for cost in costs] == [few, few]
    assert lake.lines() == expected(world.root)
    assert lake.verify().problems == ()


def test_a_device_waits_behind_a_gap_and_others_do_not(lake: TestLake, world: World) -> None:
    device, other = lake.device(is_chained=True), lake.device("other", is_chained=True)
    made = device.make(world.root, 500)
    other.send(world.root)
    for one in made[:2] + made[3:]:
        lake.place.put_new(one.name, one.data)
    assert lake.ingest().waiting == 1
    assert {line: n for line, n in lake.lines().items() if line[0] == "laptop"} == lines_of(made[:2])
    assert {line: n for line, n in lake.lines().items() if line[0] == "other"} == expected(world.root, "other")
    assert "gap" in {one.what for one in lake.verify().problems}
    lake.place.put_new(made[2].name, made[2].data)
    device.publish()
    assert lake.ingest().waiting == 0
    assert lake.lines() == lines_of(made) + expected(world.root, "other")
    assert lake.verify().problems == ()


@pytest.mark.parametrize("spoil", ["cut", "exchanged"])
def test_a_damaged_segment_stops_its_device_until_it_is_repaired(lake: TestLake, world: World, spoil: str) -> None:
    made = lake.device(is_chained=True).send(world.root, 500)
    bad = made[1]
    lake.place.overwrite(bad.name, bad.data[:-9] if spoil == "cut" else made[2].data)
    (found,) = lake.ingest().bad
    assert found.name == bad.name
    assert lake.lines() == lines_of(made[:1])
    assert lake.verify().problems
    lake.place.overwrite(bad.name, bad.data)
    assert lake.ingest().bad == ()
    assert lake.lines() == lines_of(made)
    assert lake.verify().problems == ()


def test_what_is_removed_or_exchanged_after_an_ingest_is_named(lake: TestLake, world: World) -> None:
    device = lake.device(is_chained=True)
    made = device.send(world.root, 500)
    lake.ingest()
    last, middle = made[-1], made[1]
    lake.place.delete(last.name)
    assert {"segments no longer exist", "missing segments"} <= {one.what for one in lake.verify().problems}
    lake.place.put_new(last.name, middle.data)
    assert [one.what for one in lake.verify().problems] == ["exchanged segment"]
    lake.place.overwrite(last.name, last.data)
    assert lake.verify().problems == ()
    lake.place.overwrite(middle.name, last.data)
    assert "bad segment" in {one.what for one in lake.verify(is_full=True).problems}


def test_what_was_sent_and_not_ingested_is_named(lake: TestLake, world: World) -> None:
    lake.device(is_chained=True).send(world.root)
    assert [one.what for one in lake.verify().problems] == ["not in the tables"]


clocks = st.dates().map(str) | st.text("0123456789-", max_size=12) | st.just("9999-99-99")


@given(st.lists(clocks, max_size=30))
def test_a_listing_never_hides_a_segment_whatever_the_clock_says(days: list[str]) -> None:
    device = Device(None, "d")  # type: ignore[arg-type]
    day, names, marks = FIRST_DAY, list[str](), list[ChainMark]()
    for number, clock in enumerate(days, 1):
        name = device._chain._replace(day=day, sequence=number, previous=f"{number * 7919 % 16:x}" * 16)
        names.append(f"segments/acme/d/{name.tail}.jsonl.zst")
        day = following_day(day, clock + "T00:00:00Z")
        marks.append(ChainMark(day, number, number))
    assert names == sorted(names)
    assert all(parse_device_segment_name(name) for name in names)
    for number, mark in enumerate(marks, 1):
        start = mark.start("acme/d")
        assert start is not None
        assert [name for name in names if name > start] == names[number:]
        assert all("segments/acme/d/1" < name < "segments/acme/d/3" for name in names)
        assert read_mark(chain_versions("acme/d", mark), "acme/d") == mark
        assert 0 < chain_versions("acme/d", mark)["chain:acme/d"] < 2**63
