"""CPU to say `--help` and to print a status line, against an interpreter that does nothing.

Both run once before they are measured, with bytecode kept whatever the environment says: an installed program is
compiled once, not at every start.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

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
    found = [row for name, command in commands.items() if (row := compared(name, command, 6.0))]
    return [*found, *status_line_rows()]


def status_line_rows() -> list[Row]:
    """Measure the status line of a session of the demo whose store is up to date."""
    with tempfile.TemporaryDirectory() as place:
        config, own = f"{place}/config", {"UNSPOOL_HOME": f"{place}/own"}
        for arguments in (["demo", config], ["sync", "--config-dir", config]):
            _run([sys.executable, "-m", "unspool", *arguments], own)
        # Nothing is started beside what is measured.
        _run([sys.executable, "-m", "unspool", "config", "background", "off"], own)
        session = next(Path(config).glob("projects/*/*.jsonl"))
        model = {"id": "claude-opus-5-5", "display_name": "Opus 5.5"}
        sent = json.dumps({"transcript_path": str(session), "cwd": str(Path.cwd()), "model": model}).encode()
        script = shutil.which("unspool")
        command = [script] if script else [sys.executable, "-P", "-m", "unspool"]
        row = compared("unspool statusline", [*command, "statusline"], 3.0, own, sent)
        return [row] if row else []


def compared(
    name: str, command: list[str], target: float, variables: Mapping[str, str] = MappingProxyType({}), sent: bytes = b""
) -> Row | None:
    """Measure a command against an interpreter that does nothing; None, with a word, if it cannot be started."""
    if _run(BARE) or _run(command, variables, sent):
        print(f"{name}: does not run here, left out", file=sys.stderr)
        return None
    ours: list[float] = []
    bare: list[float] = []
    wall: list[float] = []
    for number in range(RUNS):
        corpus.say(f"{name}: run {number + 1} of {RUNS}")
        bare.append(_cpu(BARE))
        begun = time.perf_counter()
        ours.append(_cpu(command, variables, sent))
        wall.append(time.perf_counter() - begun)
    corpus.say("")
    return Row(
        name=name,
        unit="ms",
        ours=statistics.median(ours) * 1000,
        reference=statistics.median(bare) * 1000,
        against="python -c pass",
        target=target,
        details={
            "best_ms": round(min(ours) * 1000, 2),
            "reference_best_ms": round(min(bare) * 1000, 2),
            "wall_ms": round(statistics.median(wall) * 1000, 2),
        },
    )


def _cpu(command: list[str], variables: Mapping[str, str] = MappingProxyType({}), sent: bytes = b"") -> float:
    """Return the user and system seconds that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(command, variables, sent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: list[str], variables: Mapping[str, str] = MappingProxyType({}), sent: bytes = b"") -> int:
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(corpus.CACHE / "bytecode")}
    environment = {**os.environ, **kept, **variables}
    nowhere = subprocess.DEVNULL
    return subprocess.run(command, env=environment, input=sent, stdout=nowhere, stderr=nowhere, check=False).returncode
