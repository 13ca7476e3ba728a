"""Prints data to stdout and messages to stderr; nothing from a transcript is printed raw.

Rules
  1. Text for people passes `display.clean` or `clean_line`; JSON passes `clean_json`, which keeps its meaning.
  2. Colour and progress bars only on a terminal; no meaning is carried by colour alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import click

from unspool.display import clean_json, clean_line, table
from unspool.errors import UsageError


def write_json(value: Any) -> None:
    """Write a value to stdout as indented JSON."""
    click.echo(json_text(value))


def print_result(data: Any, line: str, *, as_json: bool) -> None:
    """Write what a command did: as JSON, or as a line of text."""
    if as_json:
        write_json(data)
    else:
        print_line(line)


def json_text(value: Any) -> str:
    """Return a value as JSON that is safe to show: the two outer levels are indented, deeper ones are on one line."""
    import json  # start-up: only `--json` needs it

    # `json.dumps(indent=2)` is written in Python and took longer than all else that a warm report does.
    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode
    return clean_json(_indent(value, encode, 2, ""))


def _indent(value: Any, encode: Callable[[Any], str], levels: int, margin: str) -> str:
    if not levels or not value or not isinstance(value, dict | list | tuple):
        return encode(value)
    inner = margin + "  "
    if isinstance(value, dict):
        parts = [f"{encode(str(key))}: {_indent(item, encode, levels - 1, inner)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        parts = [_indent(item, encode, levels - 1, inner) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{margin}{closing}"


def json_line(value: Any, *, compact: bool = False) -> str:
    """Return a value as JSON on one line, optionally without spaces."""
    import json

    return clean_json(json.dumps(value, ensure_ascii=False, separators=(",", ":") if compact else None))


def warn(message: str) -> None:
    """Print a message to stderr, where it does not mix with the data."""
    click.echo(f"unspool: {clean_line(message)}", err=True)


def warn_left_out(path: object, reason: str) -> None:
    """Print to stderr that a file is missing in the answer, and why."""
    warn(f"left out `{path}`: {reason}")


def show_pages(text: Iterable[str] | str) -> None:
    """Show text in the user's pager."""
    click.echo_via_pager(text, color=False if os.environ.get("NO_COLOR") else None)


def warn_of_cleaning() -> None:
    """Print to stderr that a terminal is not shown the exact bytes."""
    click.echo("shown with escape sequences made harmless; redirect the output for the exact bytes", err=True)


def print_line(text: str = "") -> None:
    """Write one line of text that may come from a transcript."""
    click.echo(clean_line(text))


def print_table(columns: Sequence[table.TextColumn], rows: Sequence[Sequence[str]]) -> None:
    """Write a table with a heading, as wide as the terminal."""
    for line in table.format_table(columns, rows, terminal_width()):
        click.echo(line)


def print_pairs(pairs: Iterable[tuple[str, str]], indent: int = 2) -> None:
    """Write pairs as two columns."""
    cells = [(clean_line(left), clean_line(right)) for left, right in pairs]
    width = max((len(left) for left, _ in cells), default=0)
    for left, right in cells:
        click.echo(f"{' ' * indent}{left:<{width}}  {right}".rstrip())


def print_heading(text: str) -> None:
    """Write a heading."""
    click.echo(click.style(clean_line(text), bold=True))


def print_section(title: str, pairs: Iterable[tuple[str, str]], limit: int | None = None) -> None:
    """Write a blank line, a heading and two columns; of more pairs than the limit the first, and how many more."""
    pairs = list(pairs)
    print_line()
    print_heading(title)
    print_pairs(pairs[:limit])
    if limit is not None and len(pairs) > limit:
        print_line(f"  … and {len(pairs) - limit:,} more; `--json` lists all")


@contextmanager
def progress_bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal; the callback takes how much was done since the last call."""
    if not sys.stderr.isatty() or total == 0:
        yield lambda _: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr, width=40) as bar:
        yield bar.update


@contextmanager
def open_target(target: str | None) -> Iterator[IO[bytes]]:
    """Open stdout for writing bytes, or a new file that only its owner can read; an existing file is an error."""
    if not target:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    # Created with these rights, not given them afterwards: nobody can open it in between.
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"`{target}` exists", hint="name a file that does not") from None
    with os.fdopen(descriptor, "wb") as file:
        yield file


def terminal_width() -> int:
    """Return the number of columns: `$COLUMNS`, else the terminal's, else 100."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns
