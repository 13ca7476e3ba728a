"""Translates the session files of Gemini CLI (`session-<time>-<id>.jsonl`, before `.json`) into lines. Pure.

Learned from files that version 0.61.0 wrote, and from its sources.

Rules
  1. A message is written again whenever it has grown: with its tool calls, then with their results. Only what is new
     becomes a line.
  2. A tool call and its result are in one message. The user message that repeats the result is not translated.
  3. `$set` changes facts of the session. A resumed session repeats its messages there, in other words: those that were
     seen are not translated again. After `$rewindTo` the next message follows the one before the named message.
  4. `input` has the cached tokens in it. `output` has neither those of thoughts nor those of tools' prompts.
  5. A file `.json` is one document, translated as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec

from unspool.other_agents.translate.lines import (
    Json,
    SessionTranslator,
    call_block,
    count_of,
    image_block,
    list_of,
    make_digest,
    make_usage,
    name_of,
    object_of,
    remember,
    result_block,
    text_block,
    text_of,
    thinking_block,
)

_CONTEXT: Final = "<session_context>"
_ENDED: Final = frozenset({"success", "error", "cancelled"})


class GeminiTranslator(SessionTranslator, kw_only=True, omit_defaults=True):
    """Translates a session of Gemini CLI."""

    program: ClassVar[str] = "gemini"

    seen: dict[str, str] = msgspec.field(default_factory=dict)
    """What was translated: of each message the digest of its text, and the ids of its calls and results."""
    before: dict[str, str] = msgspec.field(default_factory=dict)
    """The line before each message, to which a rewind leads."""

    def records(self, value: Json) -> Iterable[Json]:
        """Return the records of a line, or of a whole document."""
        time = value.get("timestamp") or value.get("lastUpdated")
        if "$set" in value:
            return self._facts(object_of(value, "$set"), "$set")
        if rewound := text_of(value, "$rewindTo"):
            self.last_uuid = self.before.get(rewound) or None
            return [self.other("$rewindTo", time)]
        if "messages" in value or text_of(value, "projectHash"):
            return self._facts(value, "header")
        if text_of(value, "type") is not None:
            return self._message(value)
        return [self.unknown("untyped", value, time)]

    def _facts(self, facts: Json, kind: str) -> Iterator[Json]:
        yield self.other(kind, facts.get("lastUpdated"))
        if summary := text_of(facts, "summary"):
            yield {"type": "ai-title", "aiTitle": summary, "sessionId": self.session_id}
        for message in list_of(facts, "messages"):
            if not isinstance(message, dict):
                yield self.unknown("untyped", message)
            elif kind != "$set" or text_of(message, "id") not in self.before:
                yield from self._message(message)

    def _message(self, message: Json) -> Iterable[Json]:
        id, time = text_of(message, "id") or f"{self.pieces}", message.get("timestamp")
        if id not in self.before:
            remember(self.before, id, self.last_uuid or "")
        match kind := text_of(message, "type") or "untyped":
            case "gemini":
                return [*self._answer(message, id, time)] or [self.other("gemini", time)]
            case "user":
                return [*self._prompt(message, id, time)] or [self.other("user", time)]
            case "info" | "error" | "warning":
                return [self.other(kind, time)]
            case _:
                return [self.unknown(kind, message, time)]

    def _is_new(self, key: str, value: str = "") -> bool:
        """Tell whether something was not translated yet, and remember it."""
        digest = make_digest(value)[:8] if value else ""
        is_new = self.seen.get(key) != digest
        remember(self.seen, key, digest)
        return is_new

    def _prompt(self, message: Json, id: str, time: object) -> Iterator[Json]:
        parts = _parts(message.get("content"))
        results = [_part_result(part) for part in parts if isinstance(part, dict) and "functionResponse" in part]
        results = [block for block in results if self._is_new(f"result {block['tool_use_id']}")]
        blocks = [_block(part) for part in parts if not (isinstance(part, dict) and "functionResponse" in part)]
        if results:
            yield self.user(f"{id} results", time, results)
        text = "\n".join(block.get("text", "") for block in blocks)
        if blocks and self._is_new(f"text {id}", text):
            fields = {"isMeta": True} if text.lstrip().startswith(_CONTEXT) else {}
            yield self.user(f"{id} {make_digest(text)[:8]}", time, blocks, **fields)

    def _answer(self, message: Json, id: str, time: object) -> Iterator[Json]:
        self.model = name_of(message, "model") or self.model
        parts = _parts(message.get("content"))
        thoughts = [_thought(thought) for thought in list_of(message, "thoughts")] + [
            _text(part) for part in parts if _is_thought(part)
        ]
        text = "".join(_text(part) for part in parts if not _is_thought(part))
        blocks = [thinking_block(thought) for thought in thoughts] + ([text_block(text)] if text else [])
        usage = _usage(message.get("tokens"))
        calls = [call for call in list_of(message, "toolCalls") if isinstance(call, dict)]
        calls = calls or [call for part in parts if (call := object_of(part, "functionCall"))]
        new_calls = [call for call in calls if self._is_new(f"call {text_of(call, 'id')}")]
        answer_text = f"{text}\0{thoughts}\0{usage}"
        is_new = self._is_new(f"text {id}", answer_text)
        blocks = (blocks if is_new else []) + [_call(call) for call in new_calls]
        if is_new or new_calls:
            key = f"{id} {make_digest(answer_text, *(str(call.get('id')) for call in new_calls))[:8]}"
            reason = "tool_use" if calls else "end_turn"
            response = f"gemini-{make_digest(id)}"
            yield self.answer(key, time, response, blocks, usage=usage, stop_reason=reason if usage else None)
        for call in calls:
            name, status = text_of(call, "id") or "", text_of(call, "status") or ""
            if (status in _ENDED or call.get("result")) and self._is_new(f"result {name}"):
                failed = {"success": False, "error": True, "cancelled": True}.get(status)
                content = "\n".join(_part_text(part) for part in _parts(call.get("result")))
                block = result_block(name, content, failed=failed)
                yield self.user(f"{id} result {name}", call.get("timestamp") or time, [block])


def _usage(tokens: object) -> Json | None:
    if not isinstance(tokens, dict):
        return None
    read, thoughts = count_of(tokens, "cached"), count_of(tokens, "thoughts")
    fresh = count_of(tokens, "input") - read + count_of(tokens, "tool")
    return make_usage(fresh, count_of(tokens, "output") + thoughts, read=read, thinking=thoughts)


def _parts(content: object) -> list[Any]:
    """Return the parts of a message: the format allows a text, a part, or a list of both."""
    return content if isinstance(content, list) else [] if content is None else [content]


def _text(part: object) -> str:
    return part if isinstance(part, str) else text_of(part, "text") or ""


def _is_thought(part: object) -> bool:
    return isinstance(part, dict) and part.get("thought") is True


def _block(part: object) -> Json:
    if (data := text_of(part, "inlineData", "data")) is not None:
        return image_block(data, text_of(part, "inlineData", "mimeType") or "")
    return text_block(_text(part))


def _thought(thought: object) -> str:
    parts = (text_of(thought, "subject"), text_of(thought, "description"))
    return "\n".join(part for part in parts if part)


def _call(call: Json) -> Json:
    return call_block(text_of(call, "id") or "", text_of(call, "name") or "", object_of(call, "args"))


def _part_text(part: object) -> str:
    """Return the text of a part of a result."""
    response = object_of(part, "functionResponse", "response")
    for text in (part, text_of(part, "text"), text_of(response, "output"), text_of(response, "error")):
        if isinstance(text, str):
            return text
    return ""


def _part_result(part: Json) -> Json:
    failed = True if object_of(part, "functionResponse", "response").get("error") else None
    return result_block(text_of(part, "functionResponse", "id") or "", _part_text(part), failed=failed)
