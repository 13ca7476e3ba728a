"""Prints data to stdout and messages to stderr; nothing from a transcript is printed raw.

Rules
  1. Text for people passes `display.clean` or `clean_line`; JSON passes `clean_json`, which keeps its meaning.
  2. Colour and progress bars only on a terminal; no meaning is carried by colour alone.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, TextIO

import click

from unspool.display import clean_json, clean_line, table
from unspool.errors import already_exists

if TYPE_CHECKING:
    import subprocess

    from unspool.read import Skipped


def write_json(value: Any) -> None:
    """Write a value to stdout as indented JSON."""
    click.echo(json_text(value))


def write_document(name: str, data: Mapping[str, Any], skipped: Iterable[Skipped] | None = None) -> None:
    """Write a JSON document to stdout; `documents/registry.py` has its type. A list says what was skipped."""
    write_json(make_document(name, data, skipped))


def make_document(name: str, data: Mapping[str, Any], skipped: Iterable[Skipped] | None = None) -> dict[str, Any]:
    """Return a JSON document: the name of its schema, the data, and what was skipped unless that is None."""
    document = {"schema": f"unspool/{name}/1", **data}
    return document if skipped is None else {**document, "skipped": skipped_as_json(skipped)}


def write_lines(items: Iterable[Mapping[str, Any]]) -> None:
    """Write items to stdout as JSON, each on a line."""
    import json

    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode
    for item in items:
        click.echo(clean_json(encode(item)))


def print_result(name: str, data: Mapping[str, Any], line: str, *, as_json: bool) -> None:
    """Write what a command did: as a JSON document, or as a line of text."""
    if as_json:
        write_document(name, data)
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
    warn(f"skipped `{path}`: {reason}")


def warn_skipped(skipped: Sequence[Skipped]) -> None:
    """Print to stderr, in one line, which files and folders are missing in the answer, and why."""
    if not skipped:
        return
    first, *others = skipped
    if not others:
        warn_left_out(first.path, first.reason)
        return
    warn(
        f"skipped {len(skipped):,} unreadable files or folders: `{first.path}` ({first.reason}) and "
        f"{len(others):,} more; list them with `unspool doctor`"
    )


def skipped_as_json(skipped: Iterable[Skipped]) -> list[dict[str, str]]:
    """Return what could not be read as JSON has it."""
    return [{"path": str(source.path), "reason": source.reason} for source in skipped]


def show_pages(text: Iterable[str] | str) -> None:
    """Show text in the user's pager if it is longer than the screen."""
    with paging():
        for piece in [text] if isinstance(text, str) else text:
            click.echo(piece, nl=False)


@contextmanager
def paging() -> Iterator[None]:
    """Send what is written to a terminal through the user's pager if it is longer than the screen.

    The pager is `$UNSPOOL_PAGER`, else `$PAGER`, else `less`. An empty one, `cat` and `--no-pager` mean none.
    """
    command = _find_pager()
    if command is None or isinstance(sys.stdout, _PagedOutput):
        yield
        return
    screen = sys.stdout
    paged = _PagedOutput(screen, command)
    sys.stdout = paged
    try:
        yield
    except BrokenPipeError:
        if not paged.has_pager:  # else the user has left the pager
            raise
    finally:
        sys.stdout = screen
        paged.finish()


