"""Reads what a status line shows from the store as it is: the cost of a session, of today and of the 5-hour window.

Rules
  1. The store is only read, and never waited for: without one, or with one that does not answer, nothing is known.
  2. What the end of the session file adds is added here, each response once: one that the store has counts with the
     numbers that have more output, as everywhere (`prices/responses.py`, rule 6).
  3. Queries use `answers_by_time` and `sources_by_session`: their time does not grow with the store.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from unspool.prices import HOUR, MINUTE, UsageWindow, find_active_window, rate_per, window_of
from unspool.statusline.session_tail import FileStamp

if TYPE_CHECKING:
    from unspool.prices import Price
    from unspool.statusline.session_tail import TailResponse

_STORE = "store.db"
_TIMEOUT = 0.2
"""Seconds to wait for a writer. The store is in WAL mode, in which readers wait for nobody but a repair."""
_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens"
_SUMS = f"coalesce(sum(cost_micros), 0), coalesce(sum({_TOKENS}), 0), coalesce(sum(unpriced_tokens), 0)"


class UsedAmount(NamedTuple):
    """What some responses used and cost."""

    cost_micros: int = 0
    tokens: int = 0
    unpriced_tokens: int = 0

    def plus(self, other: UsedAmount) -> UsedAmount:
        """Return the sum of two."""
        return UsedAmount(*(one + more for one, more in zip(self, other, strict=True)))


class Addition(NamedTuple):
    """What the end of a session file adds to the store: a response, or the rest of one that the store has."""

    time: int | None
    amount: UsedAmount
    session_amount: UsedAmount
    """What it adds to the session that the file is of."""


class WindowUse(NamedTuple):
    """The 5-hour window that is running."""

    window: UsageWindow
    amount: UsedAmount
    tokens_per_minute: int | None
    cost_per_hour_micros: int | None
    projected_cost_micros: int | None
    largest_cost_micros: int | None
    """Of the windows before it; None if that is not known."""
    largest_tokens: int | None


class KnownHome(NamedTuple):
    """A config folder that the store knows."""

    id: int
    path: str
    synced: int | None
    """When all of it was last read, in milliseconds since 1970."""


class StoreFigures:
    """The figures of one config folder."""

    def __init__(self, database: sqlite3.Connection, home: KnownHome) -> None:
        self._database, self.home = database, home

    def find_file(self, path: str) -> FileStamp | None:
        """Return how far the store has read a file; None if it does not know the file."""
        query = "SELECT device, inode, offset FROM sources WHERE path = ? AND gone IS NULL"
        row = self._database.execute(query, (path,)).fetchone()
        return FileStamp(*row) if row else None

    def context_tokens(self, path: str) -> int | None:
        """Return how many tokens the last request in a session file had."""
        query = "SELECT context_tokens FROM sessions WHERE source_id = (SELECT id FROM sources WHERE path = ?)"
        row = self._database.execute(query, (path,)).fetchone()
        return row[0] if row else None

    def compare(self, responses: Iterable[TailResponse], session: str, prices: Sequence[Price]) -> list[Addition]:
        """Return what responses at the end of a session's file add to what the store has."""
        additions = []
        for response in responses:
            query = f"""SELECT output_tokens, NOT marks & 1, {_TOKENS} - output_tokens, web_searches, NOT marks & 2,
                marks & 4 > 0, time, session_id, cost_micros, {_TOKENS}, unpriced_tokens
                FROM answers WHERE id = ? AND home_id = ? AND counted = 1"""
            row = self._database.execute(query, (response.id, self.home.id)).fetchone()
            if row is None or row[:6] < response.rank:
                additions.append(make_addition(response, prices, row and row[6:], session))
        return additions

    def session_amount(self, session: str, path: str) -> UsedAmount:
        """Return what a session used and cost, with its agents."""
        # By its files: there is no index of responses by session.
        query = f"""SELECT {_SUMS} FROM answers WHERE counted = 1 AND home_id = ? AND session_id = ? AND source_id IN (
            SELECT id FROM sources WHERE session_id = ? OR path = ?
            UNION SELECT source_id FROM agents WHERE session_id = ?)"""
        values = (self.home.id, session, session, path, session)
        return UsedAmount(*self._database.execute(query, values).fetchone())

    def amount_since(self, start: int, additions: Iterable[Addition]) -> UsedAmount:
        """Return what was used from a time on."""
        return self._amount_between(start, 2**62, additions)

    def active_window(self, now: int, additions: Sequence[Addition]) -> WindowUse | None:
        """Return the 5-hour window that is running; None if none is."""
        times = [addition.time for addition in additions if addition.time is not None]

        window = find_active_window(now, lambda start, end: self._earliest_between(start, end, times))
        if window is None:
            return None
        first, last = self._times_between(window.start, window.end, times)
        amount = self._amount_between(window.start, window.end, additions)
        hourly = rate_per(HOUR, amount.cost_micros, last - first)
        projected = None if hourly is None else amount.cost_micros + hourly * (window.end - now) // HOUR
        cost, tokens = self._largest_before(window, additions, times)
        by_minute = rate_per(MINUTE, amount.tokens, last - first)
        return WindowUse(window, amount, by_minute, hourly, projected, cost, tokens)

    def _amount_between(self, start: int, end: int, additions: Iterable[Addition]) -> UsedAmount:
        query = f"SELECT {_SUMS} FROM answers WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ?"
        amount = UsedAmount(*self._database.execute(query, (self.home.id, start, end)).fetchone())
        for addition in additions:
            if addition.time is not None and start <= addition.time < end:
                amount = amount.plus(addition.amount)
        return amount

    def _times_between(self, start: int, end: int, times: Iterable[int]) -> tuple[int, int]:
        query = "SELECT min(time), max(time) FROM answers WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ?"
        row = self._database.execute(query, (self.home.id, start, end)).fetchone()
        found = [time for time in (*row, *times) if time is not None and start <= time < end]
        return min(found), max(found)

    def _earliest_between(self, start: int, end: int, times: Iterable[int]) -> int | None:
        query = "SELECT min(time) FROM answers WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ?"
        stored = self._database.execute(query, (self.home.id, start, end)).fetchone()[0]
        found = [time for time in (stored, *times) if time is not None and start <= time < end]
        return min(found, default=None)

    def _largest_before(
        self, window: UsageWindow, additions: Sequence[Addition], times: Sequence[int]
    ) -> tuple[int | None, int | None]:
        """Return the most that an earlier window cost and used."""
        query = "SELECT newest, cost_micros, total_tokens FROM largest_windows WHERE home_id = ?"
        row = self._database.execute(query, (self.home.id,)).fetchone()
        newest, cost, tokens = row or (-(2**62), 0, 0)
        if newest > window.start:  # by another clock: what is earlier is not known
            return None, None
        # The windows since then: the end of the session file may have begun others.
        while (first := self._earliest_between(newest, window.start, times)) is not None:
            newest = window_of(first).end
            before = self._amount_between(window_of(first).start, newest, additions)
            cost, tokens = max(cost, before.cost_micros), max(tokens, before.tokens)
        return cost or None, tokens or None


