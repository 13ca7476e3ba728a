"""A search as people ask for it: words in, a question out, or what is wrong with them.

[merged: questions.py] What is searched for and where, and what comes of it. Data.

Rules
  1. Nothing heavy is imported here, nor by `search.py` before it is needed: a search that the index answers is quick.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.display.time_words import moment
from unspool.errors import NotFound, Usage
from unspool.graph.search_text import KINDS
from unspool.store.database import open_archive
from unspool.store.search import terms
from unspool.store.search.terms import Words

if TYPE_CHECKING:
    from unspool.read.scan import Tree
    from unspool.store.access import Opened
    from unspool.store.archive.archive import Archive
    from unspool.store.search.terms import Pattern


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


SHORT: Final = {"tool": "tool_input", "result": "tool_result"}
"""Other names of kinds."""


class Request(NamedTuple):
    """What a person wrote into each field, if anything."""

    words: str = ""
    regex: str | None = None
    kinds: str | None = None
    """Separated by commas."""
    tool: str | None = None
    target: str | None = None
    project: str | None = None
    session: str | None = None
    since: str | None = None
    until: str | None = None
    errors: bool = False


def asked(request: Request) -> terms.Words | Pattern:
    """Return what is looked for."""
    if request.regex is not None:
        from unspool.store.search.terms import Pattern

        return Pattern(request.regex)
    found = terms.words(request.words)
    if found is None:
        message = "nothing to search for" if not request.words else f"no word in `{request.words}`"
        raise Usage(message, hint="name some words, or search for signs with `--regex PATTERN`")
    return found


def filters(request: Request, opened: Sequence[Opened], now: datetime, zone: tzinfo | None) -> Filters:
    """Return where it is looked for."""
    return Filters(
        kinds=_kinds(request.kinds),
        tool=request.tool,
        target=request.target,
        project=request.project,
        session=_session(request.session, opened),
        since=_milliseconds(moment(request.since, now, zone)),
        until=_milliseconds(moment(request.until, now, zone, end=True), after=True),
        errors=request.errors,
    )


def corpus(opened: Opened) -> Corpus:
    """Return a folder to search in."""
    if opened.database is None:
        from unspool.read.scan import scan

        return Corpus(opened.root, None, None, scan(opened.root))
    archive: Callable[[], Archive] = partial(_archive, opened)
    return Corpus(opened.root, opened.database, archive)


def _archive(opened: Opened) -> Archive:
    from unspool.store.archive.archive import Archive

    return Archive(open_archive(opened.folder))


def _kinds(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    kinds = frozenset(SHORT.get(name, name) for name in names)
    if unknown := sorted(kinds - set(KINDS)):
        raise Usage(f"no such kind: `{unknown[0]}`", hint=f"there are {', '.join(KINDS)}")
    return kinds


def _session(name: str | None, opened: Sequence[Opened]) -> str | None:
    """Return the id of the session that a person means."""
    if name is None:
        return None
    for number, one in enumerate(opened, 1):
        try:
            return one.home.session(name).id
        except NotFound:
            if number == len(opened):
                raise
    return None


def _milliseconds(meant: datetime | None, *, after: bool = False) -> int | None:
    if meant is None:
        return None
    return round((meant + (timedelta(milliseconds=1) if after else timedelta())).timestamp() * 1000)
