"""Translates the session files of pi (`<time>_<id>.jsonl`) into lines of session files. Pure.

Learned from files that version 1.5.2 wrote, from its documentation of the format (versions 1 to 3), and from files of
versions 1 in its own repository.

Rules
  1. Entries are a tree: `id` and `parentId` become uuids, so branches are branches. Files of version 1 have no ids:
     each entry follows the one before.
  2. A response is billed as its line says: `input` has no cached tokens in it.
  3. Forked sessions repeat entries. A response is known by its entry, its time and the id that the server gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from unspool.other_agents.translate.lines import (
    Json,
    SessionTranslator,
    call_block,
    count_of,
    image_block,
    list_of,
    make_digest,
    make_usage,
    make_uuid,
    name_of,
    object_of,
    result_block,
    text_block,
    text_of,
    thinking_block,
)

_STOP_REASONS: Final = {"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}
_STATES: Final = frozenset({"thinking_level_change", "model_change", "custom", "label"})


class PiTranslator(SessionTranslator, kw_only=True, omit_defaults=True):
    """Translates a session of pi."""

    program: ClassVar[str] = "pi"

    def records(self, value: Json) -> Iterable[Json]:
        """Return the records of a line."""
        kind, time = text_of(value, "type"), value.get("timestamp")
        if kind == "session":
            self.cwd = name_of(value, "cwd") or self.cwd
            self.model = name_of(value, "modelId") or self.model
            return [self.other("session", time)]
        if "parentId" in value:
            parent = text_of(value, "parentId")
            self.last_uuid = make_uuid(self.program, self.session_id, parent) if parent else None
        key = text_of(value, "id") or f"{self.pieces}"
        match kind:
            case "message":
                return self._message(object_of(value, "message"), key, time)
            case "compaction":
                return self.compaction(key, time, text_of(value, "summary") or "", count_of(value, "tokensBefore"))
            case "branch_summary":
                return [self.user(key, time, text_of(value, "summary") or "", isMeta=True)]
            case "custom_message":
                return [self.user(key, time, _blocks(value.get("content")), isMeta=True)]
            case "session_info":
                return self._name(value, key, time)
            case str() if kind in _STATES:
                self.model = name_of(value, "modelId") or self.model
                return [self._state(kind, key, time)]
            case _:
                return [self.node(f"{self.program}/{(kind or 'untyped')[:200]}", key, time, content=value)]

    def _state(self, kind: str, key: str, time: object) -> Json:
        """Return a record that is a node of the tree, because the next entry may follow it."""
        return self.node("other-agent", key, time, program=self.program, kind=kind)

    def _name(self, value: Json, key: str, time: object) -> Iterator[Json]:
        yield self._state("session_info", key, time)
        yield {"type": "custom-title", "customTitle": text_of(value, "name"), "sessionId": self.session_id}

    def _message(self, message: Json, key: str, time: object) -> Iterable[Json]:
        match role := text_of(message, "role"):
            case "user":
                return [self.user(key, time, _blocks(message.get("content")))]
            case "assistant":
                return [self._answer(message, key, time)]
            case "toolResult":
                failed = message.get("isError")
                block = result_block(
                    text_of(message, "toolCallId") or "",
                    _blocks(message.get("content")),
                    failed=failed if isinstance(failed, bool) else None,
                )
                return [self.user(key, time, [block])]
            case "bashExecution":
                command, output = text_of(message, "command") or "", text_of(message, "output") or ""
                text = f"<bash-input>{command}</bash-input>\n<bash-stdout>{output}</bash-stdout>"
                return [self.user(key, time, text)]
            case "custom" | "hookMessage":
                return [self.user(key, time, _blocks(message.get("content")), isMeta=True)]
            case "branchSummary" | "compactionSummary":
                summary = text_of(message, "summary") or ""
                if role == "compactionSummary":
                    return self.compaction(key, time, summary, count_of(message, "tokensBefore"))
                return [self.user(key, time, summary, isMeta=True)]
            case _:
                kind = f"{self.program}/message/{(role or 'untyped')[:200]}"
                return [self.node(kind, key, time, content=message)]

    def _answer(self, message: Json, key: str, time: object) -> Json:
        self.model = name_of(message, "model") or self.model
        blocks = _blocks(message.get("content"))
        fields: dict[str, Any] = {}
        if error := text_of(message, "errorMessage"):
            blocks.append(text_block(error))
            fields["isApiErrorMessage"] = True
        usage, used = None, message.get("usage")
        if isinstance(used, dict):
            usage = make_usage(
                count_of(used, "input"),
                count_of(used, "output"),
                read=count_of(used, "cacheRead"),
                written=count_of(used, "cacheWrite"),
                thinking=count_of(used, "reasoning") if "reasoning" in used else None,
            )
        id = f"pi-{make_digest(key, str(message.get('timestamp')), str(message.get('responseId')))}"
        reason = _STOP_REASONS.get(text_of(message, "stopReason") or "")
        return self.answer(key, time, id, blocks, usage=usage, stop_reason=reason, **fields)


def _blocks(content: object) -> list[Json]:
    """Return the content of a message as blocks."""
    if isinstance(content, str):
        return [text_block(content)]
    return [_block(part) for part in list_of({"content": content}, "content")]


def _block(part: object) -> Json:
    match text_of(part, "type"):
        case "thinking":
            return thinking_block(text_of(part, "thinking") or "")
        case "toolCall":
            input = object_of(part, "arguments")
            return call_block(text_of(part, "id") or "", text_of(part, "name") or "", input)
        case "image":
            return image_block(text_of(part, "data") or "", text_of(part, "mimeType") or "")
        case _:
            return text_block(text_of(part, "text") or "")
