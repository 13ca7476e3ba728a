"""An ingest that continues copies of logs commits what one would commit that continues the logs themselves."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.collect.lake.lakes import TestLake, copy_logs, expected
from tests.faults.world import World
from unspool.collect.lake.lake import CommitConflict, Lake, create_lake, open_lake
from unspool.collect.lake.lifecycle.table_cleanup import clean_tables
from unspool.collect.lake.log.copied_lake import CopiedLake
from unspool.collect.lake.log.recent_commits import NAME, declared_columns, read_recent
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.lake.tables import lake_tables
from unspool.store.columns import to_record_batch

TABLE = "agent_owners"


def rows(*streams: str) -> list[Any]:
    return [to_record_batch(lake_tables()[TABLE], [("o", "u", "d", stream, "s", 3) for stream in streams])]


def of(*streams: str) -> str:
    return f"source_id IN ({', '.join(map(repr, streams))}) AND bucket IN (3)"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a lake. It is in a folder, which is copied here as an object store is elsewhere."""
    create_lake(str(tmp_path / "lake"), {})
    return str(tmp_path / "lake")


def copied(folder: str) -> CopiedLake:
    return CopiedLake(open_lake(folder, {}), {})


def streams(folder: str) -> list[str]:
    """Return what any other program finds in the table."""
    return sorted(id for (id,) in open_lake(folder, {}).rows(TABLE, "SELECT source_id FROM t"))


def log(folder: str) -> list[str]:
    return sorted(path.name for path in (Path(folder) / TABLE / "_delta_log").iterdir())


def test_rows_are_appended_replaced_and_deleted(folder: str) -> None:
    lake = copied(folder)
    lake.write(TABLE, rows("a", "b"), {"lock": 1})
    lake.write(TABLE, rows("c"), {"lock": 2})
    assert streams(folder) == ["a", "b", "c"]
    lake.write(TABLE, rows("b"), {"lock": 3}, of("a", "b"))
    assert streams(folder) == ["b", "c"]
    lake.delete(TABLE, of("c"))
    assert streams(folder) == ["b"]
    assert lake.rows(TABLE, "SELECT source_id FROM t") == [("b",)]
    assert lake.versions(TABLE) == open_lake(folder, {}).versions(TABLE) == {"lock": 3}


def test_commits_of_others_that_do_not_matter_come_first(folder: str) -> None:
    one, two, plain = copied(folder), copied(folder), open_lake(folder, {})
    for lake in (one, two):
        lake.table(TABLE)
    one.write(TABLE, rows("a"), {"one": 1})
    plain.write(TABLE, rows("b"), {"plain": 1})
    two.write(TABLE, rows("c"), {"two": 1})
    assert streams(folder) == ["a", "b", "c"]
    two.write(TABLE, rows("d"), {"two": 2}, of("c", "d"))
    assert streams(folder) == ["a", "b", "d"]
    assert two.versions(TABLE) == {"one": 1, "plain": 1, "two": 2}


def test_of_two_commits_with_one_transaction_the_second_is_refused(folder: str) -> None:
    one, two = copied(folder), copied(folder)
    two.table(TABLE)
    one.write(TABLE, rows("a"), {"lock": 1})
    with pytest.raises(CommitConflict):
        two.write(TABLE, rows("b"), {"lock": 1})
    assert streams(folder) == ["a"]
    assert two.versions(TABLE) == {}
    assert two.has_moved_on(TABLE, {"lock": 0})
    two.write(TABLE, rows("b"), {"lock": 2})
    assert streams(folder) == ["a", "b"]


@pytest.mark.parametrize("marks", [{"two": 1}, {}])
def test_of_two_commits_that_replace_one_file_the_second_is_refused(folder: str, marks: dict[str, int]) -> None:
    one, two = copied(folder), copied(folder)
    one.write(TABLE, rows("a", "b"), {"one": 1})
    two.table(TABLE)
    one.write(TABLE, rows("a"), {"one": 2}, of("a"))
    with pytest.raises(CommitConflict):
        two.write(TABLE, rows("b"), marks, of("b"))
    two.table(TABLE, fresh=True)
    two.write(TABLE, rows("b"), marks, of("b"))
    assert streams(folder) == ["a", "b"]


