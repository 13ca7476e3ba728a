"""Parses the table declarations in `columns.sql` and `parts.sql`: names, types, and the comments that explain them.

`columns.sql` declares the tables that SQL queries see; `parts.sql` the ones that the Parquet files hold.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = re.compile(r"((?:^--[^\n]*\n)*)^CREATE TABLE (\w+) \((.*?)\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r'"?(\w+)"? (\w+(?:\[\])?),?(?:\s*-- ([^\n]*))?')


class TableColumn(NamedTuple):
    """A declared column: its name, its type and the comment beside it."""

    name: str
    type: str
    comment: str = ""


class Table(NamedTuple):
    """A declared table: its name, the comment above it and its columns."""

    name: str
    comment: str
    columns: tuple[TableColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(column.name for column in self.columns)


@cache
def public_tables() -> dict[str, Table]:
    """Return the tables that SQL queries see, by name."""
    return parse_tables(read_script("columns.sql"))


@cache
def part_tables() -> dict[str, Table]:
    """Return the tables that the Parquet files hold, by name."""
    return parse_tables(read_script("parts.sql"))


def read_script(name: str) -> str:
    """Return the text of a `.sql` file in this folder."""
    return (Path(__file__).parent / name).read_text("utf-8")


def parse_tables(script: str) -> dict[str, Table]:
    """Return the tables that a script declares, by name."""
    tables = {}
    for comment, name, body in _TABLE.findall(script):
        lines = (line.removeprefix("--").strip() for line in comment.splitlines())
        tables[name] = Table(name, " ".join(lines), tuple(TableColumn(*found) for found in _COLUMN.findall(body)))
    return tables


def sql_literal(text: str) -> str:
    """Return text as a quoted literal of a SQL statement."""
    return "'" + text.replace("'", "''") + "'"
