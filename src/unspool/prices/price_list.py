"""Finds the price of a model on a day, in a dated price list and in a user's own prices.

Rules
  1. All numbers are whole, so that sums are exact. A rate is in ten-thousandths of a dollar per million tokens, a
     multiplier in tenths: a rate times two multipliers is picodollars (10⁻¹² dollars) per token.
  2. A dated id (`claude-opus-4-5-20251101`) means what its undated name means; so does `-latest`. Any other unknown
     name has no price: never that of a name that looks like it.
  3. A row holds from its day `since` on, until a later row of the same model; `-` is from the beginning.
  4. A user's own prices come before the table.
  5. A change of the table changes `DIGEST` in `bill.py`: the store recomputes costs that were made with others.

A user's own rates, in the settings, are dollars per million tokens, by the table's names; those of prompts longer
than 200,000 tokens begin with `long_`. Only `input` and `output` must be given: a cache read is 0.1, a 5-minute write
1.25 and a 1-hour write 2 times the input. `us` and `fast` are multipliers, `web_search` is dollars for one, `since` is
the first day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from unspool.errors import UsageError
from unspool.prices.bill import LONG_PROMPT_TOKENS, Price, Rates

TABLE = """\
model                 since above  input output cache_read cache_write_5m cache_write_1h us  fast
claude-3-5-haiku      -     0      0.8   4      0.08       1              1.6            1   1
claude-3-5-sonnet     -     0      3     15     0.3        3.75           6              1   1
claude-3-7-sonnet     -     0      3     15     0.3        3.75           6              1   1
claude-3-haiku        -     0      0.25  1.25   0.03       0.3            0.5            1   1
claude-3-opus         -     0      15    75     1.5        18.75          30             1   1
claude-fable-5        -     0      10    50     1          12.5           20             1.1 1
claude-fable-5-1      -     0      10    50     0.25       12.5           20             1.1 1
claude-haiku-4-5      -     0      1     5      0.1        1.25           2              1   1
claude-haiku-5-5      -     0      0.1   0.5    0.01       0.125          0.2            1.1 1
claude-mythos-5       -     0      10    50     1          12.5           20             1.1 1
claude-mythos-5-1     -     0      10    50     0.25       12.5           20             1.1 1
claude-mythos-preview -     0      10    50     1          12.5           20             1.1 1
claude-opus-4         -     0      15    75     1.5        18.75          30             1   1
claude-opus-4-1       -     0      15    75     1.5        18.75          30             1   1
claude-opus-4-5       -     0      5     25     0.5        6.25           10             1   1
claude-opus-4-6       -     0      5     25     0.5        6.25           10             1.1 1
claude-opus-4-7       -     0      5     25     0.5        6.25           10             1.1 1
claude-opus-4-8       -     0      5     25     0.5        6.25           10             1.1 2
claude-opus-5         -     0      5     25     0.5        6.25           10             1.1 2
claude-opus-5-5       -     0      4     20     0.2        5              8              1.1 2
claude-sonnet-4       -     0      3     15     0.3        3.75           6              1   1
claude-sonnet-4       -     200000 6     22.5   0.6        7.5            12             1   1
claude-sonnet-4-5     -     0      3     15     0.3        3.75           6              1   1
claude-sonnet-4-5     -     200000 6     22.5   0.6        7.5            12             1   1
claude-sonnet-4-6     -     0      3     15     0.3        3.75           6              1.1 1
claude-sonnet-5       -     0      2     10     0.2        2.5            4              1.1 1
claude-sonnet-5-5     -     0      2     10     0.1        2.5            4              1.1 1
"""
"""Dollars per million tokens. A row above 200000 is for requests with a longer prompt than that, as a whole.

