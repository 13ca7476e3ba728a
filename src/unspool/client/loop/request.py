"""Builds the body of a request for `/v1/messages`, and learns which features an endpoint refuses.

Any server that speaks `/v1/messages` may be used. What it does not know it refuses by name, with status 400; then the
same is requested again without that feature, for the rest of the session.

Rules
  1. At most four cache marks (the API allows no more): the end of the tools, the end of the system prompt, the last two
     user messages. So the next request finds all of this one in the cache. A mark on less than the model caches at
     least would do nothing: there is none.
  2. A model thinks as it can: newer models as they see fit, older ones within a budget, others not at all. A series of
     tool calls that began without thinking continues without: the API refuses it otherwise.
  3. The messages themselves are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unspool.client.config import ChatSettings
from unspool.client.events import FeatureDisabled
from unspool.client.session.transcript import THINKING_TYPES, drop_thinking
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed
from unspool.prices import estimate_request_tokens

INTERLEAVED = "interleaved-thinking-2025-05-14"
EFFORT = "effort-2025-11-24"
MIN_THINKING_BUDGET = 1024
"""The API refuses a smaller budget."""
_CACHE_MARK: Json = {"type": "ephemeral"}
# The smallest prefix that a model caches, by the documentation of the API; 1,024 tokens for all others.
_CACHES_FROM_4096 = re.compile(r"opus-4-[5-9]|haiku-4-5")
_CACHES_FROM_2048 = re.compile(r"claude-3(-5)?-haiku|sonnet-4-6")
_NO_THINKING = re.compile(r"claude-(instant|2|3-(opus|sonnet|haiku|5))")
_BUDGETED_THINKING = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|-latest|\[1m\])?$|4-(opus|sonnet))")
_NAMES_IN_REFUSALS = {
    "betas": ("anthropic-beta", "beta header", "betas", "-2025-"),
    "caching": ("cache_control", "prompt caching", "prompt_caching"),
    "effort": ("output_config", "effort"),
    # Before "thinking": a refused signature names both, and only the signatures have to go.
    "signatures": ("signature",),
    "thinking": ("thinking", "budget_tokens"),
    "streaming": ("streaming", "stream is", "stream must", "stream:", "`stream`", "'stream'", '"stream"'),
    "system_blocks": ("system: input should be a valid string", "system must be a string"),
    "tools": ("tools are not supported", "does not support tools", "tool use is not supported"),
}
"""What a refusal names, by feature; the first that fits counts."""
_EFFECTS = {
    "effort": "the model chooses its effort",
    "caching": "prompt caching is off",
    "signatures": "earlier thinking is not sent",
    "thinking": "thinking is off",
    "betas": "no beta features",
    "system_blocks": "the system prompt is sent as one string",
    "streaming": "answers come whole",
    "tools": "the model has no tools",
}


class EndpointFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """The features that an endpoint has not refused so far."""

    caching: bool = True
    effort: bool = True
    signatures: bool = True
    thinking: bool = True
    betas: bool = True
    streaming: bool = True
    system_blocks: bool = True
    tools: bool = True


class EndpointKnowledge:
    """What was learned of an endpoint; a session and its subagents share it."""

    def __init__(self) -> None:
        self.features = EndpointFeatures()

    def learn_refusal(self, failed: ApiFailed) -> FeatureDisabled | None:
        """Disable the feature that a refusal names; None if it names none that is on."""
        if failed.status not in (400, 404, 422, 501):
            return None
        message = failed.message.lower()
        for name, words in _NAMES_IN_REFUSALS.items():
            if getattr(self.features, name) and any(word in message for word in words):
                self.features = msgspec.structs.replace(self.features, **{name: False})
                return FeatureDisabled(what=f"{name}: {_EFFECTS[name]}", why=failed.message)
        return None


def build_request(
    settings: ChatSettings,
    features: EndpointFeatures,
    system: Sequence[Json],
    tools: Sequence[Json],
    messages: Sequence[Json],
) -> tuple[Json, tuple[str, ...]]:
    """Return the body of a request, and the betas to ask for."""
    sent = [*messages] if features.signatures else drop_thinking(messages)
    marks = _find_marks(settings.model, system, tools if features.tools else ()) if features.caching else _NO_MARKS
    body: Json = {"model": settings.model.removesuffix("[1m]"), "max_tokens": settings.answer_tokens}
    if system:
        body["system"] = _system(system, features, is_marked=marks.system)
    if tools and features.tools:
        body["tools"] = _mark_last(tools) if marks.tools else [*tools]
    body["messages"] = _mark_user_messages(sent, marks.missing) if features.caching else sent
    thinking = _thinking(settings, sent) if features.thinking else None
    if thinking is not None:
        body["thinking"] = thinking
    if not features.streaming:
        body["stream"] = False
    if settings.effort is not None and features.effort:
        body["output_config"] = {"effort": settings.effort}
    # An endpoint that does not know a beta refuses the request: none is sent that the request does not need.
    betas = []
    if features.betas and thinking is not None and thinking["type"] == "enabled":
        betas.append(INTERLEAVED)
    if features.betas and settings.model.endswith("[1m]"):
        betas.append("context-1m-2025-08-07")
    if features.betas and "output_config" in body:
        betas.append(EFFORT)
    if features.betas:
        betas += [beta for beta in settings.betas if beta not in betas]
    return body, tuple(betas)


class _CacheMarks(NamedTuple):
    """What can be cached of a request, before its messages."""

    tools: bool
    system: bool
    missing: int
    """How many tokens of messages are missing until a mark on them does something."""


_NO_MARKS = _CacheMarks(tools=False, system=False, missing=0)


def _find_marks(model: str, system: Sequence[Json], tools: Sequence[Json]) -> _CacheMarks:
    least = 1024
    if _CACHES_FROM_4096.search(model):
        least = 4096
    elif _CACHES_FROM_2048.search(model):
        least = 2048
    of_tools = estimate_request_tokens({"tools": tools})
    of_both = of_tools + estimate_request_tokens({"system": system})
    return _CacheMarks(tools=of_tools >= least, system=of_both >= least, missing=max(0, least - of_both))


def _system(system: Sequence[Json], features: EndpointFeatures, *, is_marked: bool) -> str | list[Json]:
    if not features.system_blocks:
        return "\n\n".join(str(block.get("text", "")) for block in system)
    return _mark_last(system) if is_marked else [*system]


def _mark_last(items: Sequence[Json]) -> list[Json]:
    return [*items[:-1], {**items[-1], "cache_control": _CACHE_MARK}]


def _mark_user_messages(messages: list[Json], missing: int) -> list[Json]:
    """Put a cache mark on the last blocks of the last two user messages, unless they are too short to be cached."""
    if missing and estimate_request_tokens({"messages": messages}) < missing:
        return messages
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    for at in users[-2:]:
        messages[at] = {**messages[at], "content": _mark_last(messages[at]["content"])}
    return messages


def _thinking(settings: ChatSettings, messages: Sequence[Json]) -> Json | None:
    budget, model = settings.thinking, settings.model
    if budget == 0 or _NO_THINKING.match(model):
        return None
    if budget is None and (not model.startswith("claude-") or model.startswith("claude-3-7")):
        return None  # of 3.7, Claude Code 2.1.325 asks for no thinking
    if budget is None and not _BUDGETED_THINKING.match(model):
        return {"type": "adaptive"}
    if _began_without_thinking(messages):
        return None
    allowed = min(budget if budget is not None else 31_999, settings.answer_tokens - 1)
    return {"type": "enabled", "budget_tokens": allowed} if allowed >= MIN_THINKING_BUDGET else None


def _began_without_thinking(messages: Sequence[Json]) -> bool:
    """Tell whether the tool calls at the end belong to a series that was begun without thinking."""
    first: Json | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message
        elif not any(block.get("type") == "tool_result" for block in message["content"]):
            break
    # The API wants the series to begin with thinking if thinking is on.
    return first is not None and first["content"][0].get("type") not in THINKING_TYPES
