"""Returns the billed responses of decoded entries.

Apart from `responses.py`, which reads no more of a line than a bill needs: this module loads the types of all records.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from unspool.format import AgentProgress, Assistant, Entry, Progress, decode
from unspool.prices.responses import (
    LineCounter,
    Response,
    SourceKey,
    UnbilledLine,
    count_once,
    file_stem,
    response_of_line,
)


def responses_of_entries(entries: Iterable[Entry], file: str = "") -> list[Response]:
    """Return the responses of a file's entries, each once, in the order they appear; `file` is its name or path."""
    reported = (response_of_entry(entry, file) for entry in entries)
    return [counted.response for counted in count_once((0, each) for each in reported if isinstance(each, Response))]


def response_of_entry(entry: Entry, file: str = "") -> Response | UnbilledLine | None:
    """Return the response that an entry reports, or why nothing was billed; None if it cannot report one."""
    match entry.record:
        case Assistant() as assistant:
            return response_of_line(assistant, entry.raw, entry.offset, file_stem(file))
        case Progress(data=AgentProgress() as data) as progress:
            return _repeated_response(entry.offset, progress, data, file_stem(file))
        case _:
            return None


BILLED_RECORDS = frozenset({Assistant, Progress})
"""The types of records that may report a response."""


def add_entry(counter: LineCounter[SourceKey], entry: Entry) -> None:
    """Count an entry."""
    if type(entry.record) is Assistant:
        counter.add_line(entry.record, entry.raw, entry.offset)
    elif (result := response_of_entry(entry, counter.file)) is not None:
        counter.add(result)


def _repeated_response(
    offset: int, progress: Progress, data: AgentProgress, file_name: str
) -> Response | UnbilledLine | None:
    """Return the agent's response that a progress line repeats.

    Only its newest message is looked at: the earlier ones (`normalized_messages`) had progress lines of their own.
    """
    line = bytes(data.message)
    match decode(line) if b'"usage"' in line else []:
        case [Entry(record=Assistant() as assistant)]:
            # What the repeated message lacks is on the progress line around it.
            completed = replace(
                assistant,
                timestamp=assistant.timestamp or progress.timestamp,
                session_id=progress.session_id,
                agent_id=data.agent_id,
                is_sidechain=True,
                cwd=progress.cwd,
                git_branch=progress.git_branch,
                version=progress.version,
            )
            result = response_of_line(completed, line, offset, file_name)
            return replace(result, from_progress=True) if isinstance(result, Response) else result
        case _:
            return None
