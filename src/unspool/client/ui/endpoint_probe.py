"""Finds out by a few short requests which features an endpoint supports (`unspool chat --probe`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from unspool.api import StreamBroken
from unspool.client.protocols import Model
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed

_TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
_CACHED_TEXT = {"type": "text", "text": "Say: yes.", "cache_control": {"type": "ephemeral"}}
_FEATURES: dict[str, Json] = {
    "answers": {},
    "system prompts in blocks": {"system": [{"type": "text", "text": "Be brief."}]},
    "prompt caching": {"messages": [{"role": "user", "content": [_CACHED_TEXT]}]},
    "tools": {"tools": [_TOOL]},
    "adaptive thinking": {"thinking": {"type": "adaptive"}},
    "thinking with a budget": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1100},
    "web search": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}]},
}


async def probe_endpoint(model: Model, name: str) -> AsyncGenerator[tuple[str, str], None]:
    """Yield each feature with `yes`, or `no` and the reason."""
    plain: Json = {"model": name, "max_tokens": 16, "messages": [{"role": "user", "content": "Say: yes."}]}
    for feature, fields in _FEATURES.items():
        yield feature, await _try_request(model, {**plain, **fields})
    count = await model.count(plain)
    yield "counting tokens", "yes" if count.exact else f"no: {count.why}"


async def _try_request(model: Model, body: Json) -> str:
    try:
        async for event in model.events(body):
            if isinstance(event, StreamBroken):
                return f"no: {event.reason}"
    except ApiFailed as failed:
        return f"no: {failed.message}"
    return "yes"
