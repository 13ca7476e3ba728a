"""Finds the session that a command-line argument names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click

from unspool.cli import options, output, store_access
from unspool.display import TextColumn, amount, clean_line, table
from unspool.errors import (
    AmbiguousSession,
    NotFound,
    Unreadable,
    UnspoolError,
    UsageError,
    empty_session_name,
    turn_not_found,
)
from unspool.files import open_regular
from unspool.format import parse_local_time
from unspool.home import Home, Session
from unspool.paths import absolute_path, resolve_existing
from unspool.read import Kind, Skipped, Tree, scan
from unspool.store import StoreAccess


class SessionCost(NamedTuple):
    """What a session and its agents cost."""

    micros: int | None
    """Millionths of a US dollar; None if no part of it has a price, or it is not known."""
    unpriced_tokens: int


@contextmanager
def open_session(name: str, access: options.AccessOptions) -> Iterator[Session]:
    """Find the session of a file, or the one in the config folder with this id, agent or title, deleted or not."""
    with open_session_in_folders(name, access) as (session, _):
        yield session


@contextmanager
def open_session_in_folders(
    name: str, access: options.AccessOptions, *, is_quiet: bool = False
) -> Iterator[tuple[Session, StoreAccess | None]]:
    """Find a session as `open_session` does; also return the folders it was found in, None for a file alone.

    With `is_quiet` nobody is told what of the folders could not be read.
    """
    path = Path(name).expanduser()
    if not name.strip():
        raise empty_session_name()
    # A file goes first: it may lie outside of any config folder, and no store is needed to read it.
    if name and os.path.lexists(path):
        session = _session_of_file(resolve_existing(path))
        yield session, None
        output.warn_skipped(session.home.skipped)
        return
    with open_folders_of_session(name, access, is_quiet=is_quiet) as opened:
        yield _find_session(name, path, opened), opened


_MAX_CHOICES = 20
"""Sessions that are listed when a name matches several."""


def describe_ambiguous(error: AmbiguousSession) -> str:
    """Return the hint of a name that matches several sessions: each with its time, project and title."""
    chosen = _unique_sessions(error.sessions)
    lines = _describe_sessions(chosen[:_MAX_CHOICES])
    more = [f"  … and {len(chosen) - _MAX_CHOICES:,} more"] if len(chosen) > _MAX_CHOICES else []
    return "\n".join(["use more characters of the id:", *lines, *more])


def _unique_sessions(sessions: Sequence[Session]) -> list[Session]:
    """Return one session for each id, the one that changed last first."""
    ordered = sorted(sessions, key=lambda session: session.source.modified, reverse=True)
    return list({session.id: session for session in reversed(ordered)}.values())[::-1]


def _describe_sessions(sessions: Sequence[Session]) -> list[str]:
    length = unique_length(session.id for session in sessions)
    rows = []
    for session in sessions:
        try:
            last, title = parse_local_time(session.facts.last), session.title
        except UnspoolError as error:  # its file cannot be read; the others can
            last, title = None, error.reason
        when = f"{last:%Y-%m-%d %H:%M}" if last else "-"
        rows.append([session.id[:length], when, session.project or "-", title])
    columns = [TextColumn(""), TextColumn(""), TextColumn("", least=8), TextColumn("", least=20)]
    _, *lines = table.format_table(columns, rows, output.terminal_width() - 6)
    return [f"  {line}" for line in lines]


def unique_length(ids: Iterable[str], least: int = 8) -> int:
    """Return how many characters of ids tell them apart, at least eight."""
    ordered = sorted(set(ids))
    length = least
    for one, other in pairwise(ordered):
        while one[:length] == other[:length]:
            length += 1
    return length


def _choose_session(error: AmbiguousSession) -> Session:
    """Let the user choose one of several sessions; without a terminal the error stands."""
    choices = _unique_sessions(error.sessions)[:_MAX_CHOICES]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise error
    click.echo(f"{clean_line(error.message)}:", err=True)
    for number, line in enumerate(_describe_sessions(choices), 1):
        click.echo(f"{number:>4}{line}", err=True)
    number = click.prompt("which one?", type=click.IntRange(1, len(choices)), err=True)
    return choices[number - 1]


def _find_session(name: str, path: Path, opened: StoreAccess) -> Session:
    if not is_path(name):
        try:
            session = opened.home.session(name)
        except AmbiguousSession as error:
            return _choose_session(error)
        _warn_of_namesakes(session)
        return session
    # The file of a session that Claude Code has deleted is still known to the store.
    deleted = absolute_path(path)
    if any(source.path == deleted for source in opened.home.tree.of(Kind.SESSION)):
        return opened.home.session(str(deleted))
    try:  # an id that a line names may look like a path
        return opened.home.session(name)
    except NotFound:
        raise _no_such_file(name) from None


def read_session_cost(session: Session, opened: StoreAccess | None, access: options.AccessOptions) -> SessionCost:
    """Return what a session and its agents cost, as `unspool ls` has it; of a file alone what is on its lines."""
    if opened is None:
        from unspool.prices import known_cost  # start-up: few commands need prices
        from unspool.store import PriceLookup

        prices = PriceLookup()
        bills = [prices.bill([response]) for response in session.responses]
        cost, unpriced = (sum(getattr(bill, name) for bill in bills) for name in ("cost_micros", "unpriced_tokens"))
        return SessionCost(known_cost(cost, unpriced), unpriced)
    if opened.database is None and not access.no_store:
        # The folder is large and was never read: the session is shown before all others are read for its cost.
        return SessionCost(None, 0)
    from unspool.store.catalog import read_session_costs

    listed = [(source.place, source.session_id or source.path.stem) for source in opened.home.tree.of(Kind.SESSION)]
    cost = read_session_costs(opened.ledger, listed).of(str(session.own_path))
    return SessionCost(cost["cost_micros"], cost["unpriced_tokens"])


@contextmanager
def open_folders_of_session(
    name: str, access: options.AccessOptions, *, is_quiet: bool = False
) -> Iterator[StoreAccess]:
    """Open the config folders to look for a session in.

    If there is no such folder and the argument is a path, the error names the path.
    """
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folders(access, is_quiet=is_quiet))
        except NotFound:
            if is_path(name):
                raise _no_such_file(name) from None
            raise
        yield opened


def parse_turns(session: Session, text: str, option: str) -> range:
    """Return the turns that an option names; `option` is `turn` or `turns`."""
    from unspool.export import parse_turn_range  # start-up: most commands take no turns

    count = len(session.turns)
    numbers = parse_turn_range(text, count)
    if numbers is None:
        hint = f"use for example `--{option} 3`, `--{option} -1` or `--{option} 2..5`"
        raise UsageError(f"not {'a turn' if option == 'turn' else 'turns'}: `{text}`", hint=hint)
    if not numbers:
        raise turn_not_found(text, amount(count, "turn"))
    return numbers


def sessions_newest_first(opened: StoreAccess) -> Iterator[Session]:
    """Yield the sessions that have a file of their own, one at a time: none is held in memory longer than needed.

    Their lines have been read. One that cannot be read is noted as skipped.
    """
    home = opened.home
    with output.progress_bar(sum(source.size for source in home.tree.of(Kind.SESSION)), "reading") as advance:
        for session in home.sessions():
            if session.is_missing:
                continue
            try:
                session.items  # noqa: B018  read here, where a file that cannot be read costs no other
            except UnspoolError as error:
                opened.skip(Skipped(session.path, error.reason))
            else:
                yield session
            advance(session.source.size)


def is_path(name: str) -> bool:
    """Tell whether an argument is a path rather than an id or a title."""
    # A title may have a slash in it, and then it has spaces as well.
    return name.endswith(".jsonl") or (os.sep in name and " " not in name)


def _warn_of_namesakes(session: Session) -> None:
    """Say which file is meant, if several have the session's name: a session may be in two projects."""
    files = [source.path for source in session.home.tree.of(Kind.SESSION) if source.session_id == session.id]
    others = [path for path in files if path != session.path and path.exists()]
    if others:
        hint = "name the others by their paths"
        output.warn(f"{len(others) + 1} session files have this id; using `{session.path}`, which changed last: {hint}")


