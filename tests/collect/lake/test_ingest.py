"""Every line is in the tables once, and all that follows from it, whatever comes late, twice or broken."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.collect.lake.sending import pack_segment
from tests.faults.world import World, lines
from tests.store import dirty
from tests.store.asking import Columns
from unspool.collect.lake.ingest import LANES, lane_of_stream
from unspool.collect.lake.lake import create_lake
from unspool.collect.lake.streams import device_stream_id
from unspool.store.columns.tables import public_tables

SUMS = """SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_5m_tokens),
    sum(cache_write_1h_tokens), sum(cost_micros), sum(unpriced_tokens), sum(estimated_output_tokens),
    sum(estimated_cost_micros) FROM responses"""
NOT_THERE = {
    "sources": {"path", "size", "modified", "archived", "gone", "gone_since", "lines", "read_bytes"},
    "sessions": {"gone"},
    "entries": {"number", "flaws", "length"},
    "plans": {"created", "modified"},
    "bad_lines": {"length"},
    "claude_conversations": {"tool_uses", "token_usage"},
    "claude_plans": {"created_at", "modified_at"},
}
"""What a lake does not have, or has in its own way: times of files, lengths without line ends, the spelling of JSON."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config folder with everything that makes lines hard to read as tables. Of an empty file nothing is sent."""
    root = dirty.write(tmp_path / "config")
    for path in root.rglob("*.jsonl"):
        if not path.stat().st_size:
            path.unlink()
    return root


def test_every_line_is_there_once(lake: TestLake, config: Path) -> None:
    lake.device().send(config, size=2000)
    report = lake.ingest()
    assert lake.lines() == expected(config)
    assert report.lines == lake.rows("SELECT (SELECT count(*) FROM entries) + (SELECT count(*) FROM side_files)")[0][0]
    assert lake.verify().problems == ()


def test_nothing_is_done_twice(lake: TestLake, config: Path) -> None:
    lake.device().send(config)
    lake.ingest()
    before = lake.everything()
    assert lake.ingest().segments == 0
    assert lake.everything() == before
    assert lake.ingest(again=True).lines == 0
    assert lake.everything() == before


def test_the_tables_have_the_rows_that_sql_has(lake: TestLake, config: Path, tmp_path: Path) -> None:
    lake.device().send(config, size=3000)
    lake.ingest()
    own = Columns(tmp_path / "own", config)
    own.refresh()
    with lake.connection() as here, own.connection() as there:
        paths = {id: str(Path(path).relative_to(config)) for id, path in _rows(there, "SELECT id, path FROM sources")}
        streams = dict(_rows(here, "SELECT id, path FROM sources"))
        for name, table in public_tables().items():
            columns = [one for one in table.names if one not in NOT_THERE.get(name, ())]
            query = f"SELECT {', '.join(_quoted(one) for one in columns)} FROM {name}"
            ours = [_named(columns, row, streams) for row in _rows(here, query)]
            theirs = [_named(columns, row, paths) for row in _rows(there, query)]
            if name == "entries":  # a line with two documents is one line, and one that cannot be read is one too
                begun = {row["offset"] for row in ours}
                ours, theirs = (
                    [row for row in some if row["type"] and row["offset"] in begun] for some in (ours, theirs)
                )
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), name


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def _quoted(name: str) -> str:
    return f'"{name}"'


def _named(columns: list[str], row: tuple[Any, ...], paths: dict[Any, str]) -> dict[str, Any]:
    """Return a row by name, with files named by their place in the folder."""
    named = dict(zip(columns, row, strict=True))
    for key in ("id", "source_id"):
        if named.get(key) in paths:
            named[key] = paths[named[key]]
    return named


def test_what_was_billed_is_what_usage_says(lake: TestLake, config: Path, tmp_path: Path) -> None:
    lake.device().send(config)
    lake.ingest()
    own = Columns(tmp_path / "own", config)
    own.refresh()
    assert lake.rows(SUMS) == own.rows(SUMS)
    assert lake.rows("SELECT * EXCLUDE models FROM daily") == own.rows("SELECT * EXCLUDE models FROM daily")


