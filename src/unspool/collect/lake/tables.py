"""Declares the tables of a lake: their columns and partitions, read from SQL scripts.

Rules
  1. Every table has `org`, `user` and `device`. A file is known by its stream, which `source_id` is here.
  2. Tables are partitioned by `day`. Those that are looked up by device when lines come, and small ones, are
     partitioned by `bucket`: all devices are in one of a few. So a batch of any devices and days writes few files.
  3. Times are UTC, so that any reader of Delta tables can read them; JSON is text.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

from unspool.store.columns import LINE_KINDS, Table, TableColumn, parse_tables, part_tables, public_tables

WHOSE: Final = ("org", "user", "device")
LINES: Final = ("entries", "side_files")
"""Tables of lines. They only grow."""

DERIVED: Final = (
    "messages",
    "blocks",
    "tool_calls",
    "turns",
    "files_touched",
    "compactions",
    "agent_files",
    "starters",
    "reports",
    "agent_owners",
    "agent_meta",
    "bad_lines",
    "history",
    "todos",
    "plans",
    "stats_days",
    "sessions",
)
"""Tables whose rows come from one stream each, and are made anew when it grows; in the order they are written."""

TIMES: Final = {
    "messages": "started",
    "tool_calls": "started",
    "turns": "started",
    "files_touched": "time",
    "compactions": "time",
    "sessions": "started",
}
"""The column whose day a row belongs to; in other tables that of the line it comes from."""

_BESIDE: Final = {
    "agent-meta": ("agent_meta",),
    "history": ("history",),
    "todos": ("todos",),
    "plan": ("plans",),
    "stats": ("stats_days",),
}

BUCKETS: Final = 64
_BY_BUCKET = frozenset(
    {"answers", "sources", "agent_files", "starters", "reports", "agent_owners", "agent_meta", "bad_lines"}
) | frozenset(("history", "todos", "plans", "stats_days"))


@cache
def lake_tables() -> dict[str, Table]:
    """Return every table by name."""
    own = parse_tables((Path(__file__).parent / "tables.sql").read_text("utf-8"))
    return own | {name: _derived(part_tables()[name]) for name in DERIVED}


def partition_columns(name: str) -> list[str]:
    """Return the columns that a table is partitioned by."""
    if name == "quarantine":
        return []
    return ["bucket"] if name in _BY_BUCKET else ["day"]


def device_bucket(org: str, device: str) -> int:
    """Return which bucket a device is in."""
    return crc32(f"{org}/{device}".encode()) % BUCKETS


def columns_filled_by(kind: str) -> frozenset[str]:
    """Return the derived tables that may have rows of a kind of file."""
    beside = {table for names in _BESIDE.values() for table in names}
    own = _BESIDE.get(kind, ()) if kind not in LINE_KINDS else (name for name in DERIVED if name not in beside)
    return frozenset({*own, "bad_lines"})


def _derived(table: Table) -> Table:
    """Return a table of the column files as a lake has it."""
    said = public_tables().get(table.name)
    words = {column.name: column.comment for column in said.columns} if said else {}
    whose = [TableColumn(name, "VARCHAR") for name in (*WHOSE, "source_id")]
    own = [
        TableColumn(one.name, one.type.replace("TIMESTAMP", "TIMESTAMPTZ"), words.get(one.name, ""))
        for one in table.columns
        if one.name not in ("revision", "source_id")
    ]
    comment = said.comment if said else table.comment
    last = (
        TableColumn("bucket", "INTEGER", "of the device")
        if table.name in _BY_BUCKET
        else TableColumn("day", "DATE", "in UTC")
    )
    return Table(table.name, comment, (*whose, *own, last))
