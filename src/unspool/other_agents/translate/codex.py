"""Translates the rollouts of Codex CLI (`rollout-<time>-<id>.jsonl`) into lines of session files. Pure.

Learned from files that version 0.169.0 wrote, and from its sources.

Rules
  1. The conversation is in `response_item` lines. `event_msg` lines that repeat it (`agent_message`, `user_message`,
     `item_completed`, …) are kept and not translated. The first files (before August 2025) have items alone.
  2. A response ends with the line that says its tokens. Tokens are totals of the session, so a response has the
     difference to the total before; a line that repeats a total adds nothing. A total that is smaller than the one
     before, or the first of a file, counts as what its last request used.
  3. `input_tokens` has the cached tokens in it, and `output_tokens` those of reasoning.
  4. A user line is a person's if Codex marks its text as the user's; in files without marks, if it is not one of the
     texts that Codex writes, which begin with a tag or a fixed heading.
  5. Forks repeat the lines of their session, without its times. A response is known by what it says and by the total
     before it. What a sub-agent inherited (`subagent_history_start_ordinal`) is not billed to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from unspool.format import encode_json
from unspool.other_agents.translate.lines import (
    Json,
    SessionTranslator,
    call_block,
    count_of,
    decode_value,
    image_of_address,
    list_of,
    make_digest,
    make_usage,
    name_of,
    object_of,
    result_block,
    text_block,
    text_of,
    thinking_block,
)

_WRITTEN_BY_CODEX: Final = re.compile(r"\s*(?:<[a-z][a-z_ -]*>|# AGENTS\.md instructions\b)")
_NAMED_KINDS: Final = frozenset(
    {"session_meta", "turn_context", "world_state", "inter_agent_communication", "security_risk_score",
     "inter_agent_communication_metadata"}
)  # fmt: skip
_EVENTS: Final = frozenset(
    {"agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted", "entered_review_mode",
     "error", "exec_command_end", "exited_review_mode", "image_generation_end", "item_completed", "mcp_tool_call_end",
     "patch_apply_end", "sub_agent_activity", "task_complete", "task_started", "thread_goal_updated",
     "thread_name_updated", "thread_rolled_back", "thread_settings_applied", "token_count", "turn_aborted",
     "turn_complete", "turn_started", "user_message", "view_image_tool_call", "warning", "web_search_end"}
)  # fmt: skip
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_COUNTS: Final = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens",
                  "reasoning_output_tokens")  # fmt: skip


class CodexTranslator(SessionTranslator, kw_only=True, omit_defaults=True):
    """Translates a rollout."""

    program: ClassVar[str] = "codex"

    originator: str | None = None
    origin: str = ""
    """The session that the lines come from: of a fork, the one that it continues."""
    total: list[int] | None = None
    """The tokens of the session so far."""
    message_id: str | None = None
    """Of the response whose items are being read."""
    has_result: bool = False
    """Whether a result or a prompt came after its last item."""
    has_call: bool = False
    own_from: int = 0
    """The first ordinal that is the session's own."""

    def records(self, value: Json) -> Iterable[Json]:
        """Return the records of a line."""
        kind, time, payload = text_of(value, "type"), value.get("timestamp"), value.get("payload")
        if not isinstance(payload, dict):
            return self._old_line(value, kind, time)
        match kind:
            case "response_item":
                return self._item(payload, time)
            case "event_msg" | "token_usage_record":
                return [self._event(payload, kind, time, value.get("ordinal"))]
            case "compacted":
                summary = text_of(payload, "message") or ""
                return self.compaction(self._key(), time, summary, None)
            case "session_meta" | "turn_context":
                self._take_context(payload, kind)
                return [self.other(kind, time)]
            case str() if kind in _NAMED_KINDS:
                return [self.other(kind, time)]
            case _:
                return [self.unknown(kind or "untyped", value, time)]

    def _key(self) -> str:
        return f"{self.pieces}"

    def _old_line(self, value: Json, kind: str | None, time: object) -> Iterable[Json]:
        """Return the records of a line of the first format: an item without an envelope, or the head of the file."""
        if kind is None and text_of(value, "id") and "timestamp" in value:
            self._take_context(value, "session_meta")
            return [self.other("session_meta", time)]
        if kind is None and "record_type" in value:
            return [self.other("state", time)]
        return self._item(value, time)

    def _take_context(self, payload: Json, kind: str) -> None:
        if kind == "session_meta":
            self.origin = name_of(payload, "forked_from_id") or name_of(payload, "id") or self.origin
            self.version = name_of(payload, "cli_version") or self.version
            self.originator = name_of(payload, "originator") or self.originator
            self.branch = name_of(payload, "git", "branch") or self.branch
            self.own_from = max(self.own_from, count_of(payload, "subagent_history_start_ordinal"))
        self.cwd = name_of(payload, "cwd") or self.cwd
        self.model = name_of(payload, "model") or self.model

    def _item(self, item: Json, time: object) -> Iterable[Json]:
        kind = text_of(item, "type") or "untyped"
        match kind:
            case "message":
                return self._message(item, time)
            case "reasoning":
                return [self._part(item, time, thinking_block(_reasoning_text(item)))]
            case "web_search_call" | "image_generation_call":
                # Run by the API itself, which writes no result of its own.
                id = text_of(item, "id") or make_digest(self.session_id, self._key())
                input = {"revised_prompt": item.get("revised_prompt")} if kind[0] == "i" else item.get("action")
                block = {"type": "server_tool_use", "id": id, "name": kind.removesuffix("_call"), "input": input}
                return [self._part(item, time, block)]
            case _ if kind in _CALLS:
                return [self._part(item, time, _call(item, kind), has_call=True)]
            case _ if kind in _RESULTS:
                return self._result(item, time)
            case "ghost_snapshot" | "compaction" | "compaction_summary" | "context_compaction" | "agent_message":
                return [self.other(f"response_item/{kind}", time)]
            case _:
                return [self.unknown(f"response_item/{kind}", item, time)]

    def _message(self, item: Json, time: object) -> Iterable[Json]:
        blocks = [_content_block(part) for part in list_of(item, "content")]
        role = text_of(item, "role")
        if role == "assistant":
            return [self._part(item, time, *blocks)]
        self.has_result = True
        is_person = role == "user" and _is_typed(item, blocks)
        fields = {} if is_person else {"isMeta": True}
        return [self.user(self._key(), time, blocks, **fields, **self._entrypoint())]

    def _part(self, item: Json, time: object, *blocks: Json, has_call: bool = False) -> Json:
        """Return a line of a response; it is a new one after a result, a prompt, or the tokens of the one before."""
        if self.message_id is None or self.has_result:
            total = ",".join(map(str, self.total or ()))
            encoded = encode_json(item).decode("utf-8", "replace")
            self.message_id = f"codex-{make_digest(self.origin or self.session_id, total, encoded)}"
            self.has_result = self.has_call = False
        self.has_call = self.has_call or has_call
        return self.answer(self._key(), time, self.message_id, list(blocks), **self._entrypoint())

    def _result(self, item: Json, time: object) -> Iterator[Json]:
        self.has_result = True
        output = item.get("output") if "output" in item else item.get("tools")
        content, failed = _output(output)
        block = result_block(text_of(item, "call_id") or "", content, failed=failed)
        yield self.user(self._key(), time, [block])

    def _event(self, payload: Json, kind: str, time: object, ordinal: object) -> Json:
        if kind == "token_usage_record":
            total, last = payload.get("thread_token_usage"), payload.get("usage")
        else:
            kind = text_of(payload, "type") or "untyped"
            if kind not in _EVENTS:
                return self.unknown(f"event_msg/{kind}", payload, time)
            info = object_of(payload, "info") if kind == "token_count" else {}
            total, last = info.get("total_token_usage"), info.get("last_token_usage")
        if not isinstance(total, dict) and not isinstance(last, dict):
            return self.other(kind, time)
        used = self._take_usage(total, last)
        is_inherited = isinstance(ordinal, int) and ordinal < self.own_from
        if not any(used) or is_inherited:
            return self.other(kind, time)
        return self._usage_line(used, time, text_of(payload, "response_id"))

    def _take_usage(self, total: object, last: object) -> list[int]:
        """Return what was used since the total before (rule 2)."""
        before, used = self.total, [count_of(last, name) for name in _COUNTS]
        if not isinstance(total, dict):
            self.total = [one + other for one, other in zip(before or [0] * len(_COUNTS), used, strict=True)]
            return used
        now = self.total = [count_of(total, name) for name in _COUNTS]
        if before is None:
            return used if any(used) else now
        grown = [one - other for one, other in zip(now, before, strict=True)]
        return used if min(grown) < 0 else grown

    def _usage_line(self, used: list[int], time: object, response_id: str | None) -> Json:
        id = self.message_id or f"codex-{make_digest(self.origin or self.session_id, ','.join(map(str, used)), '')}"
        fresh, read, written, output, thinking = used
        usage = make_usage(fresh - read - written, output, read=read, written=written, thinking=thinking)
        reason = "tool_use" if self.has_call and self.message_id else "end_turn"
        self.message_id, self.has_call, self.has_result = None, False, False
        fields = self._entrypoint() | ({"requestId": response_id} if response_id else {})
        return self.answer(self._key(), time, id, [], usage=usage, stop_reason=reason, **fields)

    def _entrypoint(self) -> Json:
        return {"entrypoint": self.originator} if self.originator else {}


