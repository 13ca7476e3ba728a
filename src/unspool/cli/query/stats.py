"""`unspool stats`: counts what is in sessions."""

from __future__ import annotations

from typing import Any

import click

from unspool.cli import options, output, store_access
from unspool.cli.session_argument import open_session, sessions_newest_first
from unspool.display import TextColumn, units
from unspool.errors import NothingFound
from unspool.export import counts
from unspool.home import Session

_TITLES = {"sessions": "session inventory", "stop_reasons": "stop reasons", "blocks": "content blocks"}
_COLUMN_TITLES = {
    "tool_calls": "calls",
    "human_turns": "turns",
    "file_history": "file-history",
    "queue_operation": "queue-op",
}


@click.command()
@click.argument("session", required=False)
@options.store_options
@options.output_options
def stats(*, session: str | None, access: options.AccessOptions, as_json: bool) -> None:
    """Count what is in a session, or in all of them.

    SESSION is a file, the beginning of a session's id, an agent's id or a title; its own file is counted, without those
    of its agents. Without it there are three tables of all sessions: an inventory, stop reasons, content blocks.
    """
    if session is not None:
        with open_session(session, access) as opened_session:
            counted = counts.count_session(opened_session)
            if as_json:
                output.write_json(counted)
            else:
                _print_session(opened_session, counted)
        return
    with store_access.open_folder(access) as opened:
        # One session at a time: only its counts are kept, not its lines.
        sessions = sessions_newest_first(opened.home)
        tables = counts.build_tables((each.id, counts.count_session(each)) for each in sessions)
    if not tables["sessions"]:
        raise NothingFound("no sessions found")
    if as_json:
        output.write_json(tables)
    else:
        _print_tables(tables)


def _print_session(session: Session, counted: dict[str, Any]) -> None:
    output.print_heading(session.title or session.id)
    single = {name: value for name, value in counted.items() if not isinstance(value, dict | list)}
    single["bytes"] = units.size(counted["bytes"])
    single["models"] = ", ".join(counted["models"])
    output.print_pairs(
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value) for name, value in single.items()
    )
    for name in ("versions", "entries", "stop_reasons", "blocks"):
        if counted[name]:
            pairs = ((key, f"{count:,}") for key, count in counted[name].items())
            output.print_section(name.replace("_", " "), pairs)


def _print_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    for number, (name, rows) in enumerate(tables.items()):
        if number:
            output.print_line()
        output.print_heading(_TITLES[name])
        columns = [_column(key) for key in rows[0]]
        output.print_table(columns, [[_cell(key, row[key]) for key in row] for row in rows])


def _column(key: str) -> TextColumn:
    if key == "versions":
        return TextColumn("versions", least=8)
    return TextColumn(_COLUMN_TITLES.get(key, key), right=key != "id")


def _cell(key: str, value: Any) -> str:
    if key == "id":
        return str(value)[:8]
    return ", ".join(value) if isinstance(value, list) else f"{value:,}"
