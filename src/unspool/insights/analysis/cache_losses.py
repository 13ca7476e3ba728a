"""Adds up what requests lost of their caches, and what sending it again cost; `find_lost_cache` decides.

Rules
  1. The price is the bill of the request less the bill of the same request with the lost tokens read from the cache.
  2. A request of a model without a price is counted, without money.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from typing import Any, Final, NamedTuple

from unspool.format import format_time
from unspool.insights.analysis.suggestion import Line
from unspool.page.analysis import find_lost_cache, read_from_cache
from unspool.prices import Price, Response, cost_micros

KINDS_OF_LOSS: Final = {
    "pause": "the cache had expired",
    "model": "another model was chosen",
    "cache": "the start of the prompt had changed",
}


class CacheLoss(NamedTuple):
    """A request that lost its cache."""

    kind: str
    words: str
    tokens: int
    cost_micros: int | None
    """What it cost more; None without a price."""
    line: Line


def find_losses(rows: Iterable[Mapping[str, Any]], price_of: Callable[[Response], Price | None]) -> list[CacheLoss]:
    """Return the losses among rows of the section `lost_caches`."""
    losses = []
    for row in rows:
        response = Response(
            "",
            model=row["model"],
            timestamp=_timestamp(row["time"]),
            input=row["input_tokens"],
            output=row["output_tokens"],
            cache_read=row["cache_read_tokens"],
            cache_write_5m=row["cache_write_5m_tokens"],
            cache_write_1h=row["cache_write_1h_tokens"],
            web_searches=row["web_searches"],
            speed=row["speed"],
            inference_geo=row["inference_geo"],
        )
        hour = row["before_hour"]
        before = Response(
            "",
            model=row["before_model"],
            timestamp=_timestamp(row["before_time"]),
            input=row["before_prompt"] - hour,
            cache_write_1h=hour,
        )
        lost = find_lost_cache(before, response)
        if lost is not None:
            price = price_of(response)
            more = cost_micros(response, price) - cost_micros(read_from_cache(response, lost.tokens), price)
            losses.append(CacheLoss(lost.kind, lost.words, lost.tokens, more if price else None, row["line"]))
    return losses


def sum_losses(losses: Iterable[CacheLoss], places: int) -> list[dict[str, Any]]:
    """Return the losses by kind, the one that cost most first."""
    kinds: dict[str, list[CacheLoss]] = {}
    for loss in losses:
        kinds.setdefault(loss.kind, []).append(loss)
    rows = []
    for kind, those in kinds.items():
        dearest = sorted(those, key=lambda one: (one.cost_micros or 0, one.tokens), reverse=True)[:places]
        rows.append(
            {
                "kind": kind,
                "why": KINDS_OF_LOSS[kind],
                "requests": len(those),
                "lost_tokens": sum(one.tokens for one in those),
                "cost_micros": sum(one.cost_micros or 0 for one in those),
                "unpriced_requests": sum(one.cost_micros is None for one in those),
                "places": [one.line for one in dearest],
                "weights": [one.cost_micros for one in dearest],
            }
        )
    return sorted(rows, key=lambda row: (-row["cost_micros"], -row["lost_tokens"], row["kind"]))


def _timestamp(time: int | None) -> str | None:
    return format_time(time, UTC)
