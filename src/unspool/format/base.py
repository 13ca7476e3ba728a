"""What every type of the format is built from: struct bases, the envelope of lines, errors, JSON encoding, token usage.

Loads no types of lines but the unknown one: who only adds up usage needs no more than this.

Rules
  1. Every field has a default: a line that lacks one is still a line. `unspool doctor` reports what should have been
     there.
  2. Unknown fields are ignored here and kept in the bytes; nothing is refused because it is new.
  3. Python names are the file's own names in snake case; where that rule does not give the file's spelling back
     (`toolUseID`), the field carries it as `name=`.
  4. The set of line types is open. A line of a type that is not described is an `Unknown` with the envelope it has.
     Lines outside the conversation graph (titles, modes, queue operations, snapshots) have no uuid and often no
     timestamp.
"""

# No `from __future__ import annotations` in this folder: msgspec would have to evaluate each annotation as text, for
# every type that inherits it, which was a quarter of the time that loading the codec takes.
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, Union

import msgspec
from msgspec import field

Buffer: TypeAlias = bytes | memoryview

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Every exception that a decoder raises for bad data."""


# A struct is part of a tree and never of a cycle, so the garbage collector need not track it (`gc=False`): it would
# walk over every line of a file again and again.
class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of an object whose keys are in snake case, as the Messages API writes them."""


class CamelShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of an object whose keys are in camel case, as Claude Code writes them."""


def join_tagged_types(base: type[msgspec.Struct]) -> Any:
    """Return the union of all types below a base that have a tag of their own: what a decoder can tell apart."""
    return Union[(*_find_tagged_types(base),)]


def _find_tagged_types(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        if struct.__struct_config__.tag != struct.__name__:  # msgspec's default, which bases of several types have
            yield struct
        yield from _find_tagged_types(struct)


def type_name(struct: msgspec.Struct) -> str | None:
    """Return the `type` that a struct is written with; of an unknown one as it was read."""
    tag = type(struct).__struct_config__.tag
    return tag if isinstance(tag, str) else getattr(struct, "type", None)


ABSENT = msgspec.Raw(b"")
"""The value of a `Raw` field that the line does not have."""


_SURROGATE = "[\ud800-\udfff]"


def encode_json(value: object) -> bytes:
    """Encode a value as the compact JSON that JavaScript's `JSON.stringify` writes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON as an escape, not in UTF-8
        return _encode_by_hand(value)


def _encode_by_hand(value: object) -> bytes:
    import re  # here, because almost no value has a lone surrogate

    match value:
        case str():
            clean = re.split(_SURROGATE, value)
            marks = [f"\\u{ord(mark):04x}".encode() for mark in re.findall(_SURROGATE, value)] + [b""]
            pieces = [msgspec.json.encode(piece)[1:-1] + mark for piece, mark in zip(clean, marks, strict=True)]
            return b'"' + b"".join(pieces) + b'"'
        case dict():
            inner = (_encode_by_hand(key) + b":" + _encode_by_hand(item) for key, item in value.items())
            return b"{" + b",".join(inner) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_encode_by_hand, value)) + b"]"
        case _:
            return msgspec.json.encode(value)


class CacheCreation(Shape, frozen=True):
    """Tokens written to the prompt cache, by their time to live."""

    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ServerToolUsage(Shape, frozen=True):
    """Requests to server tools, which the API bills per request."""

    web_search_requests: int = 0
    web_fetch_requests: int = 0


class BilledUsage(Shape, frozen=True):
    """The tokens of one API response that are billed. Every line of the response repeats them."""

    input_tokens: int = 0
    # Up to 2.1.63, without a stop reason, this is a count from early in the stream and far too low.
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None


class OutputDetails(Shape, frozen=True):
    """Breakdown of the output tokens."""

    thinking_tokens: int = 0


class Usage(BilledUsage, frozen=True):
    """Tokens of one API response. Every line of the response repeats it: count it once per `message.id`."""

    output_tokens_details: OutputDetails | None = None
    iterations: tuple[dict[str, Any], ...] | None = None
    fallback_credit: Any = None


MAX_TOKENS: Final = 10**9
"""No request has more tokens. A larger number is damage; SQLite and msgpack refuse one of more than 64 bits."""


def bound_tokens(number: int) -> int:
    """Return a number of tokens that can be added up: not negative, not above `MAX_TOKENS`."""
    return min(max(number, 0), MAX_TOKENS)


def count_prompt_tokens(usage: BilledUsage) -> int:
    """Return how many input tokens a request had, cached or not."""
    return bound_tokens(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)


class Envelope(CamelShape, frozen=True):
    """The fields that a line of any type may have."""

    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    user_type: str | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    team_name: str | None = None
    is_meta: bool | None = None
    forked_from: object = None
    session_kind: str | None = None
    session_id_again: str | None = field(default=None, name="session_id")
    """The session id again, as newer versions write it on some lines."""
    original_line: str | None = None
    """Of a session that was translated from another agent's: the line as that agent wrote it."""
    original_bytes: str | None = None
    """The same in base64, if it is not UTF-8."""


def parse_version(version: str | None) -> tuple[int, ...]:
    """Return the numbers of a version of Claude Code; what is no number is left out, and a line may give any text.

    >>> parse_version("2.1.29")
    (2, 1, 29)
    """
    parts = (version or "").split(".")
    return tuple(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10)


class Record(Envelope, frozen=True, tag_field="type"):
    """Base of a line of a known type; the class says which."""


class Unknown(Envelope, frozen=True):
    """A line of a type that is not described yet: only its envelope is decoded, its bytes hold the rest."""

    type: str | None = None
