"""What a version of Claude Code sends when it resumes a session: the newest reads otherwise than those before 2.1.100.

Until 2.1.29 (asked: 2.0.50, 2.0.76, 2.1.29)
  1. It goes on from the newest timestamp and walks up the parents. Nothing that lies beside is added: of parallel
     results that hang on their own calls all but one are lost, with their calls.
  2. Texts of the user's that meet are not joined by a line end.
  3. Local commands that stand in system lines are not sent; `Task` keeps its name.
  4. Calls that were never answered go, and after the marker of an interrupt nobody says `No response requested.`.
  4. Since 2.0.76 (2.0.50 does not) `ExitPlanMode` is sent without its plan, which has a file of its own.
From 2.1.100 until 2.1.290 the date and the like are told in the first message, and written down nowhere; news of
background tasks is sent as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from unspool.edit.verify.request_diff import blocks_of
from unspool.format.blocks import Text
from unspool.format.entry import Entry
from unspool.format.records import System, User
from unspool.graph.context.blocks import ContextBlock
from unspool.graph.context.build import context
from unspool.graph.context.pairing import ContextMessage
from unspool.graph.speakers import INTERRUPT
from unspool.graph.threads import is_boundary, main_graph, oldest_rule

_NEW = (2, 1, 100)
_WRITES_SURROUNDINGS = (2, 1, 290)
_PLAN_FILES = (2, 0, 76)
_ADVICE = re.compile(
    r"(\n\n)?(<system-reminder>\n)?(The TodoWrite tool hasn't|The task tools haven't) been used recently\."
    r".*?(\n</system-reminder>\n?|\Z)",
    re.DOTALL,
)
_SURROUNDINGS = "<system-reminder>\nAs you answer the user's questions, you can use the following context:"


def predicted(entries: Sequence[Entry], version: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the messages that a version sends on resume."""
    if version >= _WRITES_SURROUNDINGS:
        return [message.json for message in context(entries)]
    if version >= _NEW:
        told = context(entries)
        return [{"role": message.role, "content": [_told(block) for block in message.blocks]} for message in told]
    messages = _without_stand_ins(context(_walked(entries)))
    plans = version < _PLAN_FILES
    return [{"role": message.role, "content": [_old(block, plans) for block in message.blocks]} for message in messages]


def without_surroundings(sent: Sequence[dict[str, Any]], version: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return messages without what a version says in words that are in no file: the date, advice to use todos."""
    if version >= _WRITES_SURROUNDINGS:
        return [*sent]
    return [
        {**message, "content": [block for block in map(_bare, blocks_of(message)) if block is not None]}
        for message in sent
    ]


def _bare(block: dict[str, Any]) -> dict[str, Any] | None:
    key = "content" if block.get("type") == "tool_result" else "text"
    text = block.get(key)
    if not isinstance(text, str):
        return block
    if text.startswith(_SURROUNDINGS):
        return None
    said = _ADVICE.sub("", text)
    return {**block, key: said} if said or key == "content" else None


def _walked(entries: Sequence[Entry]) -> list[Entry]:
    """Return the lines that an old version comes by when it walks up from the newest."""
    whole = main_graph(entries)
    tip = oldest_rule(whole)
    if tip is None:
        return []
    lines = [whole.nodes[number].entry for number in whole.path(tip)]
    start = max((at for at, entry in enumerate(lines) if is_boundary(entry)), default=0)
    return [entry for entry in lines[start:] if not isinstance(entry.record, System) or is_boundary(entry)]


def _without_stand_ins(messages: list[ContextMessage]) -> list[ContextMessage]:
    """Return messages as versions end them: open calls go, and after an interrupt nothing is said."""
    opened = {
        block.id for message in messages for block in message.blocks if block.kind == "tool_result" and not block.entry
    }
    kept = []
    for message in messages:
        blocks = tuple(block for block in message.blocks if block.id is None or block.id not in opened)
        if blocks:
            kept.append(ContextMessage(message.role, blocks))
    if len(kept) > 1 and kept[-1].blocks[0].entry is None:
        before = kept[-2]
        if before.role == "assistant" or (before.blocks[-1].text or "").startswith(INTERRUPT):
            kept.pop()
    return kept


def _told(block: ContextBlock) -> dict[str, Any]:
    """Return a block as versions until 2.1.290 send it: news of a background task in its own words."""
    record = block.entry.record if block.entry else None
    if isinstance(record, User) and record.origin is not None and record.origin.kind == "task-notification":
        return _as_written(block, record)
    return block.value


def _old(block: ContextBlock, plans: bool) -> dict[str, Any]:
    value = block.value
    if block.kind == "tool_use" and value.get("name") == "ExitPlanMode" and not plans:
        return {**value, "input": {key: given for key, given in value["input"].items() if key != "plan"}}
    if block.kind == "tool_use" and value.get("name") == "Agent":
        return {**value, "name": "Task"}
    record = block.entry.record if block.entry else None
    return _as_written(block, record) if isinstance(record, User) else value


def _as_written(block: ContextBlock, record: User) -> dict[str, Any]:
    """Return a text of the user's as its line has it."""
    if block.kind != "text":
        return block.value
    if isinstance(record.message.content, str):
        return {**block.value, "text": record.message.content}
    written = record.message.content[block.index]
    return {**block.value, "text": written.text} if isinstance(written, Text) else block.value
