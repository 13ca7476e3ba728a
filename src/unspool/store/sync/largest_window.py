"""Keeps the largest 5-hour window of a folder: as much as its limit has allowed so far.

Rules
  1. The newest window is left out: it may be the one that is compared with the others.
  2. A row is extended by the windows since it was made, and made anew only if an earlier response has changed. Whoever
     changes responses deletes the row in the same transaction (`forget_largest_windows`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from unspool.prices import find_active_window, find_windows

_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens"


def forget_largest_windows(database: sqlite3.Connection, home_id: int, since: int | None) -> None:
    """Forget a folder's largest window if a response before its newest one has changed; None: any may have."""
    if since is None:
        database.execute("DELETE FROM largest_windows WHERE home_id = ?", (home_id,))
    else:
        database.execute("DELETE FROM largest_windows WHERE home_id = ? AND newest > ?", (home_id, since))


def update_largest_windows(database: sqlite3.Connection, home_ids: Iterable[int]) -> None:
    """Bring the largest windows of folders up to date; call it in a transaction."""
    for home_id in home_ids:
        _update(database, home_id)


def _update(database: sqlite3.Connection, home_id: int) -> None:
    def earliest_between(start: int, end: int) -> int | None:
        query = "SELECT min(time) FROM answers WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ?"
        time: int | None = database.execute(query, (home_id, start, end)).fetchone()[0]
        return time

    (last,) = database.execute("SELECT max(time) FROM answers WHERE counted = 1 AND home_id = ?", (home_id,)).fetchone()
    newest = None if last is None else find_active_window(last, earliest_between)
    if newest is None:
        forget_largest_windows(database, home_id, None)
        return
    query = "SELECT newest, cost_micros, total_tokens FROM largest_windows WHERE home_id = ?"
    since, cost, tokens = database.execute(query, (home_id,)).fetchone() or (None, 0, 0)
    if since == newest.start:
        return
    query = f"""SELECT time, cost_micros, {_TOKENS} FROM answers
        WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ? ORDER BY time"""
    oldest = -(2**63) if since is None else since
    rows = database.execute(query, (home_id, oldest, newest.start)).fetchall()
    windows = [window for window in find_windows(time for time, _, _ in rows) if not window.is_gap]
    at, used = 0, [(0, 0)] * len(windows)
    for time, micros, count in rows:
        while time >= windows[at].end:
            at += 1
        used[at] = used[at][0] + micros, used[at][1] + count
    cost = max([cost, *(micros for micros, _ in used)])
    tokens = max([tokens, *(count for _, count in used)])
    row = (home_id, newest.start, cost, tokens)
    database.execute("INSERT OR REPLACE INTO largest_windows VALUES (?, ?, ?, ?)", row)
