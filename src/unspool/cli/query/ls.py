"""`unspool ls`: lists sessions."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, TypeAlias

import click

from unspool.cli import options, output, store_access
from unspool.display import TextColumn, parse_time_expression, units
from unspool.errors import NothingFound, UsageError
from unspool.format import parse_local_time
from unspool.store import StoreAccess
from unspool.store.catalog import list_sessions, read_session_costs
from unspool.store.usage import matches_project

Json: TypeAlias = dict[str, Any]

_HAS = {"error": "errors", "image": "images", "agent": "agents", "compaction": "compactions", "pr": "pull_requests"}
"""The names that `--has` takes, and the field of a row that each means."""

FIELDS = (
    "id", "path", "title", "project", "cwd", "branch", "versions", "models", "started", "last", "turns", "messages",
    "tool_calls", "errors", "agents", "bytes", "cost_micros", "context_tokens", "gone",
)  # fmt: skip
"""The fields of a session in `--json`."""

_COLUMNS = [
    TextColumn("id"),
    TextColumn("last"),
    TextColumn("title", least=20),
    TextColumn("project", least=8, expendable=True),
    TextColumn("branch", least=6, expendable=True),
    TextColumn("turns", right=True),
    TextColumn("calls", right=True),
    TextColumn("errors", right=True),
    TextColumn("size", right=True),
    TextColumn("context", right=True, expendable=True),
    TextColumn("cost", right=True),
]


@click.command()
@click.option("--project", metavar="TEXT", help="Only of this project: its name, a part of its path, or its key.")
@click.option("--since", metavar="WHEN", help="Only with activity since then: a date, or `12h`, `7d`, `2w` ago.")
@click.option("--until", metavar="WHEN", help="Only begun by then; a date means the end of that day.")
@click.option("--branch", metavar="NAME", help="Only on this git branch.")
@click.option("--model", metavar="TEXT", help="Only with a model whose name has this in it.")
@click.option("--has", metavar="WHAT", help=f"Only with all of these, separated by commas: {', '.join(_HAS)}.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="The newest N only.")
@click.option("--all", "show_all", is_flag=True, help="Also empty files, warm-ups and forks the program made itself.")
@options.store_options
@options.output_options
def ls(
    *,
    project: str | None,
    since: str | None,
    until: str | None,
    branch: str | None,
    model: str | None,
    has: str | None,
    limit: int | None,
    show_all: bool,
    access: options.AccessOptions,
    as_json: bool,
) -> None:
    """List the sessions, newest first.

    Files without a conversation, warm-ups and forks that Claude Code made for itself are counted but not listed. A
    session whose file has gone, and that only the store has, is marked with `†`. The cost is that of the session and
    its agents; the context is the prompt of its last request, in tokens.
    """
    now = datetime.now().astimezone()
    after, before = parse_time_expression(since, now), parse_time_expression(until, now, end=True)
    required = _parse_has(has)
    hidden: Counter[str] = Counter()
    rows: list[Json] = []
    with store_access.open_folder(access) as opened:
        for row in _read_rows(opened):
            if not matches_project(project, row["project"], row["cwd"], row["project_key"]):
                continue
            reason = None if show_all else row["hidden"]
            if reason:
                hidden[reason] += 1
            elif _matches(row, after, before, branch=branch, model=model, has=required):
                rows.append(row)
    # The id and path decide between equal times: the order is the same with a store and without.
    rows.sort(key=lambda row: (row["last"] or "", row["id"], row["path"]), reverse=True)
    left_out = _describe_hidden(hidden)
    if not rows:
        raise NothingFound("no sessions found" + (f"; {left_out}" if left_out else ""))
    if as_json:
        output.write_json([{name: row[name] for name in FIELDS} for row in rows[:limit]])
    else:
        output.print_table(_COLUMNS, [_cells(row, now) for row in rows[:limit]])
    if left_out:
        click.echo(left_out, err=as_json)


def _read_rows(opened: StoreAccess) -> list[Json]:
    """Return a row for each session, from the store or from the files."""
    if opened.database is not None:
        return list_sessions(opened.database, opened.root, opened.ledger)
    # Start-up: what reads files is not loaded when the store answers.
    from unspool.cli.session_argument import sessions_newest_first
    from unspool.export import counts

    costs = read_session_costs(opened.ledger)
    return [
        {**counts.session_row(session), "cost_micros": costs.get(session.id, 0), "gone": False}
        for session in sessions_newest_first(opened.home)
    ]


def _matches(
    row: Json,
    after: datetime | None,
    before: datetime | None,
    *,
    branch: str | None,
    model: str | None,
    has: tuple[str, ...],
) -> bool:
    last, started = parse_local_time(row["last"]), parse_local_time(row["started"])
    return (
        (after is None or (last is not None and last >= after))
        and (before is None or (started is not None and started <= before))
        and branch in (None, row["branch"])
        and (model is None or any(model.casefold() in name.casefold() for name in row["models"]))
        and all(row[_HAS[name]] for name in has)
    )


def _parse_has(has: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (has or "").split(",") if name.strip())
    for name in names:
        if name not in _HAS:
            raise UsageError(f"no such thing to have: `{name}`", hint=f"one of {', '.join(_HAS)}")
    return names


def _describe_hidden(hidden: Counter[str]) -> str:
    """Return how many sessions are hidden and why: `3 hidden: 2 empty, 1 warm-up; --all shows them`."""
    if not hidden:
        return ""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(hidden.items()))
    return f"{hidden.total():,} hidden: {reasons}; --all shows {'it' if hidden.total() == 1 else 'them'}"


def _cells(row: dict[str, Any], now: datetime) -> list[str]:
    return [
        row["id"][:8] + ("†" if row["gone"] else ""),
        units.ago(parse_local_time(row["last"]), now),
        row["title"],
        row["project"] or "",
        row["branch"] or "",
        f"{row['turns']:,}",
        f"{row['tool_calls']:,}",
        f"{row['errors']:,}",
        units.size(row["bytes"]),
        units.tokens(row["context_tokens"]),
        units.dollars(row["cost_micros"]),
    ]
