"""Prints the status line: what Claude Code says on stdin, what the store knows, and the end of the session file.

Rules
  1. It never fails: what is not known is left out, and the exit code is 0.
  2. It imports json, sqlite3 and little else, and waits for nobody: one call takes at most three times as long as
     `python -c pass` (`bench/startup.py`).
  3. Costs are those of `unspool usage` once the store is up to date. What may not be is marked with `~`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.display import clean_line, dollars, tokens, units
from unspool.errors import UnspoolError
from unspool.files import read_git_head
from unspool.folders import data_folder_name, home_folder_name
from unspool.prices import WindowLimit, choose_limit
from unspool.statusline.background_sync import INTERVAL, start_sync
from unspool.statusline.session_tail import SessionTail, read_tail
from unspool.statusline.status_input import MAX_INPUT, StatusInput, parse_status_input
from unspool.statusline.store_figures import (
    Addition,
    StoreFigures,
    UsedAmount,
    WindowUse,
    make_addition,
    open_figures,
)
from unspool.statusline.template import DEFAULT_TEMPLATE, FieldValue, render_template

if TYPE_CHECKING:
    from unspool.prices import Price

_SETTINGS = "settings.json"
_MAX_SETTINGS = 4_000_000
_USUAL_CONTEXT, _LONG_CONTEXT = 200_000, 1_000_000
_MAX_LINE = 500
_MINUTE = 60_000
_MAX_BRANCH, _SHORT_HASH = 60, 7


class LineSettings(NamedTuple):
    """The settings of unspool that a status line needs."""

    template: str = DEFAULT_TEMPLATE
    zone: tzinfo | None = None
    prices: tuple[Price, ...] = ()
    limits: tuple[int | None, int | None] = (None, None)
    """Of a 5-hour window: micro-dollars and tokens."""
    background: bool = True


class Figures(NamedTuple):
    """What is known of a session and of its config folder; None is not known."""

    session: UsedAmount | None = None
    today: UsedAmount | None = None
    window: WindowUse | None = None
    context_tokens: int | None = None
    is_stale: bool = True
    """Whether the store is older than a minute, or there is none."""
    is_partial: bool = False
    """Whether a part of the session was not read."""


def print_status_line(config_dir: str | None = None) -> None:
    """Read Claude Code's JSON from stdin and print the line; print nothing if that is not possible."""
    try:
        line = build_status_line(read_stdin(), os.environ, int(time.time() * 1000), config_dir)
        if line:
            sys.stdout.buffer.write(line.encode(errors="replace") + b"\n")
            sys.stdout.flush()
    except Exception:  # a traceback would be shown below every prompt
        if os.environ.get("UNSPOOL_DEBUG"):
            raise


def read_stdin() -> bytes:
    """Return what is on stdin, nothing of a terminal: a person who tries the command types nothing."""
    try:
        if os.isatty(0):
            return b""
        parts, left = [], MAX_INPUT
        while left > 0 and (part := os.read(0, left)):
            parts.append(part)
            left -= len(part)
    except OSError:
        return b""
    return b"".join(parts)


def build_status_line(data: bytes, environment: Mapping[str, str], now: int, config_dir: str | None = None) -> str:
    """Return the status line for what Claude Code sent, at a time in milliseconds since 1970."""
    given = parse_status_input(data)
    folder = data_folder_name(environment)
    settings = read_line_settings(folder)
    # The store has the paths of files without links in them.
    path = os.path.realpath(given.transcript_path) if given.transcript_path else None
    named = config_dir or environment.get("CLAUDE_CONFIG_DIR") or f"{home_folder_name(environment)}/.claude"
    config = os.path.realpath(os.path.expanduser(named))
    figures = read_figures(folder, path, config, settings, now)
    if figures.is_stale and settings.background:
        start_sync_of(folder, path, config)
    values = dict(_values(given, figures, settings, now))
    return render_template(settings.template, values)[:_MAX_LINE]


def start_sync_of(folder: str, path: str | None, config: str) -> None:
    """Start a sync of the config folder around a session file, if it looks like one, else of the usual one."""
    # `…/projects/KEY/SESSION.jsonl`
    around = os.path.dirname(os.path.dirname(os.path.dirname(path))) if path else ""
    for candidate in (around, config):
        if candidate and os.path.isdir(f"{candidate}/projects"):
            start_sync(folder, candidate)
            return


