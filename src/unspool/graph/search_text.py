"""What can be searched for in a line: a line as plain data in, its passages out. Pure.

Rules
  1. Every text of a line is in one passage: words that people and models wrote, tool inputs and results each by
     themselves, and as the last one, `structured`, all the rest. Left out are ids, names of types and the like, which
     say where a line stands and not what it says; encoded pictures; and signatures.
  2. A passage is known by its number in the line. `structured` comes last, so that the numbers are the same if a reader
     has left out what it would not look at.
  3. Nothing raises: the line is whatever a JSON object can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

Json: TypeAlias = Mapping[str, Any]

KINDS: Final = (
    "prompt", "answer", "thinking", "tool_input", "tool_result", "structured", "overflow", "summary", "title", "queued",
    "todo", "plan", "history",
)  # fmt: skip
"""Where a text can stand. `overflow`, `todo`, `plan` and `history` are files of their own."""


_NOTES: Final = {
    "summary": ("summary", "summary"),
    "task-summary": ("summary", "summary"),
    "custom-title": ("title", "customTitle"),
    "ai-title": ("title", "aiTitle"),
    "agent-name": ("title", "agentName"),
    "tag": ("title", "tag"),
}
"""Lines that are one text: its kind and its key."""

_ALL_SAID: Final = frozenset({"queue-operation", "last-prompt", *_NOTES})
"""Lines that have no other text."""

_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_ENVELOPE: Final = frozenset(
    {"type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "cwd",
     "version", "gitBranch", "userType", "slug", "requestId", "agentId", "messageId", "leafUuid", "toolUseID",
     "parentToolUseID", "sourceToolUseID", "sourceToolAssistantUUID", "promptId", "promptSource", "entrypoint",
     "permissionMode", "level", "effort", "message", "operation", "origin", "interruptedMessageId", "snapshot"}
)  # fmt: skip
"""What a line has besides what it says."""

_ENCODED: Final = frozenset({"signature", "base64"})
"""Keys whose values nobody can read."""

_MARKED: Final = _ENCODED | {"type", "media_type", "mimeType", "tool_use_id"}
"""Where the program wrote and not a model: also keys whose values only say what something is."""

_DEEP: Final = 200
"""How far down texts are looked for."""


class Passage(NamedTuple):
    """A text of a line."""

    kind: str
    role: str
    text: str
    call: str | None = None
    """The id of the tool call it belongs to."""
    tool: str | None = None
    """The name of the tool, where the line has it."""
    target: str | None = None
    """The file that the call was aimed at, where the line has it."""
    failed: bool = False
    """The result of a failed call, or the API's own error."""


def passages(line: Json) -> list[Passage]:
    """Return the passages of a line, in order."""
    kind = line.get("type")
    found = said(line)
    if kind == "user":
        found += _structured(line, "user", *_result_in(line))
    elif kind == "assistant":
        found += _structured(line, "assistant")
    elif kind not in _ALL_SAID and not found:
        found += _structured(line, "system", failed=line.get("subtype") == "api_error")
    return found


def said(line: Json) -> list[Passage]:
    """Return the passages of a line without the last one, if that is `structured`."""
    kind = line.get("type")
    if kind == "assistant":
        return _message(line, "assistant", "answer")
    if kind == "user":
        return _message(line, "user", "summary" if line.get("isCompactSummary") else "prompt")
    if kind == "queue-operation":
        return _text("queued", "user", line.get("content"))
    if kind == "attachment":
        attachment = line.get("attachment")
        return _text("queued", "user", attachment.get("prompt")) if _is_queued(attachment) else []
    if kind == "last-prompt":
        return _text("prompt", "user", line.get("lastPrompt"))
    if kind == "system":
        return _text("summary", "system", line.get("content")) if line.get("subtype") == "away_summary" else []
    note = _NOTES.get(kind) if isinstance(kind, str) else None
    return _text(note[0], "system", line.get(note[1])) if note else []


def target_of(input: object) -> str | None:
    """Return the file that a tool call is aimed at, as its input has it."""
    if isinstance(input, dict):
        for name in ("file_path", "notebook_path", "path", "filePath"):
            if isinstance(path := input.get(name), str) and path:
                return path
    return None


def joined(value: object, silent: frozenset[str] = _ENCODED) -> str:
    """Return all texts in a value, a line each, without those under some keys."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    _gather(value, silent, found, 0)
    return "\n".join(found)


def _message(line: Json, role: str, kind: str) -> list[Passage]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    failed = bool(line.get("isApiErrorMessage"))
    if isinstance(content, str):
        return [Passage(kind, role, content, failed=failed)] if content else []
    found: list[Passage] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            found += _text(kind, role, block)
            continue
        type = block.get("type")
        if type == "text" and isinstance(text := block.get("text"), str):
            if text:
                found.append(Passage(kind, role, text, failed=failed))
        elif type == "thinking":
            found += _text("thinking", role, block.get("thinking"))
        elif type in _USES:
            found.append(_input(block, role))
        elif isinstance(type, str) and type.endswith("tool_result"):
            found.append(_result(block, role))
        elif type != "image":
            found += _text(kind, role, block)
    return found


def _input(block: Json, role: str) -> Passage:
    input, name, id = block.get("input"), block.get("name"), block.get("id")
    return Passage(
        "tool_input",
        role,
        joined(input),
        id if isinstance(id, str) else None,
        name if isinstance(name, str) else None,
        target_of(input),
    )


def _result(block: Json, role: str) -> Passage:
    id = block.get("tool_use_id")
    call = id if isinstance(id, str) else None
    return Passage("tool_result", role, _said(block.get("content")), call, failed=bool(block.get("is_error")))


def _said(content: object) -> str:
    """Return the words of a result: a text, or blocks."""
    if not isinstance(content, list):
        return joined(content, _MARKED)
    blocks = [block for block in content if _kind(block) != "image"]
    return "\n".join(
        block["text"] if _kind(block) == "text" and isinstance(block.get("text"), str) else joined(block, _MARKED)
        for block in blocks
    )


def _text(kind: str, role: str, value: object) -> list[Passage]:
    text = joined(value, _MARKED)
    return [Passage(kind, role, text)] if text else []


def _structured(line: Json, role: str, call: str | None = None, failed: bool = False) -> list[Passage]:
    """Return what a line says besides its message: a tool's own result above all."""
    rest = {key: value for key, value in line.items() if key not in _ENVELOPE}
    text = joined(rest, _MARKED)
    return [Passage("structured", role, text, call, failed=failed)] if text else []


def _gather(value: object, silent: frozenset[str], found: list[str], depth: int) -> None:
    if isinstance(value, str):
        if value:
            found.append(value)
    elif depth > _DEEP:
        return
    elif isinstance(value, list):
        for one in value:
            _gather(one, silent, found, depth + 1)
    elif isinstance(value, dict):
        encoded = value.get("type") == "base64"
        for key, one in value.items():
            if " " in key:  # a question that was answered
                found.append(key)
            if key not in silent and not (encoded and key == "data"):
                _gather(one, silent, found, depth + 1)


def _result_in(line: Json) -> tuple[str | None, bool]:
    """Return the tool call whose result a line is, and whether it failed."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(id := block.get("tool_use_id"), str):
            return id, bool(block.get("is_error"))
    return None, False


def _is_queued(attachment: object) -> TypeGuard[Json]:
    return isinstance(attachment, dict) and attachment.get("type") == "queued_command"


def _kind(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None