def paged(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command whose text output may be long."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        with paging():
            command(*arguments, **options)

    return run


def _find_pager() -> list[str] | None:
    """Return the command of the pager; None if nothing is to be paged."""
    # Without a terminal to read keys from, a pager could not be left.
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return None
    context = click.get_current_context(silent=True)
    if context is not None and getattr(context.find_root().obj, "no_pager", False):
        return None
    import shlex
    import shutil

    named = os.environ.get("UNSPOOL_PAGER", os.environ.get("PAGER", "less"))
    command = shlex.split(named)
    if not command or command == ["cat"] or shutil.which(command[0]) is None:
        return None
    return command


class _PagedOutput(io.TextIOBase):
    """A text stream that holds back what fits the screen, and gives more than that to a pager."""

    def __init__(self, screen: TextIO, command: list[str]) -> None:
        self._screen, self._command = screen, command
        size = terminal_size((80, 24))
        self._columns, self._room = max(size.columns, 1), size.lines - 1
        self._held: list[str] = []
        self._pager: subprocess.Popen[str] | None = None

    @property
    def has_pager(self) -> bool:
        """Whether there was more than fits the screen."""
        return self._pager is not None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the terminal."""
        return self._screen.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How the terminal handles characters that it cannot show."""
        return self._screen.errors

    @property
    def buffer(self) -> IO[bytes]:
        """The terminal itself: bytes are not paged."""
        self._write_held()
        return self._screen.buffer

    def isatty(self) -> bool:
        """Return that it is a terminal, as the pager's output is."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor of the terminal."""
        return self._screen.fileno()

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Hold a text back, or give it to the pager."""
        if not isinstance(text, str):  # click tries bytes to find out what a stream takes
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        shown = click.unstyle(text) if os.environ.get("NO_COLOR") else text
        if self._pager is not None:
            assert self._pager.stdin is not None
            self._pager.stdin.write(shown)
            return len(text)
        self._held.append(shown)
        # Rows of the terminal, not lines: a long line takes several.
        self._room -= sum(len(click.unstyle(line)) // self._columns for line in shown.split("\n")) + shown.count("\n")
        if self._room < 0:
            self._start_pager()
        return len(text)

    def _start_pager(self) -> None:
        import subprocess

        # -F: leave if it fits after all; -R: keep colours; -X: leave the text on the screen. As git does.
        environment = {"LESS": "FRX", "LV": "-c", **os.environ}
        self._pager = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            env=environment,
            text=True,
            encoding=self._screen.encoding,
            errors="replace",
        )
        held, self._held = "".join(self._held), []
        assert self._pager.stdin is not None
        self._pager.stdin.write(held)

    def _write_held(self) -> None:
        held, self._held = "".join(self._held), []
        self._screen.write(held)
        self._screen.flush()

    def finish(self) -> None:
        """Write what is held back, or wait until the user leaves the pager."""
        if self._pager is None:
            self._write_held()
            return
        assert self._pager.stdin is not None
        with suppress(BrokenPipeError):
            self._pager.stdin.close()
        while True:
            try:
                self._pager.wait()
                return
            except KeyboardInterrupt:  # Ctrl-C is a key of the pager
                pass


def warn_of_cleaning() -> None:
    """Print to stderr that a terminal is not shown the exact bytes."""
    click.echo("control characters are replaced on a terminal; redirect the output for the exact bytes", err=True)


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
        print_line(f"  … and {len(pairs) - limit:,} more; list all with `--json`")


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
        raise already_exists(target) from None
    with os.fdopen(descriptor, "wb") as file:
        yield file


def terminal_width() -> int:
    """Return the number of columns: `$COLUMNS`, else the terminal's, else 100."""
    return terminal_size((100, 24)).columns


def terminal_size(usual: tuple[int, int]) -> os.terminal_size:
    """Return columns and lines: `$COLUMNS` and `$LINES`, else the terminal's, else the usual ones."""
    # As `shutil.get_terminal_size` does it. That module loads bz2 and lzma: 1.3 ms, a thirtieth of a short command.
    try:
        found = os.get_terminal_size(sys.__stdout__.fileno()) if sys.__stdout__ else usual
    except (ValueError, OSError):  # closed, detached or no terminal
        found = usual
    named = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    # Some terminals say 0 before they know their size.
    columns, lines = (
        (int(text) if text.isdecimal() and len(text) < 6 else 0) or actual or fallback
        for text, actual, fallback in zip(named, found, usual, strict=True)
    )
    return os.terminal_size((columns, lines))
