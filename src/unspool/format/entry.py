"""Entries: the bytes of a line and what they mean; and what is left of a file besides them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.format.base import Buffer
from unspool.format.records import AnyRecord


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A line: its bytes and what they mean. Bytes outside every entry belong to bad or blank lines."""

    offset: int
    raw: Buffer
    """The bytes, line end included. A view into what was read; `line` is a copy."""
    record: AnyRecord
    flaws: tuple[str, ...] = ()
    """What had to be mended to read it; the bytes are as they were."""

    @property
    def line(self) -> bytes:
        """The bytes, line end included."""
        return bytes(self.raw)

    @property
    def length(self) -> int:
        """How many bytes it takes in the file."""
        return len(self.raw)


class BadLine(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are no JSON object, or too many of them. They are kept by place."""

    offset: int
    length: int
    reason: str


class Blank(msgspec.Struct, frozen=True, gc=False):
    """White space between lines."""

    offset: int
    length: int


Item: TypeAlias = Entry | BadLine | Blank


class Dialect(NamedTuple):
    """What the lines of a kind of file mean."""

    decode: Callable[[Buffer], Any]
    loosen: Callable[[dict[str, Any]], tuple[Any, list[str]]]
    stands_alone: Callable[[Any], bool]
    """Tells a line of its own from an object that was part of one, when only the end of a line is left."""
