"""Prunes a conversation without a model: old results, images, thinking, inputs and calls, mildest first. Pure.

The steps are those of the editor (`edit/planning/trim.py`), applied to the messages that would be sent. The session
file keeps everything; a resumed session starts with all of it.

Rules
  1. What the user or the model wrote stays word for word; only inputs and results of tools go, and long reminders of
     Claude Code: files that were read for a prompt.
  2. Calls and results stay pairs. What is replaced says what it was (`edit/planning/shrink.py`), and is not replaced
     again.
  3. The newest turn is pruned last: its older results only, never its thinking or what the model has not answered.
  4. No step makes a conversation larger; a message that a step leaves alone is the same object as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from unspool.edit.planning import (
    STUB_PREFIX,
    describe_call,
    find_superseded_reads,
    format_media_stub,
    format_stub,
    shorten_long_parts,
)
from unspool.format import ToolUse, encode_json
from unspool.prices import estimate_request_tokens

Json: TypeAlias = dict[str, Any]
_AGES = (10, 3, 1)
_AGAIN = "call it again if it is needed"
_REMINDER = "<system-reminder>"
_NEWEST_STEPS = 2
"""The last answered steps of the newest turn, which keep their results."""


class PruneStep(NamedTuple):
    """What is removed, and how many prompts must have come after it."""

    superseded: bool = False
    results: int | None = None
    larger_than: int = 2048
    pictures: bool = False
    thinking: bool = False
    inputs: bool = False
    calls: int | None = None
    newest: bool = False
    """Whether older results of the newest turn are removed too."""


def prune_stepwise(messages: Sequence[Json]) -> Iterator[list[Json]]:
    """Yield the conversation after each step, shorter and shorter; steps that change nothing are left out."""
    outline = MessageOutline(messages)
    before = list(messages)
    for step in _steps():
        after = _Pruning(outline, step).messages()
        # Messages that a step leaves alone are the same objects, so identity is enough, and cheap.
        if len(after) != len(before) or not all(map(is_, after, before)):
            yield after
            before = after


def prune_fully(messages: Sequence[Json]) -> list[Json]:
    """Return the conversation after the last step: as short as it gets without a model."""
    *_, last = _steps()
    return _Pruning(MessageOutline(messages), last).messages()


def _steps() -> Iterator[PruneStep]:
    step = PruneStep(superseded=True)
    yield step
    for age in _AGES:
        step = step._replace(results=age)
        yield step
    step = step._replace(pictures=True, larger_than=512)
    yield step
    step = step._replace(thinking=True)
    yield step
    step = step._replace(inputs=True)
    yield step
    for age in _AGES:
        step = step._replace(calls=age)
        yield step
    yield step._replace(newest=True)


class MessageOutline:
    """Where turns begin in a list of messages, which tool calls there are, what is not answered yet."""

    def __init__(self, messages: Sequence[Json]) -> None:
        self.messages = messages
        self.uses: dict[str, ToolUse] = {}
        self.results: dict[str, Json] = {}
        for message in messages:
            for block in blocks(message):
                if block.get("type") == "tool_use":
                    id, name = str(block.get("id")), str(block.get("name") or "a tool")
                    self.uses[id] = ToolUse(id=id, name=name, input=block.get("input"))
                elif block.get("type") == "tool_result":
                    self.results[str(block.get("tool_use_id"))] = block
        self.starts = _find_turn_starts(messages)
        answers = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        self.open_from = answers[-1] + 1 if answers else 0
        """The model has not answered the messages from here on."""
        self.newest_from = self.starts[-1] if self.starts else 0
        self.steps_from = answers[-1 - _NEWEST_STEPS] if len(answers) > _NEWEST_STEPS else 0
        self.succeeded = [
            use for id, use in self.uses.items() if id in self.results and not self.results[id].get("is_error")
        ]
        self.superseded = find_superseded_reads(self.succeeded)

    def age(self, at: int) -> int:
        """Return how many turns began after a message."""
        return len(self.starts) - bisect_right(self.starts, at)

    def describe_call(self, id: object) -> str:
        """Return a tool call in a few words."""
        return describe_call(self.uses.get(str(id)) or ToolUse(name="a tool"))


def blocks(message: Json) -> list[Json]:
    """Return the blocks of a message; none if it is a plain string."""
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _find_turn_starts(messages: Sequence[Json]) -> list[int]:
    """Return where turns begin: at consecutive user messages without a result, which the API reads as one."""
    starts: list[int] = []
    start: int | None = None
    has_result = False
    for at, message in enumerate([*messages, {"role": "assistant"}]):
        if message.get("role") == "assistant":
            if start is not None and not has_result:
                starts.append(start)
            start, has_result = None, False
        else:
            start = at if start is None else start
            has_result = has_result or any(block.get("type") == "tool_result" for block in blocks(message))
    return starts


class _Pruning:
    """One step, done to all messages."""

    def __init__(self, outline: MessageOutline, step: PruneStep) -> None:
        self._outline = outline
        self._step = step
        self._removed_calls = _find_removed_calls(outline, step)

    def messages(self) -> list[Json]:
        """Return what is left; all of it, if it would not begin with the user: the API demands that."""
        outline = self._outline
        until = max(outline.newest_from, outline.steps_from) if self._step.newest else outline.newest_from
        until = min(until, outline.open_from)
        pruned = [
            kept for at, message in enumerate(outline.messages[:until]) if (kept := self._prune_message(at, message))
        ] + [*outline.messages[until:]]
        return pruned if pruned and pruned[0].get("role") == "user" else list(outline.messages)

    def _prune_message(self, at: int, message: Json) -> Json | None:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        kept = [left for block in content if (left := self._prune_block(at, block)) is not None]
        if len(kept) == len(content) and all(map(is_, kept, content)):
            return message
        return {**message, "content": kept} if kept else None

    def _prune_block(self, at: int, block: Json) -> Json | None:
        """Return what is left of a block; the same object if all of it is."""
        step, is_old = self._step, at < self._outline.newest_from
        match block.get("type"):
            case "tool_use":
                if str(block.get("id")) in self._removed_calls:
                    return None
                return _shorten_input(block) if step.inputs and is_old else block
            case "tool_result":
                return None if str(block.get("tool_use_id")) in self._removed_calls else self._prune_result(at, block)
            case "image" | "document" if step.pictures:
                replaced: Json = _replace_media(block)
                return replaced
            case "thinking" | "redacted_thinking" if step.thinking and is_old:
                return None
            case "text" if is_old and str(block.get("text")).startswith(_REMINDER):
                return self._prune_reminder(at, block)
            case _:
                return block

    def _prune_result(self, at: int, block: Json) -> Json:
        content = block.get("content")
        size = len(encode_json(content)) if content else 0
        reason = self._reason(at, block, size)
        if reason is not None and not (isinstance(content, str) and content.startswith(STUB_PREFIX)):
            words = format_stub(
                f"result of {self._outline.describe_call(block.get('tool_use_id'))}", size, reason, _AGAIN
            )
            if len(encode_json(words)) < size and not _loads_tools(content):
                return {**block, "content": words}
        if self._step.pictures and isinstance(content, list):
            shown = [_replace_media(inner) for inner in content]
            return block if all(map(is_, shown, content)) else {**block, "content": shown}
        return block

    def _prune_reminder(self, at: int, block: Json) -> Json:
        """Return a reminder; instead of a long old one (a file that was read for a prompt), a stub."""
        size, age = len(str(block["text"]).encode(errors="replace")), self._outline.age(at)
        if self._step.results is None or age < self._step.results or size <= self._step.larger_than:
            return block
        words = format_stub(
            "a reminder", size, f"{age} turn{'' if age == 1 else 's'} old", "read it again if it is needed"
        )
        return {**block, "text": f"{_REMINDER}\n{words}\n</system-reminder>"}

    def _reason(self, at: int, block: Json, size: int) -> str | None:
        """Return why a result is removed; None if it stays."""
        step, age = self._step, self._outline.age(at)
        if step.superseded and str(block.get("tool_use_id")) in self._outline.superseded and not block.get("is_error"):
            return "the file was read again or changed later"
        if size > step.larger_than and step.results is not None and (age >= step.results or not age):
            return f"{age} turn{'' if age == 1 else 's'} old" if age else "some steps old"
        return None


def _find_removed_calls(outline: MessageOutline, step: PruneStep) -> set[str]:
    """Return the calls that are removed with their results: all of a response or none."""
    removed: set[str] = set()
    if step.calls is None:
        return removed
    for at, message in enumerate(outline.messages[: outline.newest_from]):
        ids = {str(block.get("id")) for block in blocks(message) if block.get("type") == "tool_use"}
        if ids and ids <= outline.results.keys() and outline.age(at) >= step.calls:
            removed |= ids
    return removed


def _shorten_input(block: Json) -> Json:
    short = shorten_long_parts(block.get("input"))
    return block if short is block.get("input") else {**block, "input": short}


def _replace_media(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") in ("image", "document"):
        stands = {"type": "text", "text": describe_media(block)}
        return stands if estimate_block(stands) < estimate_block(block) else block
    return block


def estimate_block(block: Json) -> int:
    """Return about how many tokens a block has."""
    return estimate_request_tokens({"messages": [{"content": [block]}]})


def describe_media(block: Json) -> str:
    """Return the text that replaces an image or a document."""
    source = block.get("source")
    fields = source if isinstance(source, dict) else {}
    data = str(fields.get("data") or "")
    return format_media_stub(str(block.get("type")), fields.get("media_type"), data, "ask for it again if it is needed")


def _loads_tools(content: object) -> bool:
    """Tell whether a result loads tools: without it the model would not have them."""
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_reference" for block in content
    )
