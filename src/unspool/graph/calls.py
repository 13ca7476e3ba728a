"""Tool calls, each with its result.

Rules
  1. Pairs are made by id over the whole file: results may come before their call, far after it, or in an assistant
     line (other vendors' servers). Position and stop reasons say nothing.
  2. A call written twice (history appended again) is one call; so is a result. The first of each counts.
  3. A call without a result is still a call; a result without a call is told apart (`results_without_call`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from unspool.format import results
from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Assistant, User


class ToolCall(msgspec.Struct, frozen=True):
    """A call, its result if it came, and the lines both stand on."""

    use: ToolUse
    use_entry: Entry
    result: ToolResult | None = None
    result_entry: Entry | None = None

    @property
    def id(self) -> str:
        """The call's id."""
        return self.use.id

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.use.name

    @property
    def input(self) -> Any:
        """What the tool was given."""
        return self.use.input

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.result and self.result.is_error)

    @property
    def structured(self) -> results.AnyResult | None:
        """The tool's own structured result."""
        record = self.result_entry.record if self.result_entry else None
        return results.parse(self.name, record.tool_use_result) if isinstance(record, User) else None

    @property
    def started(self) -> str | None:
        """When the call was written."""
        return self.use_entry.record.timestamp

    @property
    def ended(self) -> str | None:
        """When the result was written."""
        return self.result_entry.record.timestamp if self.result_entry else None

    @property
    def duration(self) -> timedelta | None:
        """The time between the two lines: run time, and waiting for permission. None if it cannot be told."""
        return between(self.started, self.ended)

    @property
    def overflow(self) -> str | None:
        """The path the program wrote long output to. Only its last name is to be trusted."""
        path = getattr(self.structured, "persisted_output_path", None)
        return path if isinstance(path, str) else None


def tool_calls(entries: Iterable[Entry]) -> list[ToolCall]:
    """Return every tool call in the order asked, each with its result if it came."""
    uses, given = _collected(entries)
    return [ToolCall(use, entry, *given.get(id, (None, None))) for id, (use, entry) in uses.items()]


def results_without_call(entries: Iterable[Entry]) -> list[tuple[ToolResult, Entry]]:
    """Return the results whose call is not in the file."""
    uses, given = _collected(entries)
    return [result for id, result in given.items() if id not in uses]


def between(start: str | None, end: str | None) -> timedelta | None:
    """Return the time between two timestamps, None if one is missing, no time, or they run backwards."""
    try:
        passed = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except (ValueError, TypeError):
        return None
    return passed if passed >= timedelta(0) else None


def _collected(
    entries: Iterable[Entry],
) -> tuple[dict[str, tuple[ToolUse, Entry]], dict[str, tuple[ToolResult, Entry]]]:
    uses: dict[str, tuple[ToolUse, Entry]] = {}
    given: dict[str, tuple[ToolResult, Entry]] = {}
    for entry in entries:
        record = entry.record
        if not isinstance(record, User | Assistant) or isinstance(record.message.content, str):
            continue
        for block in record.message.content:
            if isinstance(block, ToolUse):
                uses.setdefault(block.id, (block, entry))
            elif isinstance(block, ToolResult):
                given.setdefault(block.tool_use_id, (block, entry))
    return uses, given
