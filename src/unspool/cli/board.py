"""The board in a terminal: rows in, lines that fit out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from unspool.cli import table
from unspool.display import clean_line
from unspool.export import figures
from unspool.live.detail import Group, elapsed, say
from unspool.live.rows import Row

_COLOURS = {Group.NEEDS_YOU: "yellow", Group.WORKING: "green", Group.BACKGROUND: "green"}
_MARKS = {
    Group.NEEDS_YOU: "!",
    Group.WORKING: "*",
    Group.WAITING: "-",
    Group.BACKGROUND: "+",
    Group.ENDED: "x",
    Group.IDLE: " ",
}
COLUMNS = [
    table.Column(" "),
    table.Column("session", least=16),
    table.Column("doing", least=24),
    table.Column("for", right=True),
    table.Column("project", least=8, expendable=True),
    table.Column("branch", least=6, expendable=True),
    table.Column("context", right=True, expendable=True),
    table.Column("known by", expendable=True),
]


def lines(rows: Sequence[Row], now: datetime, width: int) -> list[str]:
    """Return the board by group: a heading, then a line for each session."""
    made = list(table.lines(COLUMNS, [cells(row, now) for row in rows], width))
    found, heading = [made[0]] if rows else [], None
    for row, line in zip(rows, made[1:], strict=True):
        if row.group is not heading:
            heading = row.group
            count = sum(1 for one in rows if one.group is heading)
            found += ["", click.style(f"{heading.value} ({count})", bold=True, fg=_COLOURS.get(heading))]
        found.append(click.style(line, fg=_COLOURS.get(heading)) if heading is Group.NEEDS_YOU else line)
    return found


def cells(row: Row, now: datetime) -> list[str]:
    """Return the cells of a session."""
    name = row.title or row.goal or f"({row.session_id[:8]})"
    if row.agent_id is not None:
        name = f"↳ {name}"
    return [
        _MARKS[row.group],
        name,
        say(row.verdict, now),
        elapsed(row.since, now),
        row.project or "",
        row.branch or "",
        figures.tokens(row.context_tokens),
        row.source.value,
    ]


def summary(rows: Sequence[Row], now: datetime, mode: str, unread: int) -> str:
    """Return the first line of the board."""
    counts = [(group, sum(1 for row in rows if row.group is group)) for group in Group]
    said = " · ".join(f"{count} {group.value.lower()}" for group, count in counts if count) or "no sessions"
    more = f" · {unread:,} older" if unread else ""
    return clean_line(f"{said}{more} · {now.astimezone():%H:%M:%S} · {mode}")
