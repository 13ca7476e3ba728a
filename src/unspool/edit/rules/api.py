"""The Messages API's rules, on the messages that would be sent: A1 to A4 and A7.

Looked at is what decides: kinds, ids and texts. Whether the API would take every field of every block is asked of the
strict API itself (`verify.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from unspool.edit.rules.violation import Violation
from unspool.format.blocks import (
    AnyBlock,
    McpToolUse,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Thinking,
    ToolUse,
)
from unspool.format.records import Assistant, User
from unspool.graph.context.blocks import ContextBlock
from unspool.graph.context.pairing import THINKING, ContextMessage


def check(messages: Sequence[ContextMessage]) -> list[Violation]:
    """Return what the API would not take."""
    if not messages:
        return []
    found = [*_beginning(messages)]
    calls: list[str] = []
    for message in messages:
        found += _content(message)
        if message.role == "system":  # it may stand between calls and results only after the user's message
            continue
        found += _results(message, calls)
        calls = [block.id or "" for block in message.blocks if block.kind == "tool_use"]
        found += _calls(message, calls)
    found += _missing(calls, set(), messages[-1])
    return found


def _beginning(messages: Sequence[ContextMessage]) -> Iterator[Violation]:
    first = next((message for message in messages if message.role != "system"), messages[0])
    if first.role != "user":
        yield Violation("A1", _place(first), f"the first message is the {first.role}'s", "first")


def _content(message: ContextMessage) -> Iterator[Violation]:
    if not message.blocks:
        yield Violation("A1", 0, "a message without content", "empty")
    for block in message.blocks:
        if block.kind == "text" and not (block.text or "").strip():
            yield Violation("A1", _at(block), "a blank text", _subject(block))
        elif block.kind in THINKING:
            yield from _thinking(block)


def _thinking(block: ContextBlock) -> Iterator[Violation]:
    match _typed(block):
        case Thinking(signature=None | ""):
            yield Violation("A4", _at(block), "thinking without its signature", _subject(block))
        case RedactedThinking(data=""):
            yield Violation("A4", _at(block), "redacted thinking without its data", _subject(block))
        case _:
            pass


def _results(message: ContextMessage, calls: list[str]) -> Iterator[Violation]:
    """Compare the results in a message with the calls of the one before."""
    given = [block for block in message.blocks if block.kind == "tool_result"]
    if message.role == "user" and given:
        beginning = message.blocks[: len(given)]
        late = next((block for block in beginning if block.kind != "tool_result"), None)
        if late is not None:
            yield Violation("A2", _at(late), "something stands before a tool result", _subject(late))
    counts = Counter(block.id or "" for block in given)
    for block in given:
        if (block.id or "") not in calls:
            yield Violation("A2", _at(block), f"a result without a call: `{block.id}`", f"result {block.id}")
        elif counts[block.id or ""] > 1:
            counts[block.id or ""] = 1
            yield Violation("A2", _at(block), f"two results of one call: `{block.id}`", f"twice {block.id}")
    yield from _missing(calls, set(counts), message)


def _missing(calls: list[str], given: set[str], message: ContextMessage) -> Iterator[Violation]:
    for call in calls:
        if call not in given:
            words = f"a call without a result in the next message: `{call}`"
            yield Violation("A2", _place(message), words, f"call {call}")


def _calls(message: ContextMessage, calls: list[str]) -> Iterator[Violation]:
    for id, count in Counter(calls).items():
        if count > 1:
            yield Violation("A2", _place(message), f"an id is used by {count} calls: `{id}`", f"calls {id}")
    if message.role != "assistant":
        return
    server: dict[str, ContextBlock] = {}
    for block in message.blocks:
        if "tool" not in block.kind or block.kind == "tool_result":
            continue
        match _typed(block):
            case ToolUse(input=dict()):
                pass
            case ToolUse(id=id):
                yield Violation("A3", _at(block), f"what a call is given is no object: `{id}`", f"input {id}")
            case ServerToolUse(id=id) | McpToolUse(id=id):
                server[id] = block
            case ServerToolResult(tool_use_id=id):
                server.pop(id, None)
            case _:
                pass
    for id, block in server.items():
        yield Violation("A7", _at(block), f"a call on the API's side without its result: `{id}`", f"server {id}")


def _typed(block: ContextBlock) -> AnyBlock | None:
    """Return the block as it was decoded with its line."""
    record = block.entry.record if block.entry else None
    if not isinstance(record, User | Assistant) or isinstance(record.message.content, str):
        return None
    return record.message.content[block.index] if block.index < len(record.message.content) else None


def _at(block: ContextBlock) -> int:
    return block.entry.offset if block.entry else 0


def _subject(block: ContextBlock) -> str:
    return (block.entry.record.uuid or f"line {block.entry.offset}") if block.entry else block.kind


def _place(message: ContextMessage) -> int:
    return next((block.entry.offset for block in message.blocks if block.entry), 0)
