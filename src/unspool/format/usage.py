"""What the API says that a response used. Apart from `message.py`: who only adds up needs no blocks."""

from typing import Any

from unspool.format.shape import Shape


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
