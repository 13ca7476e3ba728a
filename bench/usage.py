"""CPU of `unspool usage`: over a folder that was never read, over one that has not changed, after one more line.

The whole command is measured, the start of the interpreter included, with every process it waits for; bytecode is
kept, as it is for an installed program. Each side runs in a process of its own, in turn.

Rules
  1. Cold means `--no-store`: the pass over the files with which a large folder is answered the first time. With a
     store the same command would also start a sync in the background, which nobody waits for.
  2. Cold, the reference is a bare `orjson.loads` of all lines, whose interpreter and imports are not counted, and
     ccusage, as the program that npm installs it as, not by way of node. Warm, it is an interpreter that does nothing.
  3. No command sees the home folder or the store of whoever measures.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import child, corpus, decode
from bench.child import Measured
from bench.table import Row

ROUNDS = 7
WARM_ROUNDS = 9
CCUSAGE = "ccusage@20.0.24"
SMALL = 30_000
"""Bytes of a session of which there are many."""
WARM_TARGETS = {1_000: (8.0, 9.0), 20_000: (16.0, 17.0)}
"""How many times a bare interpreter a command may take by the number of sessions: unchanged, and with one more line."""
MEMORY = 150
"""Megabytes that a process may have at most."""

BARE = [sys.executable, "-c", "pass"]
USAGE = ["usage", "daily", "--json"]

# In a process that holds next to nothing: `ru_maxrss` of a child begins at what its parent held.
_WAIT = """
import os, sys, time
start = time.perf_counter()
to = [(os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=to)
_, status, spent = os.wait4(pid, 0)
wall = time.perf_counter() - start
peak = spent.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(os.waitstatus_to_exitcode(status), wall, spent.ru_utime + spent.ru_stime, peak)
"""


class Spent(NamedTuple):
    """What a command took, with all processes it waited for."""

    cpu: float
    """User and system seconds."""
    wall: float
    memory: int
    """Most bytes ever resident in one of them."""


class Totals(NamedTuple):
    """What was counted."""

    input: int
    output: int
    cache_write: int
    cache_read: int
    dollars: float

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.input + self.output + self.cache_write + self.cache_read


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    return [*_cold(corpus.tree(parameters)), *(row for count in WARM_TARGETS for row in _warm(count))]


def many(count: int, cache: Path = corpus.CACHE) -> Path:
    """Return a folder of so many small sessions."""
    parameters = corpus.Parameters(size=count * SMALL, sessions=count)
    return corpus.tree(parameters, cache, f"sessions-{count}")


def unspool(*arguments: str) -> list[str]:
    """Return the command."""
    return [sys.executable, "-m", "unspool", *arguments]


@contextmanager
def empty_folder(cache: Path = corpus.CACHE) -> Iterator[Path]:
    """Give a folder for a store, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="data-", dir=corpus.ready(cache)) as name:
        yield Path(name)


def around(tree: Path, data: Path, cache: Path = corpus.CACHE) -> dict[str, str]:
    """Return the environment of a command: the folder it reads, where it keeps its own, no home to speak of."""
    home = corpus.ready(cache) / "home"
    home.mkdir(exist_ok=True)
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache / "bytecode")}
    places = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(tree), "UNSPOOL_HOME": str(data), "TZ": "UTC"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UNSPOOL_", "XDG_"))}
    return {**kept, **bytecode, **places}


