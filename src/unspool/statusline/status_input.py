"""Parses what Claude Code sends the status line on stdin: a JSON object about the session.

Rules
  1. Any field may be missing or hold any JSON; what does not fit is None. Nothing raises.
  2. Text is cleaned: what comes out is one line, without control characters, and not long.

Seen in Claude Code 2.1.326. `rate_limits` is there only for subscriptions; `context_window` came with 2.1.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from unspool.display import clean_line

MAX_INPUT = 1024 * 1024
"""Bytes of input that are looked at; Claude Code sends about 2,000."""
_MAX_TEXT = 80
_MAX_NUMBER = 10**12


class StatusInput(NamedTuple):
    """What Claude Code says about a session; None is not said."""

    session_id: str | None = None
    transcript_path: str | None = None
    """As sent: not for printing."""
    folder: str | None = None
    """The working folder, as sent: not for printing."""
    model_id: str | None = None
    model_name: str | None = None
    version: str | None = None
    output_style: str | None = None
    effort: str | None = None
    reported_cost_micros: int | None = None
    """What Claude Code itself says that the session cost, since it was started."""
    context_tokens: int | None = None
    """Tokens of the last request."""
    context_size: int | None = None
    five_hour_percent: float | None = None
    """How much of the 5-hour limit is used, as the API says."""
    five_hour_resets_at: int | None = None
    """Milliseconds since 1970."""
    seven_day_percent: float | None = None
    seven_day_resets_at: int | None = None


def parse_status_input(data: bytes) -> StatusInput:
    """Return what Claude Code says; nothing is known if it is no JSON object."""
    try:
        value = json.loads(data[:MAX_INPUT])
    except (ValueError, RecursionError):
        return StatusInput()
    cost = _number(_get(value, "cost", "total_cost_usd"))
    return StatusInput(
        session_id=_text(_get(value, "session_id")),
        transcript_path=_raw_text(_get(value, "transcript_path")),
        folder=_raw_text(_get(value, "workspace", "current_dir")) or _raw_text(_get(value, "cwd")),
        model_id=_text(_get(value, "model", "id")),
        model_name=_text(_get(value, "model", "display_name")),
        version=_text(_get(value, "version")),
        output_style=_text(_get(value, "output_style", "name")),
        effort=_text(_get(value, "effort", "level")),
        reported_cost_micros=None if cost is None else round(cost * 1_000_000),
        context_tokens=_context_tokens(_get(value, "context_window", "current_usage")),
        context_size=_whole(_get(value, "context_window", "context_window_size")),
        five_hour_percent=_percent(_get(value, "rate_limits", "five_hour", "used_percentage")),
        five_hour_resets_at=_moment(_get(value, "rate_limits", "five_hour", "resets_at")),
        seven_day_percent=_percent(_get(value, "rate_limits", "seven_day", "used_percentage")),
        seven_day_resets_at=_moment(_get(value, "rate_limits", "seven_day", "resets_at")),
    )


def _get(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _raw_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and "\0" not in value else None


def _text(value: Any) -> str | None:
    text = clean_line(value[: 4 * _MAX_TEXT])[:_MAX_TEXT].strip() if isinstance(value, str) else ""
    return text or None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MAX_NUMBER else None  # not NaN, which is in no range


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number else None


def _percent(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else min(float(number), 100.0)


def _moment(seconds: Any) -> int | None:
    """Return seconds since 1970 as milliseconds."""
    number = _number(seconds)
    return int(number) * 1000 if number and number < 2**33 else None


def _context_tokens(usage: Any) -> int | None:
    """Return how many tokens the last request had, as Claude Code counts them: without the answer."""
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_whole(usage.get(name)) or 0 for name in names)