def _no_such_file(name: str) -> NotFound:
    return NotFound(f"file not found: `{name}`", hint="list sessions with `unspool ls`")


def _session_of_agent_file(path: Path) -> Session | None:
    """Return the session of another agent's file; None if it is Claude Code's."""
    root, skipped = options.translate_folder(path)
    if root == path:
        return None
    home = Home(scan(root))
    for source in skipped:
        home.skip(source)
    session = next(home.sessions(), None)
    if session is None:
        reason = skipped[0].reason if skipped else "no session in it"
        raise Unreadable(f"`{path}`: {reason}", reason=reason)
    return session


def _session_of_file(path: Path) -> Session:
    """Return the session of a file; its agents are those in the folder of its name, and those beside it."""
    # Refuses a FIFO or device before anything reads it, which would block.
    with open_regular(path):
        pass
    if session := _session_of_agent_file(path):
        return session
    inside, beside = path.with_suffix(""), sorted(path.parent.glob("agent-*.jsonl"))
    trees = [scan(path), *map(scan, beside), *([scan(inside)] if inside.is_dir() else [])]
    sources = {source.path: source for tree in trees for source in tree.sources}
    skipped = {one.path: one for tree in trees for one in tree.skipped}
    return Session(sources[path], Home(Tree(path, tuple(sources.values()), tuple(skipped.values()))))
