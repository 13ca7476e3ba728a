"""What a version of Claude Code sends when it resumes a session: the newest reads otherwise than those before 2.1.100.

| until        | reads otherwise                                                                                    |
|--------------|----------------------------------------------------------------------------------------------------|
| 2.1.29       | goes on from the newest timestamp; walks up the parents and adds nothing that lies beside: of      |
|              | parallel results that hang on their own calls all but one are lost, with their calls                |
| 2.1.29       | local commands that stand in system lines are not sent; `Task` keeps its name                      |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.format.entry import Entry
from unspool.format.records import System
from unspool.graph.context import context
from unspool.graph.threads import is_boundary, main_graph, oldest_rule

_NEW = (2, 1, 100)


def predicted(entries: Sequence[Entry], version: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the messages that a version sends on resume."""
    if version >= _NEW:
        return [message.json for message in context(entries)]
    messages = [message.json for message in context(_walked(entries))]
    return [{**message, "content": [_old(block) for block in message["content"]]} for message in messages]


def _walked(entries: Sequence[Entry]) -> list[Entry]:
    """Return the lines that an old version comes by when it walks up from the newest."""
    whole = main_graph(entries)
    tip = oldest_rule(whole)
    if tip is None:
        return []
    lines = [whole.nodes[number].entry for number in whole.path(tip)]
    start = max((at for at, entry in enumerate(lines) if is_boundary(entry)), default=0)
    return [entry for entry in lines[start:] if not isinstance(entry.record, System) or is_boundary(entry)]


def _old(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "name": "Task"} if block.get("type") == "tool_use" and block.get("name") == "Agent" else block