def read_line_settings(folder: str) -> LineSettings:
    """Return the settings in a data folder; the default for each that is missing or wrong."""
    try:
        with open(f"{folder}/{_SETTINGS}", "rb") as file:
            values = json.loads(file.read(_MAX_SETTINGS))
    except (OSError, ValueError, RecursionError):
        return LineSettings()
    if not isinstance(values, dict):
        return LineSettings()
    template = _section(values, "statusline").get("template")
    limits = _section(values, "limits")
    micros = _positive(limits.get("five_hour_cost"), 1_000_000)
    return LineSettings(
        template=template if isinstance(template, str) and template.strip() else DEFAULT_TEMPLATE,
        zone=_zone(values.get("timezone")),
        prices=tuple(_own_prices(_section(values, "prices"))),
        limits=(micros, _positive(limits.get("five_hour_tokens"), 1)),
        background=values.get("background") is not False,
    )


def _section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _positive(value: Any, unit: int) -> int | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return round(value * unit) if is_number and 0 < value < 10**15 else None


def _zone(name: Any) -> tzinfo | None:
    if not isinstance(name, str):
        return None
    from unspool.format import parse_zone  # most reports are in the machine's own zone

    try:
        return parse_zone(name)
    except UnspoolError:
        return None


def _own_prices(prices: Mapping[str, Any]) -> Iterator[Price]:
    if not prices:
        return
    from unspool.prices import parse_own_price  # few users have prices of their own

    for model, price in prices.items():
        try:
            yield parse_own_price(model, price)
        except (UnspoolError, TypeError, AttributeError):
            continue


def read_figures(folder: str, path: str | None, config: str, settings: LineSettings, now: int) -> Figures:
    """Return what the store in a data folder and the end of a session file say; the file alone if there is no store."""
    try:
        store = open_figures(folder, path, config)
        if store is not None:
            return _figures_of_store(store, path, settings, now)
    except (sqlite3.Error, OSError, ValueError, TypeError):  # damaged, of another version, or being made
        pass
    tail = read_tail(path, None) if path else SessionTail(is_complete=False)
    additions = [make_addition(response, settings.prices, None, "") for response in tail.responses]
    session = _total(UsedAmount(), [addition.session_amount for addition in additions])
    known = session if path and tail.is_complete else None
    return Figures(known, context_tokens=tail.context_tokens, is_partial=not tail.is_complete)


def _figures_of_store(store: StoreFigures, path: str | None, settings: LineSettings, now: int) -> Figures:
    is_stale = store.home.synced is None or not 0 <= now - store.home.synced <= INTERVAL * 1000
    additions: list[Addition] = []
    session, context, is_partial = None, None, False
    if path is not None:
        tail = read_tail(path, store.find_file(path))
        id = os.path.basename(path).removesuffix(".jsonl")
        additions = store.compare(tail.responses, id, settings.prices)
        session = _total(store.session_amount(id, path), [addition.session_amount for addition in additions])
        context = store.context_tokens(path) if tail.context_tokens is None else tail.context_tokens
        is_partial = not tail.is_complete
    today = store.amount_since(_midnight(now, settings.zone), additions)
    window = store.active_window(now, additions)
    return Figures(session, today, window, context, is_stale, is_partial)


def _total(start: UsedAmount, amounts: Sequence[UsedAmount]) -> UsedAmount:
    for amount in amounts:
        start = start.plus(amount)
    return start


def _midnight(now: int, zone: tzinfo | None) -> int:
    day = datetime.fromtimestamp(now / 1000, zone)
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 1000


def _values(given: StatusInput, figures: Figures, settings: LineSettings, now: int) -> Iterator[tuple[str, FieldValue]]:
    """Yield the fields that have a value."""
    folder = given.folder or os.getcwd()
    plain = {
        "model": given.model_name or given.model_id,
        "model_id": given.model_id,
        "effort": given.effort,
        "version": given.version,
        "output_style": given.output_style,
        "session_id": (given.session_id or "")[:8],
        "folder": clean_line(os.path.basename(folder.rstrip("/")))[:60],
        "branch": read_branch(folder),
        "reported_cost": None if given.reported_cost_micros is None else dollars(given.reported_cost_micros),
    }
    yield from ((name, FieldValue(text)) for name, text in plain.items() if text)
    yield from _context_values(given, figures)
    if figures.session is not None:
        is_stale = figures.is_stale or figures.is_partial
        yield from _amount_values("session", figures.session, is_stale)
    elif given.reported_cost_micros is not None:
        yield "session_cost", FieldValue(dollars(given.reported_cost_micros), is_stale=True)
    if figures.today is not None:
        yield from _amount_values("today", figures.today, figures.is_stale)
    yield from _window_values(given, figures, settings, now)
    if given.seven_day_percent is not None:
        yield from _share_values("week", int(given.seven_day_percent), is_stale=False)


