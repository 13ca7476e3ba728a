"""Processes of their own, with nothing of this machine's in their environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.s3 import BUCKET, CREDENTIALS, Proxy, proxied, server
from tests.faults.tally import TALLY, Tally
from tests.privileges import bound_by_modes
from unspool.collect.object_store import SegmentStore, open_object_store

KILLED = Path(__file__).with_name("killed_program.py")


class Ran(NamedTuple):
    """What a process did."""

    code: int
    out: str
    err: str


class Program:
    """Runs `unspool` with a data folder of its own."""

    def __init__(self, place: Path, before: tuple[str, ...] = ()) -> None:
        self.folder = place / "own"
        self._place, self._before = place, before

    def environment(self, **more: str) -> dict[str, str]:
        """Return what a process is started with."""
        plain = {"HOME": str(self._place), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
        paths = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        return {**plain, **paths, "UNSPOOL_HOME": str(self.folder), **more}

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process, one that can be killed at a step if the environment names it."""
        program = [str(KILLED)] if "UNSPOOL_KILL_AT" in environment else ["-m", "unspool"]
        command = [*self._before, sys.executable, *program, *map(str, arguments)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment(**environment), cwd=self._place, **pipes)

    def run(self, *arguments: str | Path, **environment: str) -> Ran:
        """Run a process to its end, whatever that is."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return Ran(process.returncode, out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape"))

    def under(self, *command: str) -> Program:
        """Return the same, run by another command."""
        return Program(self._place, command)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Return what runs `unspool`."""
    return Program(tmp_path)


@pytest.fixture
def unprivileged(program: Program) -> Program:
    """Return what runs `unspool` bound by the modes of files: root is not, unless it gives that up."""
    return program.under(*bound_by_modes())


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start an S3 server; return its port."""
    with server(tmp_path_factory.mktemp("s3")) as port:
        yield port


@pytest.fixture
def proxy(port: int) -> Iterator[Proxy]:
    """Put something between that can lose, delay and refuse."""
    with proxied(port) as proxy:
        yield proxy


@pytest.fixture
def place(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SegmentStore:
    """The server itself, with nothing between."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        monkeypatch.setenv(name, value)
    return open_object_store(f"s3://{BUCKET}/{tmp_path.name}", os.environ)


@pytest.fixture(scope="session")
def tally() -> Tally:
    """Return what counts kills; the table is printed at the end."""
    return TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table if a number of kills was asked for."""
    if TALLY.kills and "UNSPOOL_FAULTS" in os.environ:
        terminalreporter.section("kills")
        for line in TALLY.table():
            terminalreporter.write_line(line)
