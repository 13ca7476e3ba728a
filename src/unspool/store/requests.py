"""A search as people ask for it: words in, a question out, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.errors import NotFound, Usage
from unspool.graph.passages import KINDS
from unspool.store import terms
from unspool.store.database import open_archive
from unspool.store.questions import Corpus, Filters
from unspool.store.times import moment

if TYPE_CHECKING:
    from unspool.store.archive import Archive
    from unspool.store.opened import Opened
    from unspool.store.patterns import Pattern

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
        from unspool.store.patterns import Pattern

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
    from unspool.store.archive import Archive

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
