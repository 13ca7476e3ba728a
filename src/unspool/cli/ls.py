"""`unspool ls`: the sessions there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple

import click

from unspool.cli import output, table
from unspool.cli.sessions import every
from unspool.errors import NothingFound, Usage
from unspool.export import counts, figures
from unspool.home import Session

_AGO = re.compile(r"(\d{1,5})(h|d|w)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_HAS: dict[str, Callable[[Session], bool]] = {
    "error": lambda session: session.facts.errors > 0,
    "image": lambda session: session.facts.images > 0,
    "agent": lambda session: len(session.agent_sources) > 0,
    "compaction": lambda session: session.facts.compactions > 0,
    "pr": lambda session: len(session.facts.pull_requests) > 0,
}
_COLUMNS = [
    table.Column("id"),
    table.Column("last"),
    table.Column("title", least=20),
    table.Column("project", least=8, expendable=True),
    table.Column("branch", least=6, expendable=True),
    table.Column("turns", right=True),
    table.Column("calls", right=True),
    table.Column("errors", right=True),
    table.Column("size", right=True),
]


class Filters(NamedTuple):
    """Which sessions are wanted."""

    project: str | None
    since: datetime | None
    until: datetime | None
    branch: str | None
    model: str | None
    has: tuple[str, ...]


@click.command()
@click.option("--project", metavar="TEXT", help="Only of this project: its name, a part of its path, or its key.")
@click.option("--since", metavar="WHEN", help="Only with activity since then: a date, or `12h`, `7d`, `2w` ago.")
@click.option("--until", metavar="WHEN", help="Only begun by then; a date means the end of that day.")
@click.option("--branch", metavar="NAME", help="Only on this git branch.")
@click.option("--model", metavar="TEXT", help="Only with a model whose name has this in it.")
@click.option("--has", metavar="WHAT", help=f"Only with all of these, separated by commas: {', '.join(_HAS)}.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="The newest N only.")
@click.option("--all", "show_all", is_flag=True, help="Also empty files, warm-ups and forks the program made itself.")
@output.options
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
    as_json: bool,
    config_dir: str | None,
) -> None:
    """List the sessions, newest first.

    Files without a conversation, warm-ups and forks that Claude Code made for itself are counted but not listed.
    """
    now = datetime.now().astimezone()
    filters = Filters(project, moment(since, now), moment(until, now, end=True), branch, model, _wanted(has))
    hidden: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for session in every(config_dir):
        reason = None if show_all else counts.hidden(session)
        if reason:
            hidden[reason] += fits_project(session, project)
        elif fits(session, filters):
            rows.append(counts.row(session))
    rows.sort(key=lambda row: row["last"] or "", reverse=True)
    left_out = _left_out(+hidden)
    if not rows:
        raise NothingFound("no sessions found" + (f"; {left_out}" if left_out else ""))
    if as_json:
        output.write_json(rows[:limit])
    else:
        table.write(_COLUMNS, [_cells(row, now) for row in rows[:limit]], output.width())
    if left_out:
        click.echo(left_out, err=as_json)


def fits(session: Session, filters: Filters) -> bool:
    """Tell whether a session is wanted."""
    facts = session.facts
    return (
        fits_project(session, filters.project)
        and (filters.since is None or ((last := figures.moment(facts.last)) is not None and last >= filters.since))
        and (filters.until is None or ((begun := figures.moment(facts.started)) is not None and begun <= filters.until))
        and filters.branch in (None, facts.branch)
        and (filters.model is None or any(filters.model.casefold() in model.casefold() for model in facts.models))
        and all(_HAS[name](session) for name in filters.has)
    )


def fits_project(session: Session, wanted: str | None) -> bool:
    """Tell whether a session is of a project, named by its name, a part of its path or its key."""
    if wanted is None:
        return True
    names = [session.project or "", session.cwd or "", session.source.project or ""]
    return any(wanted.casefold().rstrip("/") in name.casefold() for name in names)


def moment(text: str | None, now: datetime, *, end: bool = False) -> datetime | None:
    """Return the time a person means by `2026-01-05`, `2026-01-05T09:00` or `7d`; of a day its start or end."""
    if text is None:
        return None
    if match := _AGO.fullmatch(text):
        return now - timedelta(hours=int(match[1]) * _HOURS[match[2]])
    try:
        read = datetime.fromisoformat(text)
        if len(text) == len("2026-01-05"):
            read = datetime.combine(read, time.max if end else time.min)
        return read.astimezone()
    except (ValueError, OverflowError):
        raise Usage(f"not a time: `{text}`", hint="a date as 2026-01-05, or `12h`, `7d`, `2w` ago") from None


def _wanted(has: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (has or "").split(",") if name.strip())
    for name in names:
        if name not in _HAS:
            raise Usage(f"no such thing to have: `{name}`", hint=f"one of {', '.join(_HAS)}")
    return names


def _left_out(hidden: Counter[str]) -> str:
    """Say what was left out and why: `3 hidden: 2 empty, 1 warm-up; --all shows them`."""
    if not hidden:
        return ""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(hidden.items()))
    return f"{hidden.total():,} hidden: {reasons}; --all shows {'it' if hidden.total() == 1 else 'them'}"


def _cells(row: dict[str, Any], now: datetime) -> list[str]:
    return [
        row["id"][:8],
        figures.ago(figures.moment(row["last"]), now),
        row["title"],
        row["project"] or "",
        row["branch"] or "",
        f"{row['turns']:,}",
        f"{row['tool_calls']:,}",
        f"{row['errors']:,}",
        figures.size(row["bytes"]),
    ]
