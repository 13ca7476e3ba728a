"""Parses a search request: the words, the pattern and the filters that a user typed into a command or a form.

Nothing heavy is imported here, nor by `search.py` before it is needed: a search that the index answers is quick.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.errors import UsageError
from unspool.format import parse_time_range
from unspool.graph import PASSAGE_KINDS
from unspool.read import Kind
from unspool.store.search.terms import AnyText, RegexQuery, SearchTerms, parse_words

if TYPE_CHECKING:
    from unspool.home import Home
    from unspool.store.access import StoreAccess

KIND_ALIASES: Final = {"tool": "tool_input", "result": "tool_result"}
"""Other names of kinds."""


class SearchFilters(NamedTuple):
    """Which hits a search returns."""

    kinds: frozenset[str] | None = None
    tool: str | None = None
    target: str | None = None
    """A pattern of the file that a tool call works on."""
    project: str | None = None
    session: str | None = None
    since: int | None = None
    """Milliseconds since 1970, inclusive."""
    until: int | None = None
    """Milliseconds since 1970, exclusive."""
    errors: bool = False


class SearchRequest(NamedTuple):
    """What a user typed into each field, if anything."""

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


def parse_terms(request: SearchRequest) -> SearchTerms:
    """Return what is searched for."""
    if request.regex is not None:
        return RegexQuery(request.regex)
    terms = parse_words(request.words)
    if terms is None and not request.words and any(request[2:]):  # a filter alone lists what it lets through
        return AnyText()
    if terms is None:
        message = "nothing to search for" if not request.words else f"no word to search for in `{request.words}`"
        raise UsageError(message, hint="give some words, or search for punctuation with `--regex PATTERN`")
    return terms


def parse_filters(request: SearchRequest, opened: StoreAccess, now: datetime, zone: tzinfo | None) -> SearchFilters:
    """Return which hits the search is to return."""
    since, until = parse_time_range(request.since, request.until, now, zone)
    return SearchFilters(
        kinds=_parse_kinds(request.kinds),
        tool=request.tool,
        target=request.target,
        project=request.project,
        session=None if request.session is None else _find_session_id(request.session, opened.home),
        since=since,
        until=until,
        errors=request.errors,
    )


def _parse_kinds(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    kinds = frozenset(KIND_ALIASES.get(name, name) for name in names)
    if unknown := sorted(kinds - set(PASSAGE_KINDS)):
        raise UsageError(f"unknown kind `{unknown[0]}`", hint=f"use one of: {', '.join(PASSAGE_KINDS)}")
    return kinds


def _find_session_id(name: str, home: Home) -> str:
    """Return the id of the session that a name means; several files may be of one session."""
    ids = {source.session_id for source in home.tree.of(Kind.SESSION) if (source.session_id or "").startswith(name)}
    return ids.pop() or "" if len(ids) == 1 else home.session(name).id
