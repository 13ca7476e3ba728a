"""The tables of SQL, as `columns.sql` and `parts.sql` declare them: text in, tables and columns with words out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = re.compile(r"((?:^--[^\n]*\n)*)^CREATE TABLE (\w+) \((.*?)\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r'"?(\w+)"? (\w+(?:\[\])?),?(?:\s*-- ([^\n]*))?')


class Column(NamedTuple):
    """A column, its type and what it means."""

    name: str
    type: str
    comment: str = ""


class Table(NamedTuple):
    """A table and what its rows are."""

    name: str
    comment: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(column.name for column in self.columns)


@cache
def public() -> dict[str, Table]:
    """Return the tables that SQL sees, by name."""
    return declared(text("columns.sql"))


@cache
def parts() -> dict[str, Table]:
    """Return the tables that the column files hold, by name."""
    return declared(text("parts.sql"))


def text(name: str) -> str:
    """Return one of the scripts of this folder."""
    return (Path(__file__).parent / name).read_text("utf-8")


def declared(script: str) -> dict[str, Table]:
    """Return the tables that a script declares, by name."""
    return {name: Table(name, _words(said), tuple(_columns(body))) for said, name, body in _TABLE.findall(script)}


def _columns(body: str) -> list[Column]:
    return [Column(*found) for found in _COLUMN.findall(body)]


def _words(comment: str) -> str:
    return " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
