"""A server whose tool asks its user what its first argument names, and returns what was answered; tests start it."""

from __future__ import annotations

import json
import sys
from typing import Any

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\u202e"
FIELDS = {
    "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 10},
    "age": {"type": "integer", "minimum": 1, "maximum": 150},
    "size": {"type": "number", "default": 1.5},
    "fresh": {"type": "boolean"},
    "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    "note": {"type": "string"},
}


def form(message: str, properties: Any, required: Any = ()) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"mode": "form", "message": message, "requestedSchema": schema}


QUESTIONS = {
    "fields": form("Who are you?", FIELDS, ["name", "age", "fresh", "colour"]),
    "sure": form("Go on?", {}),
    "password": form("Log in", {"password": {"type": "string"}}, ["password"]),
    "escapes": form(f"{ESCAPES} hello", {"a": {"type": "string", "title": ESCAPES, "description": ESCAPES}}),
    "huge": form("x" * 1_000_000, {f"f{number}": {"type": "string"} for number in range(5_000)}),
    "nested": form("Where?", {"place": {"type": "object", "properties": {}}}),
    "address": {"mode": "url", "message": "Pay", "url": "https://example.org/pay?id=1", "elicitationId": "1"},
    "endless": form("Again?", {}),
}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str, params: Any) -> Any:
    say(id="question", method=method, params=params)
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == "question":
            return answer.get("result", answer.get("error"))
    return sys.exit()


def call(way: str) -> Any:
    if way == "sampling":
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        return ask("sampling/createMessage", {"messages": [message], "maxTokens": 5})
    if way == "roots":
        return ask("roots/list", {})
    answer = ask("elicitation/create", QUESTIONS[way])
    while way == "endless":
        answer = ask("elicitation/create", QUESTIONS[way])
    return answer


def main() -> None:
    offers: Any = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result: Any = {}
        match request.get("method"):
            case "initialize":
                offers = request["params"]["capabilities"]
                version = request["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                result["serverInfo"] = {"name": "asking", "version": "1"}
            case "tools/list":
                result = {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                given = {"offers": sorted(offers), **{way: call(way) for way in sys.argv[1:]}}
                result = {"content": [{"type": "text", "text": json.dumps(given)}]}
            case _:
                pass
        say(id=request["id"], result=result)


if __name__ == "__main__":
    main()
