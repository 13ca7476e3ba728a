"""Run the command as people do: a process of its own, with nothing of this machine's in its environment."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.privileges import bound_by_modes


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs `unspool` in an empty home folder."""
    return make_runner(tmp_path)


@pytest.fixture
def run_bound(tmp_path: Path) -> Run:
    """Return a function that runs `unspool` bound by the modes of files, also if the tests are run by root."""
    return make_runner(tmp_path, *bound_by_modes())


def make_runner(tmp_path: Path, *before: str) -> Run:
    """Return a function that runs `unspool` in a folder, with an empty home folder in it."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)

    def run(*arguments: str | Path, **environment: str) -> Ran:
        done = subprocess.run(
            [*before, sys.executable, "-m", "unspool", *map(str, arguments)],
            env={
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8",
                "COLUMNS": "100",
                **environment,
            },
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=600,  # a hang ends; nothing is measured by it
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def on_terminal(tmp_path: Path) -> Callable[..., bytes]:
    """Return a function that runs `unspool` with a terminal as its output and returns what it was sent.

    With `PAGER` in the environment the terminal is its input too: without one to read keys from, nothing is paged.
    """

    def run(*arguments: str | Path, **environment: str) -> bytes:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "unspool", *map(str, arguments)],
            env={
                "HOME": str(tmp_path),
                "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8",
                "TERM": "xterm",
                **environment,
            },
            stdin=follower if "PAGER" in environment else subprocess.DEVNULL,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        sent = b""
        while piece := _read(leader):
            sent += piece
        process.wait(timeout=60)
        os.close(leader)
        return sent

    return run


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux: the other end is closed
        return b""
