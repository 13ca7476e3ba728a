"""What a step demands of the request it answers: both in, what is lacking out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from unspool.testing.play import texts
from unspool.testing.script import Demand, Json, Words

SECRET = ("key", "token", "secret", "auth", "cookie", "password")
"""A header with such a word in its name is never shown."""


def lacking(demand: Demand, body: Json, headers: Mapping[str, str]) -> list[str]:
    """Return what a request should contain and does not; in headers names are lower case."""
    last = _last(body)
    results = [block for message in last for block in _results(message)]
    offered = [tool.get("name") for tool in body.get("tools") or [] if isinstance(tool, dict)]
    whole = _json(body.get("messages"))
    return [
        *_each("text", demand.text, "\n".join(text for message in last for text in texts(message))),
        *_each("tool result", demand.result, "\n".join(_said(block) for block in results)),
        *_errors(demand.is_error, results),
        *_each("system prompt", demand.system, "\n".join(texts({"content": body.get("system")}))),
        *_each("message", demand.anywhere, whole, _json),
        *(f"`{words}` is there and should not be" for words in _list(demand.absent) if _json(words) in whole),
        *(f"no tool `{name}` is offered" for name in _list(demand.tools) if name not in offered),
        *_headers(demand.header, headers),
        *_within("", demand.body, body),
    ]  # fmt: skip


def is_secret(name: str) -> bool:
    """Tell whether a header must not be shown."""
    return any(word in name.lower() for word in SECRET)


def _last(body: Json) -> list[Json]:
    """Return the user's messages since the last answer."""
    found: list[Json] = []
    for message in reversed(body.get("messages") or []):
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            found.insert(0, message)
    return found


def _results(message: Json) -> list[Json]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]


def _said(result: Json) -> str:
    return "\n".join(texts(result))


def _each(what: str, demanded: Words, found: str, form: Any = str) -> Iterator[str]:
    for words in _list(demanded):
        if form(words) not in found:
            yield f"no {what} holds `{words}`"


def _errors(demanded: bool | None, results: list[Json]) -> Iterator[str]:
    if demanded is None:
        return
    if not results:
        yield "there is no tool result"
    for block in results:
        if bool(block.get("is_error")) is not demanded:
            yield f"the result of `{block.get('tool_use_id')}` is {'no' if demanded else 'an'} error"


def _headers(demanded: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[str]:
    for name, words in demanded.items():
        value = headers.get(name.lower())
        if value is None:
            yield f"there is no header `{name}`"
        elif words not in value:
            shown = "what it should not" if is_secret(name) else f"`{value}`"
            yield f"the header `{name}` holds {shown}"


def _within(path: str, demanded: object, found: object) -> Iterator[str]:
    """Yield where a value is not what it should be; objects may have more fields."""
    if isinstance(demanded, dict) and isinstance(found, dict):
        for key, value in demanded.items():
            yield from _within(f"{path}.{key}".lstrip("."), value, found.get(key))
    elif demanded != found:
        yield f"`{path}` is `{_json(found)[:100]}`, not `{_json(demanded)[:100]}`"


def _list(words: Words) -> list[str]:
    return [words] if isinstance(words, str) else [*words]


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text[1:-1] if isinstance(value, str) else text
