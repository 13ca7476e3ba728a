"""The collector in this process: every line once, whatever happens to files, stores and states."""

from __future__ import annotations

import json
import random
import shutil
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.collect.machine import Machine, Row, expected, folder_place, headers, lines_of, rows
from tests.faults.world import KEY, World, identity, lines
from unspool.collect.collector import collect_sessions, limit_rate, preview_segments
from unspool.collect.heartbeat import read_heartbeats
from unspool.collect.object_store import SegmentStore
from unspool.collect.segment_maker import CollectionReport
from unspool.collect.selection import SelectionRules, is_refused
from unspool.errors import ObjectStoreFailed
from unspool.store.database import open_store


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two sessions."""
    made = World(tmp_path / "config")
    for _ in range(2):
        made.append(made.create(), 10)
    return made


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return folder_place(tmp_path / "lake")


def test_every_line_is_collected_once(tmp_path: Path, world: World, place: SegmentStore) -> None:
    machine = Machine(tmp_path / "own", world.root, place)
    first = machine.collect()
    world.synced()
    assert rows(place) == expected(world)
    assert (first.segments, first.lines) == (1, sum(len(one) for made in expected(world).values() for one in made))
    assert machine.collect().segments == 0
    world.append(world.paths[0], 1)
    assert (again := machine.collect()).lines == 1
    assert again.segments == 1
    world.synced()
    assert rows(place) == expected(world)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_to_files_every_line_of_every_generation_is_collected_once(
    tmp_path: Path, place: SegmentStore, seed: int, archive: bool
) -> None:
    chance, world = random.Random(seed), World(tmp_path / "config")
    machine = Machine(tmp_path / "own", world.root, place, archive=archive, size=3000)
    for _ in range(3):
        world.create()
    for _ in range(25):
        for path in chance.sample(world.paths, k=min(2, len(world.paths))):
            match chance.randrange(8):
                case 0:
                    world.truncate(path, chance.randrange(5000))
                case 1:
                    world.replace(path)
                case 2:
                    world.delete(path)
                case 3:
                    world.break_off(path)
                case 4:
                    world.tear(path, chance.randrange(2000))
                case 5:
                    world.fork(path)
                case _:
                    world.append(path, chance.randint(1, 6))
        if chance.random() < 0.3:
            world.recreate()
        machine.collect()
        world.synced()
    found, wanted = rows(place), expected(world)
    if not archive:  # nobody has the torn line at the end of a file that is gone
        wanted = {source: [_finished(made) for made in generations] for source, generations in wanted.items()}
        found = {source: [_finished(made) for made in generations] for source, generations in found.items()}
    assert found == wanted


def _finished(made: list[Row]) -> list[Row]:
    return [row for row in made if not row.bad]


def test_what_was_never_collected_of_a_file_that_is_gone_comes_from_the_archive(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    machine = Machine(tmp_path / "own", world.root, place)
    with machine.planned() as plan:
        plan.refresh()
    world.synced()
    world.replace(world.paths[0])
    with machine.planned() as plan:
        plan.refresh()
    world.synced()
    shutil.rmtree(world.root / "projects")
    machine.collect()
    assert rows(place) == expected(world)


def test_a_file_that_was_put_in_its_own_place_again_is_not_sent_again(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    machine, path = Machine(tmp_path / "own", world.root, place), world.paths[0]
    machine.collect()
    for _ in range(3):
        copy = path.with_suffix(".copy")
        shutil.copyfile(path, copy)
        copy.replace(path)
        world.append(path, 1)
        assert machine.collect().lines == 1
    (made,) = rows(place)[str(path.relative_to(world.root))]
    assert made == lines_of(path.read_bytes())


@pytest.mark.parametrize("cut", [3, 200])
def test_a_torn_line_that_goes_on_in_a_copy_is_one_line(
    tmp_path: Path, world: World, place: SegmentStore, cut: int
) -> None:
    machine, path = Machine(tmp_path / "own", world.root, place), world.paths[0]
    for _ in range(3):
        world.tear(path, cut)
        machine.collect()
        copy = path.with_suffix(".copy")
        shutil.copyfile(path, copy)
        copy.replace(path)
        world.append(path, 2)
        machine.collect()
    (made,) = rows(place)[str(path.relative_to(world.root))]
    assert made == lines_of(path.read_bytes())


@pytest.mark.parametrize("grows", [False, True])
def test_a_rewrite_of_equal_length_in_the_middle_arrives_when_every_byte_is_compared(
    tmp_path: Path, world: World, place: SegmentStore, grows: bool
) -> None:
    machine, path = Machine(tmp_path / "own", world.root, place), world.paths[0]
    world.append(path, 20)
    machine.collect()
    before = path.read_bytes()
    world.rewrite(path, 6000, most=len(before) - 6000)
    assert path.read_bytes() != before
    if grows:
        world.append(path, 2)
    machine.is_deep = True
    machine.collect()
    for _ in range(2):  # it is not sent again, and goes on
        world.append(path, 1)
        assert machine.collect().lines == 1
    found = rows(place)[str(path.relative_to(world.root))]
    assert found == [lines_of(before), lines_of(path.read_bytes())]
    for name in ("collect.db", "collect.db-wal", "collect.db-shm"):
        (tmp_path / "own" / name).unlink(missing_ok=True)
    assert machine.collect().lines == 0
    assert rows(place)[str(path.relative_to(world.root))] == found


@pytest.mark.parametrize("archive", [True, False])
def test_the_last_line_of_a_file_that_rests_is_sent_without_its_end(
    tmp_path: Path, world: World, place: SegmentStore, archive: bool
) -> None:
    path, resting = world.paths[0], set[bool]()
    machine = Machine(tmp_path / "own", world.root, place, archive=archive, is_resting=lambda _: bool(resting))
    world.tear(path, 100)
    machine.collect()
    whole = lines_of(path.read_bytes(), over=False)
    source = str(path.relative_to(world.root))
    assert rows(place)[source] == [whole]
    resting.add(True)
    assert machine.collect().lines == 1
    torn = lines_of(path.read_bytes())
    assert rows(place)[source] == [torn]
    assert torn[-1].bad
    assert machine.collect().segments == 0
    resting.clear()
    path.touch()
    assert machine.collect().segments == 0
    ended = path.stat().st_size
    world.append(path, 2)  # it goes on after all: the rest of the line, and another
    machine.collect()
    (made,) = rows(place)[source]
    assert made[: len(torn)] == torn
    assert made[len(torn)].offset == ended
    assert b"".join(row.raw.encode() for row in made) == path.read_bytes().replace(b"\n", b"")


def test_a_line_that_was_sent_without_its_end_is_not_sent_again_when_a_copy_completes_it(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    path = world.paths[0]
    machine = Machine(tmp_path / "own", world.root, place, is_resting=lambda _: True)
    world.tear(path, 100)
    machine.collect()
    copy = path.with_suffix(".copy")
    shutil.copyfile(path, copy)
    copy.replace(path)
    world.append(path, 2)
    machine.collect()
    (made,) = rows(place)[str(path.relative_to(world.root))]
    assert b"".join(row.raw.encode() for row in made) == path.read_bytes().replace(b"\n", b"")


def test_a_file_that_becomes_another_while_it_is_read_costs_no_other(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    machine = Machine(tmp_path / "own", world.root, place, archive=False)
    with machine.planned() as plan:
        found = plan.refresh()
        world.truncate(world.paths[0], 10)
        report = CollectionReport()
        collect_sessions(plan._replace(refresh=lambda: found), report)
    assert [path for path, _ in report.failed] == [str(world.paths[0])]
    assert report.segments == 1
    world.append(world.paths[0], 1)
    machine.collect()
    assert len(rows(place)) == 2


def test_a_state_that_was_lost_is_asked_of_the_store(tmp_path: Path, world: World, place: SegmentStore) -> None:
    machine = Machine(tmp_path / "own", world.root, place, size=2000)
    machine.collect()
    world.append(world.paths[0], 2)
    for name in ("collect.db", "collect.db-wal", "collect.db-shm"):
        (tmp_path / "own" / name).unlink(missing_ok=True)
    assert machine.collect().lines == 2
    world.synced()
    assert rows(place) == expected(world)


def test_two_machines_by_mistake_lose_and_double_nothing(tmp_path: Path, world: World, place: SegmentStore) -> None:
    one, two = (Machine(tmp_path / name, world.root, place, size=2500) for name in ("one", "two"))
    chance = random.Random(7)
    for number in range(20):
        path = chance.choice(world.paths)
        match chance.randrange(6):
            case 0:
                world.truncate(path, chance.randrange(4000))
            case 1:
                world.replace(path)
            case _:
                world.append(path, chance.randint(1, 4))
        for machine in (one, two) if number % 3 == 0 else (chance.choice([one, two]),):
            machine.collect()
            with machine.planned() as plan:
                assert plan.state.waiting() == []
        world.synced()
    one.collect()
    two.collect()
    assert rows(place) == expected(world)
    (heartbeat,) = read_heartbeats(place)
    assert heartbeat.lines == sum(header.lines for header in headers(place))
    assert heartbeat.segments == len(list(place.names("segments")))


class _Forgetful(SegmentStore):
    """Does what it is told, and sometimes does not say so, or does not do it."""

    def __init__(self, place: SegmentStore, seed: int) -> None:
        super().__init__(place.url, place._store, place._folder)
        self.chance = random.Random(seed)

    def put_new(self, name: str, data: bytes) -> bool:
        luck = self.chance.random()
        if luck < 0.2:
            raise ObjectStoreFailed("the request was lost")
        done = super().put_new(name, data)
        if luck < 0.4:
            raise ObjectStoreFailed("the answer was lost")
        return done


@pytest.mark.parametrize("seed", range(2))
def test_lost_requests_and_lost_answers_lose_and_double_nothing(
    tmp_path: Path, world: World, place: SegmentStore, seed: int
) -> None:
    machine = Machine(tmp_path / "own", world.root, _Forgetful(place, seed), size=1500)
    failures = 0
    while failures < 100:
        with suppress(ObjectStoreFailed):
            machine.collect()
            break
        failures += 1
        world.append(world.paths[0], 1)
    assert 0 < failures < 100
    world.synced()
    assert rows(place) == expected(world)


def test_what_matters_most_is_sent_first(tmp_path: Path, world: World, place: SegmentStore) -> None:
    root = world.root
    session = root / "projects" / KEY / identity(1)
    files = {
        root / "history.jsonl": '{"display":"hi"}\n',
        root / "stats-cache.json": "{}",
        root / "todos" / f"{identity(1)}-agent-{identity(1)}.json": "[1]",
        root / "plans" / "a.md": "# plan",
        root / "projects" / KEY / "sessions-index.json": '{"version":1,"entries":[]}',
        session / "subagents" / "agent-a1b2c3d.jsonl": '{"type":"user"}\n',
        session / "subagents" / "agent-a1b2c3d.meta.json": '{"agentType":"x"}',
        session / "tool-results" / "toolu_1.txt": "long",
        root / "file-history" / identity(1) / "0123456789abcdef@v1": "old",
        root / "shell-snapshots" / "snapshot-bash-1.sh": "export TOKEN=1",
        root / "settings.json": "{}",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert Machine(tmp_path / "own", root, place, size=200).collect().segments > 3
    order = [header.kind for header in headers(place) if header.sequence == 1]
    assert order[:3] == ["index", "session", "session"]
    assert order[3:7] == ["agent", "agent-meta", "history", "stats"]
    assert sorted(order[7:]) == ["plan", "todos"]
    extras = SelectionRules(extras=frozenset({"tool-results", "file-history", "settings"}))
    assert Machine(tmp_path / "own", root, place, extras).collect().segments == 1
    assert len({header.stream for header in headers(place)}) == len(order) + 3
    assert not any("snapshot" in header.source for header in headers(place))


def test_projects_are_chosen_and_nothing_of_others_is_sent(tmp_path: Path, world: World, place: SegmentStore) -> None:
    other = world.root / "projects" / "-home-me-other" / f"{identity(90)}.jsonl"
    other.parent.mkdir()
    other.write_bytes(b"".join(lines(90)[:4]))
    (world.root / "history.jsonl").write_bytes(b'{"display":"hi","project":"/home/me/other"}\n')
    assert Machine(tmp_path / "a", world.root, place, SelectionRules(exclude=("other",))).collect().segments == 1
    assert {header.project for header in headers(place)} == {KEY}
    machine = Machine(tmp_path / "a", world.root, place, SelectionRules(include=("/home/me/other",)))
    assert machine.collect().segments == 1
    assert Machine(tmp_path / "a", world.root, place, SelectionRules(since=2**62)).collect().segments == 0
    assert Machine(tmp_path / "a", world.root, place).collect().segments == 1
    assert {header.kind for header in headers(place)} == {"session", "history"}


def test_what_waits_of_a_project_that_was_excluded_meanwhile_goes_on_waiting(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    class Down(SegmentStore):
        def put_new(self, name: str, data: bytes) -> bool:
            raise ObjectStoreFailed("no answer")

    with pytest.raises(ObjectStoreFailed):
        Machine(tmp_path / "own", world.root, Down(place.url, place._store, place._folder)).collect()
    choice = SelectionRules(exclude=("project",))
    with closing(open_store(tmp_path / "own")) as store:
        excluded = Machine(
            tmp_path / "own", world.root, place, choice, refuses=lambda path: is_refused(store, path, choice)
        )
        assert excluded.collect().segments == 0
    assert headers(place) == []
    assert Machine(tmp_path / "own", world.root, place).collect().segments == 1
    assert len(headers(place)) == 2


@pytest.mark.parametrize("folder", ["config", "projects/me/config"])
def test_side_files_that_wait_are_held_and_sent_by_the_project_of_their_session(
    tmp_path: Path, place: SegmentStore, folder: str
) -> None:
    class Down(SegmentStore):
        def put_new(self, name: str, data: bytes) -> bool:
            raise ObjectStoreFailed("no answer")

    root, own = tmp_path / folder, tmp_path / "own"
    rest = "-0000-4000-8000-000000000000"
    sessions = {"-srv-open": "1" * 8 + rest, "-srv-closed": "2" * 8 + rest}
    for project, session in sessions.items():
        line = json.dumps({"type": "user", "uuid": session, "sessionId": session, "message": {"content": project}})
        files = {
            f"projects/{project}/{session}.jsonl": line + "\n",
            f"todos/{session}-agent-{session}.json": json.dumps([{"content": project, "status": "pending"}]),
            f"tasks/{session}/1.json": json.dumps({"id": "1", "subject": project}),
            f"file-history/{session}/0123456789abcdef@v1": project,
        }
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    extras = frozenset({"tasks", "file-history"})
    with pytest.raises(ObjectStoreFailed):
        Machine(own, root, Down(place.url, place._store, place._folder), SelectionRules(extras=extras)).collect()
    for choice in (
        SelectionRules(exclude=("-srv-closed",), extras=extras),
        SelectionRules(include=("-srv-open",), extras=extras),
    ):
        with closing(open_store(own)) as store:
            refuses = partial(is_refused, store, rules=choice)
            Machine(own, root, place, choice, refuses=refuses).collect()
        sent = {header.source for header in headers(place)}
        assert {name.split("/")[0] for name in sent} == {"projects", "todos", "tasks", "file-history"}
        assert not any(sessions["-srv-closed"] in name for name in sent)
    Machine(own, root, place, SelectionRules(extras=extras)).collect()
    assert len({header.source for header in headers(place)}) == 8


def test_a_side_file_is_sent_whenever_it_has_changed(tmp_path: Path, world: World, place: SegmentStore) -> None:
    plan = world.root / "plans" / "a.md"
    plan.parent.mkdir()
    machine = Machine(tmp_path / "own", world.root, place)
    for text in ("# one", "# two", "# two", "# one"):
        plan.write_text(text)
        machine.collect()
    found = rows(place)["plans/a.md"]
    assert [[row.raw for row in made] for made in found] == [["# one"], ["# two"], ["# one"]]


def test_a_full_outbox_makes_nothing_more_and_loses_nothing(tmp_path: Path, world: World, place: SegmentStore) -> None:
    class Down(SegmentStore):
        def put_new(self, name: str, data: bytes) -> bool:
            raise ObjectStoreFailed("no answer")

    down = Machine(tmp_path / "own", world.root, Down(place.url, place._store, place._folder), size=1000, outbox=4000)
    for _ in range(3):
        with pytest.raises(ObjectStoreFailed, match="the outbox is full, newer lines wait in their files"):
            down.collect()
        with down.planned() as plan:
            assert 4000 <= sum(one.size for one in plan.state.waiting()) < 8000
        world.append(world.paths[0], 3)
    Machine(tmp_path / "own", world.root, place, size=1000).collect()
    world.synced()
    assert rows(place) == expected(world)


def test_a_dry_run_tells_and_leaves_no_trace(tmp_path: Path, world: World, place: SegmentStore) -> None:
    machine, report = Machine(tmp_path / "own", world.root, place), CollectionReport()
    with machine.planned() as plan:
        preview_segments(plan, report)
        assert plan.state.waiting() == []
    assert list(place.names("")) == []
    assert machine.collect().lines == report.lines > 0


def test_offsets_of_another_collector_say_where_to_begin(tmp_path: Path, world: World, place: SegmentStore) -> None:
    path = world.paths[0]
    first = path.read_bytes().index(b"\n") + 1
    machine = Machine(tmp_path / "own", world.root, place, offsets={str(path): first, str(world.paths[1]): 10**9})
    machine.collect()
    world.append(path, 1)
    machine.collect()
    found = rows(place)
    assert found[str(path.relative_to(world.root))] == [lines_of(path.read_bytes())[1:]]
    assert found[str(world.paths[1].relative_to(world.root))] == [lines_of(world.paths[1].read_bytes())]


def test_a_clock_that_differs_from_the_stores_is_noticed_and_changes_nothing(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    machine = Machine(tmp_path / "own", world.root, place)
    report = CollectionReport()
    with machine.planned() as plan:
        collect_sessions(plan._replace(milliseconds=lambda: int((time.time() + 3600) * 1000)), report)
    assert 3590 < report.ahead < 3610
    world.append(world.paths[0], 1)
    assert machine.collect().lines == 1
    world.synced()
    assert rows(place) == expected(world)


def test_no_more_is_sent_in_a_second_than_was_asked_for() -> None:
    slept: list[float] = []
    pace = limit_rate(1000, slept.append)
    for _ in range(3):
        pace(500)
    assert [round(seconds, 1) for seconds in slept] == [0.0, 0.5, 1.0]
