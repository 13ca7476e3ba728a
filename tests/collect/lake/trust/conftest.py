"""A team, and sessions to send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.trust.teams import Team
from tests.faults.world import World


@pytest.fixture
def team(lake: TestLake, tmp_path: Path) -> Team:
    """Return a lake with an administrator."""
    return Team(lake, tmp_path / "administrator")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return three sessions."""
    world = World(tmp_path / "config")
    for _ in range(3):
        world.append(world.create(), 3)
    return world
