"""The prompt of `unspool sql`: questions typed one after the other, with history and completion.

Rules
  1. A statement ends with `;` and may take several lines; a line that begins with a dot is a command.
  2. Whatever becomes of a question, the prompt goes on; an engine that had to be ended is started anew.
  3. What was typed is kept in the data folder, for the user alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import output
from unspool.cli.query.sql_output import FORMATS, complain, write
from unspool.errors import Refused, UnspoolError, Usage
from unspool.store.columns.parquet import MISSING
from unspool.store.columns.tables import Table, public

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from unspool.store.sql.client import Engine

HISTORY = "sql_history"
_HELP = {
    ".tables": "what tables there are",
    ".schema [TABLE]": "their columns, and what they mean",
    ".format [FORMAT]": f"how rows are written: {', '.join(FORMATS[:-1])}",
    ".help": "this",
    ".quit": "leave; so does Ctrl-D",
}
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "LIMIT", "OFFSET", "JOIN", "LEFT",
    "USING", "ON", "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE",
    "ILIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "COUNT", "SUM",
    "AVG", "MIN", "MAX", "HAVING", "WITH", "UNION", "ALL", "DESC", "ASC", "DESCRIBE",
    "SUMMARIZE", "SHOW", "EXPLAIN", "INTERVAL", "CAST", "DATE_TRUNC", "QUALIFY", "OVER", "PARTITION", "UNNEST",
)  # fmt: skip
_WORD = re.compile(r"[.\w]+$")


def prompt(engine: Engine, form: str, folder: Path) -> None:
    """Ask for questions until there are no more."""
    session = _session(folder)
    click.echo("`.help` tells the commands; a statement ends with `;`", err=True)
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
            form = _command(typed, form)
        elif typed.rstrip(";").strip():
            _ask(engine, typed, form)


def words() -> list[str]:
    """Return what can be completed."""
    names = {name for table in public().values() for name in (table.name, *table.names)}
    return [*(command.partition(" ")[0] for command in _HELP), *sorted(names), *_KEYWORDS]


def schema(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table with what they mean."""
    for column in table.columns:
        yield f"{column.name} {column.type}", column.comment


def _ask(engine: Engine, query: str, form: str) -> None:
    try:
        write(engine, query, form, None)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    except UnspoolError as error:
        complain(error)


def _command(typed: str, form: str) -> str:
    """Do what a command says; return the format that holds from now on."""
    name, _, rest = typed.partition(" ")
    rest = rest.strip().rstrip(";")
    try:
        match name:
            case ".tables":
                output.rows(((table.name, table.comment) for table in public().values()), indent=0)
            case ".schema":
                _show_schema(rest)
            case ".format" if rest:
                return _format(rest)
            case ".format":
                click.echo(form)
            case ".help":
                output.rows(_HELP.items(), indent=0)
            case _:
                raise Usage(f"no such command: `{name}`", hint="`.help` tells those there are")
    except Usage as error:
        complain(error)
    return form


def _format(name: str) -> str:
    if name not in FORMATS[:-1]:
        raise Usage(f"no such format: `{name}`", hint=f"there are {', '.join(FORMATS[:-1])}")
    return name


def _show_schema(name: str) -> None:
    if name and name not in public():
        raise Usage(f"no such table: `{name}`", hint="`.tables` tells those there are")
    for table in [public()[name]] if name else public().values():
        output.heading(table.name)
        output.rows(schema(table))


def _session(folder: Path) -> PromptSession[str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
    except ImportError:
        raise Refused("a prompt needs prompt_toolkit, which is not installed", hint=MISSING) from None
    path = folder / HISTORY
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    return PromptSession(
        history=FileHistory(str(path)),
        completer=_completer(),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="...> ",
    )


def _completer() -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Words(Completer):
        """Tables, columns, keywords and commands."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            """Yield the words that go on as what is typed."""
            found = _WORD.search(document.text_before_cursor)
            typed = found[0] if found else ""
            last = typed if typed.startswith(".") else typed.rpartition(".")[2]
            for word in words():
                if word.lower().startswith(last.lower()):
                    yield Completion(word, start_position=-len(last))

    return Words()


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
