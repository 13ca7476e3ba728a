"""The part of `unspool doctor` about the store: its condition, what only it keeps, how its numbers compare.

Rules
  1. A store that is damaged, newer or cannot be written is a finding: the files are examined all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from unspool.cli import output, store_access
from unspool.display import table
from unspool.errors import Refused, Unreadable, UnspoolError
from unspool.paths import config_folder, data_folder, resolve_existing
from unspool.read import Tree
from unspool.store import StoreAccess, preferences
from unspool.store.catalog import ArchivedSession, Comparison, ExpiringSession, StatsDifference, StoreCondition, health

T = TypeVar("T")
Listing: TypeAlias = Callable[[str, list[tuple[str, str]]], None]
"""Writes a title and what was found, the first of it."""


class StoreReport(msgspec.Struct, frozen=True):
    """What the store says; None where it was not asked or does not know."""

    store: StoreCondition | None
    deleted_soon: list[ExpiringSession]
    archive_only: list[ArchivedSession] | None
    stats_difference: StatsDifference | None
    synced: bool
    """Whether the store has read what is examined."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, with times as they are written in JSON."""
        return {
            "store": self.store and {**self.store._asdict(), "synced": self.synced},
            "deleted_soon": [_plain(one) for one in self.deleted_soon],
            "archive_only": None if self.archive_only is None else [_plain(one) for one in self.archive_only],
            "stats_difference": msgspec.to_builtins(self.stats_difference),
        }


@contextmanager
def open_for_doctor(how: store_access.AccessOptions) -> Iterator[tuple[StoreAccess, UnspoolError | None]]:
    """Open a folder with its store, or without it and with what is wrong with it."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(store_access.open_folder(how))
        except (Unreadable, Refused) as error:
            root, folder = resolve_existing(config_folder(how.config_dir, os.environ)), data_folder(os.environ)
            chosen = _known(lambda: preferences.read_preferences(folder)) or preferences.Preferences()
            yield StoreAccess(root, folder, chosen, None), error
        else:
            yield found, None


def report_on_store(
    opened: StoreAccess, tree: Tree, how: store_access.AccessOptions, complaint: UnspoolError | None
) -> StoreReport:
    """Ask the store what it knows."""
    folder, database, now = opened.folder, opened.database, datetime.now().astimezone()
    if how.no_store:
        return StoreReport(
            None, health.find_expiring_sessions(tree, folder, now, ask_archive=False), None, None, synced=False
        )
    state = health.check_store(folder, archive=opened.preferences.archive, complaint=complaint)
    titles = difference = None
    if database is not None:
        titles = _known(lambda: health.read_gone_titles(database, opened.root))
        difference = _known(lambda: health.compare_stats(database, opened.root, opened.ledger))
    soon = _known(lambda: health.find_expiring_sessions(tree, folder, now))
    return StoreReport(
        store=state,
        deleted_soon=health.find_expiring_sessions(tree, folder, now, ask_archive=False) if soon is None else soon,
        archive_only=_known(lambda: health.find_archived_only(tree, folder, titles or {})),
        stats_difference=difference,
        synced=database is not None,
    )


def print_store_report(report: StoreReport, listing: Listing) -> None:
    """Write the report for people."""
    if report.store:
        _show_condition(report.store, report)
    listing(
        f"Claude Code deletes these within {health.SOON.days} days",
        [(one.session, _when(one)) for one in report.deleted_soon],
    )
    listing(
        "only in the archive, `unspool restore` brings them back",
        [(one.session, f"{output.size(one.bytes)}  {one.title or ''}") for one in report.archive_only or []],
    )
    if report.stats_difference:
        _show_difference(report.stats_difference)


def _show_condition(state: StoreCondition, report: StoreReport) -> None:
    output.print_line()
    output.print_heading("store")
    pairs = [("folder", state.folder)]
    if state.files is not None:
        rewritten = output.amount(state.generations or 0, "older version")
        pairs.append(("files", f"{state.files:,} ({state.gone_files:,} gone, {rewritten})"))
    columns = f"; the columns for SQL {output.size(state.column_bytes)}" if state.column_bytes else ""
    sizes = f"{output.size(state.store_bytes)}, and the archive {output.size(state.archive_bytes)}{columns}"
    pairs.append(("size", sizes))
    kept = "" if state.raw_bytes is None else f", {output.size(state.raw_bytes)} kept"
    pairs.append(("archive", f"{'on' if state.archive else 'off'}{kept}"))
    if state.passages is not None:
        waiting = f", {output.size(state.unindexed_bytes)} to go" if state.unindexed_bytes else ""
        pairs.append(("index", f"{output.amount(state.passages, 'text')}{waiting}"))
    sound = "sound" if report.synced else "sound; this folder is not in it yet"
    pairs.append(("state", sound if state.sound else str(state.message)))
    if state.hint:
        pairs.append(("hint", state.hint))
    output.print_pairs(pairs)


def _when(one: ExpiringSession) -> str:
    archived = {True: ", in the archive", False: ", not in the archive", None: ""}[one.archived]
    is_due = one.when <= datetime.now().astimezone()
    return f"{'at its next start' if is_due else f'on {one.when.astimezone():%Y-%m-%d}'}{archived}"


def _show_difference(found: StatsDifference) -> None:
    output.print_line()
    output.print_heading(f"statistics up to {found.last_computed_date or 'now'}: Claude Code's own, and the store's")
    rows = [("messages", found.messages), ("sessions", found.sessions), ("tool calls", found.tool_calls)]
    rows += [(f"tokens of {model}", _added_up([*tokens.values()])) for model, tokens in found.models.items()]
    table.write_table(_COLUMNS, [[name, *_cells(one)] for name, one in rows], output.terminal_width())
    days = sum(1 for day in found.days if any(one.difference for one in (day.messages, day.sessions, day.tool_calls)))
    output.print_line(
        f"{days:,} of the {output.amount(len(found.days), 'day')} that both know differ; `--json` lists them"
    )


_COLUMNS = [
    table.TextColumn("", least=20),
    table.TextColumn("its own", right=True),
    table.TextColumn("store", right=True),
    table.TextColumn("difference", right=True),
]


def _added_up(tokens: list[Comparison]) -> Comparison:
    if any(one.theirs is None for one in tokens):
        return Comparison(None, sum(one.ours for one in tokens), None)
    theirs, ours = sum(one.theirs or 0 for one in tokens), sum(one.ours for one in tokens)
    return Comparison(theirs, ours, ours - theirs)


def _cells(one: Comparison) -> list[str]:
    theirs = "" if one.theirs is None else f"{one.theirs:,}"
    return [theirs, f"{one.ours:,}", f"{one.difference:+,}" if one.difference else ""]


def _known(ask: Callable[[], T]) -> T | None:
    """Return an answer; nothing if the store cannot give it, which its condition tells."""
    try:
        return ask()
    except UnspoolError:
        return None


def _plain(row: ExpiringSession | ArchivedSession) -> dict[str, Any]:
    return {
        name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for name, value in row._asdict().items()
    }
