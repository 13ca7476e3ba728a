"""The messages between a process and its SQL engine, and how they are framed on a pipe.

A frame is one byte (`m`: a message as MessagePack, `d`: a piece of the rows), the length in eight bytes, and the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TypeAlias, TypeVar

import msgspec

OBJECTS, ROWS, ARROW = "objects", "rows", "arrow"
"""Forms of a result: lines of JSON objects, lines of JSON lists, an Arrow stream."""
FRAME_HEADER = 9
"""Bytes of a frame before its data."""


class StartEngine(msgspec.Struct, frozen=True):
    """The first message to the engine: what it sets up, and its limits."""

    statements: list[str]
    files: list[str]
    """All files that it may read."""
    folder: str
    """The folder of these files."""
    memory: int
    """Bytes of address space."""
    threads: int
    life: int
    """A descriptor of a pipe that closes when the process that started the engine ends."""
    tables_only: bool = False
    """Whether queries may name tables alone, and not the files that these are made of."""


class QueryRequest(msgspec.Struct, frozen=True):
    """A query, and the form of its result."""

    query: str
    form: str


class ResultHeader(msgspec.Struct, frozen=True, tag=True):
    """The columns of a result."""

    names: list[str]
    types: list[str]


class ResultEnd(msgspec.Struct, frozen=True, tag=True):
    """The end of a result."""

    rows: int


class QueryFailed(msgspec.Struct, frozen=True, tag=True):
    """Why there is no result."""

    kind: str
    """wrong, refused or broken."""
    message: str


class EngineReady(msgspec.Struct, frozen=True, tag=True):
    """The engine has set up its tables and takes queries."""


EngineMessage: TypeAlias = ResultHeader | ResultEnd | QueryFailed | EngineReady
EngineOutput: TypeAlias = EngineMessage | bytes
"""A message, or a piece of the rows."""

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
decode_message: Callable[[bytes], EngineMessage] = msgspec.msgpack.Decoder(EngineMessage).decode


def send(pipe: IO[bytes], message: EngineOutput | StartEngine | QueryRequest) -> None:
    """Write a frame to a pipe."""
    data, mark = (message, b"d") if isinstance(message, bytes) else (_encode(message), b"m")
    view = memoryview(mark + len(data).to_bytes(FRAME_HEADER - 1, "little") + data)
    while view:  # an unbuffered pipe may take a part of it only
        view = view[pipe.write(view) or 0 :]
    pipe.flush()


def receive(pipe: IO[bytes], kind: type[T]) -> T | None:
    """Read a message of a type from a pipe; null if the other side has closed it."""
    header = pipe.read(FRAME_HEADER)
    if len(header) < FRAME_HEADER:
        return None
    return msgspec.msgpack.decode(pipe.read(int.from_bytes(header[1:], "little")), type=kind)
