"""Which responses several files may have. In: the responses of each batch. Out: the ids that are to be looked up.

Rules
  1. In a home that had none before, a response that was met once is in one file. In any other home nobody knows.
  2. No more ids are held than memory allows; beyond that, all are looked up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from unspool.prices.answers import Response

HELD = 200_000
"""Ids: some 30 MB."""


def repeats_in(database: sqlite3.Connection, home_id: int) -> Repeats:
    """Return what is known of a home before anything is met."""
    query = "SELECT 1 FROM sources WHERE home_id = ? AND offset > 0 LIMIT 1"
    return Repeats(is_all=database.execute(query, (home_id,)).fetchone() is None)


class Repeats:
    """The responses of a home that were met; `is_all` as long as there are no others."""

    def __init__(self, *, is_all: bool) -> None:
        self._is_all = is_all
        self._once: set[str] = set()
        self._again: set[str] = set()

    def meet(self, responses: Iterable[Response]) -> None:
        """Take what a batch has."""
        if self._is_all:
            ids = {response.id for response in responses}
            self._again |= self._once & ids
            self._once |= ids
            self._is_all = len(self._once) <= HELD

    def again(self, ids: Collection[str]) -> Collection[str]:
        """Return those that may be in several files."""
        return [id for id in ids if id in self._again] if self._is_all else ids
