"""What the API says that a response used. Apart from `message.py`: who only adds up needs no blocks.

[merged: shape.py] The two kinds of structs the format is made of, what they are decoded from, and what that raises.

Rules
  1. Every field has a default: a line that lacks one is still a line. What should have been there is
     `unspool doctor`'s business.
  2. Unknown fields are ignored here and kept in the bytes; nothing is refused because it is new.
  3. Python names are the file's own names in snake case; where that rule does not give the file's
     spelling back (`toolUseID`), the field carries it as `name=`.
  4. A struct is part of a tree and never of a cycle, so the garbage collector need not look at it (`gc=False`): it
     would look at every line of a file again and again.
  5. Annotations are types and not text (no `from __future__ import annotations` in this folder): msgspec would have to
     evaluate each, a quarter of the time that loading the codec takes.
"""

from typing import Any, TypeAlias

import msgspec

Buffer: TypeAlias = bytes | memoryview

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All that a decoder raises."""


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object whose keys are written in snake case, as the Messages API does."""


class CamelShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An object whose keys are written in camel case, as Claude Code does."""


ABSENT = msgspec.Raw(b"")
"""What a `Raw` field holds when the line does not have it."""


class CacheCreation(Shape, frozen=True):
    """Tokens written to the prompt cache, by how long they live."""

    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ServerToolUsage(Shape, frozen=True):
    """Requests to tools that the API bills by the piece."""

    web_search_requests: int = 0
    web_fetch_requests: int = 0


class OutputDetails(Shape, frozen=True):
    """What the output tokens were spent on."""

    thinking_tokens: int = 0


class Usage(Shape, frozen=True):
    """Tokens of one API response. Every line of the response repeats it: count it once per `message.id`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUsage | None = None
    output_tokens_details: OutputDetails | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: tuple[dict[str, Any], ...] | None = None
    fallback_credit: Any = None


class BilledUsage(Shape, frozen=True):
    """The part of it that is billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
