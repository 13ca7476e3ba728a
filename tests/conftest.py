"""Nothing of whoever runs the tests is read or written, and nothing depends on how they are run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profiles import load_profile

load_profile()

SLOW = ("tests/claude/", "tests/faults/")
"""Folders whose tests are all slow: they run the real Claude Code, or kill processes again and again."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let this process and its children keep what is theirs in a folder of the tests' own."""
    place = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_HOME", str(place / "unspool"))
        patch.setenv("CLAUDE_CONFIG_DIR", str(place / "claude"))
        yield place


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let this process and its children be interrupted: in the background of a shell they would ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
