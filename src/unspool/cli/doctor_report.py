"""The part of `unspool doctor` about the store: its condition, what only it keeps, how its numbers compare.

Rules
  1. A store that is damaged, newer or cannot be written is a finding: the files are examined all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from unspool.cli import output, store_access
from unspool.display import table, units
from unspool.errors import Refused, Unreadable, UnspoolError
from unspool.paths import config_folder, data_folder, resolve_existing
from unspool.read import Tree
from unspool.store import StoreAccess, preferences
from unspool.store.catalog import ArchivedSession, Comparison, ExpiringSession, StatsDifference, StoreCondition, health

T = TypeVar("T")
MAX_FINDINGS = 10
"""How many findings of a sort are printed; `--json` has them all."""


class StoreReport(msgspec.Struct, frozen=True):
    """The condition of the store and what it knows; None where it was not asked or does not know."""

    store: StoreCondition | None
    deleted_soon: list[ExpiringSession]
    archive_only: list[ArchivedSession] | None
    stats_difference: StatsDifference | None
    synced: bool
    """Whether the store has read the examined folder."""

    def as_data(self) -> dict[str, Any]:
        """Return plain data, with times as they are written in JSON."""
        return {
            "store": self.store and {**self.store._asdict(), "synced": self.synced},
            "deleted_soon": [_row_as_json(session) for session in self.deleted_soon],
            "archive_only": self.archive_only and [_row_as_json(session) for session in self.archive_only],
            "stats_difference": msgspec.to_builtins(self.stats_difference),
        }


@contextmanager
def open_for_doctor(access: store_access.AccessOptions) -> Iterator[tuple[StoreAccess, UnspoolError | None]]:
    """Open a folder with its store; if the store is damaged or newer, without it and with the error."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folder(access))
        except (Unreadable, Refused) as error:
            root, folder = resolve_existing(config_folder(access.config_dir, os.environ)), data_folder(os.environ)
            # The settings may be what cannot be read: that is a finding too.
            settings = _none_if_unreadable(lambda: preferences.read_preferences(folder)) or preferences.Preferences()
            yield StoreAccess(root, folder, settings, None), error
        else:
            yield opened, None


def report_on_store(
    opened: StoreAccess, tree: Tree, access: store_access.AccessOptions, problem: UnspoolError | None
) -> StoreReport:
    """Check the store and the archive, and compare them with the files."""
    folder, database, now = opened.folder, opened.database, datetime.now().astimezone()
    if access.no_store:
        expiring = health.find_expiring_sessions(tree, folder, now, ask_archive=False)
        return StoreReport(None, expiring, None, None, synced=False)
    condition = health.check_store(folder, archive=opened.preferences.archive, complaint=problem)
    titles = difference = None
    if database is not None:
        titles = _none_if_unreadable(lambda: health.read_gone_titles(database, opened.root))
        difference = _none_if_unreadable(lambda: health.compare_stats(database, opened.root, opened.ledger))
    soon = _none_if_unreadable(lambda: health.find_expiring_sessions(tree, folder, now))
    return StoreReport(
        store=condition,
        # A damaged archive cannot say what it has; which files go soon is known without it.
        deleted_soon=health.find_expiring_sessions(tree, folder, now, ask_archive=False) if soon is None else soon,
        archive_only=_none_if_unreadable(lambda: health.find_archived_only(tree, folder, titles or {})),
        stats_difference=difference,
        synced=database is not None,
    )


def print_store_report(report: StoreReport) -> None:
    """Write the report as text."""
    if report.store:
        _print_condition(report.store, synced=report.synced)
    print_findings(
        f"Claude Code deletes these within {health.SOON.days} days",
        [(session.session, _deletion_time(session)) for session in report.deleted_soon],
    )
    archived = [(row.session, f"{units.size(row.bytes)}  {row.title or ''}") for row in report.archive_only or []]
    print_findings("only in the archive, `unspool restore` brings them back", archived)
    if report.stats_difference:
        _print_difference(report.stats_difference)


