"""Billed responses as rows to add up: what the usage reports are made from, whoever gathers them.

A `Ledger` answers from the store or straight from the files; the reports do not know which. Nothing heavy is imported
here: a warm report needs no more.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from unspool.format.timestamps import moment

if TYPE_CHECKING:
    from unspool.prices.responses import Response

QUARTER = 15 * 60 * 1000
"""Milliseconds. Every time zone begins its days and hours at a quarter of an hour."""
DAY = 24 * 60 * 60 * 1000
DAYS_FROM, DAYS_TO = 2020, 2040
"""The years in which days are known before they are asked for; there was no Claude Code before."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


KEYS = {"session": "session_id", "agent": "agent_id", "project": "project", "branch": "branch"}
"""What rows may be told apart by, and what responses and the store call it."""


class Wanted(NamedTuple):
    """Which responses a report is about, and what it tells apart."""

    keys: frozenset[str] = frozenset()
    """Of `session`, `agent`, `project`, `branch`: what rows must not be added up across. Models and times never are."""
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """Not included."""
    project: str | None = None
    """A project's name, a part of its path, or its key."""
    exact: bool = False
    """Each response by itself, with its exact time; else those of a quarter of an hour may come as one."""
    days: tuple[tuple[int, int], ...] | None = None
    """Those of a day may come as one, too: until when a zone is how far ahead of UTC, both in milliseconds. Empty: time
    plays no part."""


class Sum(NamedTuple):
    """Responses that are alike, added up: what they share, and their bill (`prices/cost.py`).

    What is not asked for (`Wanted.keys`) may be None.
    """

    time: int | None
    """Milliseconds since 1970, of the earliest line; of several responses any moment of their quarter of an hour."""
    session: str | None
    agent: str | None
    project: str | None
    branch: str | None
    model: str | None
    responses: int
    estimated_responses: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    web_searches: int
    cost_micros: int
    unpriced_tokens: int
    estimated_output_tokens: int
    estimated_cost_micros: int


class Limit(NamedTuple):
    """The program said that a limit was reached."""

    time: int | None
    notice: str


class Line(NamedTuple):
    """A line of a file that was counted, merged or dropped."""

    file: str
    offset: int
    why: str
    id: str | None = None
    """What the response is known by."""
    response: "Response | None" = None
    cost_micros: int = 0


class Explained(NamedTuple):
    """Every line that could have been billed."""

    counted: list[Line]
    merged: list[Line]
    dropped: list[Line]


class Ledger(Protocol):
    """What was billed in a folder."""

    def sums(self, wanted: Wanted) -> list[Sum]:
        """Return the responses wanted, added up as far as that is allowed."""

    def explain(self, wanted: Wanted) -> Explained:
        """Return which lines were counted, merged and dropped, and why."""

    def limits(self) -> list[Limit]:
        """Return when limits were reached."""


def milliseconds(timestamp: str | None) -> int | None:
    """Return a time since 1970; nothing for what is none. Without an offset it is taken as UTC."""
    time = moment(timestamp)
    if time is None:
        return None
    since = time - _EPOCH
    return since.days * DAY + since.seconds * 1000 + since.microseconds // 1000


def fits_project(wanted: str | None, *names: str | None) -> bool:
    """Tell whether one of a project's names, its path or its key has the text wanted in it."""
    return wanted is None or any(wanted.casefold().rstrip("/") in (name or "").casefold() for name in names)
