"""A server with fifty tools whose schemas are long; tests start it as a script."""

from __future__ import annotations

import json
import sys
from typing import Any

LONG = "a " + "long " * 20
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string", "description": LONG + name} for name in ("path", "text", "more")},
}
START = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "many", "version": "1"},
}
TOOLS = [{"name": f"tool_{n}", "description": "Does it. " * 10, "inputSchema": SCHEMA} for n in range(50)]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        result: Any = START
        if request["method"] == "tools/list":
            result = {"tools": TOOLS}
        elif request["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": request["params"]["name"]}]}
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
