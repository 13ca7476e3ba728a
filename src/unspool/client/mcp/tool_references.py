"""References to tools that were loaded by a search: finds them in messages, and puts texts in their place.

Only some endpoints know blocks `tool_reference`, and those refuse one whose tool is not defined: a resumed session may
name tools of servers that are not there any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unspool.client.tool_result import Json


def find_references(messages: Iterable[Json]) -> list[str]:
    """Return the tools that messages refer to as loaded, in their order."""
    return [
        str(part.get("tool_name"))
        for message in messages
        for block in message["content"]
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list)
        for part in block["content"]
        if isinstance(part, dict) and part.get("type") == "tool_reference"
    ]


def replace_references(messages: Sequence[Json]) -> Sequence[Json]:
    """Return messages with texts in place of references, which only some endpoints know."""
    if not find_references(messages):
        return messages
    return [
        {**message, "content": [*map(_replace_in_result, message["content"])]} if message["role"] == "user" else message
        for message in messages
    ]


def _replace_in_result(block: Json) -> Json:
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return block
    names = [str(part.get("tool_name")) for part in content if _is_reference(part)]
    if not names:
        return block
    words = {"type": "text", "text": f"Loaded, and can be called now: {', '.join(names)}"}
    return {**block, "content": [words, *(part for part in content if not _is_reference(part))]}


def _is_reference(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_reference"