def print_findings(title: str, findings: list[tuple[str, str]]) -> None:
    """Write a title with the number of findings, and the first of them; nothing if there are none."""
    if findings:
        output.print_section(f"{title}: {len(findings):,}", findings, MAX_FINDINGS)


def _print_condition(state: StoreCondition, *, synced: bool) -> None:
    pairs = [("folder", state.folder)]
    if state.files is not None:
        rewritten = units.amount(state.generations or 0, "older version")
        pairs.append(("files", f"{state.files:,} ({state.gone_files:,} gone, {rewritten})"))
    columns = f"; the columns for SQL {units.size(state.column_bytes)}" if state.column_bytes else ""
    sizes = f"{units.size(state.store_bytes)}, and the archive {units.size(state.archive_bytes)}{columns}"
    pairs.append(("size", sizes))
    kept = "" if state.raw_bytes is None else f", {units.size(state.raw_bytes)} kept"
    pairs.append(("archive", f"{'on' if state.archive else 'off'}{kept}"))
    if state.passages is not None:
        waiting = f", {units.size(state.unindexed_bytes)} to go" if state.unindexed_bytes else ""
        pairs.append(("index", f"{units.amount(state.passages, 'text')}{waiting}"))
    sound = "sound" if synced else "sound; this folder is not in it yet"
    pairs.append(("state", sound if state.sound else str(state.message)))
    if state.hint:
        pairs.append(("hint", state.hint))
    output.print_section("store", pairs)


def _deletion_time(session: ExpiringSession) -> str:
    archived = {True: ", in the archive", False: ", not in the archive", None: ""}[session.archived]
    # Claude Code deletes only when it starts: what is overdue goes then.
    is_due = session.when <= datetime.now().astimezone()
    return f"{'at its next start' if is_due else f'on {session.when.astimezone():%Y-%m-%d}'}{archived}"


def _print_difference(stats: StatsDifference) -> None:
    output.print_line()
    output.print_heading(f"statistics up to {stats.last_computed_date or 'now'}: Claude Code's own, and the store's")
    rows = [("messages", stats.messages), ("sessions", stats.sessions), ("tool calls", stats.tool_calls)]
    rows += [(f"tokens of {model}", _sum_comparisons([*tokens.values()])) for model, tokens in stats.models.items()]
    output.print_table(_COLUMNS, [[name, *_cells(compared)] for name, compared in rows])
    days = sum(1 for day in stats.days if any(row.difference for row in (day.messages, day.sessions, day.tool_calls)))
    output.print_line(
        f"{days:,} of the {units.amount(len(stats.days), 'day')} that both know differ; `--json` lists them"
    )


_COLUMNS = [
    table.TextColumn("", least=20),
    table.TextColumn("its own", right=True),
    table.TextColumn("store", right=True),
    table.TextColumn("difference", right=True),
]


def _sum_comparisons(tokens: list[Comparison]) -> Comparison:
    ours = sum(compared.ours for compared in tokens)
    # A sum without one of its parts would look like a difference.
    if any(compared.theirs is None for compared in tokens):
        return Comparison(None, ours, None)
    theirs = sum(compared.theirs or 0 for compared in tokens)
    return Comparison(theirs, ours, ours - theirs)


def _cells(compared: Comparison) -> list[str]:
    theirs = "" if compared.theirs is None else f"{compared.theirs:,}"
    return [theirs, f"{compared.ours:,}", f"{compared.difference:+,}" if compared.difference else ""]


def _none_if_unreadable(query: Callable[[], T]) -> T | None:
    """Return the result of a query; None if store or archive cannot be read, which the condition says."""
    try:
        return query()
    except UnspoolError:
        return None


def _row_as_json(row: ExpiringSession | ArchivedSession) -> dict[str, Any]:
    return {
        name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for name, value in row._asdict().items()
    }
