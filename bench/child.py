"""One measurement in a process of its own: what to run in, CPU seconds and peak memory out.

A task is a function `module.name(argument)` that gets everything ready, imports included, and returns the work as
a function without arguments; only the work is timed.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

Task: TypeAlias = Callable[[str], Callable[[], dict[str, int]]]

_ROOT = Path(__file__).parent.parent


class Measured(msgspec.Struct, frozen=True):
    """What the work cost, and what it counted."""

    cpu: float
    """User and system seconds."""
    memory: int
    """Most bytes ever resident in the process."""
    counts: dict[str, int]


def run(task: Task, argument: str) -> Measured:
    """Run a task in a new process."""
    command = [sys.executable, "-m", "bench.child", task.__module__, task.__name__, argument]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Measured)


def _main(module: str, name: str, argument: str) -> None:
    task: Task = getattr(importlib.import_module(module), name)
    work = task(argument)
    start = time.process_time()
    counts = work()
    measured = Measured(time.process_time() - start, _peak(), counts)
    sys.stdout.buffer.write(msgspec.json.encode(measured))


def _peak() -> int:
    """The kernel's own mark where there is one: `ru_maxrss` of a child begins at what its parent held."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    _main(*sys.argv[1:])
