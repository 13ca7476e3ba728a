"""Declares the tables of a lake: their columns and partitions, read from SQL scripts.

Rules
  1. Every table has `org`, `user` and `device`. `source_id` is the stream of a file.
  2. Tables are partitioned by `day`. Those that ingest looks up by device, and small ones, are partitioned by `bucket`:
     every device is in one of 64. So a batch of any devices and days writes few files.
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
"""Tables of lines. Rows are only ever appended."""

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
"""Tables whose rows come from one stream each and are replaced when it grows; in the order of writing."""

TIMES: Final = {
    "messages": "started",
    "tool_calls": "started",
    "turns": "started",
    "files_touched": "time",
    "compactions": "time",
    "sessions": "started",
}
"""The column that decides the day of a row; in other tables it is the day of the line."""

_SIDE_FILE_TABLES: Final = {
    "agent-meta": ("agent_meta",),
    "history": ("history",),
    "todos": ("todos",),
    "plan": ("plans",),
    "stats": ("stats_days",),
}

# A partition for each device would be ten thousand small files a minute; partitions by day would have to be read from
# end to end to find one response.
BUCKETS: Final = 64
_BY_BUCKET = frozenset(
    {"answers", "sources", "agent_files", "starters", "reports", "agent_owners", "agent_meta", "bad_lines"}
) | frozenset(("history", "todos", "plans", "stats_days"))


@cache
def lake_tables() -> dict[str, Table]:
    """Return every table by name."""
    own = parse_tables((Path(__file__).parent / "tables.sql").read_text("utf-8"))
    return own | {name: _derived(part_tables()[name]) for name in DERIVED}


_TEXTS = frozenset(
    {
        "raw",
        "text",
        "input",
        "result",
        "structured",
        "prompt",
        "first_prompt",
        "content",
        "active_form",
        "title",
        "display",
    }
) | frozenset({"pasted", "description", "path", "reason"})
_NAMES_ONLY = frozenset({"sources", "quarantine"})
"""Tables with such a column that holds only names of session files or objects."""


def private_tables() -> list[str]:
    """Return the tables that hold what people or Claude wrote, or the files they worked on."""
    return [name for name, table in lake_tables().items() if name not in _NAMES_ONLY and _TEXTS & set(table.names)]


def partition_columns(name: str) -> list[str]:
    """Return the columns that a table is partitioned by."""
    if name == "quarantine":
        return []
    return ["bucket"] if name in _BY_BUCKET else ["day"]


def device_bucket(org: str, device: str) -> int:
    """Return the bucket of a device."""
    # Not `hash`, which differs from process to process: the bucket is part of where rows are stored.
    return crc32(f"{org}/{device}".encode()) % BUCKETS


def tables_filled_by(kind: str) -> frozenset[str]:
    """Return the derived tables that may have rows of a kind of file."""
    of_side_files = {table for names in _SIDE_FILE_TABLES.values() for table in names}
    own = (
        _SIDE_FILE_TABLES.get(kind, ())
        if kind not in LINE_KINDS
        else (name for name in DERIVED if name not in of_side_files)
    )
    return frozenset({*own, "bad_lines"})


def _derived(table: Table) -> Table:
    """Return the lake's version of a table of the column files: with the owner, UTC times and a partition column."""
    public = public_tables().get(table.name)
    comments = {column.name: column.comment for column in public.columns} if public else {}
    owner = [TableColumn(name, "VARCHAR") for name in (*WHOSE, "source_id")]
    own = [
        TableColumn(column.name, column.type.replace("TIMESTAMP", "TIMESTAMPTZ"), comments.get(column.name, ""))
        for column in table.columns
        if column.name not in ("revision", "source_id")
    ]
    comment = public.comment if public else table.comment
    partition = (
        TableColumn("bucket", "INTEGER", "of the device")
        if table.name in _BY_BUCKET
        else TableColumn("day", "DATE", "in UTC")
    )
    return Table(table.name, comment, (*owner, *own, partition))
