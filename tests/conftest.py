"""Nothing of whoever runs the tests is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let this process and its children keep what is theirs in a folder of the tests' own."""
    place = tmp_path_factory.mktemp("nobody")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_HOME", str(place / "unspool"))
        patch.setenv("CLAUDE_CONFIG_DIR", str(place / "claude"))
        yield place