def open_figures(folder: str, path: str | None, config: str) -> StoreFigures | None:
    """Open the store for the config folder around a session file, else for `config`; None without one."""
    place = f"{folder}/{_STORE}"
    if not os.path.exists(place):
        return None
    # Read-only, and by URI: a file that is not there is not made.
    quoted = place.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    database = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=_TIMEOUT, isolation_level=None)
    homes = [KnownHome(*row) for row in database.execute("SELECT id, path, synced FROM homes")]
    homes.sort(key=lambda home: -len(home.path))  # the innermost first
    for wanted in (path, config):
        for home in homes:
            if wanted and (wanted == home.path or wanted.startswith(home.path.rstrip("/") + "/")):
                return StoreFigures(database, home)
    return None


def make_addition(
    response: TailResponse,
    prices: Sequence[Price],
    before: tuple[int | None, str, int, int, int, int, int] | None,
    session: str,
) -> Addition:
    """Return what a response adds to what the store has of it; `session` is the one whose file it is in."""
    # Here, because often there is nothing to price: the price list takes 3 ms to import.
    from unspool.prices import bill_responses, find_price

    price = find_price(response.model, (response.timestamp or "")[:10] or None, prices)
    bill = bill_responses((response,), price)
    amount = UsedAmount(bill.cost_micros, response.tokens, bill.unpriced_tokens)
    if before is None:
        return Addition(response.time, amount, amount)
    time, payer, *numbers = before
    rest = amount.plus(UsedAmount(*(-number for number in numbers)))
    times = [moment for moment in (time, response.time) if moment is not None]
    return Addition(min(times, default=None), rest, rest if payer == session else amount)
