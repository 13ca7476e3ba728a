"""CPU to say `--help`, against an interpreter that does nothing.

Both run once before they are measured, with bytecode kept whatever the environment says: an installed program is
compiled once, not at every start.
"""

from __future__ import annotations

import os
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
    corpus.ready()
    commands = {"unspool --help (module)": [sys.executable, "-m", "unspool", "--help"]}
    if script := shutil.which("unspool"):
        commands["unspool --help (script)"] = [script, "--help"]
    return [row for name, command in commands.items() if (row := compared(name, command, 6.0))]


def compared(name: str, command: list[str], target: float) -> Row | None:
    """Measure a command against an interpreter that does nothing; None, with a word, if it cannot be started."""
    if _run(BARE) or _run(command):
        print(f"{name}: does not run here, left out", file=sys.stderr)
        return None
    ours: list[float] = []
    bare: list[float] = []
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
        target=target,
        details={"best_ms": round(min(ours) * 1000, 2), "reference_best_ms": round(min(bare) * 1000, 2)},
    )


def _cpu(command: list[str]) -> float:
    """Return the user and system seconds that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: list[str]) -> int:
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(corpus.CACHE / "bytecode")}
    environment = {**os.environ, **kept}
    nowhere = subprocess.DEVNULL
    return subprocess.run(command, env=environment, stdout=nowhere, stderr=nowhere, check=False).returncode
