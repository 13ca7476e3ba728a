"""The demo's history, written once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.demo import write_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp") / "claude"
    write_demo(folder, datetime.now(UTC))
    return folder


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of all servers of the demo: it is read once."""
    return tmp_path_factory.mktemp("mcp-own") / "unspool"
