"""Defines what the API refuses in a request, and the small checks that the rules are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeGuard

Json: TypeAlias = dict[str, Any]
NOT_AN_OBJECT = "Input should be a valid dictionary or object"
NOT_A_STRING = "Input should be a valid string"
NOT_AN_ARRAY = "Input should be a valid array"


class Problem(NamedTuple):
    """One thing that the API refuses, in its own words."""

    message: str
    """With its place in front, as the API has it."""
    path: str = ""
    """Where it is: `messages.1.content.0`; empty if it is nowhere in particular."""
    type: str = "invalid_request_error"


class RequestBlock(NamedTuple):
    """A block that has a type, and its place in the request."""

    message: int
    number: int
    block: Json
    type: str
    """The type of the block; a field of its own, because every rule asks for it."""

    @property
    def path(self) -> str:
        """The place of the block, as the API names it."""
        return f"messages.{self.message}.content.{self.number}"


def refuse(path: str, words: str) -> Problem:
    """Return a problem with its place in front."""
    return Problem(f"{path}: {words}" if path else words, path)


def refuse_value(path: str, value: object, words: str) -> Problem:
    """Return a problem with a value: that it is missing, or what it should be."""
    return refuse(path, "Field required" if value is None else words)


def refuse_tag(path: str, tag: str, known: Iterable[str]) -> Problem:
    """Return a problem with a type that the API does not know."""
    words = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {quote_names(known)}"
    return refuse(path, words)


def numbered_blocks(content: object) -> list[tuple[int, Json]]:
    """Return the blocks of a content that have a type, with their numbers; a string is one text."""
    if isinstance(content, str):
        return [(0, {"type": "text", "text": content})]
    if not isinstance(content, list):
        return []
    # `is_block`, written out: each rule lists the blocks, and a request has thousands.
    return [
        (number, block)
        for number, block in enumerate(content)
        if isinstance(block, dict) and isinstance(block.get("type"), str)
    ]


def is_block(value: object) -> TypeGuard[Json]:
    """Return whether a value is an object with a type."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def check_string(value: Mapping[str, Any], path: str, key: str, *, required: bool = True) -> Iterator[Problem]:
    """Check that a field is a string."""
    if key not in value:
        if required:
            yield refuse(f"{path}.{key}".lstrip("."), "Field required")
    elif not isinstance(value[key], str):
        yield refuse(f"{path}.{key}".lstrip("."), NOT_A_STRING)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; in JSON `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_extra_fields(value: Mapping[str, Any], path: str, known: Collection[str]) -> Iterator[Problem]:
    """Check that there are no other fields: what a client notes in its own records must not be sent."""
    for key in value:
        if key not in known:
            yield refuse(f"{path}.{key}".lstrip("."), "Extra inputs are not permitted")


def quote_names(names: Iterable[str]) -> str:
    """Return names as the API lists them."""
    return ", ".join(f"'{name}'" for name in names)
