"""Translates the rows of OpenCode's database, or the files of its older JSON storage, into lines. Pure.

Learned from a database that version 1.18.33 wrote, and from its sources.

Rules
  1. A piece is the text of a row, or of a file. Of a session the database has columns and no text: they are written as
     an object. Rows come in the order of their messages, each before its parts.
  2. A step is a response. Its tokens are in the part `step-finish`; a message without such a part has its own.
  3. `input` has no cached tokens in it, and `output` none of reasoning.
  4. A text that OpenCode adds to a prompt (`synthetic`) is not the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

import msgspec

from unspool.other_agents.translate.lines import (
    Json,
    SessionTranslator,
    call_block,
    count_of,
    decode_value,
    image_of_address,
    make_usage,
    name_of,
    object_of,
    result_block,
    text_block,
    text_of,
    thinking_block,
)

_STATES: Final = frozenset({"step-start", "snapshot", "patch", "agent", "subtask", "retry", "compaction", "file"})
_STOP_REASONS: Final = {"stop": "end_turn", "length": "max_tokens", "tool-calls": "tool_use"}


class Row(msgspec.Struct, frozen=True):
    """A row of the database, or a file of the storage."""

    table: str
    """`session`, `message` or `part`."""
    id: str
    data: bytes
    time: int | None = None
    """When it was made, in milliseconds since 1970."""
    has_steps: bool = False
    """Of a message: whether one of its parts says its tokens."""


class OpenCodeTranslator(SessionTranslator, kw_only=True, omit_defaults=True):
    """Translates a session of OpenCode."""

    program: ClassVar[str] = "opencode"

    row: Row | None = None
    """The row that is being translated."""
    role: str | None = None
    message: str = ""
    step: int = 0

    def translate_row(self, row: Row) -> bytes:
        """Return the lines for a row; its text is kept with the first."""
        self.row = row
        return self.translate(row.data)

    def records(self, value: Json) -> Iterable[Json]:
        """Return the records of a row's text."""
        row = self.row
        assert row is not None
        time = row.time or object_of(value, "time").get("created")
        match row.table:
            case "session":
                return self._session(value, time)
            case "message":
                return self._message(value, row, time)
            case "part":
                return self._part(value, row, time)
            case _:
                return [self.unknown(row.table, value, time)]

    def _session(self, value: Json, time: object) -> Iterator[Json]:
        self.cwd = name_of(value, "directory") or self.cwd
        self.version = name_of(value, "version") or self.version
        yield self.other("session", time)
        if title := text_of(value, "title"):
            yield {"type": "ai-title", "aiTitle": title, "sessionId": self.session_id}

    def _message(self, value: Json, row: Row, time: object) -> Iterator[Json]:
        self.role, self.message, self.step = text_of(value, "role"), row.id, 0
        self.model = name_of(value, "modelID") or name_of(value, "model", "modelID") or self.model
        self.cwd = name_of(value, "path", "cwd") or self.cwd
        if self.role == "assistant" and not row.has_steps:
            yield self._usage_line(value, time, text_of(value, "finish"))
        else:
            yield self.other(f"message/{self.role}", time)
        if error := text_of(value, "error", "data", "message") or text_of(value, "error", "name"):
            key = f"{row.id} error"
            yield self.answer(key, time, self._response_id(), [text_block(error)], isApiErrorMessage=True)

    def _response_id(self) -> str:
        return f"{self.message}#{self.step}" if self.step else self.message

    def _usage_line(self, value: Json, time: object, finish: str | None) -> Json:
        tokens = value.get("tokens")
        usage = None
        if isinstance(tokens, dict):
            thinking = count_of(tokens, "reasoning")
            usage = make_usage(
                count_of(tokens, "input"),
                count_of(tokens, "output") + thinking,
                read=count_of(tokens, "cache", "read"),
                written=count_of(tokens, "cache", "write"),
                thinking=thinking,
            )
        reason = _STOP_REASONS.get(finish or "")
        assert self.row is not None
        return self.answer(self.row.id, time, self._response_id(), [], usage=usage, stop_reason=reason)

    def _part(self, value: Json, row: Row, time: object) -> Iterable[Json]:
        kind = text_of(value, "type") or "untyped"
        text = text_of(value, "text") or ""
        match kind:
            case "text" if self.role == "user":
                fields = {"isMeta": True} if value.get("synthetic") is True else {}
                return [self.user(row.id, time, [text_block(text)], **fields)]
            case "text":
                return [self.answer(row.id, time, self._response_id(), [text_block(text)])]
            case "reasoning":
                return [self.answer(row.id, time, self._response_id(), [thinking_block(text)])]
            case "tool":
                return self._call(value, row, time)
            case "step-finish":
                line = self._usage_line(value, time, text_of(value, "reason"))
                self.step += 1
                return [line]
            case "file" if self.role == "user" and (text_of(value, "mime") or "").startswith("image/"):
                return [self.user(row.id, time, [image_of_address(text_of(value, "url") or "")], isMeta=True)]
            case str() if kind in _STATES:
                return [self.other(kind, time)]
            case _:
                return [self.unknown(f"part/{kind}", value, time)]

    def _call(self, value: Json, row: Row, time: object) -> Iterator[Json]:
        id, state = text_of(value, "callID") or row.id, object_of(value, "state")
        block = call_block(id, text_of(value, "tool") or "", object_of(state, "input"))
        yield self.answer(row.id, time, self._response_id(), [block])
        status, ended = text_of(state, "status"), object_of(state, "time").get("end") or time
        if status == "completed":
            result = result_block(id, text_of(state, "output") or "", failed=False)
        elif status == "error":
            result = result_block(id, text_of(state, "error") or "", failed=True)
        else:  # it has no result yet
            return
        yield self.user(f"{row.id} result", ended, [result])


def is_step_end(data: bytes) -> bool:
    """Tell whether the text of a part says the tokens of a step."""
    return b"step-finish" in data and text_of(decode_value(data), "type") == "step-finish"