def spent(command: list[str], environment: Mapping[str, str], output: Path | str = os.devnull) -> Spent:
    """Run a command to its end; what it prints goes to a file. It must succeed."""
    waiting = [sys.executable, "-S", "-c", _WAIT, str(output), *command]
    done = subprocess.run(waiting, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    code, wall, cpu, memory = done.stdout.split()
    if code != "0":
        raise SystemExit(f"`{' '.join(command)}` ended with {code}")
    return Spent(float(cpu), float(wall), int(memory))


# A folder that was never read


def _cold(tree: Path) -> list[Row]:
    program, problem = ccusage(corpus.CACHE)
    bare: list[Measured] = []
    mine: list[Spent] = []
    theirs: list[Spent] = []
    rows: list[Row] = []
    with empty_folder() as data:
        environment, said = around(tree, data), (data / "ours.json", data / "theirs.json")
        spent(unspool("--help"), environment)
        for number in range(ROUNDS):
            corpus.say(f"cold usage: round {number + 1} of {ROUNDS}")
            bare.append(child.run(decode.reference, str(tree)))
            mine.append(spent(unspool(*USAGE, "--no-store"), environment, said[0]))
            if program is not None:
                theirs.append(spent([str(program), "daily", "--json", "--offline"], environment, said[1]))
        if program is not None:
            rows = [*_against_ccusage(mine, theirs), *_counted(our_totals(said[0]), their_totals(said[1]))]
    corpus.say("")
    if program is None:
        words = f"{CCUSAGE}: {problem}"
        rows = [Row(name="  CPU", unit="s", ours=best(mine), reference=math.nan, against=words)]
    return [*_against_bare(mine, bare), *rows]


def _against_bare(mine: list[Spent], bare: list[Measured]) -> list[Row]:
    against, counts = decode.AGAINST, bare[0].counts
    middle = [statistics.median(one.cpu for one in side) for side in (mine, bare)]
    memory = [max(one.memory for one in side) / 1e6 for side in (mine, bare)]
    name = f"cold usage, {counts['bytes'] / 1e6:.0f} MB, {counts['entries']:,} lines"
    return [
        Row(name=name, unit="s", ours=best(mine), reference=best(bare), against=against, target=0.6, details=counts),
        Row(name="  median of the rounds", unit="s", ours=middle[0], reference=middle[1], against=against),
        peak("  peak memory", memory[0], memory[1], against),
    ]


def _against_ccusage(mine: list[Spent], theirs: list[Spent]) -> list[Row]:
    walls = [min(one.wall for one in side) for side in (mine, theirs)]
    memory = [max(one.memory for one in side) / 1e6 for side in (mine, theirs)]
    return [
        Row(name="  CPU", unit="s", ours=best(mine), reference=best(theirs), against=CCUSAGE, target=0.9),
        Row(name="  wall time", unit="s", ours=walls[0], reference=walls[1], against=CCUSAGE),
        Row(name="  peak memory", unit="MB", ours=memory[0], reference=memory[1], against=CCUSAGE),
    ]


def _counted(ours: Totals, theirs: Totals) -> list[Row]:
    # Both count a response once, with the line that has the most output, so the tokens are the same to the last one.
    # The dollars are not: we round each response to whole micro-dollars, ccusage adds up fractions. That is less than
    # half a micro-dollar for each response, and about 0.00006 dollars over the 17,693 of the usual tree.
    details = {"ours": ours._asdict(), "ccusage": theirs._asdict()}
    billions = [side.tokens / 1e9 for side in (ours, theirs)]
    return [
        Row(
            name="  tokens counted", unit="G", ours=billions[0], reference=billions[1], against=CCUSAGE, details=details
        ),
        Row(name="  dollars counted", unit="$", ours=ours.dollars, reference=theirs.dollars, against=CCUSAGE),
    ]


def our_totals(path: Path) -> Totals:
    """Read what `unspool usage --json` said."""
    said: dict[str, Any] = msgspec.json.decode(path.read_bytes())["totals"]
    input, output, written, read = (said[f"{name}_tokens"] for name in ("input", "output", "cache_write", "cache_read"))
    return Totals(input, output, written, read, said["cost_micros"] / 1e6)


def their_totals(path: Path) -> Totals:
    """Read what `ccusage --json` said."""
    said: dict[str, Any] = msgspec.json.decode(path.read_bytes())["totals"]
    input, output, written, read = (said[f"{name}Tokens"] for name in ("input", "output", "cacheCreation", "cacheRead"))
    return Totals(input, output, written, read, said["totalCost"])


def ccusage(cache: Path) -> tuple[Path | None, str]:
    """Return the program, installed now if it is not there yet; else what went wrong."""
    folder = corpus.ready(cache) / "ccusage"
    if (npm := shutil.which("npm")) is None:
        return None, "there is no npm to install it"
    package = folder / "node_modules" / "ccusage" / "package.json"
    if not package.exists() or msgspec.json.decode(package.read_bytes())["version"] != CCUSAGE.partition("@")[2]:
        folder.mkdir(exist_ok=True)
        corpus.say(f"installing {CCUSAGE}")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), CCUSAGE]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return None, f"npm could not install it: {' '.join(done.stderr.split())[:80]}"
    program = next(folder.glob("node_modules/@ccusage/ccusage-*/bin/ccusage"), None)
    if program is None:
        return None, "there is no program for this machine"
    program.chmod(0o755)  # npm leaves it as it was packed; ccusage's own start in node does the same
    return program, ""


