"""The interactive prompt of `unspool sql`, with history and completion.

Rules
  1. A statement ends with `;` and may take several lines; a line that begins with a dot is a command.
  2. A query that fails does not end the prompt; an engine that had to be ended is started anew.
  3. The history is kept in the data folder, for the user alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import output
from unspool.cli.query.sql import FORMATS, print_query_error, write_answer
from unspool.errors import UnspoolError, UsageError
from unspool.store.columns import Table, public_tables

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from unspool.store.sql import SqlEngine

HISTORY = "sql_history"
_HELP = {
    ".tables": "list the tables",
    ".schema [TABLE]": "list columns and their meaning",
    ".format [FORMAT]": f"set the output format: {', '.join(FORMATS[:-1])}",
    ".help": "this",
    ".quit": "exit (also Ctrl-D)",
}
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "LIMIT", "OFFSET", "JOIN", "LEFT",
    "USING", "ON", "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE",
    "ILIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "COUNT", "SUM",
    "AVG", "MIN", "MAX", "HAVING", "WITH", "UNION", "ALL", "DESC", "ASC", "DESCRIBE",
    "SUMMARIZE", "SHOW", "EXPLAIN", "INTERVAL", "CAST", "DATE_TRUNC", "QUALIFY", "OVER", "PARTITION", "UNNEST",
)  # fmt: skip
_WORD = re.compile(r"^(?:\w*\.(?!\S)|\w+)")
"""The word before the cursor, as prompt_toolkit looks for it, from its end: a command, or a name after any dot."""


def run_prompt(engine: SqlEngine, form: str, folder: Path) -> None:
    """Read and run statements until the user leaves."""
    session = _session(folder)
    click.echo("type `.help` for commands; end a statement with `;`", err=True)
    with _keys_kept_while_busy():
        while True:
            try:
                typed = session.prompt("sql> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if typed in (".quit", ".exit"):
                return
            if typed.startswith("."):
                form = _run_dot_command(typed, form)
            elif typed.rstrip(";").strip():
                _run_statement(engine, typed, form)


def completion_words() -> list[str]:
    """Return the commands, names and keywords that can be completed."""
    names = {name for table in public_tables().values() for name in (table.name, *table.names)}
    return [*(command.partition(" ")[0] for command in _HELP), *sorted(names), *_KEYWORDS]


def table_schema(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table with their meaning."""
    for column in table.columns:
        yield f"{column.name} {column.type}", column.comment


@contextmanager
def _keys_kept_while_busy() -> Iterator[None]:
    """Let keys that are pressed while a statement runs reach the next prompt as they are.

    Between two prompts the terminal would collect lines itself, and a Ctrl-D pressed then arrives as a NUL byte: the
    prompt does not end. Signals stay on, so that Ctrl-C interrupts a statement.
    """
    import termios

    terminal = sys.stdin.fileno()
    settings = termios.tcgetattr(terminal)
    changed = [*settings[:3], settings[3] & ~(termios.ICANON | termios.ECHO), *settings[4:]]
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, settings)


def _run_statement(engine: SqlEngine, query: str, form: str) -> None:
    try:
        write_answer(engine, query, form, None)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    except UnspoolError as error:
        print_query_error(error)


def _run_dot_command(typed: str, form: str) -> str:
    """Run a dot command; return the format for the next statements."""
    name, _, rest = typed.partition(" ")
    rest = rest.strip().rstrip(";")
    try:
        match name:
            case ".tables":
                output.print_pairs(((table.name, table.comment) for table in public_tables().values()), indent=0)
            case ".schema":
                _show_schema(rest)
            case ".format" if rest:
                return _format(rest)
            case ".format":
                click.echo(form)
            case ".help":
                output.print_pairs(_HELP.items(), indent=0)
            case _:
                raise UsageError(f"unknown command `{name}`", hint="list commands with `.help`")
    except UsageError as error:
        print_query_error(error)
    return form


def _format(name: str) -> str:
    if name not in FORMATS[:-1]:
        raise UsageError(f"unknown format `{name}`", hint=f"use one of: {', '.join(FORMATS[:-1])}")
    return name


def _show_schema(name: str) -> None:
    if name and name not in public_tables():
        raise UsageError(f"unknown table `{name}`", hint="list tables with `.tables`")
    for table in [public_tables()[name]] if name else public_tables().values():
        output.print_heading(table.name)
        output.print_pairs(table_schema(table))


def _session(folder: Path) -> PromptSession[str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
    except ImportError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("sql") from None
    path = folder / HISTORY
    # Made before `FileHistory` does, which would let others read it; a link at its place is not followed.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    return PromptSession(
        history=FileHistory(str(path)),
        completer=WordCompleter(completion_words, ignore_case=True, pattern=_WORD),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="...> ",
    )


def _keys() -> KeyBindings:
    """Let Enter end a statement that is whole, and a command; else begin a new line."""
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        text = event.current_buffer.text.strip()
        if not text or text.startswith(".") or text.endswith(";"):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    return keys
