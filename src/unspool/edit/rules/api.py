"""Checks the messages that a session would send against the Messages API's rules A1 to A4 and A7.

Only what decides is checked: kinds, ids and texts. Whether the API would take every field of every block is checked by
the API's own rules (`edit/verify/verify.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from unspool.edit.rules.violation import Violation
from unspool.format import Assistant, User
from unspool.format import blocks as kinds
from unspool.graph.context import THINKING_KINDS, ContextBlock, ContextMessage


def check_api_rules(messages: Sequence[ContextMessage]) -> list[Violation]:
    """Return what the API would refuse in some messages."""
    if not messages:
        return []
    found = [*_check_first(messages)]
    calls: list[str] = []
    for message in messages:
        found += _check_content(message)
        if message.role == "system":  # it may stand between calls and results only after the user's message
            continue
        found += _check_results(message, calls)
        calls = [block.id or "" for block in message.blocks if block.kind == "tool_use"]
        found += _check_calls(message, calls)
    found += _check_missing(calls, set(), messages[-1])
    return found


def _check_first(messages: Sequence[ContextMessage]) -> Iterator[Violation]:
    first = next((message for message in messages if message.role != "system"), messages[0])
    if first.role != "user":
        yield Violation("A1", _message_offset(first), f"the first message is the {first.role}'s", "first")


def _check_content(message: ContextMessage) -> Iterator[Violation]:
    if not message.blocks:
        yield Violation("A1", 0, "a message without content", "empty")
    for block in message.blocks:
        if block.kind == "text" and not (block.text or "").strip():
            yield Violation("A1", _block_offset(block), "a blank text", _subject(block))
        elif block.kind in THINKING_KINDS:
            match _decoded_block(block):
                case kinds.Thinking(signature=None | ""):
                    yield Violation("A4", _block_offset(block), "thinking without its signature", _subject(block))
                case kinds.RedactedThinking(data=""):
                    yield Violation("A4", _block_offset(block), "redacted thinking without its data", _subject(block))
                case _:
                    pass


def _check_results(message: ContextMessage, calls: list[str]) -> Iterator[Violation]:
    """Compare the results in a message with the calls of the one before."""
    results = [block for block in message.blocks if block.kind == "tool_result"]
    if message.role == "user" and results:
        beginning = message.blocks[: len(results)]
        late = next((block for block in beginning if block.kind != "tool_result"), None)
        if late is not None:
            yield Violation("A2", _block_offset(late), "something stands before a tool result", _subject(late))
    counts = Counter(block.id or "" for block in results)
    for block in results:
        if (block.id or "") not in calls:
            yield Violation("A2", _block_offset(block), f"a result without a call: `{block.id}`", f"result {block.id}")
        elif counts[block.id or ""] > 1:
            counts[block.id or ""] = 1  # say it once for each call
            yield Violation("A2", _block_offset(block), f"two results of one call: `{block.id}`", f"twice {block.id}")
    yield from _check_missing(calls, set(counts), message)


def _check_missing(calls: list[str], answered: set[str], message: ContextMessage) -> Iterator[Violation]:
    for call in calls:
        if call not in answered:
            words = f"a call without a result in the next message: `{call}`"
            yield Violation("A2", _message_offset(message), words, f"call {call}")


def _check_calls(message: ContextMessage, calls: list[str]) -> Iterator[Violation]:
    for id, count in Counter(calls).items():
        if count > 1:
            yield Violation("A2", _message_offset(message), f"an id is used by {count} calls: `{id}`", f"calls {id}")
    if message.role != "assistant":
        return
    open_calls: dict[str, ContextBlock] = {}
    for block in message.blocks:
        # Only tool blocks are looked up again: most blocks are texts.
        if "tool" not in block.kind or block.kind == "tool_result":
            continue
        match _decoded_block(block):
            case kinds.ToolUse(input=dict()):
                pass
            case kinds.ToolUse(id=id):
                yield Violation("A3", _block_offset(block), f"what a call is given is no object: `{id}`", f"input {id}")
            case kinds.ServerToolUse(id=id) | kinds.McpToolUse(id=id):
                open_calls[id] = block
            case kinds.ServerToolResult(tool_use_id=id):
                open_calls.pop(id, None)
            case _:
                pass
    for id, block in open_calls.items():
        words = f"a call on the API's side without its result: `{id}`"
        yield Violation("A7", _block_offset(block), words, f"server {id}")


def _decoded_block(block: ContextBlock) -> kinds.AnyBlock | None:
    """Return the block as it was decoded with its line."""
    record = block.entry.record if block.entry else None
    if not isinstance(record, User | Assistant) or isinstance(record.message.content, str):
        return None
    return record.message.content[block.index] if block.index < len(record.message.content) else None


def _block_offset(block: ContextBlock) -> int:
    return block.entry.offset if block.entry else 0


def _subject(block: ContextBlock) -> str:
    return (block.entry.record.uuid or f"line {block.entry.offset}") if block.entry else block.kind


def _message_offset(message: ContextMessage) -> int:
    return next((block.entry.offset for block in message.blocks if block.entry), 0)
