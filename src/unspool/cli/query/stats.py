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
    "file_history": "backups",
    "queue_operation": "queued",
    "null": "none",
}
_FIGURES = {
    "lines": "lines",
    "bytes": "size",
    "messages": "messages",
    "tool_calls": "tool calls",
    "tool_results": "tool results",
    "paired": "calls with a result",
    "uses_without_result": "calls without a result",
    "results_without_use": "results without a call",
    "human_turns": "turns started by a prompt",
    "command_turns": "turns started by a command",
    "agents": "sub-agents",
    "models": "models",
}
"""What the figures of a session are called; JSON has a few more."""
_LINE_TYPES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "attachment": "attachments",
    "progress": "progress of tools",
    "summary": "summaries",
    "file-history-snapshot": "file backups",
    "file-history-delta": "file backups",
    "queue-operation": "queued prompts",
    "last-prompt": "last prompt",
    "ai-title": "titles",
    "custom-title": "titles",
}
_OTHER_LINES = "other lines of Claude Code"
_SECTIONS = {"versions": "versions", "entries": "lines", "stop_reasons": "stop reasons", "blocks": "content blocks"}


@click.command()
@options.session_argument(required=False)
@options.store_options
@options.output_options
@output.paged
def stats(*, session: str | None, access: options.AccessOptions, as_json: bool) -> None:
    """Count turns, calls, errors and blocks, of one session or all.

    SESSION is a file, a title, an agent id, or the start of a session id. The figures of one session do not include its
    agents. Without SESSION, print three tables of all sessions: an inventory, stop reasons, content blocks.
    """
    if session is not None:
        with open_session(session, access) as opened_session:
            counted = counts.count_session(opened_session)
            if as_json:
                head = {"session_id": opened_session.id, "path": str(opened_session.path)}
                counted["seed_human_turns"] = counted["text_prompts"]
                output.write_document("stats-session", {**head, "title": opened_session.title, **counted})
            else:
                _print_session(opened_session, counted)
        return
    with store_access.open_folders(access) as opened:
        # One session at a time: only its counts are kept, not its lines.
        sessions = sessions_newest_first(opened)
        tables = counts.build_tables((each.id, counts.count_session(each)) for each in sessions)
    if as_json:
        named = {name: [{"session_id": row["id"], **row} for row in rows] for name, rows in tables.items()}
        output.write_document("stats", {"items": named["sessions"], **named}, opened.skipped)
    if not tables["sessions"]:
        raise NothingFound("no sessions found")
    if not as_json:
        _print_tables(tables)


def _print_session(session: Session, counted: dict[str, Any]) -> None:
    output.print_heading(session.title or session.id)
    figures = {**counted, "bytes": units.size(counted["bytes"]), "models": ", ".join(counted["models"])}
    values = ((label, figures[name]) for name, label in _FIGURES.items())
    output.print_pairs((label, f"{value:,}" if isinstance(value, int) else value) for label, value in values)
    for name, title in _SECTIONS.items():
        counts = _add_up_lines(counted[name]) if name == "entries" else counted[name]
        if counts:
            pairs = ((_COLUMN_TITLES.get(key, key).replace("_", " "), f"{count:,}") for key, count in counts.items())
            output.print_section(title, pairs)


def _add_up_lines(entries: dict[str, int]) -> dict[str, int]:
    """Return how many lines of each kind a session has, by names that mean something to people."""
    counts: dict[str, int] = {}
    for kind, count in entries.items():
        label = _LINE_TYPES.get(kind, _OTHER_LINES)
        counts[label] = counts.get(label, 0) + count
    return counts


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
