"""CPU to say `--help`, against an interpreter that does nothing."""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys

from bench import corpus
from bench.table import Row

RUNS = 20
BARE = [sys.executable, "-c", "pass"]


def rows() -> list[Row]:
    """Measure; what cannot be started is left out, with a word."""
    commands = {"unspool --help (module)": [sys.executable, "-m", "unspool", "--help"]}
    if script := shutil.which("unspool"):
        commands["unspool --help (script)"] = [script, "--help"]
    return [row for name, command in commands.items() if (row := _row(name, command))]


def _row(name: str, command: list[str]) -> Row | None:
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"{name}: does not run here, left out", file=sys.stderr)
        return None
    ours, bare = [], []
    for number in range(RUNS):
        corpus.say(f"{name}: run {number + 1} of {RUNS}")
        bare.append(_cpu(BARE))
        ours.append(_cpu(command))
    corpus.say("")
    return Row(
        name=name,
        unit="ms",
        ours=statistics.median(ours) * 1000,
        reference=statistics.median(bare) * 1000,
        against="python -c pass",
        target=6.0,
        details={"best_ms": round(min(ours) * 1000, 2), "reference_best_ms": round(min(bare) * 1000, 2)},
    )


def _cpu(command: list[str]) -> float:
    """Return the user and system seconds of a process that has run before, so that nothing is compiled."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
