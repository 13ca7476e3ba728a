"""Whatever is lost, double or not there yet is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.sending import pack_segment
from tests.faults.world import World
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.streams import device_stream_id
from unspool.collect.manifest import read_manifests
from unspool.collect.segments import unpack_segment


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


def _last_of_a_stream(lake: TestLake) -> str:
    names = sorted(found.name for found in lake.place.names("segments"))
    return max(name for name in names if name.startswith(names[0].rpartition("/")[0]))


def test_a_stream_that_was_removed_with_its_entry_in_the_manifest_is_named(full: TestLake) -> None:
    stream = _last_of_a_stream(full).split("/")[3]
    for found in list(full.place.names(f"segments/acme/laptop/{stream}")):
        full.place.delete(found.name)
    (manifest,) = read_manifests(full.place)
    left = {name: sent for name, sent in manifest.streams.items() if name != stream}
    full.place.overwrite(
        "manifests/acme/laptop.json", msgspec.json.encode(msgspec.structs.replace(manifest, streams=left))
    )
    gone = [one for one in full.verify().problems if one.what == "segments no longer exist"]
    assert [one.where for one in gone] == [device_stream_id("acme", "laptop", stream)]


def test_a_last_segment_that_was_exchanged_is_named(full: TestLake) -> None:
    name = _last_of_a_stream(full)
    data = full.place.get(name)
    assert data is not None
    header, lines = unpack_segment(data)
    full.place.overwrite(name, pack_segment(header, [msgspec.structs.replace(lines[0], raw="{}"), *lines[1:]]))
    assert [(one.what, one.where) for one in full.verify().problems] == [("exchanged segment", name)]
    full.place.overwrite(name, data)  # put again, as in a bucket that was restored
    assert full.verify().problems == ()


def test_a_segment_in_the_middle_that_was_exchanged_is_named_when_everything_is_read(full: TestLake) -> None:
    last = _last_of_a_stream(full)
    first = min(found.name for found in full.place.names(last.rpartition("/")[0]))
    data = full.place.get(first)
    assert data is not None
    assert first != last
    full.place.overwrite(first, pack_segment(*unpack_segment(data)._replace(lines=unpack_segment(data).lines[::-1])))
    assert {one.what for one in full.verify(is_full=True).problems} == {"bad segment"}


def test_a_manifest_that_cannot_be_read_is_named(full: TestLake) -> None:
    full.place.delete("manifests/acme/laptop.json")
    full.place.put_new("manifests/acme/laptop.json", b"{")
    assert [one.what for one in full.verify().problems] == ["manifest"]
