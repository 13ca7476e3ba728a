"""`unspool watch`: shows what each session is doing, and which one needs you.

Rules
  1. prompt_toolkit draws the board of a terminal; lines, JSON and `--once` do not need it.
  2. The terminal is left as it was whatever happens: an error, a signal, Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output
from unspool.display import TextColumn, clean_line, parse_time_expression, table, truncate, units
from unspool.errors import NothingFound, UsageError
from unspool.format import format_timestamp
from unspool.live import DEFAULT_RECENT, Board, Watcher, hook_signals
from unspool.live.state import (
    EVENT_SCHEMA,
    BoardGroup,
    BoardRow,
    LiveEvent,
    describe_verdict,
    event_to_json,
    format_elapsed,
    row_sort_key,
    row_to_document,
)
from unspool.paths import data_folder

if TYPE_CHECKING:
    from prompt_toolkit import ANSI, Application
    from prompt_toolkit.key_binding import KeyBindings

    from unspool.cli.query.notify import Notifier
    from unspool.read import Skipped

_COLOURS = {BoardGroup.NEEDS_YOU: "yellow", BoardGroup.WORKING: "green", BoardGroup.BACKGROUND: "green"}
_MARKS = {
    BoardGroup.NEEDS_YOU: "!",
    BoardGroup.WORKING: "*",
    BoardGroup.WAITING: "-",
    BoardGroup.BACKGROUND: "+",
    BoardGroup.ENDED: "x",
    BoardGroup.IDLE: " ",
}
_COLUMNS = [
    TextColumn(" "),
    TextColumn("session", least=16),
    TextColumn("doing", least=24),
    TextColumn("for", right=True),
    TextColumn("project", least=8, expendable=True),
    TextColumn("branch", least=6, expendable=True),
    TextColumn("context", right=True, expendable=True),
    TextColumn("source", expendable=True),
]


@click.command()
@click.option("--once", is_flag=True, help="Show the board once, and exit")
@click.option(
    "--notify",
    metavar="CMD",
    help="Run a command when a session needs you, waits for a prompt or has ended. The details are in "
    "$UNSPOOL_TITLE, $UNSPOOL_DETAIL, $UNSPOOL_GROUP, … and as JSON on stdin",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Show sessions that changed since TIME: a date, an age like `12h`, or `yesterday`. Default: one day",
)
@options.list_output_options
def watch(
    *,
    once: bool,
    notify: str | None,
    since: str | None,
    as_json: bool,
    as_lines: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Show what each session is doing, and which one needs you.

    On a terminal, shows a live board; sessions that need you come first. Scroll with the arrow keys or j and k, quit
    with q. Otherwise, prints a line for each change. --json prints an object for each event: session started, changed
    or ended, status, prompts, messages, tool calls and results, compactions, titles.

    The status comes from the processes that Claude Code registers, from hooks (`unspool hooks install`), or from the
    session file alone. In the last case it is an estimate and marked as one.
    """
    if once and notify:
        raise UsageError("--once and --notify cannot be used together", hint="remove one of them")
    roots = options.find_config_folders(config_dirs)
    begun = parse_time_expression(since, _now())
    recent = DEFAULT_RECENT if begun is None else _now() - begun.astimezone(UTC)
    board = Board(roots, data_folder(os.environ) / hook_signals.SIGNALS_FOLDER, clock=_now, recent=recent)
    if once:
        board.refresh(None)
        _write_once(board, as_json=as_json, as_lines=as_lines)
        return
    notifier = None
    if notify is not None:
        from unspool.cli.query.notify import Notifier

        notifier = Notifier(notify)
    watcher = Watcher(board)
    if as_json or as_lines:
        _follow(watcher, notifier, _print_events, on_skipped=_print_skipped)
    elif sys.stdout.isatty():
        _show_board(watcher, notifier)
    else:
        shown: dict[tuple[str, str | None], str] = {}
        _follow(watcher, notifier, lambda events, now: _print_rows(watcher.board.rows(now), shown, now))


def _now() -> datetime:
    return datetime.now(UTC)


