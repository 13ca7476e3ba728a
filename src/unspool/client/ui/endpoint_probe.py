"""What an endpoint can do, found out by asking: a few short requests in, a line for each out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

from unspool.api.events import Broken
from unspool.client.protocols import Model
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]

_TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
_MARKED = {"type": "text", "text": "Say: yes.", "cache_control": {"type": "ephemeral"}}
_FEATURES: dict[str, Json] = {
    "answers": {},
    "system prompts in blocks": {"system": [{"type": "text", "text": "Be brief."}]},
    "prompt caching": {"messages": [{"role": "user", "content": [_MARKED]}]},
    "tools": {"tools": [_TOOL]},
    "thinking as the model sees fit": {"thinking": {"type": "adaptive"}},
    "thinking within a budget": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1100},
    "searching the web": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}]},
}


async def probed(model: Model, name: str) -> AsyncGenerator[tuple[str, str], None]:
    """Yield what was tried, and how it went."""
    plain: Json = {"model": name, "max_tokens": 16, "messages": [{"role": "user", "content": "Say: yes."}]}
    for feature, fields in _FEATURES.items():
        yield feature, await _tried(model, {**plain, **fields})
    counted = await model.count(plain)
    yield "counting tokens", "yes" if counted.exact else f"no: {counted.why}"


async def _tried(model: Model, body: Json) -> str:
    try:
        async for event in model.events(body):
            if isinstance(event, Broken):
                return f"no: {event.reason}"
    except ApiFailed as failed:
        return f"no: {failed.message}"
    return "yes"
