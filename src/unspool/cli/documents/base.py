"""What the JSON documents of all commands are built from: the envelope, files that were left out, figures of usage."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Counts: TypeAlias = dict[str, int]
"""Numbers by a name."""


class JsonObject(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object inside a document."""


class SkippedFile(JsonObject):
    """A file or folder that could not be read and is missing in the answer."""

    path: str
    """The file or folder."""
    reason: str
    """Why it was left out."""


class JsonDocument(JsonObject):
    """What a command writes about one thing."""

    schema: str
    """The name and version of this document: `unspool/NAME/1`."""


class JsonListDocument(JsonDocument):
    """What a command writes about many things. Without any, `items` is empty and the exit code is 1."""

    skipped: list[SkippedFile]
    """Files and folders that could not be read and are missing in the answer."""


class UsageNumbers(JsonObject):
    """Responses added up."""

    input_tokens: int
    """Input tokens that were neither read from the cache nor written to it."""
    output_tokens: int
    """Output tokens."""
    cache_write_tokens: int
    """Tokens written to the cache."""
    cache_write_5m_tokens: int
    """Those of them that stay for 5 minutes."""
    cache_write_1h_tokens: int
    """Those of them that stay for an hour."""
    cache_read_tokens: int
    """Tokens read from the cache."""
    responses: int
    """Billed answers of the API, each counted once."""
    estimated_responses: int
    """Responses of which only an early count of the output is known."""
    web_searches: int
    """Web searches that the API made."""
    cost_micros: int | None
    """Cost in millionths of a US dollar; null if no model that was used has a price."""
    unpriced_tokens: int
    """Tokens of models without a price, which are not in the cost."""
    models: list[str]
    """The models that were used, sorted."""
    total_tokens: int
    """Input, output, cache writes and cache reads together."""
    estimated_output_tokens: int
    """Output tokens, with an estimate where only an early count is known."""
    estimated_cost_micros: int | None
    """The cost with that estimate."""
