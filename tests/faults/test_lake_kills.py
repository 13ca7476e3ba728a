"""Ingests that are killed at every step, and several at once: every line is there once, and all that follows from it.

`UNSPOOL_FAULTS` says how many processes are to be killed; `make faults` kills 300.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.sending import Device, Made
from tests.faults.conftest import Program
from tests.faults.tally import Tally
from tests.faults.world import World
from unspool.collect.lake.ingest import STEPS
from unspool.collect.lake.lake import create_lake

KILLS = int(os.environ.get("UNSPOOL_FAULTS", str(len(STEPS))))
KINDS = ("session", "agent", "journal")


class Team:
    """Devices whose sessions go on, and what they have sent."""

    def __init__(self, folder: Path, devices: int, seed: int) -> None:
        self.lake, self.chance = TestLake(folder), random.Random(seed)
        self._folder = folder
        self._devices: list[tuple[Device, World]] = [
            (self.lake.device(f"device-{number}"), World(folder / f"config-{number}")) for number in range(devices)
        ]
        self._sent: list[Made] = []
        self._late: list[Made] = []
        for _, world in self._devices:
            world.append(world.create(), 3)
        self._rounds = 0

    def go_on(self) -> None:
        """Let sessions grow, fork, be replaced; some segments come late, and in any order."""
        chance = self.chance
        self._rounds += 1
        for number, (device, world) in enumerate(self._devices):
            # The first has one chain, the second a chain for each stream, the last goes on with one.
            device.is_chained = number == 0 or (number == len(self._devices) - 1 and self._rounds > 3)
            for path in world.paths:
                world.append(path, chance.randint(0, 3))
            path = chance.choice(world.paths)
            match chance.randrange(6):
                case 0:
                    world.fork(path)
                case 1:
                    world.replace(path)
                case 2:
                    world.append(world.create(), 2)
                case _:
                    pass
            self._late += device.make(world.root, size=chance.choice((600, 5000, 1 << 20)))
        chance.shuffle(self._late)
        kept = self._late[: len(self._late) // 3]
        for one in self._late[len(kept) :]:
            self._put(one)
        self._late = kept

    def catch_up(self) -> None:
        """Send what is late."""
        for one in self._late:
            self._put(one)
        self._late = []
        for device, _ in self._devices:
            device.publish()

    def _put(self, one: Made) -> None:
        assert self.lake.place.put_new(one.name, one.data)
        self._sent.append(one)

    def lines(self) -> Counter[tuple[Any, ...]]:
        """Return every line of every session that was sent."""
        found: Counter[tuple[Any, ...]] = Counter()
        for made in self._sent:
            for header, lines in made.parts:
                for line in lines if header.kind in KINDS else ():
                    found[header.device, header.source, header.generation, line.offset, line.raw] += 1
        return found

    def anew(self) -> TestLake:
        """Return a lake that was made from the same segments, in peace."""
        made = TestLake.__new__(TestLake)
        made.folder, made.url, made.place = self._folder / "anew", self.lake.url, self.lake.place
        create_lake(str(made.folder), {})
        made.ingest()
        return made

    def check(self, tally: Tally) -> None:
        """Compare every row with what was sent, and with a lake that was made in peace."""
        wanted, there = self.lines(), self.lake.lines()
        tally.compared["lines in the lake"] += wanted.total()
        tally.wrong += (wanted - there).total() + (there - wanted).total()
        assert there == wanted
        assert self.lake.verify().problems == ()
        ours, theirs = self.lake.everything(), self.anew().everything()
        for name, rows in theirs.items():
            tally.compared[f"rows of {name} in the lake"] += rows.total()
            tally.wrong += (rows - ours[name]).total() + (ours[name] - rows).total()
            assert ours[name] == rows, name


def ingest(program: Program, team: Team, *more: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start an ingest."""
    command = ("lake", "ingest", "--from", team.lake.url, "--to", str(team.lake.folder), *more)
    return program.start(*command, **environment)


def ended(processes: Sequence[subprocess.Popen[bytes]]) -> list[tuple[int, bytes]]:
    """Wait for processes; return their exit codes and what they complained of."""
    return [(process.communicate(timeout=120)[1], process.returncode)[::-1] for process in processes]


def test_every_line_is_there_once_whenever_an_ingest_is_killed(program: Program, tmp_path: Path, tally: Tally) -> None:
    team = Team(tmp_path, devices=3, seed=20260107)
    for number in range(KILLS):
        team.go_on()
        step = STEPS[number % len(STEPS)]
        which = f"{step}:{team.chance.randint(1, 6)}" if step == "derived" else step
        ((code, err),) = ended([ingest(program, team, UNSPOOL_KILL_AT=which)])
        assert (code, err) in ((-signal.SIGKILL, b""), (0, b""))
        tally.steps[f"lake {step}"] += code == -signal.SIGKILL
        if team.chance.random() < 0.3:
            assert ended([ingest(program, team)]) == [(0, b"")]
    team.catch_up()
    assert ended([ingest(program, team)]) == [(0, b"")]
    team.check(tally)
    assert {f"lake {step}" for step in STEPS} <= tally.steps.keys()


def test_four_ingesters_at_once_of_which_some_are_killed_do_it_once(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    team = Team(tmp_path, devices=3, seed=20260108)
    for _ in range(max(KILLS // 30, 2)):
        team.go_on()
        faults = [{"UNSPOOL_KILL_AT": team.chance.choice(STEPS[1:])} if number % 2 else {} for number in range(4)]
        for fault, (code, err) in zip(faults, ended([ingest(program, team, **fault) for fault in faults]), strict=True):
            assert (code, err) in ((-signal.SIGKILL, b""), (0, b"")) if fault else (code, err) == (0, b"")
            tally.steps["lake, four at once"] += code == -signal.SIGKILL
    team.catch_up()
    assert ended([ingest(program, team, "--workers", "4"), ingest(program, team)]) == [(0, b"")] * 2
    team.check(tally)
