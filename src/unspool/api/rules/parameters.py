"""What stands beside the messages: model, limits, thinking, system, tools, cache marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unspool.api.rules.problem import Json, Problem, at, blocks, extras, is_block, number, tags, text_of, whole

KNOWN = {
    "model", "messages", "max_tokens", "system", "metadata", "stop_sequences", "stream", "temperature", "top_k",
    "top_p", "tools", "tool_choice", "thinking", "service_tier", "container", "cache_control", "output_config",
    "inference_geo",
}  # fmt: skip
CHOICES = ("auto", "any", "tool", "none")
THINKING = ("enabled", "disabled", "adaptive")
LEAST = 1024
"""The smallest budget for thinking."""
MARKS = 4
"""The most cache marks of a request."""
_TOOL = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_INTERLEAVED = "interleaved-thinking-2025-05-14"
"""With this beta a budget is for several thoughts, and may be larger than one answer."""


def parameters(body: Json, betas: frozenset[str], *, counting: bool) -> Iterator[Problem]:
    """Check all that is not a message. Counting tokens needs no limit."""
    if not betas:
        yield from extras(body, "", KNOWN)
    yield from text_of(body, "", "model")
    if body.get("model") == "":
        yield at("model", "String should have at least 1 character")
    yield from _limit(body, required=not counting)
    yield from _sampling(body)
    yield from _thinking(body, betas)
    yield from _system(body.get("system", ""))
    yield from _tools(body)
    yield from _choice(body)
    yield from _marks(body)


def thinks(body: Json) -> str:
    """Return how thinking is switched: enabled, adaptive or disabled."""
    given = body.get("thinking")
    kind = given.get("type") if isinstance(given, dict) else None
    return kind if kind in THINKING else "disabled"


def _limit(body: Json, *, required: bool) -> Iterator[Problem]:
    limit = body.get("max_tokens")
    if limit is None:
        if required:
            yield at("max_tokens", "Field required")
    elif not whole(limit):
        yield at("max_tokens", "Input should be a valid integer")
    elif limit < 1:
        yield at("max_tokens", "Input should be greater than or equal to 1")


def _sampling(body: Json) -> Iterator[Problem]:
    for key in ("temperature", "top_p"):
        if key in body and not (number(body[key]) and 0 <= body[key] <= 1):
            yield at(key, "Input should be a valid number from 0 to 1")
    if "top_k" in body and not (whole(body["top_k"]) and body["top_k"] >= 0):
        yield at("top_k", "Input should be a valid integer greater than or equal to 0")
    if not isinstance(body.get("stream", False), bool):
        yield at("stream", "Input should be a valid boolean")
    stops = body.get("stop_sequences", [])
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        yield at("stop_sequences", "Input should be a valid array of strings")
    elif not all(stop.strip() for stop in stops):
        yield at("stop_sequences", "each stop sequence must contain non-whitespace")
    if not isinstance(body.get("metadata", {}), dict):
        yield at("metadata", "Input should be a valid dictionary or object")


def _thinking(body: Json, betas: frozenset[str]) -> Iterator[Problem]:
    given = body.get("thinking")
    if given is None:
        return
    if not is_block(given):
        yield at("thinking", "Input should be a valid dictionary or object with a type")
        return
    kind = given["type"]
    if kind not in THINKING:
        words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags(THINKING)}"
        yield at("thinking", words)
    if kind == "enabled":
        yield from _budget(given, body.get("max_tokens"), betas)
        if isinstance(choice := body.get("tool_choice"), dict) and choice.get("type") in ("any", "tool"):
            yield at("", "Thinking may not be enabled when tool_choice forces tool use.")
    if kind in ("enabled", "adaptive"):
        yield from _fixed(body)


def _budget(given: Json, limit: object, betas: frozenset[str]) -> Iterator[Problem]:
    budget = given.get("budget_tokens")
    if budget is None:
        yield at("thinking.enabled.budget_tokens", "Field required")
    elif not isinstance(budget, int) or isinstance(budget, bool):
        yield at("thinking.enabled.budget_tokens", "Input should be a valid integer")
    elif budget < LEAST:
        yield at("thinking.enabled.budget_tokens", f"Input should be greater than or equal to {LEAST}")
    elif isinstance(limit, int) and budget >= limit and _INTERLEAVED not in betas:
        yield at("", "`max_tokens` must be greater than `thinking.budget_tokens`.")


def _fixed(body: Json) -> Iterator[Problem]:
    """What may not be set while a model thinks."""
    if body.get("temperature", 1) != 1:
        yield at("", "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
    if number(body.get("top_p")) and body["top_p"] < 0.95:
        yield at(
            "", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled or in adaptive mode."
        )
    if body.get("top_k") is not None:
        yield at("", "`top_k` must be unset when thinking is enabled or in adaptive mode.")


def _system(system: object) -> Iterator[Problem]:
    if isinstance(system, str):
        if system and not system.strip():
            yield at("system", "text content blocks must contain non-whitespace text")
        return
    if not isinstance(system, list):
        yield at("system", "Input should be a valid string or array")
        return
    for place, block in enumerate(system):
        path = f"system.{place}"
        if not is_block(block) or block["type"] != "text":
            yield at(f"{path}.type", "Input should be 'text'")
            continue
        yield from extras(block, path, {"type", "text", "cache_control", "citations"})
        yield from text_of(block, path, "text")
        text = block.get("text")
        if text == "":
            yield at("system", "text content blocks must be non-empty")
        elif isinstance(text, str) and not text.strip():
            yield at("system", "text content blocks must contain non-whitespace text")


def _tools(body: Json) -> Iterator[Problem]:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        yield at("tools", "Input should be a valid array")
        return
    names = [tool["name"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
    if len(set(names)) < len(names):
        yield at("tools", "Tool names must be unique.")
    for place, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield at(f"tools.{place}", "Input should be a valid dictionary or object")
        elif tool.get("type", "custom") in ("custom", None):
            yield from _tool(tool, f"tools.{place}.custom")
        elif not isinstance(tool["type"], str):
            yield at(f"tools.{place}.type", "Input should be a valid string")
        elif tool["type"] != "mcp_toolset":
            yield from text_of(tool, f"tools.{place}.{tool['type']}", "name")


def _tool(tool: Json, path: str) -> Iterator[Problem]:
    yield from text_of(tool, path, "name")
    name = tool.get("name")
    if isinstance(name, str) and not _TOOL.fullmatch(name):
        yield at(f"{path}.name", f"String should match pattern '^{_TOOL.pattern}$'")
    yield from text_of(tool, path, "description", required=False)
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        yield at(
            f"{path}.input_schema", "Input should be a valid dictionary" if schema is not None else "Field required"
        )
    elif schema.get("type") != "object":
        found = "type" in schema
        yield at(f"{path}.input_schema.type", "Input should be 'object'" if found else "Field required")
    elif {"oneOf", "allOf", "anyOf"} & set(schema):
        words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        yield at(f"{path}.input_schema", words)


def _choice(body: Json) -> Iterator[Problem]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not is_block(choice) or choice["type"] not in CHOICES:
        yield at("tool_choice", f"Input should be an object whose type is one of {tags(CHOICES)}")
        return
    tools = body.get("tools")
    if not tools:
        yield at("", "tool_choice may only be specified while providing tools.")
    elif choice["type"] == "tool" and isinstance(tools, list):
        name = choice.get("name")
        if not isinstance(name, str):
            yield at("tool_choice.tool.name", "Field required")
        elif name not in [tool.get("name") for tool in tools if isinstance(tool, dict)]:
            yield at("", f"Tool '{name}' not found in provided tools")


def _marks(body: Json) -> Iterator[Problem]:
    found = [*_marked(body)]
    if len(found) > MARKS:
        yield at("", f"A maximum of {MARKS} blocks with cache_control may be provided. Found {len(found)}.")
    short = ""
    for path, mark in found:
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            yield at(f"{path}.cache_control.type", "Input should be 'ephemeral'")
            continue
        ttl = mark.get("ttl", "5m")
        if ttl not in ("5m", "1h"):
            yield at(f"{path}.cache_control.ttl", "Input should be '5m' or '1h'")
        elif ttl == "5m":
            short = path
        elif short:
            words = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            yield at(f"{path}.cache_control.ttl", f"{words}. Note that blocks are processed in the following order: "
                     "`tools`, `system`, `messages`.")  # fmt: skip


def _marked(body: Json) -> Iterator[tuple[str, Any]]:
    """Yield every cache mark, in the order in which the API reads a request."""
    tools, system, messages = body.get("tools"), body.get("system"), body.get("messages")
    for place, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from _mark(f"tools.{place}", tool)
    for place, block in blocks(system):
        yield from _mark(f"system.{place}", block)
    for turn, message in enumerate(messages if isinstance(messages, list) else ()):
        for place, block in blocks(message.get("content") if isinstance(message, dict) else None):
            path = f"messages.{turn}.content.{place}"
            for inner, within in blocks(block.get("content")) if block["type"] == "tool_result" else ():
                yield from _mark(f"{path}.tool_result.content.{inner}", within)
            yield from _mark(f"{path}.{block['type']}", block)
    yield from _mark("", body)


def _mark(path: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value.get("cache_control") is not None:
        yield path, value["cache_control"]
