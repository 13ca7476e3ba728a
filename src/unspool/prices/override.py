"""A user's own prices. In: a model's id and what a settings file says of it. Out: a `Price`.

Rates are dollars per million tokens, by the table's names; those of prompts longer than 200,000 tokens begin with
`long_`. Only `input` and `output` must be given: a cache read is 0.1, a 5-minute write 1.25 and a 1-hour write 2
times the input. `us` and `fast` are multipliers, `web_search` is dollars for one, `since` the first day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from unspool.errors import Usage
from unspool.prices.table import Price, Rates, whole

_PERCENT_OF_INPUT = {"cache_read": 10, "cache_write_5m": 125, "cache_write_1h": 200}
_OTHERS = ("us", "fast", "web_search", "since")
_KEYS = (*Rates._fields, *(f"long_{kind}" for kind in Rates._fields), *_OTHERS)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def override(model: str, given: Mapping[str, object]) -> Price:
    """Return the price that a user set for a model."""
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise Usage(f"a price has no `{unknown[0]}`", hint=f"it has {', '.join(_KEYS)}")
    since = str(given.get("since", ""))
    if since and not _DAY.fullmatch(since):
        raise Usage(f"not a day: `{since}`", hint="write it as `2026-01-31`")
    return Price(
        model=model,
        rates=_rates(model, given, ""),
        long=_rates(model, given, "long_") if any(key.startswith("long_") for key in given) else None,
        us=_number(model, {"us": 1, **given}, "us", 1),
        fast=_number(model, {"fast": 1, **given}, "fast", 1),
        web_search=_number(model, {"web_search": 0.01, **given}, "web_search", 6),
        since=since,
        source="your settings",
    )


def _rates(model: str, given: Mapping[str, object], prefix: str) -> Rates:
    input = _number(model, given, f"{prefix}input", 4)
    output = _number(model, given, f"{prefix}output", 4)
    caches = {
        kind: _number(model, given, prefix + kind, 4) if prefix + kind in given else (input * percent + 50) // 100
        for kind, percent in _PERCENT_OF_INPUT.items()
    }
    return Rates(input, output, **caches)


def _number(model: str, given: Mapping[str, object], key: str, decimals: int) -> int:
    if key not in given:
        raise Usage(f"the price of `{model}` has no `{key}`", hint="give `input` and `output`, or both `long_` ones")
    number = whole(str(given[key]), decimals)
    if number is None:
        raise Usage(f"not a price: `{key}` = `{given[key]}`", hint=f"a number with at most {decimals} decimals")
    return number
