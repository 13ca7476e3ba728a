"""`unspool watch`: shows what each session is doing, and which one needs you."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from unspool.cli import output
from unspool.cli.query import watch_view
from unspool.display import clean_json, clean_line, parse_time_expression, truncate
from unspool.errors import UsageError
from unspool.live import DEFAULT_RECENT, Board, Watcher, hook_signals
from unspool.live.state import BoardRow, LiveEvent, event_to_json, row_sort_key, row_to_json
from unspool.paths import config_folder, data_folder, resolve_existing

if TYPE_CHECKING:
    from unspool.cli.notify import Notifier


@click.command()
@click.option("--once", is_flag=True, help="Show the board as it is now, and end.")
@click.option(
    "--notify",
    metavar="CMD",
    help="Run a program when a session needs you, waits for a prompt or has ended. It finds the facts in "
    "$UNSPOOL_TITLE, $UNSPOOL_DETAIL, $UNSPOOL_GROUP, … and as JSON on its input.",
)
@click.option("--since", metavar="TIME", help="Show what has changed since then: `7d`, `12h`, a date. Default: a day.")
@output.output_options
def watch(once: bool, notify: str | None, since: str | None, as_json: bool, config_dir: str | None) -> None:
    """Show which session is doing what, and which one needs you.

    On a terminal a board that keeps itself up to date, sorted by who needs you: arrows or j and k scroll, q leaves.
    Else a line for each change. --json writes an object for each thing that happens: a session started, changed or
    ended, its status, prompts, messages, tool calls and results, compactions, titles.

    What a session is doing is known from the processes Claude Code tells of, from hooks (`unspool hooks install`), or
    from its lines alone; then it may be only probable, and says so.
    """
    if once and notify:
        raise UsageError("`--once` and `--notify` do not go together", hint="leave one of them out")
    root = resolve_existing(config_folder(config_dir, os.environ))
    begun = parse_time_expression(since, _now())
    recent = DEFAULT_RECENT if begun is None else _now() - begun.astimezone(UTC)
    board = Board(root, data_folder(os.environ) / hook_signals.SIGNALS_FOLDER, clock=_now, recent=recent)
    if once:
        board.refresh(None)
        _write_once(board.rows(_now()), as_json)
        return
    notifier = None
    if notify is not None:
        from unspool.cli.notify import Notifier

        notifier = Notifier(notify)
    if as_json:
        _stream(Watcher(board), notifier)
    elif sys.stdout.isatty():
        _Terminal(Watcher(board), notifier).run()
    else:
        _print_changes(Watcher(board), notifier)


def _now() -> datetime:
    return datetime.now(UTC)


def _write_once(rows: Sequence[BoardRow], as_json: bool) -> None:
    now = _now()
    if as_json:
        output.write_json([row_to_json(row, now) for row in rows])
    elif rows:
        for line in watch_view.board_lines(rows, now, output.terminal_width()):
            click.echo(line)
    else:
        output.print_line("no session has changed lately; `--since 30d` looks further back")


def _stream(watch: Watcher, notifier: Notifier | None) -> None:
    """Write an object for each event, at once."""
    for events in watch.events(lambda: False):
        now = _now()
        _print_mode(events)
        for event in (event for event in events if event.event != "mode"):
            text = json.dumps(event_to_json(event, now), ensure_ascii=False, separators=(",", ":"))
            sys.stdout.write(clean_json(text) + "\n")
        # stdout is buffered in a pipe: whoever reads it waits for this event, not for the next eight kilobytes.
        sys.stdout.flush()
        _notify(notifier, watch, now)


def _print_changes(watch: Watcher, notifier: Notifier | None) -> None:
    """Write a line for each change of what a session is doing."""
    shown: dict[tuple[str, str | None], str] = {}
    for events in watch.events(lambda: False):
        now = _now()
        _print_mode(events)
        if any(event.event != "mode" for event in events):
            _print_rows(watch.board.rows(now), shown, now)
        _notify(notifier, watch, now)


def _print_mode(events: Iterable[LiveEvent]) -> None:
    """Print to stderr how changes are noticed."""
    for event in events:
        if event.event == "mode":
            click.echo(clean_line(event.text), err=True)


def _print_rows(rows: Iterable[BoardRow], shown: dict[tuple[str, str | None], str], now: datetime) -> None:
    for row in sorted(rows, key=row_sort_key):
        key = (row.session_id, row.agent_id)
        # Without the times: a row that differs in nothing else is no news.
        verdict = f"{row.verdict.activity}{row.verdict.source}{row.verdict.probably}{row.group}"
        if shown.get(key) == verdict:
            continue
        shown[key] = verdict
        mark, name, doing, *_, source = watch_view.board_cells(row, now)
        parts = [f"{now.astimezone():%H:%M:%S}", row.group.value, name, doing, row.project or "", source]
        click.echo("  ".join(clean_line(part) for part in parts if part and part != mark))
    sys.stdout.flush()


def _notify(notifier: Notifier | None, watch: Watcher, now: datetime) -> None:
    if notifier is not None:
        notifier.update(watch.board.rows(now), now)


class _Terminal:
    """The board on a terminal: one thread watches the files, the main thread draws and reads keys."""

    def __init__(self, watch: Watcher, notifier: Notifier | None) -> None:
        self._watch, self._notifier = watch, notifier
        self._over = threading.Event()
        self._failure: list[BaseException] = []
        self._first = 0
        """The first line that is shown below the summary."""
        self._last = 0
        """The largest value of `_first`: the lines from there on fill the screen."""

    def run(self) -> None:
        """Show the board until the user presses `q` or watching fails."""
        with watch_view.TerminalScreen() as screen:
            thread = threading.Thread(target=self._follow, args=(screen.wake,), daemon=True)
            thread.start()
            try:
                while not self._over.is_set():
                    self._draw(screen.size, screen.show)
                    for key in screen.keys(1.0):
                        self._press(key, screen.size[1])
            finally:
                self._over.set()
                thread.join()
        # Raised when the screen is left: on the alternate screen the message would be gone with it.
        if self._failure:
            raise self._failure[0]

    def _follow(self, wake: Callable[[], None]) -> None:
        try:
            for events in self._watch.events(self._over.is_set):
                _notify(self._notifier, self._watch, _now())
                if events:
                    wake()
        except (OSError, RuntimeError) as error:
            self._failure.append(error)
            self._over.set()
            wake()

    def _draw(self, size: tuple[int, int], show: Callable[[Sequence[str]], None]) -> None:
        width, height = size
        now = _now()
        rows = self._watch.board.rows(now)
        lines = watch_view.board_lines(rows, now, width)
        self._last = max(0, len(lines) - (height - 1))
        self._first = min(self._first, self._last)
        head = watch_view.board_summary(rows, now, self._watch.mode.description, self._watch.board.unread)
        show([click.style(truncate(head, width), reverse=True), *lines[self._first : self._first + height - 1]])

    def _press(self, key: str, height: int) -> None:
        match key:
            case "q" | "Q":
                self._over.set()
            case "j" | "down":
                self._first += 1
            case "k" | "up":
                self._first -= 1
            case "page down" | " ":
                self._first += height - 2
            case "page up":
                self._first -= height - 2
            case _:
                pass
        self._first = max(0, min(self._first, self._last))
