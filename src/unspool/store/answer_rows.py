"""Prices billed responses, and converts them to rows of the table `answers` and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from unspool.format import milliseconds
from unspool.paths import project_name
from unspool.prices import Bill, Price, Response, bill_responses, find_price


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


RESPONSE_COLUMNS: Final = MappingProxyType(
    {
        "response_id": "id", "offset": "offset", "timestamp": "timestamp", "counted_at": "counted_at", "model": "model",
        "session_id": "session_id", "agent_id": "agent_id", "cwd": "cwd", "branch": "branch", "version": "version",
        "input_tokens": "input", "output_tokens": "output", "cache_read_tokens": "cache_read",
        "cache_write_5m_tokens": "cache_write_5m", "cache_write_1h_tokens": "cache_write_1h",
        "web_searches": "web_searches", "final": "final", "size": "size", "speed": "speed",
        "service_tier": "service_tier", "inference_geo": "inference_geo", "is_sidechain": "sidechain",
        "retold": "from_progress", "at_home": "in_own_file",
    }
)  # fmt: skip
"""The column of each field of a response, in the store, the column files and the lake."""

ANSWER_COLUMNS = (
    "response_id", *AnswerPlace._fields, "offset", "time", "timestamp", "counted_at", "model", "session_id", "agent_id",
    "project", "cwd", "branch", "version", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "web_searches", "final", "size", "estimated_output_tokens",
    "cost_micros", "estimated_cost_micros", "unpriced_tokens", "marks", "speed", "service_tier", "inference_geo",
)  # fmt: skip
"""The columns of `answers` in the store, in their order; the first is called `id` there."""

ANSWER_SELECT = ", ".join(f"a.{name}" for name in ("id", *ANSWER_COLUMNS[1:]))
_MARKS: Final = MappingProxyType({"is_sidechain": 1, "retold": 2, "at_home": 4})
"""The bits of `marks`."""

BILLED_COLUMNS = (*RESPONSE_COLUMNS, *Bill._fields, "time", "project")
"""What is known of a billed response, in the order of `billed_values`; tokens come twice."""

_response_values = attrgetter(*RESPONSE_COLUMNS.values())


def billed_values(response: Response, project_key: str | None, prices: PriceLookup) -> tuple[Any, ...]:
    """Return a response and its bill; `project_key` is the name of the project's folder."""
    bill = prices.bill((response,))
    project = project_name(response.cwd, project_key)
    return (*_response_values(response), *bill, milliseconds(response.timestamp), project)


def response_cells(response: Response) -> dict[str, Any]:
    """Return a response as values by column."""
    return dict(zip(RESPONSE_COLUMNS, _response_values(response), strict=True))


def response_from_cells(cells: Mapping[str, Any]) -> Response:
    """Return the response of some columns."""
    return Response(**{field: cells[column] for column, field in RESPONSE_COLUMNS.items()})


# Of a name that comes twice the last counts: `counted_at` is stored in another form.
_PLACES = {name: place for place, name in enumerate((*BILLED_COLUMNS, *AnswerPlace._fields, "counted_at", "marks"))}
# By index, because this runs for every response of a folder: by name it takes twice as long.
_select_answer: Callable[[Sequence[Any]], tuple[Any, ...]] = itemgetter(*(_PLACES[name] for name in ANSWER_COLUMNS))


def answer_row(
    place: AnswerPlace, response: Response, project_key: str | None, prices: PriceLookup
) -> tuple[object, ...]:
    """Return a row of `answers`."""
    # NULL says "the same"; an empty text says that there is none.
    counted_at = None if response.counted_at == response.timestamp else response.counted_at or ""
    marks = response.sidechain + 2 * response.from_progress + 4 * response.in_own_file
    return _select_answer((*billed_values(response, project_key, prices), *place, counted_at, marks))


def response_from_row(row: Sequence[Any]) -> Response:
    """Return the response that a row of `answers` was made from."""
    cells = dict(zip(ANSWER_COLUMNS, row, strict=False))
    cells["counted_at"] = cells["timestamp"] if cells["counted_at"] is None else cells["counted_at"] or None
    cells["final"] = bool(cells["final"])
    return response_from_cells(cells | {name: bool(cells["marks"] & bit) for name, bit in _MARKS.items()})
