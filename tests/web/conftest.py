"""A server on the demo folder, for all tests that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import Served, serving
from unspool.demo.write import write_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on the demo folder whose cookie is known, with the store filled."""
    place = tmp_path_factory.mktemp("demo")
    write_demo(place / "claude")
    with serving(place / "claude", home=place / "unspool") as served:
        served.enter()
        yield served