def _write_once(board: Board, *, as_json: bool, as_lines: bool) -> None:
    now = _now()
    rows = board.rows(now)
    if as_lines:
        output.write_lines(row_to_document(row, now) for row in rows)
    elif as_json:
        output.write_document("watch", {"items": [row_to_document(row, now) for row in rows]}, board.skipped)
    else:
        for line in _board_lines(rows, now, output.terminal_width()):
            click.echo(line)
    output.warn_skipped(board.skipped)
    if not rows:
        raise NothingFound("no session changed recently", hint="look further back with `--since 30d`")


def _follow(
    watcher: Watcher,
    notifier: Notifier | None,
    show: Callable[[list[LiveEvent], datetime], None],
    on_skipped: Callable[[list[Skipped], datetime], None] = lambda skipped, now: None,
) -> None:
    """Print what happens as it happens, and to stderr how changes are noticed and what cannot be read."""
    named: set[Skipped] = set()
    for events in watcher.events(lambda: False):
        now = _now()
        if skipped := [source for source in watcher.board.skipped if source not in named]:
            output.warn_skipped(skipped)
            on_skipped(skipped, now)
            sys.stdout.flush()
        named.update(watcher.board.skipped)
        for event in events:
            if event.event == "mode":
                click.echo(clean_line(event.text), err=True)
        if changes := [event for event in events if event.event != "mode"]:
            show(changes, now)
            # stdout is buffered in a pipe: whoever reads it waits for this event, not for the next eight kilobytes.
            sys.stdout.flush()
        _notify(notifier, watcher, now)


def _print_events(events: Iterable[LiveEvent], now: datetime) -> None:
    """Write an object for each event."""
    for event in events:
        sys.stdout.write(output.json_line(event_to_json(event, now), compact=True) + "\n")


def _print_skipped(skipped: Iterable[Skipped], now: datetime) -> None:
    """Write an object for each file that cannot be read."""
    nothing = dict.fromkeys(("session_id", "agent_id", "session", "agent", "status", "detail", "source", "since"))
    at = format_timestamp(now)
    for source in skipped:
        event = {"schema": EVENT_SCHEMA, "event": "skipped", **nothing, "time": at, "at": at, "kind": None}
        place = {"probably": None, "path": str(source.path), "end": None, "reason": source.reason}
        sys.stdout.write(output.json_line({**event, **place}, compact=True) + "\n")


def _print_rows(rows: Iterable[BoardRow], shown: dict[tuple[str, str | None], str], now: datetime) -> None:
    """Write a line for each session that does something else than before."""
    for row in sorted(rows, key=row_sort_key):
        key = (row.session_id, row.agent_id)
        # Without the times: a row that differs in nothing else is no news.
        verdict = f"{row.verdict.activity}{row.verdict.source}{row.verdict.probably}{row.group}"
        if shown.get(key) == verdict:
            continue
        shown[key] = verdict
        mark, name, doing, *_, source = _board_cells(row, now)
        parts = [f"{now.astimezone():%H:%M:%S}", row.group.value, name, doing, row.project or "", source]
        click.echo("  ".join(clean_line(part) for part in parts if part and part != mark))


def _notify(notifier: Notifier | None, watcher: Watcher, now: datetime) -> None:
    if notifier is not None:
        notifier.update(watcher.board.rows(now), now)


def _board_lines(rows: Sequence[BoardRow], now: datetime, width: int) -> list[str]:
    """Return the board by group: a heading, then a line for each session."""
    cells = [_board_cells(row, now) for row in rows]
    formatted = list(table.format_table(_COLUMNS, cells, width, may_be_vertical=False))
    lines, heading = [formatted[0]] if rows else [], None
    for row, line in zip(rows, formatted[1:], strict=True):
        if row.group is not heading:
            heading = row.group
            count = sum(1 for other in rows if other.group is heading)
            lines += ["", click.style(f"{heading.value} ({count})", bold=True, fg=_COLOURS.get(heading))]
        lines.append(click.style(line, fg=_COLOURS.get(heading)) if heading is BoardGroup.NEEDS_YOU else line)
    return lines


def _board_cells(row: BoardRow, now: datetime) -> list[str]:
    """Return the cells of a session in the order of `_COLUMNS`."""
    name = row.title or row.goal or f"({row.session_id[:8]})"
    if row.agent_id is not None:
        name = f"↳ {name}"
    return [
        _MARKS[row.group],
        name,
        describe_verdict(row.verdict, now),
        format_elapsed(row.verdict.since, now),
        row.project or "",
        row.branch or "",
        units.tokens(row.context_tokens),
        row.verdict.source.value,
    ]


