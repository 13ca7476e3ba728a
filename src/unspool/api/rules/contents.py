"""Messages and their blocks, one at a time: fields, types, roles, text that is there.

Rules
  1. What depends on more than one message (pairs, thinking, order) is not looked at here.
  2. Of blocks that every version of the API has, unknown fields are refused, as the API does. With a beta, fields and
     types may be new: those are let through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unspool.api.rules import media
from unspool.api.rules.problem import Json, Problem, at, blocks, extras, is_block, tags, text_of

SERVER_RESULTS = (
    "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result", "tool_search_tool_result", "advisor_tool_result",
)  # fmt: skip
OF_ASSISTANT = (
    "tool_use", "thinking", "redacted_thinking", "server_tool_use", *SERVER_RESULTS, "mcp_tool_use", "mcp_tool_result",
    "compaction", "fallback",
)  # fmt: skip
OF_USER = ("tool_result", "image", "document", "search_result", "container_upload")
ANYBODYS = ("text",)
FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
}
IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def messages(body: Json, *, beta: bool) -> Iterator[Problem]:
    """Check all messages, each by itself."""
    given = body.get("messages")
    if not isinstance(given, list):
        yield at("messages", "Field required" if given is None else "Input should be a valid array")
        return
    if not given:
        yield at("messages", "at least one message is required")
    many = sum(_pictures(message) for message in given) > media.MANY
    for number, message in enumerate(given):
        path = f"messages.{number}"
        if not isinstance(message, dict):
            yield at(path, "Input should be a valid dictionary or object")
            continue
        yield from _message(message, path, beta=beta)
        for place, block in blocks(message.get("content")):
            inside = f"{path}.content.{place}"
            yield from _placed(block, path, message.get("role"), beta=beta)
            yield from fields(block, inside, beta=beta)
            yield from _media(block, inside, many=many)


def fields(block: Json, path: str, *, beta: bool) -> Iterator[Problem]:
    """Check the fields of one block."""
    kind = str(block["type"])
    path = f"{path}.{kind}"
    if not beta and kind in FIELDS:
        yield from extras(block, path, FIELDS[kind])
    match kind:
        case "text":
            yield from text_of(block, path, "text")
        case "thinking":
            yield from text_of(block, path, "thinking")
            yield from text_of(block, path, "signature")
        case "redacted_thinking":
            yield from text_of(block, path, "data")
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            yield from _call(block, path)
        case "tool_result":
            yield from _id(block, path, "tool_use_id")
            yield from _result(block, path, beta=beta)
        case "mcp_tool_result":
            yield from _id(block, path, "tool_use_id")
        case _ if kind in SERVER_RESULTS:
            yield from _id(block, path, "tool_use_id")
            if "content" not in block:
                yield at(f"{path}.content", "Field required")
        case _:
            pass


def _message(message: Json, path: str, *, beta: bool) -> Iterator[Problem]:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        yield at(f"{path}.role", "Field required" if role is None else "Input should be 'user' or 'assistant'")
    if not beta and role != "system":  # what a system message may set beside its text changes from beta to beta
        yield from extras(message, path, {"role", "content"})
    if not isinstance(content, str | list):
        yield at(f"{path}.content", "Field required" if content is None else "Input should be a valid array")
    elif isinstance(content, list):
        for number, block in enumerate(content):
            if not isinstance(block, dict):
                yield at(f"{path}.content.{number}", "Input should be a valid dictionary or object")
            elif not is_block(block):
                yield at(f"{path}.content.{number}.type", "Field required")


def _placed(block: Json, path: str, role: object, *, beta: bool) -> Iterator[Problem]:
    kind = block["type"]
    if kind in OF_ASSISTANT:
        if role != "assistant":
            yield at(path, f"`{kind}` blocks can only be in `assistant` messages")
    elif kind in OF_USER:
        if role != "user":
            yield at(path, f"`{kind}` blocks can only be in `user` messages")
    elif kind not in ANYBODYS and not beta:
        known = tags(sorted((*ANYBODYS, *OF_USER, *OF_ASSISTANT)))
        yield at(path, f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}")


def _call(block: Json, path: str) -> Iterator[Problem]:
    yield from _id(block, path, "id")
    yield from text_of(block, path, "name")
    if block.get("name") == "":
        yield at(f"{path}.name", "String should have at least 1 character")
    if not isinstance(block.get("input"), dict):
        yield at(f"{path}.input", "Input should be a valid dictionary" if "input" in block else "Field required")


def _id(block: Json, path: str, key: str) -> Iterator[Problem]:
    yield from text_of(block, path, key)
    if isinstance(block.get(key), str) and not _ID.fullmatch(block[key]):
        yield at(f"{path}.{key}", f"String should match pattern '^{_ID.pattern}$'")


def _result(block: Json, path: str, *, beta: bool) -> Iterator[Problem]:
    content = block.get("content", "")
    if not isinstance(content, str | list):
        yield at(f"{path}.content", "Input should be a valid string or array")
        return
    if not isinstance(block.get("is_error", False), bool):
        yield at(f"{path}.is_error", "Input should be a valid boolean")
    if block.get("is_error") is True and not content:
        yield at(path, "content cannot be empty if `is_error` is true")
    for number, inner in enumerate(content if isinstance(content, list) else ()):
        inside = f"{path}.content.{number}"
        if not is_block(inner):
            yield at(inside, "Input should be a valid dictionary or object with a type")
        elif inner["type"] in IN_RESULTS:
            yield from fields(inner, inside, beta=beta)
        elif not beta:
            words = f"Input tag '{inner['type']}' found using 'type' does not match any of the expected tags"
            yield at(inside, f"{words}: {tags(IN_RESULTS)}")


def _media(block: Json, path: str, *, many: bool) -> Iterator[Problem]:
    match block:
        case {"type": "image"}:
            yield from media.image(block, path, many=many)
        case {"type": "document"}:
            yield from media.document(block, path)
        case {"type": "tool_result", "content": list() as content}:
            for number, inner in blocks(content):
                yield from _media(inner, f"{path}.tool_result.content.{number}", many=many)
        case _:
            pass


def _pictures(message: object) -> int:
    """Count the pictures of a message, those in tool results too."""
    if not isinstance(message, dict):
        return 0
    found = blocks(message.get("content"))
    inside = [inner for _, block in found if block["type"] == "tool_result" for inner in blocks(block.get("content"))]
    return sum(block["type"] == "image" for _, block in (*found, *inside))
