"""Finds when requests to the model began and ended, from the lines of a file.

Rules
  1. A request lasts from the line that it answers (a prompt, or the last result) to its own last line.
  2. Errors of the API that Claude Code wrote in the place of an answer are no requests here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from unspool.format import Assistant, Entry, User, milliseconds


class RequestTime(NamedTuple):
    """When a request began and ended, in milliseconds since 1970."""

    id: str
    """The id of its message; of a line without one `line OFFSET`."""
    entry: Entry
    """Its first line."""
    start: int
    end: int


def find_request_times(entries: Iterable[Entry]) -> Iterator[RequestTime]:
    """Yield the requests of some lines, in the order in which they began; lines without a time are left out."""
    ready: int | None = None
    current: RequestTime | None = None
    for entry in entries:
        record, time = entry.record, milliseconds(entry.record.timestamp)
        if time is None:
            continue
        if isinstance(record, Assistant) and not record.is_api_error_message:
            id = record.message.id or f"line {entry.offset}"
            if current is not None and current.id == id:
                current = current._replace(end=max(current.end, time))
                continue
            if current is not None:
                yield current
                ready = max(ready or 0, current.end)  # nothing came in between: it follows the request before it
            current = RequestTime(id, entry, min(ready, time) if ready is not None else time, time)
        elif isinstance(record, User):
            # Results may be written out of order: the request begins when the last of them is there.
            ready = max(ready or 0, time)
    if current is not None:
        yield current
