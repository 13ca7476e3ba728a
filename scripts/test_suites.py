"""Runs all tests as suites, as many at once as there are cores: `python -m scripts.test_suites`.

A suite is a folder below `tests`. One process per core takes the next suite when it has finished one. The output of a
suite is printed when it ends; the last lines say how long each took.

Why not pytest-xdist: suites share a browser, an installed Claude Code and a Spark session, which are made once per
process; and many tests wait for other processes, so that fixed halves left one core idle for a third of the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MEASURED = ("format", "read", "graph", "fuzz", "export", "page", "prices")
"""Folders of tests with which coverage is measured; it makes them a third slower."""
LONGEST = ("claude", "docs", "measured", "edit", "browser", "faults", "collect", "cli", "client", "store", "live")
"""Suites that take minutes. They start first, so that none of them is left alone at the end."""


class Suite(NamedTuple):
    """Some tests that one process runs."""

    name: str
    paths: tuple[str, ...]
    is_measured: bool = False

    @property
    def command(self) -> list[str]:
        """Return the command that runs the suite."""
        runner = ["-m", "coverage", "run", "-m", "pytest"] if self.is_measured else ["-m", "pytest"]
        return [sys.executable, *runner, "-q", *self.paths]


class SuiteResult(NamedTuple):
    """How a suite ended."""

    suite: Suite
    code: int
    seconds: float
    output: str


def find_suites(tests: Path) -> list[Suite]:
    """Return all suites, those that take longest first. Every test file is in exactly one."""
    folders = sorted(path.name for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
    measured = tuple(f"tests/{name}" for name in folders if name in MEASURED)
    suites = [Suite("measured", measured, is_measured=True)] if measured else []
    suites += [Suite(name, (f"tests/{name}",)) for name in folders if name not in MEASURED]
    if files := tuple(f"tests/{path.name}" for path in sorted(tests.glob("test_*.py"))):
        suites.append(Suite("tests", files))
    order = {name: number for number, name in enumerate(LONGEST)}
    return sorted(suites, key=lambda suite: order.get(suite.name, len(order)))


def run_suite(suite: Suite) -> SuiteResult:
    """Run a suite to its end."""
    started = time.monotonic()
    done = subprocess.run(
        suite.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return SuiteResult(suite, done.returncode, time.monotonic() - started, done.stdout.decode(errors="replace"))


def main() -> int:
    """Run all suites, print their output, and return 1 if one failed."""
    results = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for future in as_completed([pool.submit(run_suite, suite) for suite in find_suites(ROOT / "tests")]):
            result = future.result()
            results.append(result)
            print(f"== {result.suite.name}\n{result.output}", flush=True)
    print("== seconds, suite")
    for result in sorted(results, key=lambda result: -result.seconds):
        print(f"{result.seconds:8.0f}  {result.suite.name}{'' if result.code == 0 else '  FAILED'}")
    return int(any(result.code != 0 for result in results))


if __name__ == "__main__":
    sys.exit(main())
