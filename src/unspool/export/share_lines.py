"""Decides which parts of a line may be shared: a decoded line in, the line without the rest out. No I/O.

Rules
  1. What is not known to be safe is left out: only types of lines, fields and blocks that are listed here pass.
  2. In the place of a result, an image or an unknown block stands a note that something was left out.
  3. Lines are whatever somebody wrote: any JSON anywhere. Nothing raises.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

_ENVELOPE: Final = frozenset(
    [
        "type",
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "sessionId",
        "session_id",
        "timestamp",
        "isSidechain",
        "isMeta",
        "isCompactSummary",
        "isVisibleInTranscriptOnly",
        "isApiErrorMessage",
        "agentId",
        "version",
        "cwd",
        "gitBranch",
        "userType",
        "permissionMode",
        "requestId",
        "promptId",
        "sourceToolAssistantUUID",
        "sourceToolUseID",
        "toolUseID",
    ]
)
_MESSAGE: Final = frozenset(["role", "id", "type", "model", "content", "stop_reason", "stop_sequence", "usage"])
_SYSTEM: Final = frozenset(["subtype", "content", "level", "compactMetadata", "error", "retryAttempt", "maxRetries"])
_TITLES: Final = {
    "summary": frozenset(["type", "summary", "leafUuid", "timestamp"]),
    "ai-title": frozenset(["type", "aiTitle", "sessionId", "timestamp"]),
    "custom-title": frozenset(["type", "customTitle", "sessionId", "timestamp"]),
}
_QUEUED: Final = frozenset(["type", "operation", "content", "sessionId", "timestamp"])
_OUTPUT_TAGS: Final = ("<bash-stdout>", "<bash-stderr>", "<local-command-stdout>", "<local-command-stderr>")


class ShareContent(msgspec.Struct, frozen=True):
    """What is shared beside prompts, answers and tool calls."""

    thinking: bool = False
    results: bool = False
    """Results of tools, files that were attached, output of commands."""
    images: bool = False
    agents: bool = True


class ShareTally(msgspec.Struct):
    """How many things of each kind leave, and how many stay."""

    shared: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: Counter[str] = msgspec.field(default_factory=Counter)


def select_line(line: Any, content: ShareContent, tally: ShareTally) -> Json | None:
    """Return what may be shared of a decoded line; None if nothing may."""
    match line:
        case {"type": "user" | "assistant", "message": dict()}:
            return _select_message(line, content, tally)
        case {"type": "system", "subtype": "compact_boundary" | "api_error"}:
            return _pick(line, _ENVELOPE | _SYSTEM)
        case {"type": "system", "subtype": "local_command"} if content.results:
            return _pick(line, _ENVELOPE | _SYSTEM)
        case {"type": str(kind)} if kind in _TITLES:
            return _pick(line, _TITLES[kind])
        case {"type": "queue-operation"}:
            queued = _pick(line, _QUEUED)
            if "content" in queued:
                queued["content"] = _select_content(queued["content"], content, tally)
            return queued
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": prompt}}:
            attachment = {"type": "queued_command", "prompt": _select_content(prompt, content, tally)}
            return {**_pick(line, _ENVELOPE), "attachment": attachment}
        case _:
            tally.left_out["other lines"] += 1
            return None


def _select_message(line: Json, content: ShareContent, tally: ShareTally) -> Json | None:
    message = _pick(line["message"], _MESSAGE)
    is_meta = line.get("isMeta") is True
    if is_meta and not content.results:  # what Claude Code adds by itself: files, reminders, skills
        tally.left_out["other lines"] += 1
        return None
    if line["type"] == "user" and not is_meta and _has_prompt(message.get("content")):
        tally.shared["prompts"] += 1
    message["content"] = _select_content(message.get("content"), content, tally, line["type"] == "assistant")
    if message["content"] in ([], ""):
        return None
    shared = {**_pick(line, _ENVELOPE), "message": message}
    structured = line.get("toolUseResult")
    if content.results and structured is not None:
        shared["toolUseResult"] = structured if content.images else _without_images(structured)
    elif content.agents and isinstance(structured, dict) and isinstance(structured.get("agentId"), str):
        shared["toolUseResult"] = {"agentId": structured["agentId"]}  # leads from the call to its agent
    return shared


def _has_prompt(content: Any) -> bool:
    if isinstance(content, str):
        return not content.lstrip().startswith(_OUTPUT_TAGS)
    return isinstance(content, list) and not any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def _select_content(value: Any, content: ShareContent, tally: ShareTally, is_answer: bool = False) -> Any:
    if isinstance(value, str):
        return _select_text(value, content, tally)
    if not isinstance(value, list):
        return []
    found = (_select_block(block, content, tally, is_answer) for block in value)
    return [block for block in found if block is not None]


def _select_text(text: str, content: ShareContent, tally: ShareTally) -> str:
    if content.results or not text.lstrip().startswith(_OUTPUT_TAGS):
        return text
    tally.left_out["results"] += 1
    return _note("output", text)


def _select_block(block: Any, content: ShareContent, tally: ShareTally, is_answer: bool) -> Json | None:
    match block:
        case {"type": "text", "text": str(text)}:
            tally.shared["answers"] += is_answer
            return {"type": "text", "text": _select_text(text, content, tally)}
        case {"type": "thinking" | "redacted_thinking"}:
            return _select_thinking(block, content, tally)
        case {"type": "tool_use"}:
            tally.shared["tool calls"] += 1
            return _pick(block, frozenset({"type", "id", "name", "input"}))
        case {"type": "tool_result"}:
            return _select_result(block, content, tally)
        case {"type": "image"}:
            kinds = tally.shared if content.images else tally.left_out
            kinds["images"] += 1
            return block if content.images else {"type": "text", "text": "[image left out]"}
        case dict() if content.results and block.get("type") != "document":
            tally.shared["other blocks"] += 1
            return block
        case _:
            tally.left_out["other blocks"] += 1
            return {"type": "text", "text": "[left out]"}


def _select_thinking(block: Json, content: ShareContent, tally: ShareTally) -> Json | None:
    if not content.thinking:
        tally.left_out["thinking"] += 1
        return None
    tally.shared["thinking"] += 1
    text = block.get("thinking")
    # Without the signature, which holds the thinking again, encrypted.
    return {"type": "thinking", "thinking": text if isinstance(text, str) else "", "signature": ""}


def _select_result(block: Json, content: ShareContent, tally: ShareTally) -> Json:
    kept = _pick(block, frozenset({"type", "tool_use_id", "is_error"}))
    value = block.get("content")
    if not content.results:
        tally.left_out["results"] += 1
        tally.left_out["images"] += sum(block.get("type") == "image" for block in _blocks(value))
        return {**kept, "content": _note("result", value)}
    tally.shared["results"] += 1
    return {**kept, "content": _select_content(value, content, tally)}


def _note(what: str, value: Any) -> str:
    texts = [value] if isinstance(value, str) else [block.get("text") for block in _blocks(value)]
    size = sum(len(text) for text in texts if isinstance(text, str))
    return f"[{what} left out: {size:,} characters]"


def _blocks(value: Any) -> list[Json]:
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _without_images(value: Any) -> Any:
    match value:
        case {"type": "image"}:
            return {"type": "image"}
        case dict():
            return {key: _without_images(item) for key, item in value.items() if key != "base64"}
        case list():
            return [_without_images(item) for item in value]
        case _:
            return value


def _pick(value: Json, names: frozenset[str]) -> Json:
    return {name: item for name, item in value.items() if name in names}
