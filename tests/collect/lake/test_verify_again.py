"""What was verified is not read again, and is named all the same if it is lost, doubled or exchanged later."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.test_verify import double_line, lost_line, lost_response
from tests.faults.world import World
from unspool.collect.heartbeat import heartbeat_name
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.verify.row_sums import RowCounter
from unspool.collect.lake.verify.state import NAME, digest_listing, line_digest, read_verified


class Team:
    """A lake that was verified, and the device that sends to it."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.world = TestLake(folder), World(folder / "config")
        self.device = self.lake.device(is_chained=True)
        for count in (5, 9):
            self.world.append(self.world.create(), count)
        self.sent = self.device.send(self.world.root, size=1500)
        self.lake.ingest()
        self.first = self.lake.verify()
        assert self.first.problems == ()

    def found(self) -> set[str]:
        """Verify again; return what is wrong."""
        return {one.what for one in self.lake.verify().problems}

    def path(self, number: int) -> Path:
        """Return the file of a segment."""
        return self.lake.folder.parent / "segments" / self.sent[number].name


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def test_only_what_is_new_is_read(team: Team) -> None:
    assert team.first.read_segments >= len(team.sent) > 2
    again = team.lake.verify()
    assert (again.read_segments, again.counted_partitions) == (0, 0)
    team.world.append(team.world.paths[0], 1)
    team.device.send(team.world.root)
    team.lake.ingest()
    later = team.lake.verify()
    assert later.problems == ()
    # The new one: to count its lines, and as the last one that was ingested.
    assert later.read_segments == 2
    assert later.lines == team.first.lines + 1
    assert team.lake.verify(is_full=True)._replace(read_segments=0, counted_partitions=0) == later._replace(
        read_segments=0, counted_partitions=0
    )


@pytest.mark.parametrize(
    ("spoil", "what"),
    [(double_line, {"double rows", "lines"}), (lost_line, {"lines"}), (lost_response, {"responses"})],
)
def test_rows_that_are_lost_or_doubled_later_are_named_each_time(
    team: Team, spoil: Callable[[object], None], what: set[str]
) -> None:
    spoil(open_lake(str(team.lake.folder), {}))
    assert [team.found(), team.found()] == [what, what]


def test_a_compaction_is_no_difference(team: Team) -> None:
    for name in ("entries", "answers", "messages"):
        open_lake(str(team.lake.folder), {}).table(name).optimize.compact()
    assert team.found() == set()


def test_a_segment_that_is_removed_later_is_named(team: Team) -> None:
    team.path(1).unlink()
    assert {"gap", "missing segments"} <= team.found()


def test_a_segment_that_is_exchanged_later_is_named(team: Team) -> None:
    path = team.path(1)
    team.lake.place.overwrite(team.sent[1].name, path.read_bytes()[:-1] + b"\0")
    assert "bad segment" in team.found()
    team.lake.place.overwrite(team.sent[1].name, team.sent[1].data)
    assert team.found() == set()


def test_only_full_reads_a_segment_of_the_same_name_size_and_time(team: Team) -> None:
    path = team.path(1)
    time = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    os.utime(path, ns=(time, time))
    assert team.found() == set()
    assert "bad segment" in {one.what for one in team.lake.verify(is_full=True).problems}


def test_a_heartbeat_that_is_removed_later_is_named(team: Team) -> None:
    team.lake.place.delete(heartbeat_name("acme", "laptop"))
    assert [team.found(), team.found()] == [{"missing heartbeat"}] * 2
    assert team.lake.verify(is_full=True).problems == ()  # full knows nothing of what was there
    assert team.found() == set()


def test_a_file_of_a_table_that_is_removed_is_named(team: Team) -> None:
    table = open_lake(str(team.lake.folder), {}).table("blocks")
    Path(unquote(table.file_uris()[0])).unlink()
    assert team.found() == {"missing file"}


def test_rows_of_a_stream_that_nobody_knows_are_named_each_time(team: Team) -> None:
    from deltalake import QueryBuilder, write_deltalake

    table = open_lake(str(team.lake.folder), {}).table("turns")
    query = "SELECT * REPLACE ('0' AS source_id) FROM t LIMIT 1"
    write_deltalake(table, QueryBuilder().register("t", table).execute(query).read_all(), mode="append")
    assert [team.found(), team.found()] == [{"rows without a stream"}] * 2


@pytest.mark.parametrize("data", [b"", b"{", b"\x28\xb5\x2f\xfd"])
def test_without_a_record_that_can_be_read_everything_is(team: Team, data: bytes) -> None:
    opened = open_lake(str(team.lake.folder), {}).object_store
    opened.overwrite(NAME, data)
    assert read_verified(opened).devices == {}
    again = team.lake.verify()
    assert (again.problems, again.read_segments) == ((), team.first.read_segments)


def test_where_nothing_can_be_recorded_the_result_is_the_same(team: Team) -> None:
    path = team.lake.folder / NAME
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    again = team.lake.verify(is_full=True)
    assert (again.problems, again.is_recorded) == ((), False)


def test_streams_with_chains_of_their_own_are_read_again_if_one_of_them_grows(team: Team) -> None:
    world, device = World(team.lake.folder.parent / "older"), team.lake.device("older")
    for count in (3, 4):
        world.append(world.create(), count)
    sent = device.send(world.root, 900)
    team.lake.ingest()
    assert (team.lake.verify().problems, team.lake.verify().read_segments) == ((), 0)
    world.append(world.paths[0], 1)
    more = device.send(world.root)
    team.lake.ingest()
    later = team.lake.verify()
    assert (later.problems, later.read_segments) == ((), len(sent) + len(more))
    team.lake.place.delete(sent[0].name)
    assert "missing segments" in team.found()


def test_a_line_has_the_same_digest_in_python_and_in_the_tables(team: Team) -> None:
    opened = open_lake(str(team.lake.folder), {})
    query = 'SELECT stream, sequence, generation, "offset" FROM t'
    digests = [line_digest(*row) for row in opened.rows("entries", query)]
    with RowCounter(opened) as counter:
        assert counter.count_by_device("entries", ["acme/laptop"]) == {
            "acme/laptop": (len(digests), sum(digests) % (1 << 63))
        }


def test_the_record_of_a_listing_changes_with_every_part_of_it(team: Team) -> None:
    listed = sorted(team.lake.place.names("segments"))
    one = listed[0]
    others = [one._replace(name="x"), one._replace(size=1), one._replace(modified=one.modified.replace(year=2001))]
    digests = {digest_listing(each) for each in (listed, listed[1:], *([other, *listed[1:]] for other in others))}
    assert len(digests) == 5
    assert digest_listing(reversed(listed)) == digest_listing(listed)