# A folder that was read before


def _warm(count: int) -> list[Row]:
    tree = many(count)
    session = sorted(tree.glob("projects/*/*.jsonl"))[count // 2]
    sides: dict[str, list[Spent]] = {"bare": [], "warm": [], "refresh": []}
    with empty_folder() as data, unchanged(session):
        environment = around(tree, data)
        said = data / "said.json"
        spent(unspool("sync"), environment)
        before = _responses(environment, said)
        for number in range(WARM_ROUNDS):
            corpus.say(f"usage of {count:,} sessions: round {number + 1} of {WARM_ROUNDS}")
            sides["bare"].append(spent(BARE, environment))
            sides["warm"].append(spent(unspool(*USAGE), environment, said))
            with session.open("ab") as file:
                file.write(one_more(session.read_bytes(), number))
            sides["refresh"].append(spent(unspool(*USAGE), environment, said))
        after = _responses(environment, said)
    corpus.say("")
    if after != before + WARM_ROUNDS:
        raise SystemExit(f"{WARM_ROUNDS} responses were added to {before}, and there are {after}")
    size = sum(path.stat().st_size for path in tree.rglob("*.jsonl"))
    return _warm_rows(count, size, sides)


def _responses(environment: Mapping[str, str], said: Path) -> int:
    spent(unspool(*USAGE), environment, said)
    return int(msgspec.json.decode(said.read_bytes())["totals"]["responses"])


def _warm_rows(count: int, size: int, sides: Mapping[str, list[Spent]]) -> list[Row]:
    bare, warm, refresh = (statistics.median(one.cpu for one in side) * 1000 for side in sides.values())
    names = f"warm usage, {count:,} sessions, {size / 1e6:.0f} MB", "  after one more line"
    return [
        Row(
            name=name, unit="ms", ours=ours, reference=bare, against="python -c pass", target=target,
            details={"best_ms": round(best(side) * 1000, 2), "wall_ms": round(min(one.wall for one in side) * 1000, 2)},
        )
        for name, ours, target, side in zip(
            names, (warm, refresh), WARM_TARGETS[count], (sides["warm"], sides["refresh"]), strict=True
        )
    ]  # fmt: skip


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Let a file grow, and take it back to its size afterwards."""
    size = path.stat().st_size
    try:
        yield
    finally:
        os.truncate(path, size)


def one_more(data: bytes, number: int) -> bytes:
    """Return a line to add to a session: its last answer, as another one."""
    line = next(line for line in reversed(data.splitlines()) if b'"requestId":' in line)
    record: dict[str, Any] = msgspec.json.decode(line)
    record["parentUuid"] = record["uuid"]
    record["uuid"] = f"00000000-0000-4000-8000-{number:012d}"
    record["requestId"], record["message"]["id"] = f"req_more{number}", f"msg_more{number}"
    return msgspec.json.encode(record) + b"\n"


# Figures


def best(side: list[Spent] | list[Measured]) -> float:
    """Return the least CPU of the rounds."""
    return min(one.cpu for one in side)


def peak(name: str, ours: float, reference: float, against: str) -> Row:
    """Return a row for the most memory that a process had."""
    return Row(name=name, unit="MB", ours=ours, reference=reference, against=against, target=MEMORY, of_ratio=False)