def _context_values(given: StatusInput, figures: Figures) -> Iterator[tuple[str, FieldValue]]:
    used = figures.context_tokens if given.context_tokens is None else given.context_tokens
    size = given.context_size
    if size is None:  # versions before 2.1 do not say it
        is_long = (used or 0) > _USUAL_CONTEXT or (given.model_id or "").endswith("[1m]")
        size = _LONG_CONTEXT if is_long else _USUAL_CONTEXT
    yield "context_size", FieldValue(tokens(size))
    if used is not None:
        percent = used * 100 // size
        yield "context_used", FieldValue(tokens(used))
        yield "context_left", FieldValue(tokens(max(size - used, 0)))
        yield "context_used_percent", FieldValue(f"{percent}%")
        yield "context_left_percent", FieldValue(f"{max(100 - percent, 0)}%")


def read_branch(folder: str) -> str | None:
    """Return the branch that a folder is on, the beginning of the commit if it is on none; None outside of git."""
    head = read_git_head(folder)
    return None if head is None else _describe_head(*head)


def _describe_head(branch: str | None, head: str) -> str | None:
    if branch is not None:
        return clean_line(branch)[:_MAX_BRANCH] or None
    is_hash = len(head) >= 40 and all(digit in "0123456789abcdef" for digit in head)
    return head[:_SHORT_HASH] if is_hash else None


def _amount_values(name: str, amount: UsedAmount, is_stale: bool) -> Iterator[tuple[str, FieldValue]]:
    yield f"{name}_cost", FieldValue(units.cost(amount.cost_micros, amount.unpriced_tokens), is_stale)
    yield f"{name}_tokens", FieldValue(tokens(amount.tokens), is_stale)


def _window_values(
    given: StatusInput, figures: Figures, settings: LineSettings, now: int
) -> Iterator[tuple[str, FieldValue]]:
    """Yield the fields of the 5-hour window: the API's own word first, where Claude Code passes it on."""
    use, is_stale = figures.window, figures.is_stale
    end = use.window.end if use else None
    if given.five_hour_resets_at is not None and given.five_hour_resets_at > now:
        end = given.five_hour_resets_at
    if end is not None:
        yield "window_time_left", FieldValue(_format_left(end - now))
        yield "window_ends", FieldValue(f"{datetime.fromtimestamp(end / 1000, settings.zone):%H:%M}")
    limit = _find_limit(use, settings)
    if given.five_hour_percent is not None:
        yield from _share_values("window", int(given.five_hour_percent), is_stale=False)
    elif limit is not None:
        yield from _share_values("window", limit.used_percent, is_stale)
    if limit is not None:
        amount = dollars(limit.amount) if limit.unit == "cost" else f"{tokens(limit.amount)} tokens"
        yield "window_limit", FieldValue(amount, is_stale and limit.is_learned)
    if use is None:
        return
    yield from _amount_values("window", use.amount, is_stale)
    if use.cost_per_hour_micros is not None:
        yield "burn_rate", FieldValue(f"{dollars(use.cost_per_hour_micros)}/h", is_stale)
    if use.tokens_per_minute is not None:
        yield "burn_tokens", FieldValue(f"{tokens(use.tokens_per_minute)}/min", is_stale)
    if use.projected_cost_micros is not None:
        yield "projected_cost", FieldValue(dollars(use.projected_cost_micros), is_stale)


def _find_limit(use: WindowUse | None, settings: LineSettings) -> WindowLimit | None:
    if use is None:
        return None
    used = (use.amount.cost_micros, use.amount.tokens)
    return choose_limit(used, settings.limits, (use.largest_cost_micros, use.largest_tokens))


def _share_values(name: str, used: int, is_stale: bool) -> Iterator[tuple[str, FieldValue]]:
    yield f"{name}_used_percent", FieldValue(f"{used}%", is_stale)
    yield f"{name}_left_percent", FieldValue(f"{max(100 - used, 0)}%", is_stale)


def _format_left(milliseconds: int) -> str:
    """Return a length of time as `2h 14m`.

    >>> _format_left(8_040_000)
    '2h 14m'
    """
    hours, minutes = divmod(max(milliseconds, 0) // _MINUTE, 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m"
