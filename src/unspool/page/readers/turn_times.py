"""Reads from the lines of a turn what took time: requests to the model, tools, agents, and waiting for a person.

Rules
  1. When a request began and ended is found by `graph/request_times.py`.
  2. A tool lasts from its call to its result. Questions, plans and calls that were rejected are waiting for a person.
     Where the result has the time that the tool ran, what came before is waiting too; where it has none, the span
     includes waiting for permission: nothing in the file tells the two apart.
  3. A long turn is read in parts (`index.py`, rule 2), never all at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from unspool.export import CallState, describe_calls
from unspool.format import Assistant, Entry, ToolResult, ToolUse, milliseconds
from unspool.format.tools import AGENT_TOOLS
from unspool.graph import RequestTime, ToolCall, describe_target, find_request_times
from unspool.page.analysis import TimeSpan
from unspool.page.view import PageView

_QUESTIONS = frozenset({"AskUserQuestion", "ExitPlanMode"})
_MIN_WAIT = 1_000
"""Milliseconds of waiting that are worth a span."""


def read_turn_spans(view: PageView, number: int, part: int = 0) -> list[TimeSpan]:
    """Return what took time in a part of a turn, in the order in which it began."""
    items = view.lines.read_range(*view.index.chunk_range(number, part))
    entries = [item for item in items if isinstance(item, Entry) and item.offset not in view.index.repeated]
    by_offset = {entry.offset: entry for entry in entries}
    last = max((time for entry in entries if (time := milliseconds(entry.record.timestamp)) is not None), default=0)
    spans = [_model_span(view, request) for request in find_request_times(entries)]
    for entry in entries:
        if isinstance(entry.record, Assistant):
            for place, block in enumerate(entry.record.message.blocks):
                if isinstance(block, ToolUse):
                    spans += _call_spans(view, entry, place, block, by_offset=by_offset, last=last)
    return sorted(spans, key=lambda span: (span.start, span.end))


def _model_span(view: PageView, request: RequestTime) -> TimeSpan:
    record = request.entry.record
    assert isinstance(record, Assistant)
    usage = record.message.usage
    # Without a stop reason the count may be from the beginning of the stream.
    words = f"{usage.output_tokens:,} tokens" if usage and record.message.stop_reason is not None else ""
    return TimeSpan(
        kind="model",
        name="model",
        target=record.message.model or "",
        key=f"{view.prefix}{request.entry.offset}.0",
        start=request.start,
        end=max(request.start, request.end),
        words=words,
    )


def _call_spans(
    view: PageView, entry: Entry, number: int, block: ToolUse, *, by_offset: dict[int, Entry], last: int
) -> Iterator[TimeSpan]:
    indexed = view.index.calls.get(block.id)
    start = milliseconds(entry.record.timestamp)
    if indexed is None or indexed.use != entry.offset or start is None:
        return
    answer = by_offset.get(indexed.result) or view.lines.read_entry(indexed.result)
    blocks = answer.content_blocks if answer else ()
    result = next((one for one in blocks if isinstance(one, ToolResult) and one.tool_use_id == block.id), None)
    call = ToolCall(block, entry, result, answer if result else None)
    outcome = describe_calls.describe_outcome(call)
    ended = milliseconds(call.end_timestamp)
    end = max(start, ended if ended is not None else last)
    kind = "agent" if block.name in AGENT_TOOLS else "tool"
    if block.name in _QUESTIONS or outcome.state is CallState.REJECTED:
        kind = "person"
    span = TimeSpan(
        kind=kind,
        name=block.name or "(no name)",
        target=describe_target(block.name, block.input, view.index.facts.cwd)[:200],
        key=f"{view.prefix}{entry.offset}.{number}",
        start=start,
        end=end,
        words=outcome.words[:200],
        is_open=ended is None,
        agent=view.agent_of(block.id) if kind == "agent" else None,
    )
    ran = call.measured_milliseconds if kind != "person" and ended is not None else None
    if ran is not None and end - start - ran >= _MIN_WAIT:
        begin = end - ran
        words = "waiting for permission, or for its turn"
        yield TimeSpan(
            kind="person", name=span.name, target=span.target, key=span.key, start=start, end=begin, words=words
        )
        yield TimeSpan(**{**{name: getattr(span, name) for name in span.__struct_fields__}, "start": begin})
    else:
        yield span
