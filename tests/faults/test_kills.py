"""Syncs that are killed at any step, over and over, while files change: nothing is lost and nothing counts twice.

`UNSPOOL_FAULTS` says how many processes are to be killed; `make faults` kills 300.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

from tests.faults.conftest import Program
from tests.faults.tally import Tally
from tests.faults.world import (
    KEY,
    SEEN,
    World,
    archived,
    billed,
    check,
    check_integrity,
    counted,
    differences,
    identity,
    lines,
    rows,
    synced,
    tables,
)
from unspool.store.preferences import Preferences, price_edition
from unspool.store.search import index
from unspool.store.sync.sync import STEPS, SyncOptions

KILLS = int(os.environ.get("UNSPOOL_FAULTS", "12"))
A_LIFE = 25
"""Kills until a new store is begun."""
MANY = 300
"""Files at first: more than one transaction takes."""
EVERY = (*STEPS, *index.STEPS)
SURE = ["looked", "read", "archived", "written", "counted", "committed", "missed", "done", *index.STEPS]


def test_a_sync_that_is_killed_anywhere_loses_nothing_and_doubles_nothing(tmp_path: Path, tally: Tally) -> None:
    chance = random.Random(20260105)
    left = KILLS
    for life in range(-(-KILLS // A_LIFE)):
        place = tmp_path / str(life)
        left -= Life(place, chance, tally).live(min(left, A_LIFE))
        shutil.rmtree(place)
    assert left == 0
    assert set(SURE) <= set(tally.steps)


class Life:
    """One store from its making on, with files that change, and a twin that is never killed."""

    def __init__(self, place: Path, chance: random.Random, tally: Tally) -> None:
        place.mkdir()
        self._place, self._chance, self._tally = place, chance, tally
        self._program = Program(place)
        self._world = World(place / "config")
        self._twin = place / "twin"
        for _ in range(3):
            self._world.create()
        _many(self._world.root)
        self._done = 0

    def live(self, kills: int) -> int:
        """Kill that many processes; return how many were."""
        while self._done < kills:
            if self._done:
                self._change()
            for _ in range(self._chance.randint(1, 3)):
                if self._done < kills:
                    self._kill()
                    self._grow()
            assert self._sync() == 0
            if self._chance.random() < 0.15:
                self._let_go()
        assert self._sync() == 0
        self._compare()
        return self._done

    def _sync(self, **environment: str) -> int:
        done = self._program.run("sync", "--config-dir", self._world.root, **environment)
        assert done.err == ""
        if done.code == 0:
            synced(self._twin, self._world.root, SyncOptions(price_edition=price_edition(Preferences())))
            self._world.synced()
        return done.code

    def _let_go(self) -> None:
        """Delete the store: a new one is filled from the archive, and killed at that too."""
        for name in ("store.db", "store.db-wal", "store.db-shm"):
            (self._program.folder / name).unlink(missing_ok=True)

    def _kill(self) -> None:
        """Run a sync that is to be killed; it may end before it comes to that step."""
        rest = [step for step in SURE if step not in self._tally.steps]
        is_new = not (self._program.folder / "store.db").exists()
        step = "refilled" if is_new and self._world.seen else self._chance.choice(rest or EVERY)
        often = self._chance.choice([1, 1, 2, self._chance.randint(1, MANY)] if step == "refilled" else [1, 1, 2])
        before = self._done
        code = self._sync(UNSPOOL_KILL_AT=f"{step}:{often}")
        assert code in (0, -9)
        if code == -9:
            self._done = before + 1
            self._tally.steps[step] += 1
        else:
            self._change()

    def _change(self) -> None:
        """Do anything to a few files."""
        world, chance = self._world, self._chance
        for path in chance.sample(world.paths, k=min(2, len(world.paths))):
            match chance.randrange(7):
                case 0:
                    world.truncate(path, chance.randrange(5000))
                case 1:
                    world.rewrite(path, chance.randrange(2000), most=SEEN)
                case 2:
                    world.replace(path)
                case 3:
                    world.delete(path)
                case 4:
                    world.break_off(path)
                case _:
                    world.append(path, chance.randint(1, 6))
        if chance.random() < 0.3:
            world.recreate()
        _side_files(world.root, chance.randrange(1000))
        self._grow()

    def _grow(self) -> None:
        for path in self._world.paths:
            self._world.append(path, self._chance.randint(0, 2))
            if self._chance.random() < 0.3:
                self._world.tear(path, self._chance.randrange(2000))
        if self._chance.random() < 0.3:
            self._world.fork(self._chance.choice(self._world.paths)) if self._world.paths else self._world.create()

    def _compare(self) -> None:
        """Compare with the twin row by row, and with the model."""
        folder, world = self._program.folder, self._world
        check_integrity(folder)
        found, twin, kept = tables(folder), tables(self._twin), archived(folder)
        assert {path: data for path, data in kept.items() if path in world.seen} == world.seen
        assert kept == archived(self._twin)
        self._same("responses", counted(folder), sorted(billed(kept.values()).items()))
        self._same("ls rows", list(rows(folder, world.root).items()), list(rows(self._twin, world.root).items()))
        for name, expected in twin.items():
            self._same(f"rows of {name}", found[name], expected)
        self._tally.compared["archived bytes"] += sum(len(data) for one in kept.values() for data in one)

    def _same(self, what: str, found: list[Any], expected: list[Any]) -> None:
        different = differences(found, expected)
        self._tally.wrong += len(different)
        self._tally.compared[what] += len(expected)
        assert different == [], what


def _many(root: Path) -> None:
    """Write a great many agents' files."""
    folder = root / "projects" / KEY / identity(1) / "subagents"
    folder.mkdir(parents=True)
    for number in range(MANY):
        line = lines(5000)[1].replace(b'"id":"msg_', b'"id":"msg_%d_' % number)
        (folder / f"agent-a{number:06x}.jsonl").write_bytes(line)
    (root / "history.jsonl").write_bytes(b'{"display":"hi","timestamp":1767600000000,"project":"/p"}\n')
    _side_files(root, 0)


def _side_files(root: Path, number: int) -> None:
    (root / "todos").mkdir(exist_ok=True)
    todo = {"content": f"do {number}", "status": "pending", "activeForm": "doing"}
    (root / "todos" / f"{identity(1)}-agent-{identity(1)}.json").write_text(json.dumps([todo] * (number % 4)))
    (root / "plans").mkdir(exist_ok=True)
    (root / "plans" / f"plan-{number % 5}.md").write_text(f"# Plan {number}\n- [ ] one\n")
    with (root / "history.jsonl").open("a") as file:
        file.write(json.dumps({"display": f"say {number}", "timestamp": 1767600000000, "project": "/p"}) + "\n")


def test_a_killed_sync_is_made_good_by_the_next_command(program: Program, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    path = world.create()
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    world.append(path, 2)
    assert program.run("ls", "--config-dir", world.root, UNSPOOL_KILL_AT="archived").code == -9
    world.append(path, 1)
    listed = program.run("ls", "--json", "--config-dir", world.root)
    assert (listed.code, listed.err) == (0, "")
    world.synced()
    check(world, program.folder, tmp_path / "fresh")
