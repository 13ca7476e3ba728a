"""What is searched for and where, and what comes of it. Data.

Rules
  1. Nothing heavy is imported here, nor by `search.py` before it is needed: a search that the index answers is quick.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.store.terms import Words

if TYPE_CHECKING:
    from unspool.read.scan import Tree
    from unspool.store.archive import Archive
    from unspool.store.patterns import Pattern


class Hit(NamedTuple):
    """Something that was found."""

    session: str | None
    agent: str | None
    project: str | None
    turn: int | None
    role: str
    kind: str
    tool: str | None
    timestamp: str | None
    snippet: str
    file: str
    offset: int
    uuid: str | None
    score: float


class Filters(NamedTuple):
    """Which hits are wanted."""

    kinds: frozenset[str] | None = None
    tool: str | None = None
    target: str | None = None
    """A pattern of the file that a tool call was aimed at."""
    project: str | None = None
    session: str | None = None
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """Not included."""
    errors: bool = False


class Question(NamedTuple):
    """What is searched for."""

    asked: Words | Pattern
    filters: Filters = Filters()
    limit: int | None = None
    indexed_only: bool = False
    """Leave out what would have to be looked through."""


class Corpus(NamedTuple):
    """A folder to search in: with a store, or a tree of files."""

    root: Path
    database: sqlite3.Connection | None
    archive: Callable[[], Archive] | None
    """Opens the archive, anew each time."""
    tree: Tree | None = None
