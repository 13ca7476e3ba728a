"""Checks all of a request besides its messages: model, limits, thinking, system prompt, tools, cache marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from unspool.api.rules.problem import (
    NOT_A_STRING,
    NOT_AN_ARRAY,
    NOT_AN_OBJECT,
    Json,
    Problem,
    check_extra_fields,
    check_string,
    is_block,
    is_integer,
    is_number,
    numbered_blocks,
    quote_names,
    refuse,
    refuse_tag,
    refuse_value,
)

KNOWN_PARAMETERS = {
    "model", "messages", "max_tokens", "system", "metadata", "stop_sequences", "stream", "temperature", "top_k",
    "top_p", "tools", "tool_choice", "thinking", "service_tier", "container", "cache_control", "output_config",
    "inference_geo",
}  # fmt: skip
TOOL_CHOICES = ("auto", "any", "tool", "none")
THINKING_MODES = ("enabled", "disabled", "adaptive")
MIN_THINKING_BUDGET = 1024
MAX_CACHE_MARKS = 4
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_INTERLEAVED = "interleaved-thinking-2025-05-14"
"""With this beta a budget is for several thoughts, and may be larger than one response."""
_BLANK_TEXT = "text content blocks must contain non-whitespace text"


def check_parameters(body: Json, betas: frozenset[str], *, counting: bool) -> Iterator[Problem]:
    """Check everything that is not a message. Counting tokens needs no limit."""
    # A beta may add parameters that are not known here.
    if not betas:
        yield from check_extra_fields(body, "", KNOWN_PARAMETERS)
    yield from check_string(body, "", "model")
    if body.get("model") == "":
        yield refuse("model", "String should have at least 1 character")
    yield from _check_limit(body.get("max_tokens"), required=not counting)
    yield from _check_sampling(body)
    yield from _check_thinking_mode(body, betas)
    yield from _check_system(body.get("system", ""))
    yield from _check_tools(body.get("tools", []))
    yield from _check_tool_choice(body.get("tool_choice"), body.get("tools"))
    yield from _check_cache_marks(body)


def thinking_mode(body: Json) -> str:
    """Return how thinking is switched: enabled, adaptive or disabled."""
    given = body.get("thinking")
    kind = given.get("type") if isinstance(given, dict) else None
    return kind if kind in THINKING_MODES else "disabled"


def _check_limit(limit: object, *, required: bool) -> Iterator[Problem]:
    if limit is None:
        if required:
            yield refuse("max_tokens", "Field required")
    elif not is_integer(limit):
        yield refuse("max_tokens", "Input should be a valid integer")
    elif limit < 1:
        yield refuse("max_tokens", "Input should be greater than or equal to 1")


def _is_fraction(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1


_SAMPLING: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("temperature", _is_fraction, "Input should be a valid number from 0 to 1"),
    ("top_p", _is_fraction, "Input should be a valid number from 0 to 1"),
    (
        "top_k",
        lambda value: is_integer(value) and value >= 0,
        "Input should be a valid integer greater than or equal to 0",
    ),
    ("stream", lambda value: isinstance(value, bool), "Input should be a valid boolean"),
)


def _check_sampling(body: Json) -> Iterator[Problem]:
    for key, is_valid, words in _SAMPLING:
        if key in body and not is_valid(body[key]):
            yield refuse(key, words)
    stops = body.get("stop_sequences", [])
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        yield refuse("stop_sequences", "Input should be a valid array of strings")
    elif not all(stop.strip() for stop in stops):
        yield refuse("stop_sequences", "each stop sequence must contain non-whitespace")
    if not isinstance(body.get("metadata", {}), dict):
        yield refuse("metadata", NOT_AN_OBJECT)


def _check_thinking_mode(body: Json, betas: frozenset[str]) -> Iterator[Problem]:
    given = body.get("thinking")
    if given is None:
        return
    if not is_block(given):
        yield refuse("thinking", f"{NOT_AN_OBJECT} with a type")
        return
    kind = given["type"]
    if kind not in THINKING_MODES:
        yield refuse_tag("thinking", kind, THINKING_MODES)
    if kind == "enabled":
        yield from _check_budget(given.get("budget_tokens"), body.get("max_tokens"), betas)
        if isinstance(choice := body.get("tool_choice"), dict) and choice.get("type") in ("any", "tool"):
            yield refuse("", "Thinking may not be enabled when tool_choice forces tool use.")
    if kind not in ("enabled", "adaptive"):
        return
    while_thinking = "when thinking is enabled or in adaptive mode."
    if body.get("temperature", 1) != 1:
        yield refuse("", f"`temperature` may only be set to 1 {while_thinking}")
    if is_number(top_p := body.get("top_p")) and top_p < 0.95:
        yield refuse("", f"`top_p` must be greater than or equal to 0.95 or unset {while_thinking}")
    if body.get("top_k") is not None:
        yield refuse("", f"`top_k` must be unset {while_thinking}")


def _check_budget(budget: object, limit: object, betas: frozenset[str]) -> Iterator[Problem]:
    path = "thinking.enabled.budget_tokens"
    if not is_integer(budget):
        yield refuse_value(path, budget, "Input should be a valid integer")
    elif budget < MIN_THINKING_BUDGET:
        yield refuse(path, f"Input should be greater than or equal to {MIN_THINKING_BUDGET}")
    elif isinstance(limit, int) and budget >= limit and _INTERLEAVED not in betas:
        yield refuse("", "`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_system(system: object) -> Iterator[Problem]:
    if isinstance(system, str):
        if system and not system.strip():
            yield refuse("system", _BLANK_TEXT)
        return
    if not isinstance(system, list):
        yield refuse("system", "Input should be a valid string or array")
        return
    for number, block in enumerate(system):
        path = f"system.{number}"
        if not is_block(block) or block["type"] != "text":
            yield refuse(f"{path}.type", "Input should be 'text'")
            continue
        yield from check_extra_fields(block, path, {"type", "text", "cache_control", "citations"})
        yield from check_string(block, path, "text")
        text = block.get("text")
        if isinstance(text, str) and not text.strip():
            yield refuse("system", _BLANK_TEXT if text else "text content blocks must be non-empty")


def _check_tools(tools: object) -> Iterator[Problem]:
    if not isinstance(tools, list):
        yield refuse("tools", NOT_AN_ARRAY)
        return
    names = [tool["name"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    if len(set(names)) < len(names):
        yield refuse("tools", "Tool names must be unique.")
    for number, tool in enumerate(tools):
        path = f"tools.{number}"
        if not isinstance(tool, dict):
            yield refuse(path, NOT_AN_OBJECT)
        elif tool.get("type", "custom") in ("custom", None):
            yield from _check_custom_tool(tool, f"{path}.custom")
        elif not isinstance(tool["type"], str):
            yield refuse(f"{path}.type", NOT_A_STRING)
        elif tool["type"] != "mcp_toolset":
            yield from check_string(tool, f"{path}.{tool['type']}", "name")


def _check_custom_tool(tool: Json, path: str) -> Iterator[Problem]:
    yield from check_string(tool, path, "name")
    name = tool.get("name")
    if isinstance(name, str) and not _TOOL_NAME.fullmatch(name):
        yield refuse(f"{path}.name", f"String should match pattern '^{_TOOL_NAME.pattern}$'")
    yield from check_string(tool, path, "description", required=False)
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        yield refuse_value(f"{path}.input_schema", schema, "Input should be a valid dictionary")
    elif schema.get("type") != "object":
        yield refuse(f"{path}.input_schema.type", "Input should be 'object'" if "type" in schema else "Field required")
    elif {"oneOf", "allOf", "anyOf"} & set(schema):
        words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        yield refuse(f"{path}.input_schema", words)


def _check_tool_choice(choice: object, tools: object) -> Iterator[Problem]:
    if choice is None:
        return
    if not is_block(choice) or choice["type"] not in TOOL_CHOICES:
        yield refuse("tool_choice", f"Input should be an object whose type is one of {quote_names(TOOL_CHOICES)}")
    elif not tools:
        yield refuse("", "tool_choice may only be specified while providing tools.")
    elif choice["type"] == "tool" and isinstance(tools, list):
        name = choice.get("name")
        if not isinstance(name, str):
            yield refuse("tool_choice.tool.name", "Field required")
        elif name not in [tool.get("name") for tool in tools if isinstance(tool, dict)]:
            yield refuse("", f"Tool '{name}' not found in provided tools")


def _check_cache_marks(body: Json) -> Iterator[Problem]:
    marks = [
        (path, value["cache_control"]) for path, value in _cacheable(body) if value.get("cache_control") is not None
    ]
    if len(marks) > MAX_CACHE_MARKS:
        words = f"A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
        yield refuse("", words)
    has_short = False
    for path, mark in marks:
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            yield refuse(f"{path}.cache_control.type", "Input should be 'ephemeral'")
            continue
        ttl = mark.get("ttl", "5m")
        if ttl not in ("5m", "1h"):
            yield refuse(f"{path}.cache_control.ttl", "Input should be '5m' or '1h'")
        elif ttl == "5m":
            has_short = True
        elif has_short:
            words = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            order = "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            yield refuse(f"{path}.cache_control.ttl", f"{words}. {order}")


def _cacheable(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield every object that may have a cache mark, in the order in which the API reads a request."""
    tools, messages = body.get("tools"), body.get("messages")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict):
            yield f"tools.{number}", tool
    for number, block in numbered_blocks(body.get("system")):
        yield f"system.{number}", block
    for turn, message in enumerate(messages if isinstance(messages, list) else ()):
        for number, block in numbered_blocks(message.get("content") if isinstance(message, dict) else None):
            path = f"messages.{turn}.content.{number}"
            # Blocks inside a result come before the result itself.
            for inner, within in numbered_blocks(block.get("content")) if block["type"] == "tool_result" else ():
                yield f"{path}.tool_result.content.{inner}", within
            yield f"{path}.{block['type']}", block
    yield "", body
