"""Collectors that are killed at every step while files change: in the end every line is there once.

`UNSPOOL_FAULTS` says how many processes are to be killed; `make faults` kills 300.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

from tests.collect.machine import expected, folder_place, rows
from tests.faults.conftest import Program
from tests.faults.tally import Tally
from tests.faults.world import World
from unspool.collect.collector import STEPS
from unspool.collect.object_store import SegmentStore

KILLS = int(os.environ.get("UNSPOOL_FAULTS", "16"))
ALONE = tuple(step for step in STEPS if step != "adopted")
SYNC = ("looked", "archived", "written", "committed")
SMALL = ("--segment-size", "4096")


class Soak:
    """A world that changes, and collectors that are killed."""

    def __init__(self, program: Program, place: Path, tally: Tally, seed: int) -> None:
        self.program, self.tally, self.chance = program, tally, random.Random(seed)
        self.world, self.place = World(place / "config"), folder_place(place / "lake")
        which = ("--to", self.place.url, "--config-dir", self.world.root)
        self.arguments: tuple[str | Path, ...] = ("collect", *which, *SMALL, "--state", place / "offsets.json")
        for _ in range(3):
            self.world.append(self.world.create(), 4)

    def kill(self, step: str) -> bool:
        """Run a collector that is to be killed; it may end before that."""
        self.grow()
        done = self.program.run(*self.arguments, UNSPOOL_KILL_AT=f"{step}:{self.chance.choice([1, 1, 2, 3])}")
        assert done.code in (0, -9), done.err
        if done.code == 0:
            self.world.synced()
            return False
        self.tally.steps[f"collect {step}"] += 1
        return True

    def finish(self) -> None:
        """Run one to its end."""
        self.grow()
        done = self.program.run(*self.arguments)
        assert (done.code, done.err) == (0, "")
        self.world.synced()

    def change(self) -> None:
        """Do anything to a file: all that was there has been synced."""
        world, chance = self.world, self.chance
        path = chance.choice(world.paths)
        match chance.randrange(6):
            case 0:
                world.truncate(path, chance.randrange(4000))
            case 1:
                world.replace(path)
            case 2 if len(world.paths) > 2:
                world.delete(path)
            case 3:
                world.fork(path)
            case 4:
                world.break_off(path)
            case _:
                world.recreate()

    def grow(self) -> None:
        """Write on in files."""
        for path in self.world.paths:
            self.world.append(path, self.chance.randint(0, 3))
            if self.chance.random() < 0.2:
                self.world.tear(path, self.chance.randrange(2000))

    def compare(self) -> None:
        """Compare what was sent with the sources, row by row."""
        found, wanted = rows(self.place), expected(self.world)
        for source in found.keys() | wanted.keys():
            ours, theirs = found.get(source, []), wanted.get(source, [])
            self.tally.wrong += ours != theirs
            self.tally.compared["collected lines"] += sum(map(len, theirs))
            assert ours == theirs, source


def test_a_collector_that_is_killed_anywhere_loses_and_doubles_nothing(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    soak, done = Soak(program, tmp_path, tally, 20260110), 0
    steps = [*ALONE, *SYNC]
    soak.finish()
    while done < KILLS:
        done += soak.kill(steps[done % len(steps)])
        if soak.chance.random() < 0.6:
            soak.finish()
            soak.change()
        if soak.chance.random() < 0.2:
            soak.finish()
            soak.compare()
    soak.finish()
    soak.compare()
    assert tally.steps.keys() >= {f"collect {step}" for step in steps[:KILLS]}


def test_two_collectors_of_one_device_that_are_killed_lose_and_double_nothing(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    soak = Soak(program, tmp_path, tally, 20260111)
    soak.finish()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    shutil.copy(program.folder / "enrolment.json", other)
    second = (*soak.arguments[:-2], "--json")
    for number in range(max(KILLS // 8, 3)):
        soak.grow()
        step = ("adopted", "put", "acknowledged")[number % 3]
        code = program.run(*second, UNSPOOL_HOME=str(other), UNSPOOL_KILL_AT=step).code
        assert code in (0, -9)
        tally.steps[f"collect {step}"] += code == -9
        both = [program.start(*second, UNSPOOL_HOME=str(home)) for home in (other, program.folder)]
        for process in both:
            _, err = process.communicate(timeout=120)
            assert (process.returncode, err) == (0, b"")
        soak.world.synced()
        soak.compare()
        soak.change()
    assert tally.steps["collect adopted"]


def test_a_second_collector_on_one_data_folder_is_refused_and_nothing_is_doubled(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    soak = Soak(program, tmp_path, tally, 20260112)
    many = [program.start(*soak.arguments[:-2]) for _ in range(4)]
    codes = sorted((process.communicate(timeout=120), process.returncode)[1] for process in many)
    assert codes[0] == 0
    assert set(codes) <= {0, 5}
    soak.world.synced()
    soak.compare()


def _names(place: SegmentStore) -> list[str]:
    return [found.name for found in place.names("segments")]


def test_a_data_folder_without_room_is_named_and_nothing_is_lost(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    soak = Soak(program, tmp_path, tally, 20260113)
    soak.finish()
    before = _names(soak.place)
    soak.grow()
    bound = program.under("prlimit", "--fsize=20000")
    done = bound.run(*soak.arguments)
    assert done.code == 4
    assert done.err.startswith("unspool: ")
    assert done.err.count("\n") <= 2
    assert _names(soak.place) == before
    soak.finish()
    soak.compare()


def test_a_folder_without_room_for_segments_is_named_and_nothing_is_lost(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    soak = Soak(program, tmp_path, tally, 20260114)
    soak.finish()
    lake = tmp_path / "lake" / "segments"
    aside = lake.rename(tmp_path / "aside")
    lake.write_text("in the way")
    soak.grow()
    done = program.run(*soak.arguments)
    assert done.code == 6
    assert re.match(r"unspool: (unexpected response from )?the store at ", done.err)
    assert "wait" in done.err
    assert done.err.count("\n") == 2
    lake.unlink()
    aside.rename(lake)
    soak.finish()
    soak.compare()