def _summarize(rows: Sequence[BoardRow], now: datetime, watcher: Watcher) -> str:
    """Return the first line of the board."""
    counts = [(group, sum(1 for row in rows if row.group is group)) for group in BoardGroup]
    groups = " · ".join(f"{count} {group.value.lower()}" for group, count in counts if count) or "no sessions"
    more = f" · {watcher.board.unread:,} older" if watcher.board.unread else ""
    if skipped := len(watcher.board.skipped):
        more += f" · {skipped:,} unreadable"
    return clean_line(f"{groups}{more} · {now.astimezone():%H:%M:%S} · {watcher.mode}")


def _show_board(watcher: Watcher, notifier: Notifier | None) -> None:
    """Show the board on the whole terminal until the user leaves."""
    try:
        import prompt_toolkit  # noqa: F401  whether it is there
    except ImportError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("chat") from None
    import asyncio

    if code := asyncio.run(_BoardScreen(watcher, notifier).run()):
        raise SystemExit(code)


class _BoardScreen:
    """The board on a terminal: one thread watches the files, the main thread draws and reads keys."""

    def __init__(self, watcher: Watcher, notifier: Notifier | None) -> None:
        from prompt_toolkit import Application
        from prompt_toolkit.input import create_input
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.layout import FormattedTextControl, Layout, Window

        self._watcher, self._notifier = watcher, notifier
        self._over = threading.Event()
        self._first = 0
        """The first line that is shown below the summary."""
        self._last = 0
        """The largest value of `_first`: the lines from there on fill the screen."""
        self._app: Application[int] = Application(
            layout=Layout(Window(FormattedTextControl(self._draw), always_hide_cursor=True)),
            key_bindings=(keys := KeyBindings()),
            full_screen=True,
            refresh_interval=1.0,  # the board shows a clock
            # Keys are typed at the terminal also when stdin is something else.
            input=create_input(always_prefer_tty=True),
        )
        self._bind(keys)

    async def run(self) -> int:
        """Show the board until the user leaves, a signal ends it or watching fails; return the exit code."""
        import asyncio

        following = asyncio.create_task(asyncio.to_thread(self._follow))
        following.add_done_callback(lambda _: self._leave(0))
        try:
            return await self._app.run_async(pre_run=self._handle_signals)
        except (EOFError, OSError):  # the terminal has gone
            return 128 + signal.SIGHUP
        finally:
            self._over.set()
            # A failure of the thread is raised here, when the board has been left: on it the message would be lost.
            await following

    def _handle_signals(self) -> None:
        import asyncio

        # The default handlers end the process at once and leave the terminal on the alternate screen.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._leave, 128 + number)

    def _follow(self) -> None:
        for events in self._watcher.events(self._over.is_set):
            _notify(self._notifier, self._watcher, _now())
            if events:
                self._app.invalidate()

    def _leave(self, code: int) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=code)

    def _draw(self) -> ANSI:
        from prompt_toolkit import ANSI

        height, width = self._app.output.get_size()
        now, board = _now(), self._watcher.board
        rows = board.rows(now)
        lines = _board_lines(rows, now, width)
        self._last = max(0, len(lines) - (height - 1))
        self._first = min(self._first, self._last)
        head = click.style(truncate(_summarize(rows, now, self._watcher), width), reverse=True)
        return ANSI("\n".join([head, *lines[self._first : self._first + height - 1]]))

    def _bind(self, keys: KeyBindings) -> None:
        def add(names: str, act: Callable[[], None]) -> None:
            for name in names.split():
                keys.add(name)(lambda _: act())

        add("q Q", lambda: self._leave(0))
        add("c-c <sigint>", lambda: self._leave(128 + signal.SIGINT))
        add("c-z", self._app.suspend_to_background)
        add("j down", lambda: self._scroll(1))
        add("k up", lambda: self._scroll(-1))
        add("pagedown space", lambda: self._scroll(self._app.output.get_size().rows - 2))
        add("pageup", lambda: self._scroll(2 - self._app.output.get_size().rows))

    def _scroll(self, lines: int) -> None:
        self._first = max(0, min(self._first + lines, self._last))