def test_no_commit_follows_one_that_cannot_be_read(folder: str) -> None:
    lake = copied(folder)
    lake.table(TABLE)
    (Path(folder) / TABLE / "_delta_log" / f"{1:020d}.json").write_text('{"add": {"path": 5}}')
    with pytest.raises(CommitConflict):
        lake.write(TABLE, rows("a"), {"lock": 1})
    assert log(folder) == [f"{number:020d}.json" for number in range(2)]


def test_no_commit_gets_the_place_of_one_that_was_deleted(folder: str) -> None:
    late, lake = copied(folder), open_lake(folder, {})
    late.write(TABLE, rows("a"), {"late": 1})
    for number in range(3):
        lake.write(TABLE, rows(f"b{number}"), {"lake": number})
    table = DeltaTable(lake.location(TABLE))
    table.create_checkpoint()
    for number in range(table.version()):
        (Path(folder) / TABLE / "_delta_log" / f"{number:020d}.json").unlink()
    with pytest.raises(CommitConflict):
        late.write(TABLE, rows("c"), {"late": 2})
    assert f"{2:020d}.json" not in log(folder)
    late.write(TABLE, rows("c"), {"late": 2})
    assert streams(folder) == ["a", "b0", "b1", "b2", "c"]


def test_files_that_were_deleted_meanwhile_are_not_missed(folder: str) -> None:
    lake, plain = copied(folder), open_lake(folder, {})
    lake.write(TABLE, rows("a", "b"), {"one": 1})
    plain.write(TABLE, rows("c"), {"two": 1}, of("a", "b", "c"))
    clean_tables(plain, set(), plain.object_store.clock("test"))
    assert lake.rows(TABLE, "SELECT source_id FROM t") == [("c",)]


def test_checkpoints_are_written_and_used(folder: str) -> None:
    lake = copied(folder)
    for number in range(1, 70):
        lake.write(TABLE, rows(f"s{number}"), {"lock": number, f"app-{number}": number})
        lake.finish_round()
    wanted = sorted(f"s{number}" for number in range(1, 70))
    assert len([name for name in log(folder) if name.endswith(".parquet")]) == 2
    for found in (copied(folder), open_lake(folder, {})):
        assert sorted(id for (id,) in found.rows(TABLE, "SELECT source_id FROM t")) == wanted
        assert found.versions(TABLE) == {"lock": 69} | {f"app-{number}": number for number in range(1, 70)}
    other = copied(folder)
    other.write(TABLE, rows("new"), {"lock": 70})
    (Path(folder) / NAME).unlink()
    assert copied(folder).versions(TABLE)["lock"] == 70
    assert streams(folder) == sorted([*wanted, "new"])


def test_a_checkpoint_never_replaces_a_later_one(folder: str) -> None:
    slow, lake = copied(folder), open_lake(folder, {})
    for number in range(1, 4):
        slow.write(TABLE, rows(f"s{number}"), {"lock": number})
    lake.write(TABLE, rows("t"), {"other": 1})
    lake.table(TABLE).create_checkpoint()
    last = (Path(folder) / TABLE / "_delta_log" / "_last_checkpoint").read_bytes()
    assert not slow._copies[TABLE].put_checkpoint(slow.table(TABLE))
    assert (Path(folder) / TABLE / "_delta_log" / "_last_checkpoint").read_bytes() == last


@pytest.mark.parametrize("damage", [b"", b"no frame", None])
def test_without_the_recent_commits_the_logs_are_read(folder: str, damage: bytes | None) -> None:
    lake = copied(folder)
    lake.write(TABLE, rows("a"), {"lock": 1})
    lake.finish_round()
    assert read_recent(lake.object_store).tables[TABLE].first == 0
    (Path(folder) / NAME).unlink() if damage is None else (Path(folder) / NAME).write_bytes(damage)
    other = copied(folder)
    assert other.versions(TABLE) == {"lock": 1}
    other.write(TABLE, rows("b"), {"lock": 2})
    assert streams(folder) == ["a", "b"]


def test_old_recent_commits_do_no_harm(folder: str) -> None:
    lake = copied(folder)
    lake.write(TABLE, rows("a"), {"lock": 1})
    lake.finish_round()
    old = (Path(folder) / NAME).read_bytes()
    lake.write(TABLE, rows("b"), {"lock": 2})
    (Path(folder) / NAME).write_bytes(old)
    late = copied(folder)
    assert late.versions(TABLE) == {"lock": 1}
    with pytest.raises(CommitConflict):
        late.write(TABLE, rows("c"), {"lock": 2})
    late.table(TABLE, fresh=True)
    late.write(TABLE, rows("c"), {"lock": 3})
    assert streams(folder) == ["a", "b", "c"]


