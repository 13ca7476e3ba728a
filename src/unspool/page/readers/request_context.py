"""Reads what stands before a request in its file: the request before it, compactions, what came into the context."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from unspool.format import Attachment, Entry, Text, ToolResult, User
from unspool.page.analysis import EnteredText, RequestContext
from unspool.page.view import PageView

_MAX_BYTES_READ = 4_000_000
"""Of the lines between two requests; of a longer range only results of tools are looked at."""
_MAX_ENTERED = 3
_MAX_RESULTS = 64
_BASE64_MARK = b'"base64"'


def read_request_context(view: PageView, id: str) -> RequestContext:
    """Return what stands before a response of a session's or an agent's file."""
    bills = view.bills
    bill = next((bill for bill in bills if bill.response.id == id), None)
    if bill is None:
        return RequestContext(is_known=False)
    thread = (bill.response.sidechain, bill.response.agent_id)
    earlier = (
        other
        for other in bills
        if other.offset < bill.offset and (other.response.sidechain, other.response.agent_id) == thread
    )
    before = max(earlier, key=lambda other: other.offset, default=None)
    start = before.offset if before else 0
    compacted = [compaction.offset for turn in view.index.turns for compaction in turn.compacted]
    entered = nlargest(_MAX_ENTERED, _entered_texts(view, start, bill.offset), key=lambda text: text.bytes)
    return RequestContext(
        before.response if before else None, any(start < at < bill.offset for at in compacted), tuple(entered)
    )


def _entered_texts(view: PageView, start: int, end: int) -> Iterator[EnteredText]:
    """Yield the texts that stand between two offsets."""
    if end - start <= _MAX_BYTES_READ:
        for item in view.lines.read_range(start, end):
            if isinstance(item, Entry):
                yield from _texts_of_entry(view, item)
        return
    calls = [call for call in view.index.calls.values() if start < call.result < end]
    for call in calls[:_MAX_RESULTS]:
        entry = view.lines.read_entry(call.result)
        if entry is not None:
            yield from _texts_of_entry(view, entry)


def _texts_of_entry(view: PageView, entry: Entry) -> Iterator[EnteredText]:
    match entry.record:
        case User(message=message):
            texts = 0
            for block in message.blocks:
                if isinstance(block, ToolResult):
                    call = view.index.calls.get(block.tool_use_id)
                    name = f"a result of {call.name}" if call and call.name else "a result"
                    key = f"{view.prefix}{call.key}" if call else None
                    yield EnteredText(name, _result_size(block), key)
                elif isinstance(block, Text):
                    texts += len(block.text)
            if texts:
                yield EnteredText("a prompt", texts, f"{view.prefix}{entry.offset}.0")
        case Attachment():
            yield EnteredText("an attachment", entry.length, f"{view.prefix}{entry.offset}.0")
        case _:
            pass


def _result_size(block: ToolResult) -> int:
    """Return the bytes of a result; images are not counted, their tokens do not depend on their bytes."""
    encoded = memoryview(block.encoded_content)
    if not block.is_text and _BASE64_MARK in bytes(encoded):
        return sum(len(inner.text) for inner in block.blocks if isinstance(inner, Text))
    return encoded.nbytes
