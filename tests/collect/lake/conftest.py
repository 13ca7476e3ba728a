"""Lakes of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake


@pytest.fixture
def lake(tmp_path: Path) -> TestLake:
    """Return an empty lake."""
    return TestLake(tmp_path)
