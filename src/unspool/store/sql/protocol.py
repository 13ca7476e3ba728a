"""What the engine and whoever asks it say to each other: messages in, bytes on a pipe out, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TypeAlias, TypeVar

import msgspec

OBJECTS, ROWS, ARROW = "objects", "rows", "arrow"
"""Forms of an answer: lines of JSON objects, lines of JSON lists, a stream of Arrow's."""


class Begin(msgspec.Struct, frozen=True):
    """What the engine is to be."""

    statements: list[str]
    files: list[str]
    """All that it may read."""
    folder: str
    """Where they are."""
    memory: int
    """Bytes of address space."""
    threads: int
    life: int
    """A descriptor that is closed when whoever asks has ended."""


class Ask(msgspec.Struct, frozen=True):
    """A question."""

    query: str
    form: str


class Header(msgspec.Struct, frozen=True, tag=True):
    """The columns of an answer."""

    names: list[str]
    types: list[str]


class Done(msgspec.Struct, frozen=True, tag=True):
    """The end of an answer."""

    rows: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Why there is none."""

    kind: str
    """wrong, refused or broken."""
    message: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine can be asked."""


Told: TypeAlias = Header | Done | Failed | Ready
Answer: TypeAlias = Told | bytes
"""A message, or a piece of the rows."""

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Told] = msgspec.msgpack.Decoder(Told).decode


def send(pipe: IO[bytes], answer: Answer | Begin | Ask) -> None:
    """Write a message: what it is, how long it is, and itself."""
    data, mark = (answer, b"d") if isinstance(answer, bytes) else (_encode(answer), b"m")
    view = memoryview(mark + len(data).to_bytes(8, "little") + data)
    while view:
        view = view[pipe.write(view) or 0 :]
    pipe.flush()


def receive(pipe: IO[bytes], kind: type[T]) -> T | None:
    """Read a message of a kind; nothing if nobody says any more."""
    head = pipe.read(9)
    if len(head) < 9:
        return None
    return msgspec.msgpack.decode(pipe.read(int.from_bytes(head[1:], "little")), type=kind)


def told(data: bytes) -> Told:
    """Return what a message says."""
    return _decode(data)
