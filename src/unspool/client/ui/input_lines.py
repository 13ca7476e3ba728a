"""Lines of a descriptor as they come: a number in, bytes out, without Python's own buffer in between.

A thread that waits in `sys.stdin` holds its lock, and an interpreter that ends meanwhile breaks off over it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress

PIECE = 1 << 16


async def lines_of(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Yield lines, without their ends, until there are no more; the last one may have had none."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # nobody listens any more
            while piece := _piece(descriptor):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            loop.call_soon_threadsafe(pieces.put_nowait, b"")

    threading.Thread(target=read, daemon=True).start()
    parts: list[bytes] = []
    while piece := await pieces.get():
        first, *rest = piece.split(b"\n")
        parts.append(first)
        for line in rest:
            yield b"".join(parts)
            parts = [line]
    if any(parts):
        yield b"".join(parts)


def _piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE)
    except OSError:  # a terminal that has gone
        return b""
