"""What entries say of billed responses. In: entries. Out: responses.

Apart from `answers.py`, which reads no more of a line than it needs: here the types of all lines are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from unspool.format.codec import decode
from unspool.format.entry import Entry
from unspool.format.progress import AgentProgress
from unspool.format.records import Assistant, Progress
from unspool.prices.line_counter import Tally
from unspool.prices.responses import Dropped, Response, S, billed, stem, unique


def responses(entries: Iterable[Entry], file: str = "") -> list[Response]:
    """Return the responses of a file, in the order they first appear; `file` is its name or path."""
    found = (of_entry(entry, file) for entry in entries)
    return [counted.response for counted in unique((0, one) for one in found if isinstance(one, Response))]


def of_entry(entry: Entry, file: str = "") -> Response | Dropped | None:
    """Return what one line says of a response; nothing if it is no answer. `file` is its file's path or name."""
    match entry.record:
        case Assistant() as answer:
            return billed(answer, entry.raw, entry.offset, stem(file))
        case Progress(data=AgentProgress() as data) as told:
            return _retold(entry.offset, told, data, stem(file))
        case _:
            return None


BILLED = frozenset({Assistant, Progress})
"""The types of records that may tell of a response."""


def take_entry(tally: Tally[S], entry: Entry) -> None:
    """Take a line that has been decoded."""
    if type(entry.record) is Assistant:
        tally.take(entry.record, entry.raw, entry.offset)
    elif (found := of_entry(entry, tally.file)) is not None:
        tally.add(found)


def _retold(offset: int, told: Progress, data: AgentProgress, home: str) -> Response | Dropped | None:
    """Return what a progress line tells of an agent's answer. Those before it (`normalized_messages`) had their own."""
    line = bytes(data.message)
    match decode(line) if b'"usage"' in line else []:
        case [Entry(record=Assistant() as answer)]:
            told_again = replace(
                answer,
                timestamp=answer.timestamp or told.timestamp,
                session_id=told.session_id,
                agent_id=data.agent_id,
                is_sidechain=True,
                cwd=told.cwd,
                git_branch=told.git_branch,
                version=told.version,
            )
            found = billed(told_again, line, offset, home)
            return replace(found, retold=True) if isinstance(found, Response) else found
        case _:
            return None