def test_sessions_that_grow_are_derived_anew(lake: TestLake, tmp_path: Path) -> None:
    world, own = World(tmp_path / "config"), Columns(tmp_path / "own", tmp_path / "config")
    device = lake.device()
    paths = [world.create() for _ in range(3)]
    for path, count in itertools.product(paths, (1, 3, 2, 7, 40)):
        world.append(path, count)
        device.send(world.root)
        lake.ingest()
    own.refresh()
    assert lake.lines() == expected(world.root)
    assert lake.rows(SUMS) == own.rows(SUMS)
    for name in ("sessions", "messages", "turns", "tool_calls", "blocks", "files_touched"):
        assert lake.rows(f"SELECT count(*) FROM {name}") == own.rows(f"SELECT count(*) FROM {name}"), name
    assert lake.verify().problems == ()


def test_a_file_that_became_another_keeps_its_lines_and_what_was_billed(lake: TestLake, tmp_path: Path) -> None:
    root = tmp_path / "config"
    path = root / "projects" / "-p" / "00000001-0000-4000-8000-000000000001.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines(1)))
    device = lake.device()
    device.send(root)
    lake.ingest()
    first, billed = expected(root), lake.rows(SUMS)[0]
    path.write_bytes(b"".join(lines(2)[:10]))
    device.send(root)
    lake.ingest()
    assert lake.lines() == first + expected(root, generation=2)
    assert lake.rows(SUMS)[0][0] > billed[0]
    assert lake.rows("SELECT count(*) FROM sessions") == [(1,)]
    assert lake.rows("SELECT count(*) FROM turns") == [(2,)]
    assert lake.verify().problems == ()


def test_a_stream_waits_behind_a_gap(lake: TestLake, config: Path) -> None:
    made = lake.device().make(config, size=1000)
    held = next(one for one in made if one.header.sequence == 2)
    for one in reversed(made):
        if one is not held:
            lake.place.put_new(one.name, one.data)
    report = lake.ingest()
    id = device_stream_id("acme", "laptop", held.header.stream)
    there = lake.rows(f"SELECT max(sequence) FROM entries WHERE stream = '{id}'")
    assert (report.waiting, there) == (1, [(1,)])
    assert [one.what for one in lake.verify().problems] == ["gap"]
    lake.place.put_new(held.name, held.data)
    assert lake.ingest().waiting == 0
    assert lake.lines() == expected(config)
    assert lake.verify().problems == ()


