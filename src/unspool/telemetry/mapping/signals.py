"""Defines spans and data points as they are before they have a wire format, and how their ids are made.

Rules
  1. The id of a trace is the session's UUID; of a session whose name is none, a digest of the name. The id of a span is
     a digest of the trace and of the uuid or id that its line has. So the same line always has the same ids.
  2. A data point is a sum since the beginning of its session, true at its time. A later point of the same series
     replaces none: both are true.
  3. No attribute says what may change without the session: no version of unspool, no path, no machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

MAPPING_EDITION: Final = 1
"""Raised when the same records give other spans or points: then everything is sent again, under the same ids."""
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"
"""The edition of the semantic conventions whose names are used."""

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


class SpanKind(IntEnum):
    """The kinds of spans that are used."""

    INTERNAL = 1
    CLIENT = 3


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span; times are milliseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    start: int
    end: int
    attributes: Attributes
    is_failed: bool = False


class Instrument(NamedTuple):
    """What a metric measures; with boundaries it is a histogram, else a sum that only grows."""

    unit: str
    description: str
    boundaries: tuple[float, ...] = ()


TOKEN_USAGE: Final = "gen_ai.client.token.usage"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
TOKENS: Final = "unspool.tokens"
COST: Final = "unspool.cost"
UNPRICED: Final = "unspool.unpriced_tokens"
RESPONSES: Final = "unspool.responses"
WEB_SEARCHES: Final = "unspool.web_searches"
TURNS: Final = "unspool.turns"
TOOL_CALLS: Final = "unspool.tool_calls"
ERRORS: Final = "unspool.errors"

_TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
"""Those that the semantic conventions name."""
_SECOND_BOUNDS: Final = tuple(2**power / 100 for power in range(14))

INSTRUMENTS: Final[Mapping[str, Instrument]] = MappingProxyType(
    {
        TOKEN_USAGE: Instrument("{token}", "Tokens of a request, cached ones included.", _TOKEN_BOUNDS),
        OPERATION_DURATION: Instrument("s", "How long a request took.", _SECOND_BOUNDS),
        TOOL_DURATION: Instrument("s", "How long a tool call took.", _SECOND_BOUNDS),
        TOKENS: Instrument("{token}", "Tokens, by the kinds that are billed."),
        COST: Instrument("{USD}", "Cost in US dollars, by the price list."),
        UNPRICED: Instrument("{token}", "Tokens of models without a price, which are not in the cost."),
        RESPONSES: Instrument("{response}", "Billed responses, each counted once."),
        WEB_SEARCHES: Instrument("{search}", "Web searches that the API made."),
        TURNS: Instrument("{turn}", "Turns."),
        TOOL_CALLS: Instrument("{call}", "Tool calls."),
        ERRORS: Instrument("{error}", "Failed tool calls and errors of the API."),
    }
)
"""Every metric, by its name."""


class Distribution(msgspec.Struct, frozen=True):
    """The value of a histogram: counts by bucket, one more than there are boundaries."""

    count: int
    total: float
    least: float
    most: float
    buckets: tuple[int, ...]


class DataPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a metric amounts to since `start`, at a time; both in milliseconds since 1970."""

    metric: str
    attributes: Attributes
    start: int
    time: int
    value: int | float | Distribution


def make_trace_id(session_id: str) -> bytes:
    """Return the 16 bytes of a session's trace.

    >>> make_trace_id("0b5c4e9a-7d21-4f30-9c8e-1a2b3c4d5e6f").hex()
    '0b5c4e9a7d214f309c8e1a2b3c4d5e6f'
    """
    if _UUID.fullmatch(session_id) and (plain := bytes.fromhex(session_id.replace("-", ""))).strip(b"\0"):
        return plain
    return _digest(16, session_id)


def make_span_id(trace_id: bytes, *parts: str) -> bytes:
    """Return the 8 bytes of a span: of a trace, a kind of span, and what tells spans of that kind apart."""
    return _digest(8, trace_id.hex(), *parts)


def point_key(point: DataPoint) -> bytes:
    """Return what a data point is known by: its series and its time."""
    return _digest(8, point.metric, repr(sorted(point.attributes.items())), str(point.time))


def digest_signal(signal: Span | DataPoint) -> bytes:
    """Return a digest of all of a span or a data point: one that was sent with it need not be sent again."""
    return blake2b(msgspec.msgpack.encode(signal), digest_size=8).digest()


def _digest(size: int, *parts: str) -> bytes:
    """Return a digest of texts in their order; never only zeros, which the protocol does not allow."""
    digest = blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    found = digest.digest()
    return found if any(found) else b"\1" * size
