"""Builds the messages of a session as its lines have them: nothing is left out, added or paired.

`graph/context` predicts what the newest Claude Code sends: it leaves out orphan results, blank texts and unanswered
calls by itself. Other versions and other clients send what is written. What the API would refuse in that is a breakage
of the session, whoever resumes it.

Rules
  1. The lines of one answer are one message, also where results of its calls stand between them.
  2. The results of a user's message come first, as every client sends them.
  3. Attachments, local commands and the API errors that Claude Code wrote down are no part of it.
  4. A line of the model without any block is no message: an edit leaves such a line where only the usage counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unspool.format import AnyBlock, Assistant, Entry, Other, Text, ToolResult, ToolUse, User
from unspool.graph.context import ContextBlock, ContextMessage, text_block


class RecordedMessage:
    """A message whose blocks are still collected."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.blocks: list[ContextBlock] = []
        self.lines: list[Entry] = []


def recorded_messages(lines: Sequence[Entry]) -> list[RecordedMessage]:
    """Return the messages of the lines of a thread, as they are written."""
    messages: list[RecordedMessage] = []
    begun: dict[str, RecordedMessage] = {}
    for line in lines:
        record = line.record
        if isinstance(record, Assistant):
            if not (record.is_api_error_message and record.message.model == "<synthetic>"):
                _add_answer(messages, begun, line, record)
        elif isinstance(record, User):
            blocks = [*_line_blocks(line)]
            if any(block.kind != "tool_result" for block in blocks) or not blocks:
                begun.clear()
            if not messages or messages[-1].role != "user" or not blocks or not messages[-1].blocks:
                messages.append(RecordedMessage("user"))
            messages[-1].blocks += blocks
            messages[-1].lines.append(line)
    for message in messages:
        if message.role == "user":
            message.blocks.sort(key=lambda block: block.kind != "tool_result")
    return messages


def group_turns(messages: Sequence[RecordedMessage]) -> list[list[RecordedMessage]]:
    """Return messages by turn: those of one role in a row are one for the API."""
    turns: list[list[RecordedMessage]] = []
    for message in messages:
        if turns and turns[-1][0].role == message.role:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def as_context(messages: Sequence[RecordedMessage]) -> list[ContextMessage]:
    """Return messages in the form that the rules of the API are asked with."""
    return [ContextMessage(message.role, tuple(message.blocks)) for message in messages]


def _add_answer(
    messages: list[RecordedMessage], begun: dict[str, RecordedMessage], line: Entry, record: Assistant
) -> None:
    blocks = [*_line_blocks(line)]
    if not blocks:
        return
    message = begun.get(record.message.id or "")
    if message is None:
        message = RecordedMessage("assistant")
        messages.append(message)
        if record.message.id:
            begun[record.message.id] = message
    message.blocks += blocks
    message.lines.append(line)


def _line_blocks(entry: Entry) -> Iterator[ContextBlock]:
    record = entry.record
    assert isinstance(record, User | Assistant)
    content = record.message.content
    if isinstance(content, str):
        yield text_block(content, entry)
        return
    for index, block in enumerate(content):
        if (made := _make_block(block, entry, index)) is not None:
            yield made


def _make_block(block: AnyBlock, entry: Entry, index: int) -> ContextBlock | None:
    match block:
        case ToolUse():
            return ContextBlock("tool_use", entry, block.id, index=index)
        case ToolResult():
            return ContextBlock("tool_result", entry, block.tool_use_id, index=index)
        case Text(text=words):
            return ContextBlock("text", entry, text=words, index=index)
        case Other(type=kind, value=value):
            return ContextBlock(kind or "", entry, index=index) if isinstance(value, dict) else None
        case _:
            return ContextBlock(str(type(block).__struct_config__.tag), entry, index=index)
