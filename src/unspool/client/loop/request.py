"""A request: system, tools and messages in, a body for `/v1/messages` out. Pure.

Rules
  1. At most four cache marks: the end of the tools, the end of the system prompt, the last two messages of the user's.
     So the next request finds all of this one in the cache.
  2. A model thinks as it can: the newer as they see fit, the older within a budget, others not at all. An open loop of
     calls that began without thinking goes on without: the API refuses it otherwise.
  3. What an endpoint has refused is left out (`capabilities.py`). The messages themselves are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from unspool.client.loop.capabilities import Capabilities
from unspool.client.session.transcript import THINKING

Json: TypeAlias = dict[str, Any]

INTERLEAVED = "interleaved-thinking-2025-05-14"
LEAST_BUDGET = 1024
_MARK: Json = {"type": "ephemeral"}
_OLD = re.compile(r"claude-(instant|2|3-(opus|sonnet|haiku|5))")
_BUDGETED = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|-latest|\[1m\])?$|4-(opus|sonnet))")
_SHORT = re.compile(r"claude-(instant|2|3-(opus|sonnet|haiku)|3-5)")


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked."""

    model: str
    max_tokens: int | None = None
    """Of one answer; None: as the model and its window allow."""
    thinking: int | None = None
    """A budget; 0: not at all; None: as the model does by itself."""
    window: int | None = None

    @property
    def answer(self) -> int:
        """How many tokens an answer may have."""
        if self.max_tokens is not None:
            return self.max_tokens
        usual = 8_000 if _SHORT.match(self.model) else 32_000
        return max(1, min(usual, self.window // 4)) if self.window else usual


def request(
    manner: Manner, can: Capabilities, system: Sequence[Json], tools: Sequence[Json], messages: Sequence[Json]
) -> tuple[Json, tuple[str, ...]]:
    """Return a request, and the betas to ask for."""
    sent = [*messages] if can.signatures else [*_without_thinking(messages)]
    body: Json = {"model": manner.model.removesuffix("[1m]"), "max_tokens": manner.answer}
    if system:
        body["system"] = _system(system, can)
    if tools and can.tools:
        body["tools"] = [*tools[:-1], {**tools[-1], "cache_control": _MARK}] if can.caching else [*tools]
    body["messages"] = _marked(sent) if can.caching else sent
    thinking = _thinking(manner, sent) if can.thinking else None
    if thinking is not None:
        body["thinking"] = thinking
    betas = []
    if can.betas and thinking is not None and thinking["type"] == "enabled":
        betas.append(INTERLEAVED)
    if can.betas and manner.model.endswith("[1m]"):
        betas.append("context-1m-2025-08-07")
    return body, tuple(betas)


def _system(system: Sequence[Json], can: Capabilities) -> str | list[Json]:
    if not can.system_blocks:
        return "\n\n".join(str(block.get("text", "")) for block in system)
    return [*system[:-1], {**system[-1], "cache_control": _MARK}] if can.caching else [*system]


def _marked(messages: list[Json]) -> list[Json]:
    """Mark the last blocks of the last two messages of the user's."""
    left = 2
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] == "user":
            content = message["content"]
            messages[place] = {**message, "content": [*content[:-1], {**content[-1], "cache_control": _MARK}]}
            left -= 1
        if not left:
            break
    return messages


def _thinking(manner: Manner, messages: Sequence[Json]) -> Json | None:
    budget, model = manner.thinking, manner.model
    if budget == 0 or _OLD.match(model):
        return None
    if budget is None and not model.startswith("claude-"):
        return None
    if budget is None and not _BUDGETED.match(model):
        return {"type": "adaptive"}
    if _began_without(messages):
        return None
    allowed = min(budget if budget is not None else 31_999, manner.answer - 1)
    return {"type": "enabled", "budget_tokens": allowed} if allowed >= LEAST_BUDGET else None


def _began_without(messages: Sequence[Json]) -> bool:
    """Tell whether calls wait for an answer that was begun without thinking."""
    first: Json | None = None
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] == "assistant":
            first = message
        elif not any(block.get("type") == "tool_result" for block in message["content"]):
            break
    return first is not None and first["content"][0].get("type") not in THINKING


def _without_thinking(messages: Sequence[Json]) -> list[Json]:
    kept = []
    for message in messages:
        content = [block for block in message["content"] if block.get("type") not in THINKING]
        if content:
            kept.append({**message, "content": content})
    return kept
