"""Finds out by a few short requests which features an endpoint supports, and what to change (`unspool chat --probe`).

Rules
  1. If the endpoint does not answer at all, nothing else is tried.
  2. What chat can do without is reported and needs no change. What it cannot do without comes with what to change.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import NamedTuple

from unspool.api import ApiResponse, Connection, ResponseAccumulator, ServedModel, find_preset
from unspool.client.protocols import Model
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed

_ANSWERS, _TOOL_CALLS, _USAGE = "answers", "tool calls", "usage"
_TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
_CACHED_TEXT = {"type": "text", "text": "Say: yes.", "cache_control": {"type": "ephemeral"}}
_FEATURES: dict[str, Json] = {
    _ANSWERS: {},
    "system prompts in blocks": {"system": [{"type": "text", "text": "Be brief."}]},
    "prompt caching": {"messages": [{"role": "user", "content": [_CACHED_TEXT]}]},
    "tools": {"tools": [_TOOL]},
    _TOOL_CALLS: {
        "tools": [_TOOL],
        "tool_choice": {"type": "any"},
        "max_tokens": 512,
        "messages": [{"role": "user", "content": "Call the tool `look`."}],
    },
    "adaptive thinking": {"thinking": {"type": "adaptive"}},
    "thinking with a budget": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1100},
    "web search": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}]},
}
_PROTOCOLS = {
    "messages": "the Messages API (/v1/messages)",
    "completions": "OpenAI's chat completions",
    "any": "the Messages API, or OpenAI's chat completions",
}
_MAX_NAMES = 20


class FeatureFinding(NamedTuple):
    """What was found out about one feature."""

    feature: str
    works: bool
    reason: str = ""
    failed: ApiFailed | None = None

    @property
    def outcome(self) -> str:
        """`yes`, or `no` and the reason."""
        return "yes" if self.works else f"no: {self.reason}"


def describe_endpoint(model: Model, name: str) -> Iterator[str]:
    """Yield lines about what is asked: the address and the model."""
    if isinstance(model, Connection):
        yield f"endpoint: {model.endpoint.shown_url}"
    yield f"model: {name}"


async def probe_endpoint(model: Model, name: str) -> AsyncGenerator[FeatureFinding, None]:
    """Yield what each feature gives; only the first one, if the endpoint does not answer."""
    plain: Json = {"model": name, "max_tokens": 16, "messages": [{"role": "user", "content": "Say: yes."}]}
    for feature, fields in _FEATURES.items():
        finding, response = await _try_request(model, feature, {**plain, **fields})
        yield finding
        if feature == _ANSWERS:
            if not finding.works:
                return
            counted = any(isinstance(value, int) and value > 0 for value in response.usage.values())
            yield FeatureFinding(_USAGE, counted, "answers do not say how many tokens they cost")
    count = await model.count(plain)
    yield FeatureFinding("counting tokens", count.exact, count.why or "")


async def find_advice(model: Model, name: str, findings: Iterable[FeatureFinding]) -> list[str]:
    """Return lines that say which protocol is spoken, and what to change."""
    connection = model if isinstance(model, Connection) else None
    preset = find_preset(connection.endpoint) if connection else None
    by_feature = {finding.feature: finding for finding in findings}
    first = by_feature[_ANSWERS]
    lines = []
    if connection and first.works:
        lines.append(f"protocol: {_PROTOCOLS[connection.endpoint.protocol]}")
    changes = []
    if not first.works:
        unreachable = first.failed is not None and first.failed.status is None
        if preset and unreachable:
            changes.append(f"start the server: {preset.start}")
        if first.failed is not None and first.failed.hint:
            changes.append(first.failed.hint)
        served = await _list_models(connection) if connection and not unreachable else []
        if served and name not in (found.name for found in served):
            changes.append(f"choose a model that it has: {', '.join(found.name for found in served[:_MAX_NAMES])}")
    if (calls := by_feature.get(_TOOL_CALLS)) and not calls.works:
        changes.append(preset.tools if preset else "use a model that can call tools: without them chat cannot do much")
    if (usage := by_feature.get(_USAGE)) and not usage.works:
        changes.append("pass --context-window N: the length of the conversation is only estimated")
    return lines + [f"change: {change}" for change in changes]


async def _list_models(connection: Connection) -> list[ServedModel]:
    try:
        return await connection.models()
    except ApiFailed:
        return []


async def _try_request(model: Model, feature: str, body: Json) -> tuple[FeatureFinding, ApiResponse]:
    accumulator = ResponseAccumulator()
    try:
        async for event in model.events(body):
            accumulator.add(event)
    except ApiFailed as failed:
        return FeatureFinding(feature, False, failed.message, failed), accumulator.response()
    response = accumulator.response()
    if response.broken is not None:
        return FeatureFinding(feature, False, response.broken), response
    if feature == _TOOL_CALLS and not any(block.get("type") == "tool_use" for block in response.content):
        return FeatureFinding(feature, False, "the model called no tool, though it had to"), response
    return FeatureFinding(feature, True), response
