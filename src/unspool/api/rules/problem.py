"""What is wrong with a request, and the small checks that every rule is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeGuard

Json: TypeAlias = dict[str, Any]


class Problem(NamedTuple):
    """One thing that the API refuses, in its own words."""

    message: str
    """With its place in front, as the API has it."""
    path: str = ""
    """Where it is: `messages.1.content.0`; empty if it is nowhere in particular."""
    type: str = "invalid_request_error"


class Placed(NamedTuple):
    """A block that has a type, and where it stands in the request."""

    message: int
    number: int
    block: Json

    @property
    def type(self) -> str:
        """What the block is."""
        return str(self.block["type"])

    @property
    def path(self) -> str:
        """Where it stands, as the API says it."""
        return f"messages.{self.message}.content.{self.number}"


def at(path: str, words: str) -> Problem:
    """Return a problem with its place in front."""
    return Problem(f"{path}: {words}" if path else words, path)


def blocks(content: object) -> list[tuple[int, Json]]:
    """Return the blocks of a content that have a type, with their numbers; a string is one text."""
    if isinstance(content, str):
        return [(0, {"type": "text", "text": content})]
    if not isinstance(content, list):
        return []
    return [(number, block) for number, block in enumerate(content) if is_block(block)]


def is_block(value: object) -> TypeGuard[Json]:
    """Tell whether a value is an object with a type."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def text_of(value: Mapping[str, Any], path: str, key: str, *, required: bool = True) -> Iterator[Problem]:
    """A field is a string."""
    if key not in value:
        if required:
            yield at(f"{path}.{key}".lstrip("."), "Field required")
    elif not isinstance(value[key], str):
        yield at(f"{path}.{key}".lstrip("."), "Input should be a valid string")


def whole(value: object) -> bool:
    """Tell whether a value is a whole number; in JSON `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> bool:
    """Tell whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def extras(value: Mapping[str, Any], path: str, known: Collection[str]) -> Iterator[Problem]:
    """No fields but these: what a program notes in its own records must not be sent."""
    for key in value:
        if key not in known:
            yield at(f"{path}.{key}".lstrip("."), "Extra inputs are not permitted")


def tags(names: Iterable[str]) -> str:
    """Return names as the API lists them."""
    return ", ".join(f"'{name}'" for name in names)
