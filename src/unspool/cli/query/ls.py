"""`unspool ls`: lists sessions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import click

from unspool.cli import options, output, store_access
from unspool.display import TextColumn, parse_time_expression, units
from unspool.errors import NothingFound, UsageError
from unspool.format import parse_local_time, to_utc_text
from unspool.other_agents import find_program
from unspool.paths import data_folder
from unspool.store import StoreAccess
from unspool.store.catalog import OwnedAgentFile, list_sessions, missing_session_row, read_session_costs
from unspool.store.usage import matches_project

Json: TypeAlias = dict[str, Any]

_HAS = {"error": "errors", "image": "images", "agent": "agents", "compaction": "compactions", "pr": "pull_requests"}
"""The names that `--has` takes, and the field of a row that each means."""

FIELDS = (
    "id", "path", "title", "project", "cwd", "branch", "versions", "models", "started", "last", "turns",
    "command_turns", "messages", "tool_calls", "errors", "agents", "bytes", "cost_micros", "unpriced_tokens",
    "context_tokens", "gone", "agent_program",
)  # fmt: skip
"""The fields of a session that `--json` writes as they are."""

STATUS_FIELDS = ("status", "kind", "detail")
"""The fields that `--status` adds to these: those of `unspool watch --once --json`."""

_COLUMNS = [
    TextColumn("session"),
    TextColumn("last"),
    TextColumn("title", least=20),
    TextColumn("project", least=8, expendable=True),
    TextColumn("branch", least=6, expendable=True),
    TextColumn("turns", right=True),
    TextColumn("calls", right=True, expendable=True),
    TextColumn("errors", right=True, expendable=True),
    TextColumn("size", right=True, expendable=True),
    TextColumn("context", right=True, expendable=True),
    TextColumn("cost", right=True),
]


class SessionFilter(NamedTuple):
    """Which sessions are listed."""

    project: str | None
    after: datetime | None
    before: datetime | None
    branch: str | None
    model: str | None
    has: tuple[str, ...]
    """Names of `_HAS`."""
    ids: frozenset[str] | None = None
    """Of the sessions with the star, the tags and the note that are asked for; None if none is."""

    @property
    def fields(self) -> set[str]:
        """The fields of a row that are compared: of sessions that are not listed nothing else is read."""
        compared = {
            "project": self.project, "cwd": self.project, "last": self.after, "started": self.before,
            "branch": self.branch, "models": self.model,
        }  # fmt: skip
        return {name for name, value in compared.items() if value is not None} | {_HAS[name] for name in self.has}

    def matches_project(self, row: Json) -> bool:
        """Tell whether a session is of the project."""
        return self.project is None or matches_project(self.project, row["project"], row["cwd"], row["project_key"])

    def matches(self, row: Json) -> bool:
        """Tell whether a session is wanted by all but its project."""
        if self.ids is not None and row["id"] not in self.ids:
            return False
        # Times are parsed only if they are compared: there may be thousands of rows.
        if self.after is not None and ((last := parse_local_time(row["last"])) is None or last < self.after):
            return False
        if self.before is not None and ((started := parse_local_time(row["started"])) is None or started > self.before):
            return False
        if self.branch is not None and row["branch"] != self.branch:
            return False
        if self.model is not None and not any(self.model.casefold() in name.casefold() for name in row["models"]):
            return False
        return all(row[_HAS[name]] for name in self.has)


class SessionChooser:
    """Chooses the sessions that are listed, and counts those that are hidden."""

    def __init__(self, wanted: SessionFilter, limit: int | None, *, show_all: bool) -> None:
        self._wanted, self._limit, self._show_all = wanted, limit, show_all
        self.hidden: Counter[str] = Counter()
        """How many are hidden, by the reason."""
        self._ids: list[str] = []

    def id_length(self, rows: Iterable[Json]) -> int:
        """Return how many characters of an id tell the sessions apart, of those listed and all others; at least 8."""
        length, ids = 8, set(self._ids)
        while length < 36:
            counts = Counter(id[:length] for id in ids)
            if all(counts[row["id"][:length]] < 2 for row in rows):
                break
            length += 1
        return length

    def choose(self, rows: list[Json]) -> list[Json]:
        """Return the rows that are listed, newest first."""
        chosen = []
        self._ids = [row["id"] for row in rows]
        for row in rows:
            if not self._wanted.matches_project(row):
                continue
            reason = None if self._show_all else row["hidden"]
            if reason:
                self.hidden[reason] += 1
            elif self._wanted.matches(row):
                chosen.append(row)
        if self._limit is None or self._limit >= len(chosen):
            return sorted(chosen, key=_order, reverse=True)
        from heapq import nlargest  # the twenty newest of 8,000 in a third of the time that sorting them all takes

        return nlargest(self._limit, chosen, key=_order)


def _order(row: Json) -> tuple[str, str, str]:
    # The id and path decide between equal times: the order is the same with a store and without.
    return row["last"] or "", row["id"], row["path"]


@click.command()
@click.option("-p", "--project", metavar="TEXT", help="Only this project: its name, part of its path, or its key")
@click.option(
    "--since", metavar="TIME", help="Only sessions active since TIME: a date, an age like `12h` or `7d`, or `last week`"
)
@click.option("--until", metavar="TIME", help="Only sessions started until TIME; a date means the end of that day")
@click.option("--branch", metavar="NAME", help="Only this git branch")
@click.option("--model", metavar="TEXT", help="Only models whose name contains this text")
@click.option("--has", metavar="WHAT", help=f"Only sessions with all of these, separated by commas: {', '.join(_HAS)}")
@click.option("--starred", is_flag=True, help="Only sessions that you starred on the page")
@click.option(
    "--tag", "tags", metavar="NAME", multiple=True, help="Only sessions with this tag; with several, any of them"
)
@click.option("--note", metavar="TEXT", help="Only sessions whose note contains this text")
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=0), help="Only the newest N sessions; 0 for all")
@click.option("--status", is_flag=True, help="Also show what each session is doing now, as in `unspool watch`")
@click.option(
    "-a",
    "--all",
    "show_all",
    is_flag=True,
    help="Also list empty files, warm-ups, forks made by Claude Code, and agents without a session",
)
@options.store_options
@options.list_output_options
@output.paged
def ls(
    *,
    project: str | None,
    since: str | None,
    until: str | None,
    branch: str | None,
    model: str | None,
    has: str | None,
    starred: bool,
    tags: tuple[str, ...],
    note: str | None,
    limit: int | None,
    status: bool,
    show_all: bool,
    access: options.AccessOptions,
    as_json: bool,
    as_lines: bool,
) -> None:
    """List sessions, newest first.

    The list omits files without a conversation, warm-ups, forks made by Claude Code, and agents without a session;
    `--all` adds them. `†` marks a session whose file is deleted, so that only the store has it. The cost includes the
    session's agents. The context is the size of its last request, in tokens.

    Unreadable files are named on stderr, and with --json in `skipped`.
    """
    now = datetime.now().astimezone()
    after, before = parse_time_expression(since, now), parse_time_expression(until, now, end=True)
    wanted = SessionFilter(project, after, before, branch, model, _parse_has(has))
    if starred or tags or note:
        wanted = wanted._replace(ids=_annotated_ids(tags, note, starred=starred))
    chooser = SessionChooser(wanted, limit or None, show_all=show_all)
    with store_access.open_folders(access) as opened:
        rows = read_session_rows(opened, chooser, wanted)
        if status:
            _add_status(rows, opened, now)
    left_out = _describe_hidden(chooser.hidden)
    if as_lines:
        output.write_lines(map(_json_item, rows))
    elif as_json:
        output.write_document("ls", {"items": [*map(_json_item, rows)], "hidden": chooser.hidden}, opened.skipped)
    if not rows:
        raise NothingFound("no sessions found" + (f"; {left_out}" if left_out else ""))
    is_text = not (as_json or as_lines)
    if is_text:
        columns = [*_COLUMNS[:3], TextColumn("doing", least=8), *_COLUMNS[3:]] if status else _COLUMNS
        length = chooser.id_length(rows)
        cells = [_cells(row, now, length) for row in rows]
        # Who has sessions of Claude Code alone needs no column that says so.
        if any(row["agent_program"] for row in rows):
            columns = [*columns[:1], TextColumn("program"), *columns[1:]]
            cells = [[row[0], one["agent_program"] or "claude", *row[1:]] for row, one in zip(cells, rows, strict=True)]
        output.print_table(columns, cells)
    if left_out:
        click.echo(left_out, err=not is_text)


def _annotated_ids(tags: tuple[str, ...], note: str | None, *, starred: bool) -> frozenset[str]:
    """Return the ids of the sessions that have a star, one of some tags, and a text in their note, as far as asked."""
    from unspool.store import user_annotations  # start-up: few lists ask for this

    given = user_annotations.read_annotations(data_folder(os.environ)).sessions
    return frozenset(
        id
        for id, one in given.items()
        if (not starred or one.starred)
        and (not tags or not set(tags).isdisjoint(one.tags))
        and (not note or note.casefold() in one.note.casefold())
    )


def _json_item(row: Json) -> Json:
    """Return a session as `--json` writes it."""
    times = {"started_at": to_utc_text(row["started"]), "ended_at": to_utc_text(row["last"])}
    status = {name: row[name] for name in STATUS_FIELDS if name in row}
    return {"session_id": row["id"], **times, **{name: row[name] for name in FIELDS}, **status}


def read_session_rows(opened: StoreAccess, chooser: SessionChooser, wanted: SessionFilter) -> list[Json]:
    """Return a row for each session that is wanted, newest first, from the store or from the files."""
    if opened.database is not None:
        rows = list_sessions(opened.database, opened.roots, opened.ledger, chooser.choose, wanted.fields)
    else:
        rows = chooser.choose(_read_file_rows(opened))
    for row in rows:
        row["agent_program"] = find_program(row["path"])
    return rows


def _read_file_rows(opened: StoreAccess) -> list[Json]:
    """Return a row for each session, from the files."""
    # Start-up: what reads files is not loaded when the store answers.
    from unspool.cli.session_argument import sessions_newest_first
    from unspool.export import counts

    # A store does not know of agents that cannot be read.
    unreadable = {skipped.path for skipped in opened.skipped}
    rows: list[Json] = []
    for session in sessions_newest_first(opened):
        count = sum(source.path not in unreadable for source in session.agent_sources)
        rows.append({**counts.session_row(session), "agents": count, "gone": False})
    owners = [(file, owner) for file, owner in opened.home.agent_owners() if file.path not in unreadable]
    agents = [OwnedAgentFile(file.place, owner, file.project) for file, owner in owners]
    costs = read_session_costs(opened.ledger, [(row["path"], row["id"]) for row in rows], agents)
    return [
        *(row | costs.of(row["path"]) for row in rows),
        *(missing_session_row(missing) | costs.of(missing.own_path) for missing in costs.missing),
    ]


def _add_status(rows: list[Json], opened: StoreAccess, now: datetime) -> None:
    """Add to each row what the session is doing. What the live board does not have is idle."""
    # Start-up: reading what was written within a day takes longer than the list itself.
    from unspool.live import Board, hook_signals
    from unspool.live.state import row_to_json

    board = Board(opened.roots, opened.folder / hook_signals.SIGNALS_FOLDER, clock=lambda: now)
    board.refresh()
    opened.skip(*board.skipped)
    # Of copies of a session the first counts, as on the board.
    live = {row.session_id: row_to_json(row, now) for row in reversed(board.rows(now)) if row.agent_id is None}
    idle = dict.fromkeys(STATUS_FIELDS, "idle")
    for row in rows:
        row |= {name: live.get(row["id"], idle)[name] for name in STATUS_FIELDS}


def _parse_has(has: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (has or "").split(",") if name.strip())
    for name in names:
        if name not in _HAS:
            raise UsageError(f"unknown filter `{name}` for --has", hint=f"use one of: {', '.join(_HAS)}")
    return names


def _describe_hidden(hidden: Counter[str]) -> str:
    """Return how many sessions are hidden and why: `3 hidden: 2 empty, 1 warm-up; --all shows them`."""
    if not hidden:
        return ""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(hidden.items()))
    return f"{hidden.total():,} hidden: {reasons}; --all shows {'it' if hidden.total() == 1 else 'them'}"


def _cells(row: dict[str, Any], now: datetime, id_length: int) -> list[str]:
    return [
        row["id"][:id_length] + ("†" if row["gone"] else ""),
        units.ago(parse_local_time(row["last"]), now),
        row["title"],
        *([row["detail"]] if "detail" in row else []),
        row["project"] or "",
        row["branch"] or "",
        f"{row['turns']:,}",
        f"{row['tool_calls']:,}",
        f"{row['errors']:,}",
        units.size(row["bytes"]),
        units.tokens(row["context_tokens"]),
        units.cost(row["cost_micros"], row["unpriced_tokens"]),
    ]
