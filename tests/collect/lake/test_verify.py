"""Whatever is lost, double or not there yet is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.faults.world import World
from unspool.collect.lake.lake import Lake, open_lake


@pytest.fixture
def full(lake: TestLake, tmp_path: Path) -> TestLake:
    """A lake with what two sessions said."""
    world, device = World(tmp_path / "config"), lake.device()
    for count in (5, 9):
        world.append(world.create(), count)
    device.send(world.root, size=1500)
    lake.ingest()
    assert lake.verify().problems == ()
    return lake


def double_line(lake: Lake) -> None:
    """Add a line once more."""
    from deltalake import QueryBuilder, write_deltalake

    table = lake.table("entries")
    rows = QueryBuilder().register("t", table).execute('SELECT * FROM t ORDER BY stream, "offset" LIMIT 1').read_all()
    write_deltalake(table, rows, mode="append")


def lost_line(lake: Lake) -> None:
    """Take out a line."""
    (stream, offset), *_ = lake.rows("entries", 'SELECT stream, "offset" FROM t')
    lake.delete("entries", f"stream = '{stream}' AND \"offset\" = {offset}")


def lost_response(lake: Lake) -> None:
    """Take out what was billed."""
    (id,), *_ = lake.rows("responses", "SELECT response_id FROM t")
    lake.delete("responses", f"response_id = '{id}'")


def lost_stream(lake: Lake) -> None:
    """Forget that a stream was derived."""
    (id,), *_ = lake.rows("sources", "SELECT id FROM t")
    lake.delete("sources", f"id = '{id}'")


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (double_line, {"double rows", "lines"}),
        (lost_line, {"lines"}),
        (lost_response, {"responses"}),
        (lost_stream, {"not derived"}),
    ],
)
def test_what_is_wrong_in_the_tables_is_named(full: TestLake, spoil: Callable[[Lake], None], what: set[str]) -> None:
    spoil(open_lake(str(full.folder), {}))
    assert {one.what for one in full.verify().problems} == what


def test_what_was_not_derived_is_derived_by_the_next_ingest(full: TestLake) -> None:
    before = full.everything()
    lost_stream(open_lake(str(full.folder), {}))
    full.ingest()
    assert full.verify().problems == ()
    assert full.everything() == before


def test_a_manifest_that_promises_more_is_believed(full: TestLake) -> None:
    names = [found.name for found in full.place.names("segments")]
    last = max(name for name in names if name.startswith(names[0].rpartition("/")[0]))
    full.place.delete(last)
    assert {"missing segments", "segments no longer exist", "rows without a segment"} <= {
        one.what for one in full.verify().problems
    }


def test_a_manifest_that_cannot_be_read_is_named(full: TestLake) -> None:
    full.place.delete("manifests/acme/laptop.json")
    full.place.put_new("manifests/acme/laptop.json", b"{")
    assert [one.what for one in full.verify().problems] == ["manifest"]
