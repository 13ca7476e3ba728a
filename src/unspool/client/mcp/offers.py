"""What an MCP server offers: its tools, prompts and resources, as far as they can be used.

Rules
  1. What a server says of a tool becomes part of every request, so it must not be able to make the API refuse one:
     names, schemas and sizes that the API would refuse are left out or replaced by what is accepted, and that is said.
  2. Texts are bounded, and without control characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from unspool.client.mcp.server_config import ServerConfig
from unspool.client.tool import normalize_name
from unspool.client.tool_result import Json
from unspool.display import clean, clean_line

MAX_LISTED = 2_000
"""Tools, prompts or resources of one server."""
MAX_DESCRIPTION = 2_048
"""Characters of a description, as in Claude Code."""
_MAX_NAME = 128
_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_DEPTH = 40
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "$schema")
"""The API refuses the first three at the top of a schema."""
_OPEN_SCHEMA: Json = {"type": "object", "properties": {}}


class ToolDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a server describes it."""

    name: str
    """As the model calls it: `mcp__server__tool`."""
    own_name: str
    """As the server calls it."""
    description: str
    input_schema: Json
    reads_only: bool = False
    """Whether the server says that it changes nothing."""
    always_loaded: bool = False
    """Whether the server asks that it is not deferred."""


class PromptDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server: a slash command."""

    name: str
    """As it is typed, without the slash: `mcp__server__prompt`."""
    own_name: str
    description: str
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class ResourceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a server."""

    uri: str
    name: str
    description: str = ""
    media_type: str | None = None


class ServerOffers(msgspec.Struct, frozen=True, kw_only=True):
    """All that a server offers."""

    tools: tuple[ToolDescription, ...] = ()
    prompts: tuple[PromptDescription, ...] = ()
    resources: tuple[ResourceDescription, ...] = ()
    has_resources: bool = False
    """Whether it has resources at all: they may come later."""
    instructions: str = ""
    version: dict[str, str] = {}
    problems: tuple[str, ...] = ()


def parse_tools(server: ServerConfig, tools: Sequence[Json]) -> tuple[tuple[ToolDescription, ...], tuple[str, ...]]:
    """Return the tools of a server that can be offered, and what is wrong with the others."""
    found: dict[str, ToolDescription] = {}
    problems: list[str] = []
    for tool in tools:
        own_name = str(tool.get("name") or "")
        name = f"mcp__{server.key}__{normalize_name(own_name)}"
        shown = clean_line(own_name)[:80]
        if not own_name or len(name) > _MAX_NAME or name in found:
            why = "is there twice" if name in found else "has no name that the API accepts"
            problems.append(f"MCP server `{server.name}`: the tool `{shown}` {why}: it is not used")
            continue
        schema, problem = sanitize_schema(tool.get("inputSchema"))
        if problem:
            problems.append(f"MCP server `{server.name}`: the schema of `{shown}` is replaced: {problem}")
        hints, meta = tool.get("annotations"), tool.get("_meta")
        found[name] = ToolDescription(
            name=name,
            own_name=own_name,
            description=_bounded(tool.get("description") or ""),
            input_schema=schema,
            reads_only=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
            always_loaded=isinstance(meta, dict) and meta.get("anthropic/alwaysLoad") is True,
        )
    return tuple(found.values()), tuple(problems)


def parse_prompts(server: ServerConfig, prompts: Sequence[Json]) -> tuple[PromptDescription, ...]:
    """Return the prompts of a server."""
    found: dict[str, PromptDescription] = {}
    for prompt in prompts:
        own_name = str(prompt.get("name") or "")
        name = f"mcp__{server.key}__{normalize_name(own_name)}"
        given = prompt.get("arguments")
        arguments = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        if own_name and len(name) <= _MAX_NAME:
            found.setdefault(
                name,
                PromptDescription(
                    name=name,
                    own_name=own_name,
                    description=clean_line(_bounded(prompt.get("description") or ""))[:200],
                    arguments=tuple(str(item.get("name")) for item in arguments),
                    required=tuple(str(item.get("name")) for item in arguments if item.get("required") is True),
                ),
            )
    return tuple(found.values())


def parse_resources(resources: Sequence[Json]) -> tuple[ResourceDescription, ...]:
    """Return the resources of a server."""
    return tuple(
        ResourceDescription(
            uri=str(resource["uri"]),
            name=clean_line(str(resource.get("name") or resource["uri"]))[:200],
            description=_bounded(resource.get("description") or ""),
            media_type=resource.get("mimeType") if isinstance(resource.get("mimeType"), str) else None,
        )
        for resource in resources
        if resource.get("uri")
    )


def sanitize_schema(schema: Any) -> tuple[Json, str]:
    """Return a schema that the API accepts, and why it is not the given one; empty if it is."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return _OPEN_SCHEMA, "it does not describe an object"
    made = {**{key: value for key, value in schema.items() if key not in _NOT_AT_TOP}, "type": "object"}
    try:
        size = len(msgspec.json.encode(made))
    except (UnicodeEncodeError, RecursionError):
        return _OPEN_SCHEMA, "it cannot be written as JSON"
    if size > _MAX_SCHEMA_BYTES:
        return _OPEN_SCHEMA, f"it has more than {_MAX_SCHEMA_BYTES:,} bytes"
    if _depth(made) > _MAX_DEPTH:
        return _OPEN_SCHEMA, f"it is more than {_MAX_DEPTH} levels deep"
    if not (isinstance(made.setdefault("properties", {}), dict) and all(map(_PROPERTY.fullmatch, made["properties"]))):
        return _OPEN_SCHEMA, "it has names of properties that the API does not accept"
    if not _is_valid(made):
        return _OPEN_SCHEMA, "it is not valid JSON Schema"
    return made, ""


def _is_valid(schema: Json) -> bool:
    # The SDK needs this library too: where there is a server, it is installed.
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def _depth(value: Any) -> int:
    """Return how deep a value is nested; not much more than the bound is looked at."""
    level, depth = [value], 0
    while level and depth <= _MAX_DEPTH:
        level = [
            item
            for part in level
            for item in (part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
            if isinstance(item, dict | list)
        ]
        depth += 1
    return depth


def _bounded(text: object) -> str:
    cleaned = clean(str(text)[: MAX_DESCRIPTION * 2])
    return cleaned if len(cleaned) <= MAX_DESCRIPTION else f"{cleaned[:MAX_DESCRIPTION]}… [truncated]"
