"""Extracts the searchable texts of a line: takes a decoded JSON object, returns passages.

Rules
  1. Every text of a line is in one passage: texts of people and models, tool inputs and results each by themselves, and
     as the last one, `structured`, all the rest. Left out are ids, names of types and the like, which are metadata and
     not content; encoded images; and signatures.
  2. A passage is identified by its number in the line. `structured` comes last, so that the numbers are the same for a
     reader that does not extract it.
  3. Nothing raises: the line is whatever a JSON object can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Json: TypeAlias = Mapping[str, Any]

PASSAGE_KINDS: Final = (
    "prompt", "answer", "thinking", "tool_input", "tool_result", "structured", "overflow", "summary", "title", "queued",
    "todo", "plan", "history",
)  # fmt: skip
"""Where a text can come from. `overflow`, `todo`, `plan` and `history` are files of their own."""


_SINGLE_TEXTS: Final = {
    "summary": ("summary", "summary"),
    "task-summary": ("summary", "summary"),
    "custom-title": ("title", "customTitle"),
    "ai-title": ("title", "aiTitle"),
    "agent-name": ("title", "agentName"),
    "tag": ("title", "tag"),
}
"""Lines that are one text: its kind and its key."""

_WITHOUT_MORE_TEXT: Final = frozenset({"queue-operation", "last-prompt", *_SINGLE_TEXTS})
"""Lines that have no other text."""

_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_ENVELOPE: Final = frozenset(
    {"type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "cwd",
     "version", "gitBranch", "userType", "slug", "requestId", "agentId", "messageId", "leafUuid", "toolUseID",
     "parentToolUseID", "sourceToolUseID", "sourceToolAssistantUUID", "promptId", "promptSource", "entrypoint",
     "permissionMode", "level", "effort", "message", "operation", "origin", "interruptedMessageId", "snapshot",
     "originalLine", "originalBytes", "program", "kind"}
)  # fmt: skip
"""Keys of a line that hold metadata, or what other passages have."""

_UNREADABLE_KEYS: Final = frozenset({"signature", "base64"})
"""Keys whose values are not text."""

_SKIPPED_KEYS: Final = _UNREADABLE_KEYS | {"type", "media_type", "mimeType", "tool_use_id"}
"""In what Claude Code and not a model wrote: also keys whose values only name a type or an id."""

_MAX_DEPTH: Final = 200
"""Texts nested deeper are not searched: a line may be nested without limit."""


class Passage(NamedTuple):
    """A searchable text of a line."""

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


def extract_passages(line: Json) -> list[Passage]:
    """Return the passages of a line, in order."""
    kind = line.get("type")
    if not isinstance(kind, str):  # any field may hold any JSON, and a list cannot be looked up in a set
        kind = None
    passages = extract_text_passages(line)
    if kind == "user":
        passages += _structured_passage(line, "user", *_find_result(line))
    elif kind == "assistant":
        passages += _structured_passage(line, "assistant")
    elif kind not in _WITHOUT_MORE_TEXT and not passages:
        passages += _structured_passage(line, "system", failed=line.get("subtype") == "api_error")
    return passages


def extract_text_passages(line: Json) -> list[Passage]:
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
        if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return []
        return _text("queued", "user", attachment.get("prompt"))
    if kind == "last-prompt":
        return _text("prompt", "user", line.get("lastPrompt"))
    if kind == "system":
        return _text("summary", "system", line.get("content")) if line.get("subtype") == "away_summary" else []
    single = _SINGLE_TEXTS.get(kind) if isinstance(kind, str) else None
    return _text(single[0], "system", line.get(single[1])) if single else []


def find_target_path(input: object) -> str | None:
    """Return the path of the file that a tool call is aimed at, as its input has it."""
    if isinstance(input, dict):
        for name in ("file_path", "notebook_path", "path", "filePath"):
            if isinstance(path := input.get(name), str) and path:
                return path
    return None


def join_texts(value: object, skipped: frozenset[str] = _UNREADABLE_KEYS) -> str:
    """Return all texts in a value, a line each, without those under some keys."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    _collect_texts(value, skipped, texts, 0)
    return "\n".join(texts)


def _message(line: Json, role: str, kind: str) -> list[Passage]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    failed = bool(line.get("isApiErrorMessage"))
    if isinstance(content, str):
        return [Passage(kind, role, content, failed=failed)] if content else []
    passages: list[Passage] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            passages += _text(kind, role, block)
            continue
        type = block.get("type")
        if type == "text" and isinstance(text := block.get("text"), str):
            if text:
                passages.append(Passage(kind, role, text, failed=failed))
        elif type == "thinking":
            passages += _text("thinking", role, block.get("thinking"))
        elif not isinstance(type, str):
            passages += _text(kind, role, block)
        elif type in _USES:
            passages.append(_input(block, role))
        elif type.endswith("tool_result"):
            passages.append(_result(block, role))
        elif type != "image":
            passages += _text(kind, role, block)
    return passages


def _input(block: Json, role: str) -> Passage:
    input, name, id = block.get("input"), block.get("name"), block.get("id")
    return Passage(
        "tool_input",
        role,
        join_texts(input),
        id if isinstance(id, str) else None,
        name if isinstance(name, str) else None,
        find_target_path(input),
    )


def _result(block: Json, role: str) -> Passage:
    id = block.get("tool_use_id")
    call = id if isinstance(id, str) else None
    return Passage("tool_result", role, _result_text(block.get("content")), call, failed=bool(block.get("is_error")))


def _result_text(content: object) -> str:
    """Return the text of a result, which is a string or a list of blocks."""
    if not isinstance(content, list):
        return join_texts(content, _SKIPPED_KEYS)
    blocks = [block for block in content if _kind(block) != "image"]
    return "\n".join(
        block["text"]
        if _kind(block) == "text" and isinstance(block.get("text"), str)
        else join_texts(block, _SKIPPED_KEYS)
        for block in blocks
    )


def _text(kind: str, role: str, value: object) -> list[Passage]:
    text = join_texts(value, _SKIPPED_KEYS)
    return [Passage(kind, role, text)] if text else []


def _structured_passage(line: Json, role: str, call: str | None = None, failed: bool = False) -> list[Passage]:
    """Return the texts of a line besides its message: above all a tool's own result."""
    rest = {key: value for key, value in line.items() if key not in _ENVELOPE}
    text = join_texts(rest, _SKIPPED_KEYS)
    return [Passage("structured", role, text, call, failed=failed)] if text else []


def _collect_texts(value: object, skipped: frozenset[str], texts: list[str], depth: int) -> None:
    if isinstance(value, str):
        if value:
            texts.append(value)
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, list):
        for item in value:
            _collect_texts(item, skipped, texts, depth + 1)
    elif isinstance(value, dict):
        encoded = value.get("type") == "base64"
        for key, item in value.items():
            if " " in key:  # AskUserQuestion writes its answers by the text of the question
                texts.append(key)
            if key not in skipped and not (encoded and key == "data"):
                if type(item) is not str:
                    _collect_texts(item, skipped, texts, depth + 1)
                elif item:  # as most are: without a call for each of them
                    texts.append(item)


def _find_result(line: Json) -> tuple[str | None, bool]:
    """Return the id of the tool call whose result a line has, and whether it failed."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(id := block.get("tool_use_id"), str):
            return id, bool(block.get("is_error"))
    return None, False


def _kind(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None
