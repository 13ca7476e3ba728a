"""Which rows are replaced: streams in, predicates out. What narrows the search without deciding anything comes last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from unspool.collect.lake.derive import Derived
from unspool.store.merging import quoted


def within(made: Sequence[Derived]) -> str:
    """Return what names all rows of some streams in a table that is partitioned by day."""
    where = either("source_id", made)
    if all(one.days for one in made):
        first, last = min(min(one.days) for one in made), max(max(one.days) for one in made)
        where += f" AND day >= '{day(first)}' AND day <= '{day(last)}'"
    return where


def either(column: str, made: Iterable[Derived]) -> str:
    """Return what names the rows of some streams by a column, and by their devices."""
    whose = [one.whose for one in made]
    where = one_of(column, (one.stream for one in whose))
    return (
        f"{where} AND {one_of('org', (one.org for one in whose))} AND {one_of('device', (one.device for one in whose))}"
    )


def one_of(column: str, values: Iterable[str]) -> str:
    """Return what a column is one of."""
    return f"{column} IN ({', '.join(text(value) for value in sorted(set(values)))})"


def text(value: str) -> str:
    """Return a text as a statement has it."""
    return f"'{quoted(value)}'"


def day(number: int) -> str:
    """Return a day as it is written."""
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
