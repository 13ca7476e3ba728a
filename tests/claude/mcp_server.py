"""A small MCP server on stdin and stdout, with a tool for each kind of result; the tests start it as a script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RESOURCE = {"uri": "note://milk", "mimeType": "text/plain", "text": "Remember the milk."}
LINK = {
    "type": "resource_link",
    "uri": "note://milk",
    "name": "milk",
    "description": "a note",
    "mimeType": "text/plain",
}
RESULTS: dict[str, dict[str, Any]] = {
    "draw": {
        "content": [
            {"type": "text", "text": "A drawing."},
            {"type": "image", "data": DOT, "mimeType": "image/png"},
            {"type": "text", "text": "It is small."},
        ]
    },
    "describe": {"content": [{"type": "resource", "resource": RESOURCE}, LINK]},
    "measure": {"content": [{"type": "text", "text": '{"width": 1}'}], "structuredContent": {"width": 1}},
    "refuse": {"content": [{"type": "text", "text": "No drawing today."}], "isError": True},
    "nothing": {"content": []},
    "grow": {"content": [{"type": "text", "text": "There is one more now."}]},
    "grown": {"content": [{"type": "text", "text": "I have grown."}]},
}
GROWN = Path("grown")
"""Tells, in the folder where it is started, that the tool `grow` was called: then there is one more."""
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params.get("protocolVersion", "2024-11-05"),
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "things", "version": "1"},
                "instructions": "Draw small things.",
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"what": {"type": "string"}}}
            names = [name for name in RESULTS if name != GROWN.name or GROWN.exists()]
            # Claude Code 2.1.325 sends a tool that is always loaded, and comes late, in a block `tool_addition`.
            meta = {name: {"_meta": {"anthropic/alwaysLoad": True}} for name in [GROWN.name]}
            return {
                "tools": [
                    {"name": name, "description": f"{name} it", "inputSchema": schema, **meta.get(name, {})}
                    for name in names
                ]
            }
        case "tools/call":
            return RESULTS[params["name"]]
        case _:
            return {}


def serve() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            params = request.get("params") or {}
            if params.get("name") == "grow":
                GROWN.touch()
                print(json.dumps(CHANGED), flush=True)
            result = answer(request["method"], params)
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    serve()
