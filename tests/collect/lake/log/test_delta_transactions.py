"""The transactions of a table are those that the library would find, whatever of its log is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from arro3.core import Array, DataType, Field, RecordBatch, Schema
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.collect.lake.sending import place
from unspool.collect.lake.log.delta_transactions import TransactionVersions
from unspool.errors import Unreadable

BATCH = RecordBatch([Array([1], DataType.int64())], schema=Schema([Field("x", DataType.int64())]))


def commit(table: DeltaTable, number: int) -> None:
    marks = [Transaction(f"app-{number % 7}", number), Transaction("all", number)]
    write_deltalake(table, BATCH, mode="append", commit_properties=CommitProperties(app_transactions=marks))


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    made = DeltaTable.create(str(tmp_path / "t"), BATCH.schema)
    for number in range(1, 31):
        commit(made, number)
    return made


def test_they_are_those_that_the_library_finds(table: DeltaTable, tmp_path: Path) -> None:
    found = TransactionVersions(place(tmp_path), "t").at(table)
    assert found == {name: table.transaction_version(name) for name in ("all", *(f"app-{n}" for n in range(7)))}


def test_a_snapshot_is_not_told_of_what_came_after_it(table: DeltaTable, tmp_path: Path) -> None:
    other, versions = DeltaTable(str(tmp_path / "t")), TransactionVersions(place(tmp_path), "t")
    commit(other, 31)
    assert versions.at(table)["all"] == 30
    assert versions.at(other)["all"] == 31


@pytest.mark.parametrize("known", [True, False])
def test_a_checkpoint_stands_for_the_commits_before_it(table: DeltaTable, tmp_path: Path, known: bool) -> None:
    versions = TransactionVersions(place(tmp_path), "t")
    if known:
        versions.at(table)
    commit(table, 31)
    table.create_checkpoint()
    for number in range(31):
        (tmp_path / "t" / "_delta_log" / f"{number:020d}.json").unlink()
    commit(table, 32)
    found = versions.at(table)
    assert found == {name: table.transaction_version(name) for name in ("all", *(f"app-{n}" for n in range(7)))}


def test_a_log_with_a_hole_is_not_read(table: DeltaTable, tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log" / f"{9:020d}.json").unlink()
    with pytest.raises(Unreadable, match="cannot read the log of a table"):
        TransactionVersions(place(tmp_path), "t").at(table)


@pytest.mark.parametrize("last", [b"no JSON", b'{"version": "x"}', b"[" * 9999])
def test_a_pointer_to_a_checkpoint_that_cannot_be_read_is_named(table: DeltaTable, tmp_path: Path, last: bytes) -> None:
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_bytes(last)
    with pytest.raises(Unreadable, match="_last_checkpoint"):
        TransactionVersions(place(tmp_path), "t").at(table)
