"""Where real session files are: `$UNSPOOL_CORPUS`, or an optional corpus beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def corpus() -> Path:
    """Return the folder with real files; skip the test if there is none."""
    named = os.environ.get("UNSPOOL_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data" / "real"
    if not folder.is_dir():
        pytest.skip("no real session files: set UNSPOOL_CORPUS to a folder of them")
    return folder.resolve()
