"""Lakes of which things can be forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake


@pytest.fixture
def erasable(tmp_path: Path) -> ErasableLake:
    """Return an empty lake with an administrator."""
    return ErasableLake(tmp_path)
