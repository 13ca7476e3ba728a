"""Which rows are replaced: streams in, predicates out. What narrows the search without deciding anything comes last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from unspool.collect.lake.derive import Derived
from unspool.collect.lake.tables import bucket, partitions
from unspool.store.merging import quoted


def of_streams(table: str, made: Sequence[Derived]) -> str:
    """Return what names all rows of some streams in a table."""
    whose = [one.whose for one in made]
    where = one_of("id" if table == "sources" else "source_id", (one.stream for one in whose))
    for column in ("org", "device"):
        where += f" AND {one_of(column, (getattr(one, column) for one in whose))}"
    if "bucket" in partitions(table):
        return f"{where} AND {in_buckets((one.org, one.device) for one in whose)}"
    if all(one.days for one in made):
        first, last = min(min(one.days) for one in made), max(max(one.days) for one in made)
        where += f" AND day >= '{day(first)}' AND day <= '{day(last)}'"
    return where


def of_devices(homes: Iterable[tuple[str, str]]) -> str:
    """Return what names all rows of some devices in a table that is partitioned by bucket."""
    every = sorted(set(homes))
    whose = " OR ".join(f"(org = {text(org)} AND device = {text(device)})" for org, device in every)
    return f"({whose}) AND {in_buckets(every)}"


def in_buckets(homes: Iterable[tuple[str, str]]) -> str:
    """Return what names the buckets of some devices."""
    found = sorted({bucket(org, device) for org, device in homes})
    return f"bucket IN ({', '.join(map(str, found))})"


def one_of(column: str, values: Iterable[str]) -> str:
    """Return what a column is one of."""
    return f"{column} IN ({', '.join(text(value) for value in sorted(set(values)))})"


def text(value: str) -> str:
    """Return a text as a statement has it."""
    return f"'{quoted(value)}'"


def day(number: int) -> str:
    """Return a day as it is written."""
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
