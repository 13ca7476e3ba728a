"""Predicts what a version of Claude Code sends when it resumes a session: before 2.1.100 it reads files differently.

Until 2.1.29 (tried: 2.0.50, 2.0.76, 2.1.29)
  1. It continues from the newest timestamp and walks up the parents. Nothing that lies beside is added: of parallel
     results that hang on their own calls all but one are lost, with their calls.
  2. Adjoining texts of the user are not joined by a line end.
  3. Local commands that stand in system lines are not sent; `Task` keeps its name.
  4. Calls that were never answered are left out, and after the marker of an interrupt there is no
     `No response requested.`.
  5. Since 2.0.76 (2.0.50 does not) `ExitPlanMode` is sent without its plan, which has a file of its own.
From 2.1.100 until 2.1.290 the date and the like are sent in the first message, and recorded nowhere; notifications of
background tasks are sent as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from unspool.edit.verify.request_diff import content_blocks
from unspool.format import Entry, System, Text, User
from unspool.graph import INTERRUPT_PREFIX, build_main_graph, find_leaf_by_oldest_rule, is_boundary
from unspool.graph.context import ContextBlock, ContextMessage, build_context

_FIRST_NEW_READER = (2, 1, 100)
_RECORDS_REMINDERS = (2, 1, 290)
_FIRST_PLAN_FILES = (2, 0, 76)
_TODO_ADVICE = re.compile(
    r"(\n\n)?(<system-reminder>\n)?(The TodoWrite tool hasn't|The task tools haven't) been used recently\."
    r".*?(\n</system-reminder>\n?|\Z)",
    re.DOTALL,
)
_FIRST_REMINDER = "<system-reminder>\nAs you answer the user's questions, you can use the following context:"


def predict_messages(entries: Sequence[Entry], version: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the messages that a version sends on resume."""
    if version >= _RECORDS_REMINDERS:
        return [message.json for message in build_context(entries)]
    if version >= _FIRST_NEW_READER:
        messages = build_context(entries)
        return [{"role": message.role, "content": [*map(_to_2_1_100, message.blocks)]} for message in messages]
    messages = _remove_stand_ins(build_context(_walk_up(entries)))
    plans = version < _FIRST_PLAN_FILES
    return [
        {"role": message.role, "content": [_to_2_0(block, plans) for block in message.blocks]} for message in messages
    ]


def strip_unrecorded_text(sent: Sequence[dict[str, Any]], version: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return messages without the texts that a version sends but records in no file: the date, advice to use todos."""
    if version >= _RECORDS_REMINDERS:
        return [*sent]
    return [
        {**message, "content": [block for block in map(_strip_block, content_blocks(message)) if block is not None]}
        for message in sent
    ]


def _strip_block(block: dict[str, Any]) -> dict[str, Any] | None:
    key = "content" if block.get("type") == "tool_result" else "text"
    text = block.get(key)
    if not isinstance(text, str):
        return block
    if text.startswith(_FIRST_REMINDER):
        return None
    left = _TODO_ADVICE.sub("", text)
    return {**block, key: left} if left or key == "content" else None


def _walk_up(entries: Sequence[Entry]) -> list[Entry]:
    """Return the lines that an old version finds when it walks up from the newest."""
    graph = build_main_graph(entries)
    tip = find_leaf_by_oldest_rule(graph)
    if tip is None:
        return []
    lines = [graph.nodes[number].entry for number in graph.path(tip)]
    start = max((at for at, entry in enumerate(lines) if is_boundary(entry)), default=0)
    return [entry for entry in lines[start:] if not isinstance(entry.record, System) or is_boundary(entry)]


def _remove_stand_ins(messages: list[ContextMessage]) -> list[ContextMessage]:
    """Return messages as old versions end them: without open calls, and with nothing after an interrupt."""
    unanswered = {
        block.id for message in messages for block in message.blocks if block.kind == "tool_result" and not block.entry
    }
    kept = []
    for message in messages:
        blocks = tuple(block for block in message.blocks if block.id is None or block.id not in unanswered)
        if blocks:
            kept.append(ContextMessage(message.role, blocks))
    if len(kept) > 1 and kept[-1].blocks[0].entry is None:
        before = kept[-2]
        if before.role == "assistant" or (before.blocks[-1].text or "").startswith(INTERRUPT_PREFIX):
            kept.pop()
    return kept


def _to_2_1_100(block: ContextBlock) -> dict[str, Any]:
    """Return a block as versions from 2.1.100 until 2.1.290 send it: notifications as they were written."""
    record = block.entry.record if block.entry else None
    if isinstance(record, User) and record.origin is not None and record.origin.kind == "task-notification":
        return _as_written(block, record)
    return block.value


def _to_2_0(block: ContextBlock, plans: bool) -> dict[str, Any]:
    """Return a block as versions until 2.1.29 send it."""
    value = block.value
    if block.kind == "tool_use" and value.get("name") == "ExitPlanMode" and not plans:
        return {**value, "input": {key: item for key, item in value["input"].items() if key != "plan"}}
    if block.kind == "tool_use" and value.get("name") == "Agent":
        return {**value, "name": "Task"}
    record = block.entry.record if block.entry else None
    return _as_written(block, record) if isinstance(record, User) else value


def _as_written(block: ContextBlock, record: User) -> dict[str, Any]:
    """Return a text of the user as its line has it."""
    if block.kind != "text":
        return block.value
    if isinstance(record.message.content, str):
        return {**block.value, "text": record.message.content}
    written = record.message.content[block.index]
    return {**block.value, "text": written.text} if isinstance(written, Text) else block.value