`us` and `fast` multiply the rates when `usage.inference_geo` is `us` and when `usage.speed` is `fast`."""

_ALIASES = {
    "claude-4-opus": "claude-opus-4",
    "claude-opus-4-0": "claude-opus-4",
    "claude-4-sonnet": "claude-sonnet-4",
    "claude-sonnet-4-0": "claude-sonnet-4",
}
_DATED = re.compile(r"-(\d{8}|latest)\Z", re.ASCII)
_DECIMAL = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)


def find_price(model: str | None, day: str | None = None, overrides: Sequence[Price] = ()) -> Price | None:
    """Return what a model cost on a day (`2026-01-05`; no day: the newest), or nothing for an unknown model."""
    if not model:
        return None
    name = model_name(model)
    exact = [own for own in overrides if own.model == model]
    alike = [own for own in overrides if model_name(own.model) == name]
    return _valid(exact, day) or _valid(alike, day) or _valid(_by_name().get(name, ()), day)


def model_name(model: str) -> str:
    """Return the name that the ids of a model share.

    >>> name_of("claude-opus-4-5-20251101")
    'claude-opus-4-5'
    """
    name = _DATED.sub("", model)
    return _ALIASES.get(name, name)


@cache
def load_price_list() -> tuple[Price, ...]:
    """Return the prices in the table, in its order."""
    header, *lines = (line.split() for line in TABLE.splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    long = {(row["model"], row["since"]): _rates(row) for row in rows if row["above"] == str(LONG_PROMPT_TOKENS)}
    return tuple(
        Price(
            model=row["model"],
            rates=_rates(row),
            long=long.get((row["model"], row["since"])),
            us=_whole(row["us"], 1),
            fast=_whole(row["fast"], 1),
            since=row["since"].removeprefix("-"),
        )
        for row in rows
        if row["above"] == "0"
    )


def table_digest(table: str = TABLE) -> str:
    """Return the value that `DIGEST` must have for a table."""
    import hashlib

    return hashlib.sha256(table.encode()).hexdigest()


def parse_decimal(text: str, decimals: int) -> int | None:
    """Return a decimal number in units of its last place; None if it is not a number or has more places.

    >>> whole("6.25", 4)
    62500
    """
    found = _DECIMAL.fullmatch(text)
    if not found:
        return None
    part = (found[2] or "").rstrip("0")
    return int(found[1] + part.ljust(decimals, "0")) if len(part) <= decimals else None


def _valid(candidates: Iterable[Price], day: str | None) -> Price | None:
    """Return the newest price that holds on a day; of two that begin on the same day, the later one."""
    valid = sorted((price for price in candidates if day is None or price.since <= day), key=lambda price: price.since)
    return valid[-1] if valid else None


@cache
def _by_name() -> dict[str, list[Price]]:
    names: dict[str, list[Price]] = {}
    for price in load_price_list():
        names.setdefault(price.model, []).append(price)
    return names


def _whole(cell: str, decimals: int) -> int:
    value = parse_decimal(cell, decimals)
    assert value is not None, f"unknown number: {cell}"
    return value


def _rates(row: dict[str, str]) -> Rates:
    return Rates(*(_whole(row[kind], 4) for kind in Rates._fields))


_PERCENT_OF_INPUT = {"cache_read": 10, "cache_write_5m": 125, "cache_write_1h": 200}
_OTHERS = ("us", "fast", "web_search", "since")
_KEYS = (*Rates._fields, *(f"long_{kind}" for kind in Rates._fields), *_OTHERS)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def parse_own_price(model: str, settings: Mapping[str, object]) -> Price:
    """Return the price that a user's settings give a model."""
    unknown = [key for key in settings if key not in _KEYS]
    if unknown:
        raise UsageError(f"unknown price field `{unknown[0]}`", hint=f"use one of: {', '.join(_KEYS)}")
    since = str(settings.get("since", ""))
    if since and not _DAY.fullmatch(since):
        raise UsageError(f"invalid date `{since}`", hint="use a date like `2026-01-31`")
    return Price(
        model=model,
        rates=_own_rates(model, settings, ""),
        long=_own_rates(model, settings, "long_") if any(key.startswith("long_") for key in settings) else None,
        us=_number(model, {"us": 1, **settings}, "us", 1),
        fast=_number(model, {"fast": 1, **settings}, "fast", 1),
        web_search=_number(model, {"web_search": 0.01, **settings}, "web_search", 6),
        since=since,
        source="your settings",
    )


def _own_rates(model: str, settings: Mapping[str, object], prefix: str) -> Rates:
    input = _number(model, settings, f"{prefix}input", 4)
    output = _number(model, settings, f"{prefix}output", 4)
    caches = {
        kind: _number(model, settings, prefix + kind, 4) if prefix + kind in settings else (input * percent + 50) // 100
        for kind, percent in _PERCENT_OF_INPUT.items()
    }
    return Rates(input, output, **caches)


def _number(model: str, settings: Mapping[str, object], key: str, decimals: int) -> int:
    if key not in settings:
        raise UsageError(
            f"the price of `{model}` lacks `{key}`", hint="give `input` and `output`, or both `long_` ones"
        )
    number = parse_decimal(str(settings[key]), decimals)
    if number is None:
        raise UsageError(
            f"invalid price: `{key}` = `{settings[key]}`", hint=f"use a number with at most {decimals} decimals"
        )
    return number
