"""Configurations of the servers that tests start, and a run whose script calls their tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
THINGS = {"command": sys.executable, "args": [str(HERE / "things_server.py")]}

MANY = {"command": sys.executable, "args": [str(HERE / "many_tools_server.py")]}


def hostile(way: str, *more: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(HERE / "hostile_server.py"), way, *more]}


def config(**servers: Any) -> str:
    return json.dumps({"mcpServers": servers})


def use(tool: str, /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": tool, "input": input}


def results(objects: list[dict[str, Any]]) -> list[Any]:
    """Return the results of the tool calls in the output of a run."""
    return [
        block["content"]
        for value in objects
        if value["type"] == "user"
        for block in value["message"]["content"]
        if block["type"] == "tool_result"
    ]
