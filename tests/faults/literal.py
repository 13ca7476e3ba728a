"""A collector by byte offsets and a state file, to the letter of a common recipe; and what faults do to it.

    1. Check the file's time: skip it if unchanged.  2. Seek to the saved offset.
    3. Read new lines from there.                    4. Update the offset after a successful upload.

`python -m tests.faults.literal` prints how many lines it loses and doubles under the faults that `unspool collect`
passes; `docs/collect.md` has the table.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.world import World

ROUNDS = 60
NEW_YEAR = 1_767_225_600
STILL = "the clock goes back and forth"


class _Killed(Exception):
    """The process ends here."""


class _Failed(Exception):
    """The upload failed, or its answer was lost."""


class Literal:
    """The recipe."""

    def __init__(self, fault: Callable[[str], None]) -> None:
        self._fault = fault
        self._saved: dict[Path, tuple[int, int]] = {}
        self.uploaded: list[bytes] = []

    def collect(self, paths: list[Path]) -> None:
        """Upload what is new."""
        for path in paths:
            offset, time = self._saved.get(path, (0, -1))
            modified = int(path.stat().st_mtime * 1000)
            if modified == time:
                continue
            with path.open("rb") as file:
                file.seek(offset)
                lines = file.readlines()
                end = file.tell()
            try:
                self._fault("upload")
                self.uploaded += [line.rstrip(b"\n") for line in lines if line.strip()]
                self._fault("answer")
            except _Failed:
                continue
            self._fault("save")
            self._saved[path] = (end, modified)


class Outcome(NamedTuple):
    """What became of the lines."""

    lines: int
    lost: int
    doubled: int
    broken: int
    """Parts of lines that were sent as lines."""


def outcome(fault: str, seed: int = 1) -> Outcome:
    """Return what a fault costs."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place) / "config")
        for _ in range(3):
            world.append(world.create(), 4)
        collector = Literal(_faulty(fault, chance))
        written: Counter[bytes] = Counter()
        for number in range(ROUNDS):
            sizes = {path: path.stat().st_size for path in world.paths}
            _change(world, fault, chance)
            for path in world.paths:  # a second passes; unless the clock is what fails
                if path.stat().st_size != sizes.get(path):
                    os.utime(path, (NEW_YEAR + (chance.randrange(3) if fault == STILL else number),) * 2)
            _tried(collector, world.paths)
            world.synced()
        for _ in range(20):  # as often as it takes: what is lost then is lost for good
            _tried(collector, world.paths)
        for generations in world.seen.values():
            for data in generations:
                written.update(line for line in data.split(b"\n") if line.strip())
        return _compared(written, Counter(collector.uploaded))


def _compared(written: Counter[bytes], found: Counter[bytes]) -> Outcome:
    return Outcome(
        lines=written.total(),
        lost=sum((written - found).values()),
        doubled=sum(number for line, number in (found - written).items() if line in written),
        broken=sum(number for line, number in found.items() if line not in written),
    )


def _tried(collector: Literal, paths: list[Path]) -> None:
    try:
        collector.collect(paths)
    except _Killed:
        return


def _faulty(fault: str, chance: random.Random) -> Callable[[str], None]:
    def at(step: str) -> None:
        if chance.random() > 0.2:
            return
        if fault == "killed" and step == "save":
            raise _Killed
        if fault == "requests are lost" and step == "upload":
            raise _Failed
        if fault == "answers are lost" and step == "answer":
            raise _Failed

    return at


def _change(world: World, fault: str, chance: random.Random) -> None:
    for path in world.paths:
        world.append(path, chance.randint(0, 3))
    path = chance.choice(world.paths)
    match fault:
        case "lines are torn":
            world.tear(path, chance.randrange(2000))
        case "files are truncated":
            world.truncate(path, chance.randrange(4000))
            world.append(path, 2)
        case "files are replaced":
            world.replace(path)
            world.append(path, 2)
        case _:
            pass


FAULTS = (
    "none",
    "killed",
    "requests are lost",
    "answers are lost",
    "lines are torn",
    "files are truncated",
    "files are replaced",
    STILL,
)


def table() -> Iterator[str]:
    """Yield what every fault costs, a line each."""
    yield "| fault | lines written | lost | doubled | broken |"
    yield "|---|---|---|---|---|"
    for fault in FAULTS:
        found = outcome(fault)
        yield f"| {fault} | {found.lines:,} | {found.lost:,} | {found.doubled:,} | {found.broken:,} |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