def test_bad_segments_are_named_and_cost_no_other_stream(lake: TestLake, config: Path) -> None:
    made = lake.device().make(config, size=1000)
    lined = [one for one in made if one.header.kind in ("session", "agent")]
    firsts = {one.header.stream: one for one in lined if one.header.sequence == 1}
    victims = list(firsts.values())[:3]
    lied = victims[1].header
    spoilt = {
        victims[0].name: victims[0].data[: len(victims[0].data) // 2],
        victims[1].name: pack_segment(msgspec.structs.replace(lied, device="elsewhere", lines=0), []),
        victims[2].name: b"no zstd at all",
    }
    for one in made:
        lake.place.put_new(one.name, spoilt.get(one.name, one.data))
    lake.place.put_new("segments/acme/laptop/notes.txt", b"hello")
    report = lake.ingest()
    assert {one.name for one in report.bad} == {*spoilt, "segments/acme/laptop/notes.txt"}
    assert {name for (name,) in lake.rows("SELECT name FROM quarantine")} == {one.name for one in report.bad}
    spared = {one.header.source for one in lined} - {one.header.source for one in victims}
    assert {row[1] for row in lake.lines()} == spared
    assert len(lake.verify().problems) >= 4
    for one in victims:  # they are mended
        lake.place.delete(one.name)
        lake.place.put_new(one.name, one.data)
    lake.place.delete("segments/acme/laptop/notes.txt")
    assert lake.ingest().bad == ()
    assert lake.rows("SELECT name FROM quarantine") == []
    assert lake.lines() == expected(config)
    assert lake.verify().problems == ()


def test_a_segment_that_does_not_follow_is_left_out(lake: TestLake, config: Path) -> None:
    made = lake.device().send(config, size=1000)
    second = next(one for one in made if one.header.sequence == 2)
    lake.place.put_new(second.name.rpartition("-")[0] + "-0123456789abcdef.jsonl.zst", second.data)
    report = lake.ingest()
    assert [one.reason for one in report.bad] == ["it does not follow the segment before it"]
    assert lake.lines() == expected(config)


def test_the_same_segments_give_the_same_tables(lake: TestLake, config: Path, tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    device = lake.device()
    for count in (4, 9, 20):
        world.append(world.create(), count)
        for path in world.paths:
            world.append(path, 2)
        device.send(world.root)
        lake.ingest()
    lake.device("desktop").send(config, size=700)
    lake.ingest()
    anew = TestLake.__new__(TestLake)
    anew.folder, anew.url, anew.place = tmp_path / "anew", lake.url, lake.place
    create_lake(str(anew.folder), {})
    anew.ingest(workers=2)
    assert anew.everything() == lake.everything()


def test_a_session_on_two_devices_counts_once_in_each_and_once_in_the_organisation(
    lake: TestLake, tmp_path: Path
) -> None:
    world = World(tmp_path / "config")
    world.append(world.create(), 30)
    for name in ("laptop", "desktop"):
        lake.device(name).send(world.root)
    lake.ingest()
    each = lake.rows("SELECT device, count(*) FROM responses GROUP BY device ORDER BY device")
    (total,) = lake.rows("SELECT count(*) FROM org_responses")
    assert each == [("desktop", total[0]), ("laptop", total[0])]


def test_a_fork_that_comes_later_changes_what_counts(lake: TestLake, tmp_path: Path) -> None:
    world, own = World(tmp_path / "config"), Columns(tmp_path / "own", tmp_path / "config")
    path, device = world.create(), lake.device()
    world.append(path, 20)
    device.send(world.root)
    lake.ingest()
    world.fork(path)
    device.send(world.root)
    lake.ingest()
    own.refresh()
    query = "SELECT response_id, copies, cost_micros FROM responses ORDER BY ALL"
    assert lake.rows(query) == own.rows(query)
    assert lake.rows("SELECT max(copies) FROM responses") == [(2,)]


def test_redaction_changes_no_sum_and_no_place(lake: TestLake, config: Path, tmp_path: Path) -> None:
    device = lake.device()
    device.redact = lambda text: text.replace("Let me see.", "<redacted by a rule that has a rather long name>")
    device.send(config)
    lake.ingest()
    own = Columns(tmp_path / "own", config)
    own.refresh()
    assert lake.rows(SUMS) == own.rows(SUMS)
    assert {row[:4] for row in lake.lines()} == {row[:4] for row in expected(config)}
    assert lake.rows("SELECT count(*) FROM entries WHERE raw LIKE '%Let me see.%'") == [(0,)]
    assert lake.rows("SELECT count(*) FROM blocks WHERE text LIKE '%Let me see.%'") == [(0,)]


def test_names_with_odd_characters_are_names(lake: TestLake, config: Path) -> None:
    lake.device("ada's laptop, 50% [old]", user="ada 'o").send(config)
    lake.ingest()
    assert lake.lines() == expected(config, "ada's laptop, 50% [old]")
    assert lake.rows("SELECT DISTINCT device, user FROM sources") == [("ada's laptop, 50% [old]", "ada 'o")]
    assert lake.verify().problems == ()


def test_every_stream_has_a_worker() -> None:
    assert {lane_of_stream(f"{digit:x}" + "0" * 31) for digit in range(16)} == set(range(LANES))
