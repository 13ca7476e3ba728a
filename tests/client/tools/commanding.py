"""A desk in a folder of the test's own, and calls made at it as the loop makes them: through the runner."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unspool.client.tool_context import Desk, Place
from unspool.client.tools.base import Outcome, Tool
from unspool.client.tools.registry import run

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SHELL": "/bin/bash", "LANG": "C.UTF-8"}


def desk(folder: Path, **environment: str) -> Desk:
    root = folder / "work"
    root.mkdir(exist_ok=True)
    config = folder / "config"
    place = Place(config, config / "projects" / "-work", "0b3c2f7e-0000-4000-8000-000000000001", root.resolve())
    return Desk(place, {**ENVIRONMENT, **environment})


async def made(tool: Tool, at: Desk, call_id: str = "toolu_1", **input: Any) -> Outcome:
    return await run(tool, input, at, call_id)


def call(tool: Tool, at: Desk, **input: Any) -> Outcome:
    """Make one call, and close the conversation."""

    async def whole() -> Outcome:
        try:
            return await made(tool, at, **input)
        finally:
            await at.tasks.stop()

    return asyncio.run(whole())


def said(outcome: Outcome) -> str:
    assert isinstance(outcome.content, str)
    return outcome.content


def is_running(process: int) -> bool:
    """Tell whether a process is there, and not just waiting to be forgotten."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state not in "ZX"


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.01)