def test_recent_commits_do_not_come_back_after_the_logs_were_replaced(folder: str) -> None:
    first = next(iter(lake_tables()))
    running, plain = copied(folder), open_lake(folder, {})
    running.table(first)
    running.write(TABLE, rows("a"), {"lock": 1})
    running.finish_round()
    assert (Path(folder) / NAME).exists()
    running.write(TABLE, rows("b"), {"lock": 2})
    clean_tables(plain, set(), plain.object_store.clock("test"))
    assert not (Path(folder) / NAME).exists()
    running.finish_round()
    assert not (Path(folder) / NAME).exists()
    running.write(TABLE, rows("c"), {"lock": 3})
    running.finish_round()
    assert read_recent(running.object_store).tables[TABLE].checkpoint
    assert streams(folder) == ["a", "b", "c"]


def test_a_table_with_a_checkpoint_of_another_form_is_used_where_it_is(folder: str) -> None:
    plain = open_lake(folder, {})
    plain.write(TABLE, rows("a"), {"lock": 1})
    plain.table(TABLE).create_checkpoint()
    last = Path(folder) / TABLE / "_delta_log" / "_last_checkpoint"
    last.write_text(last.read_text().rstrip("}") + ',"v2Checkpoint":{"path":"x.parquet"}}')
    lake = copied(folder)
    lake.write(TABLE, rows("b"), {"lock": 2}, of("a", "b"))
    assert lake.table(TABLE).table_uri.rstrip("/").endswith(f"lake/{TABLE}")
    assert streams(folder) == ["b"]


def test_columns_that_came_since_are_added(folder: str) -> None:
    assert copied(folder).add_missing_columns() == []
    lake = copied(folder)
    lake.add_missing_columns()
    lake.write(TABLE, rows("a"), {"lock": 1})
    lake.finish_round()
    assert read_recent(lake.object_store).columns == declared_columns()


def test_lakes_of_both_kinds_of_ingest_have_the_same_rows(
    lake: TestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "config")
    device = lake.device(is_chained=True)
    plain = TestLake.__new__(TestLake)
    plain.folder, plain.url, plain.place = tmp_path / "plain", lake.url, lake.place
    create_lake(str(plain.folder), {})
    plain_ingester = Ingester(IngestJob(lake.url, str(plain.folder)), {})
    copy_logs(monkeypatch)
    for count in (4, 1, 3):
        world.append(world.create(), count)
        world.append(world.paths[0], 1)
        device.send(world.root)
        plain_ingester._paused.clear()
        plain_ingester.round()
        Ingester(IngestJob(lake.url, str(lake.folder)), {}).round()
    assert lake.everything() == plain.everything()
    assert lake.verify().problems == ()


def test_workers_with_copies_of_logs_share_a_device(
    lake: TestLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_logs(monkeypatch)
    world = World(tmp_path / "config")
    for count in range(6, 14):
        world.append(world.create(), count)
    for path in world.paths[:3]:
        world.fork(path)
    lake.device().send(world.root)
    job = IngestJob(lake.url, str(lake.folder), workers=4)
    ingesters = [Ingester(job, {}, number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(Ingester.round, ingesters))
    assert sum(report.streams for report in reports) == 11
    assert lake.verify().problems == ()
    assert lake.lines() == expected(world.root)
    assert lake.rows("SELECT count(*) = count(DISTINCT response_id) FROM responses") == [(True,)]


def test_an_unchanged_empty_table_is_not_written(lake: TestLake, tmp_path: Path) -> None:
    world, device = World(tmp_path / "config"), lake.device(is_chained=True)
    world.append(world.create(), 2)
    device.send(world.root)
    lake.ingest()
    opened: Lake = open_lake(str(lake.folder), {})
    before = Counter({name: opened.table(name).version() for name in lake_tables()})
    world.append(world.paths[0], 1)
    device.send(world.root)
    lake.ingest()
    after = Counter({name: opened.table(name, fresh=True).version() for name in lake_tables()})
    written = set(after - before)
    assert {"entries", "messages", "sources"} <= written
    assert not {name for name in written if not opened.rows(name, "SELECT 1 FROM t LIMIT 1")}
