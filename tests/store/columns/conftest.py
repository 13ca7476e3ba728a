"""Column files that several modules of tests read, made once: nobody changes them or the folders they come from."""

from __future__ import annotations

import pytest

from tests.real_files import corpus
from tests.store import dirty
from tests.store.asking import Columns
from unspool.demo.write import write_demo


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    """Column files of the folder of odd lines."""
    place = tmp_path_factory.mktemp("odd")
    made = Columns(place / "own", dirty.write(place / "config"))
    made.refresh()
    return made


@pytest.fixture(scope="session", params=["dirty", "demo", "real"])
def columns(request: pytest.FixtureRequest, odd: Columns, tmp_path_factory: pytest.TempPathFactory) -> Columns:
    """Column files of a folder of odd lines, of the made-up one, and of real files."""
    if request.param == "dirty":
        return odd
    place = tmp_path_factory.mktemp(request.param)
    root = corpus() if request.param == "real" else place / "config"
    if request.param == "demo":
        write_demo(root)
    made = Columns(place / "own", root)
    made.refresh()
    return made
