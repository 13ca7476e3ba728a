"""A server that breaks the rules in the way that its first argument names; tests start it as a script."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

WAY = sys.argv[1]
SCHEMA = {"type": "object", "properties": {}}
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\u202e"


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"type": "object", "properties": {"a": value}}
    return value


def tools() -> list[Any]:
    if WAY == "schemas":
        return [
            {"name": "top", "inputSchema": {"type": "object", "anyOf": [{"required": ["a"]}]}},
            {"name": "unknown", "inputSchema": {"type": "object", "properties": {"a": {"type": "strng"}}}},
            {"name": "keys", "inputSchema": {"type": "object", "properties": {"a b": {"type": "string"}}}},
            {"name": "deep", "inputSchema": deep(60)},
            {"name": "large", "inputSchema": {"type": "object", "description": "x" * 100_000}},
            {"name": "x" * 300, "inputSchema": SCHEMA},
            {"name": "same", "inputSchema": SCHEMA},
            {"name": "same", "inputSchema": SCHEMA},
        ]
    if WAY == "list":
        return [{"name": 5, "inputSchema": "none"}]
    return [{"name": "call", "description": ESCAPES + " a call " + "long " * 2000, "inputSchema": SCHEMA}]


def call() -> Any:
    match WAY:
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            time.sleep(3600)
        case "escapes":
            return {"content": [{"type": "text", "text": ESCAPES}]}
        case "huge":
            return {"content": [{"type": "text", "text": "word " * 400_000}]}
        case "endless":
            while True:
                sys.stdout.write("x" * 1_000_000)
        case "floods":
            while True:
                say(method="notifications/message", params={"level": "info", "data": "x"})
        case "chatters":
            while True:
                sys.stdout.write("not a message\n")
        case "odd":
            return {"content": [{"type": "text", "text": 5}], "structuredContent": "no object", "isError": "yes"}
        case "image":
            return {"content": [{"type": "image", "data": "!!!!", "mimeType": "image/png"}]}
        case "changes":
            for _ in range(500):
                say(method="notifications/tools/list_changed")
            return {"content": [{"type": "text", "text": "changed"}]}
        case _:
            pass
    return {"content": [{"type": "text", "text": "done"}]}


def main() -> None:
    if WAY == "refuses":
        sys.stderr.write("no such key \x1b[31m\n")
        sys.exit(7)
    if WAY == "late":
        Path(sys.argv[2]).read_text()  # a named pipe: until somebody opens the other end
    if WAY == "sleeps":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        match request.get("method"):
            case "initialize":
                result: Any = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
            case "tools/list":
                result = {"tools": tools(), **({"nextCursor": str(time.time())} if WAY == "pages" else {})}
            case "tools/call":
                result = call()
            case _:
                result = {}
        say(id=request["id"], result=result)


if __name__ == "__main__":
    main()
