"""A device that is bound to a user cannot book on another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.faults.world import World
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.users import NAME, bind_users, read_users
from unspool.errors import Unreadable


@pytest.fixture
def opened(lake: TestLake) -> Lake:
    return open_lake(str(lake.folder), {})


def test_what_a_bound_device_sends_is_its_users_whatever_it_says(lake: TestLake, opened: Lake, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    world.append(world.create(), 8)
    bind_users(opened, {"acme/laptop": "mallory"})
    lake.device("laptop", user="ada").send(world.root)
    lake.device("desktop", user="ada").send(world.root)
    lake.ingest()
    for table in ("entries", "responses", "sources", "messages", "sessions"):
        rows = lake.rows(f"SELECT DISTINCT device, user FROM parts.{table} ORDER BY device")
        assert rows == [("desktop", "ada"), ("laptop", "mallory")], table
    assert {line for line in lake.lines() if line[0] == "laptop"} == set(expected(world.root))
    (problem,) = lake.verify().problems
    assert (problem.what, problem.where) == ("user", "acme/laptop")


def test_a_binding_that_comes_later_counts_when_rows_are_derived_anew(
    lake: TestLake, opened: Lake, tmp_path: Path
) -> None:
    world = World(tmp_path / "config")
    world.append(world.create(), 8)
    lake.device("laptop", user="ada").send(world.root)
    lake.ingest()
    bind_users(opened, {"acme/laptop": "bob"})
    lake.ingest(again=True)
    assert lake.rows("SELECT DISTINCT user FROM responses") == [("bob",)]
    assert lake.rows("SELECT DISTINCT user FROM sources") == [("bob",)]


def test_bindings_are_added_and_removed(opened: Lake) -> None:
    assert read_users(opened) == {}
    bind_users(opened, {"acme/a": "ada", "acme/b": "bob"})
    assert bind_users(opened, {"acme/a": None, "acme/c": "eve"}) == {"acme/b": "bob", "acme/c": "eve"}
    assert read_users(opened) == {"acme/b": "bob", "acme/c": "eve"}


def test_bindings_that_cannot_be_read_stop_the_ingest(lake: TestLake, opened: Lake) -> None:
    opened.object_store.overwrite(NAME, b"{")
    with pytest.raises(Unreadable, match="cannot read"):
        lake.ingest()