def _is_typed(item: Json, blocks: list[Json]) -> bool:
    kinds = item.get("internal_chat_message_metadata_passthrough")
    marks = [kind for kind in list_of(kinds, "content_item_kinds") if isinstance(kind, str)]
    if marks:
        return any(mark.startswith("user.") for mark in marks)
    first = next((block["text"] for block in blocks if block["type"] == "text"), "")
    return not _WRITTEN_BY_CODEX.match(first)


def _content_block(part: object) -> Json:
    if (text := text_of(part, "text")) is not None:
        return text_block(text)
    if address := text_of(part, "image_url") or text_of(part, "image_url", "url"):
        return image_of_address(address)
    return text_block("") if isinstance(part, dict) else text_block(part if isinstance(part, str) else "")


def _reasoning_text(item: Json) -> str:
    parts = [*list_of(item, "summary"), *list_of(item, "content")]
    return "\n\n".join(text for part in parts if (text := text_of(part, "text")))


def _call(item: Json, kind: str) -> Json:
    id = text_of(item, "call_id") or text_of(item, "id") or ""
    if kind == "local_shell_call":
        return call_block(id, "local_shell", object_of(item, "action"))
    arguments = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
    name = text_of(item, "name") or kind.removesuffix("_call")
    value = decode_value(arguments.encode("utf-8", "replace")) if isinstance(arguments, str) else arguments
    if not isinstance(value, dict):
        value = {"input" if kind == "custom_tool_call" else "arguments": arguments}
    return call_block(id, name, value)


def _output(output: object) -> tuple[str | list[Json], bool | None]:
    """Return the content of a result, and whether the call failed, if the line says so."""
    if isinstance(output, str):
        inner = decode_value(output.encode("utf-8", "replace")) if output.startswith('{"output"') else None
        text, code = text_of(inner, "output"), object_of(inner, "metadata").get("exit_code")
        if isinstance(inner, dict) and isinstance(code, int):  # until 2025 the output of commands was JSON in a text
            return text or "", code != 0
        return output, None
    if isinstance(output, dict):  # the first format
        success = output.get("success")
        return text_of(output, "content") or "", not success if isinstance(success, bool) else None
    if isinstance(output, list):
        return [_content_block(part) for part in output], None
    return "", None
