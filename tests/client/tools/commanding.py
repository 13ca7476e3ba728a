"""A context in a folder of the test's own, and calls made at it as the loop makes them: through the runner."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext, Workspace
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.registry import run_tool

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SHELL": "/bin/bash", "LANG": "C.UTF-8"}


def context(folder: Path, **environment: str) -> ToolContext:
    root = folder / "work"
    root.mkdir(exist_ok=True)
    config = folder / "config"
    place = Workspace(config, config / "projects" / "-work", "0b3c2f7e-0000-4000-8000-000000000001", root.resolve())
    return ToolContext(place, {**ENVIRONMENT, **environment})


async def made(tool: Tool, at: ToolContext, call_id: str = "toolu_1", **input: Any) -> ToolOutcome:
    return await run_tool(tool, input, at, call_id)


def call(tool: Tool, at: ToolContext, **input: Any) -> ToolOutcome:
    """Make one call, and close the conversation."""

    async def whole() -> ToolOutcome:
        try:
            return await made(tool, at, **input)
        finally:
            await at.tasks.stop()

    return asyncio.run(whole())


def said(outcome: ToolOutcome) -> str:
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
