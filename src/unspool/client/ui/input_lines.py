"""Reads lines from a file descriptor as they come, without Python's own buffer in between.

A thread that waits in `sys.stdin` holds its lock, and an interpreter that exits meanwhile aborts because of it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress

PIECE_BYTES = 1 << 16


async def read_lines(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Yield lines without their line ends until there are no more; the last one need not have an end."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        with suppress(RuntimeError):  # the event loop is closed
            while piece := _read_piece(descriptor):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            loop.call_soon_threadsafe(pieces.put_nowait, b"")

    # A daemon: it must not keep the process alive while it waits for input.
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


def _read_piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:  # the terminal is gone
        return b""
