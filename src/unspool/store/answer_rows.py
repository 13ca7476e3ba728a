"""Prices billed responses, and converts them to rows of the table `answers` and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unspool.paths import project_name
from unspool.prices import Bill, Price, Response, bill_responses, find_price
from unspool.store.times import milliseconds


class PriceLookup:
    """Looks up prices in the price list and the user's own prices, each once."""

    def __init__(self, overrides: Sequence[Price] = ()) -> None:
        self._overrides = overrides
        self._found: dict[tuple[str | None, str], Price | None] = {}

    def price(self, response: Response) -> Price | None:
        """Return the price of a response's model on its day."""
        key = (response.model, (response.timestamp or "")[:10])
        try:
            return self._found[key]  # nearly always: a price is looked up once for each model and day
        except KeyError:
            price = self._found[key] = find_price(key[0], key[1] or None, self._overrides)
            return price

    def bill(self, responses: Sequence[Response]) -> Bill:
        """Return what responses of one model and one day used and cost."""
        return bill_responses(responses, self.price(responses[0]))


class AnswerPlace(NamedTuple):
    """Which file a row of `answers` is of, and whether it counts."""

    source_id: int
    generation: int
    home_id: int
    counted: int
    copies: int


ANSWER_COLUMNS = (
    "id", *AnswerPlace._fields, "offset", "time", "timestamp", "counted_at", "model", "session_id", "agent_id",
    "project", "cwd", "branch", "version", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "web_searches", "final", "size", "estimated_output_tokens",
    "cost_micros", "estimated_cost_micros", "unpriced_tokens", "marks", "speed", "service_tier", "inference_geo",
)  # fmt: skip
"""The columns of `answers`."""

ANSWER_SELECT = ", ".join(f"a.{name}" for name in ANSWER_COLUMNS)
_SIDECHAIN, _FROM_PROGRESS, _IN_OWN_FILE = 1, 2, 4
"""The bits of `marks`."""
_SAME_NAMES = (
    "model", "session_id", "agent_id", "timestamp", "cwd", "branch", "version", "web_searches", "size", "speed",
    "service_tier", "inference_geo", "offset",
)  # fmt: skip
"""Fields of a response that columns have the names of."""
_TOKEN_COUNTS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


def answer_row(
    place: AnswerPlace, response: Response, project_key: str | None, prices: PriceLookup
) -> tuple[object, ...]:
    """Return a row of `answers`."""
    billed = prices.bill((response,))
    marks = (
        response.sidechain * _SIDECHAIN + response.from_progress * _FROM_PROGRESS + response.in_own_file * _IN_OWN_FILE
    )
    return (
        response.id,
        *place,
        response.offset,
        milliseconds(response.timestamp),
        response.timestamp,
        # NULL says "the same"; an empty text says that there is none.
        None if response.counted_at == response.timestamp else response.counted_at or "",
        response.model,
        response.session_id,
        response.agent_id,
        project_name(response.cwd, project_key),
        response.cwd,
        response.branch,
        response.version,
        response.input,
        response.output,
        response.cache_read,
        response.cache_write_5m,
        response.cache_write_1h,
        response.web_searches,
        int(response.final),
        response.size,
        billed.estimated_output_tokens,
        billed.cost_micros,
        billed.estimated_cost_micros,
        billed.unpriced_tokens,
        marks,
        response.speed,
        response.service_tier,
        response.inference_geo,
    )


def response_from_row(row: Sequence[Any]) -> Response:
    """Return the response that a row of `answers` was made from."""
    cell = dict(zip(ANSWER_COLUMNS, row, strict=False))
    return response_from_columns(
        cell,
        id=cell["id"],
        counted_at=cell["timestamp"] if cell["counted_at"] is None else cell["counted_at"] or None,
        sidechain=bool(cell["marks"] & _SIDECHAIN),
        from_progress=bool(cell["marks"] & _FROM_PROGRESS),
        in_own_file=bool(cell["marks"] & _IN_OWN_FILE),
    )


def response_from_columns(cell: Mapping[str, Any], **rest: Any) -> Response:
    """Return a response from columns by their names; the rest is stored differently from table to table."""
    return Response(
        **{name: cell[name] for name in _SAME_NAMES},
        **{name: cell[f"{name}_tokens"] for name in _TOKEN_COUNTS},
        final=bool(cell["final"]),
        **rest,
    )
