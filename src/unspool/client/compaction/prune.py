"""A shorter conversation without a model: messages in, shorter messages out, mildest first. Nothing is written.

The rungs are the editor's (`edit/trim.py`), done to the messages that would be sent: superseded reads, old results,
pictures, old thinking, large inputs, whole calls. The session's file keeps everything; who resumes it begins anew.

Rules
  1. What a person or the model said stays, word for word; only what tools were given and brought goes, and long
     reminders of the program's: files that were read for a prompt.
  2. Calls and results stay pairs. What is replaced says what it was (`edit/stubs.py`), and is never replaced again.
  3. The newest turn is touched last: its older results only, never what the model has not answered yet, nor what it
     thought.
  4. No rung makes a conversation larger; a message that a rung leaves alone is the same object as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.edit.stubs import MARK, named, shortened, stub
from unspool.format.blocks import ToolUse
from unspool.format.json_edit import encode
from unspool.prices.token_estimate import estimate

Json: TypeAlias = dict[str, Any]
_AGES = (10, 3, 1)
_AGAIN = "call it again if it is needed"
_REMINDER = "<system-reminder>"
_CHANGING = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_NEWEST_STEPS = 2
"""Answered steps of the newest turn that keep their results to the last."""


class Wish(NamedTuple):
    """What goes, and how old it must be: so many prompts must have come after it."""

    superseded: bool = False
    results: int | None = None
    larger_than: int = 2048
    pictures: bool = False
    thinking: bool = False
    inputs: bool = False
    calls: int | None = None
    newest: bool = False
    """Whether older results of the newest turn go too."""


def rungs(messages: Sequence[Json]) -> Iterator[list[Json]]:
    """Yield the conversation shorter and shorter; what changes nothing is left out."""
    outline = Outline(messages)
    before = list(messages)
    for wish in _wishes():
        after = _Thinning(outline, wish).messages()
        if len(after) != len(before) or any(one is not two for one, two in zip(after, before, strict=True)):
            yield after
            before = after


def thinnest(messages: Sequence[Json]) -> list[Json]:
    """Return the conversation on its last rung: as short as it gets without a model."""
    *_, last = _wishes()
    return _Thinning(Outline(messages), last).messages()


def _wishes() -> Iterator[Wish]:
    wish = Wish(superseded=True)
    yield wish
    for age in _AGES:
        wish = wish._replace(results=age)
        yield wish
    wish = wish._replace(pictures=True, larger_than=512)
    yield wish
    wish = wish._replace(thinking=True)
    yield wish
    wish = wish._replace(inputs=True)
    yield wish
    for age in _AGES:
        wish = wish._replace(calls=age)
        yield wish
    yield wish._replace(newest=True)


class Outline:
    """Where turns begin in a list of messages, which calls there are, what is not answered yet."""

    def __init__(self, messages: Sequence[Json]) -> None:
        self.messages = messages
        self.uses: dict[str, Json] = {}
        self.results: dict[str, Json] = {}
        for message in messages:
            for block in blocks(message):
                if block.get("type") == "tool_use":
                    self.uses[str(block.get("id"))] = block
                elif block.get("type") == "tool_result":
                    self.results[str(block.get("tool_use_id"))] = block
        self.starts = _starts(messages)
        answers = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
        self.open_from = answers[-1] + 1 if answers else 0
        """What comes here has not been answered."""
        self.newest_from = self.starts[-1] if self.starts else 0
        self.steps_from = answers[-1 - _NEWEST_STEPS] if len(answers) > _NEWEST_STEPS else 0
        self.superseded = self._superseded()

    def age(self, at: int) -> int:
        """Return how many turns began after a message."""
        return len(self.starts) - bisect_right(self.starts, at)

    def named(self, id: object) -> str:
        """Return a call in a few words."""
        use = self.uses.get(str(id), {})
        return named(ToolUse(id=str(id), name=str(use.get("name") or "a tool"), input=use.get("input") or {}))

    def _superseded(self) -> set[str]:
        """Return the reads of files that were read again, whole or the same part, or changed, later."""
        later: dict[str, set[tuple[str, ...]]] = {}
        found: set[str] = set()
        for id, use in reversed(self.uses.items()):
            given = use.get("input")
            path = given.get("file_path") or given.get("notebook_path") if isinstance(given, dict) else None
            result = self.results.get(id, {"is_error": True})
            if not isinstance(given, dict) or not isinstance(path, str) or result.get("is_error"):
                continue
            part = tuple(str(given.get(name)) for name in ("offset", "limit", "pages"))
            if use.get("name") == "Read":
                if later.get(path, set()) & {part, _WHOLE}:
                    found.add(id)
                later.setdefault(path, set()).add(part)
            elif use.get("name") in _CHANGING:
                later.setdefault(path, set()).add(_WHOLE)
        return found


_WHOLE = ("None", "None", "None")


def blocks(message: Json) -> list[Json]:
    """Return the blocks of a message; none if it is a plain string."""
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _starts(messages: Sequence[Json]) -> list[int]:
    """Return where turns begin: what the user says in a row, without a result. The API reads a row as one message."""
    starts: list[int] = []
    row: int | None = None
    has_result = False
    for at, message in enumerate([*messages, {"role": "assistant"}]):
        if message.get("role") == "assistant":
            if row is not None and not has_result:
                starts.append(row)
            row, has_result = None, False
        else:
            row = at if row is None else row
            has_result = has_result or any(block.get("type") == "tool_result" for block in blocks(message))
    return starts


class _Thinning:
    """One wish, done to all messages."""

    def __init__(self, outline: Outline, wish: Wish) -> None:
        self._outline = outline
        self._wish = wish
        self._gone = _calls(outline, wish)

    def messages(self) -> list[Json]:
        """Return what is left; as it was, if it would not begin with the user."""
        outline = self._outline
        until = max(outline.newest_from, outline.steps_from) if self._wish.newest else outline.newest_from
        until = min(until, outline.open_from)
        thinned = [
            kept for at, message in enumerate(outline.messages[:until]) if (kept := self._message(at, message))
        ] + [*outline.messages[until:]]
        return thinned if thinned and thinned[0].get("role") == "user" else list(outline.messages)

    def _message(self, at: int, message: Json) -> Json | None:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        kept = [left for block in content if (left := self._block(at, block)) is not None]
        if len(kept) == len(content) and all(map(_is, kept, content)):
            return message
        return {**message, "content": kept} if kept else None

    def _block(self, at: int, block: Json) -> Json | None:
        """Return what is left of a block; the same object if all of it is."""
        wish, is_old = self._wish, at < self._outline.newest_from
        match block.get("type"):
            case "tool_use":
                if str(block.get("id")) in self._gone:
                    return None
                return _input(block) if wish.inputs and is_old else block
            case "tool_result":
                return None if str(block.get("tool_use_id")) in self._gone else self._result(at, block)
            case "image" | "document" if wish.pictures:
                stands: Json = _shown(block)
                return stands
            case "thinking" | "redacted_thinking" if wish.thinking and is_old:
                return None
            case "text" if is_old and str(block.get("text")).startswith(_REMINDER):
                return self._reminder(at, block)
            case _:
                return block

    def _result(self, at: int, block: Json) -> Json:
        content = block.get("content")
        size = len(encode(content)) if content else 0
        reason = self._reason(at, block, size)
        if reason is not None and not (isinstance(content, str) and content.startswith(MARK)):
            words = stub(f"result of {self._outline.named(block.get('tool_use_id'))}", size, reason, _AGAIN)
            if len(encode(words)) < size and not _loads_tools(content):
                return {**block, "content": words}
        if self._wish.pictures and isinstance(content, list):
            shown = [_shown(inner) for inner in content]
            return block if all(map(_is, shown, content)) else {**block, "content": shown}
        return block

    def _reminder(self, at: int, block: Json) -> Json:
        """Return a reminder; a long old one (a file that was read for a prompt) only by its name."""
        size, age = len(str(block["text"]).encode(errors="replace")), self._outline.age(at)
        if self._wish.results is None or age < self._wish.results or size <= self._wish.larger_than:
            return block
        words = stub("a reminder", size, f"{age} turn{'' if age == 1 else 's'} old", "read it again if it is needed")
        return {**block, "text": f"{_REMINDER}\n{words}\n</system-reminder>"}

    def _reason(self, at: int, block: Json, size: int) -> str | None:
        """Say why a result goes, if it does."""
        wish, age = self._wish, self._outline.age(at)
        if wish.superseded and str(block.get("tool_use_id")) in self._outline.superseded and not block.get("is_error"):
            return "the file was read again or changed later"
        if size > wish.larger_than and wish.results is not None and (age >= wish.results or not age):
            return f"{age} turn{'' if age == 1 else 's'} old" if age else "some steps old"
        return None


def _is(one: object, two: object) -> bool:
    return one is two


def _calls(outline: Outline, wish: Wish) -> set[str]:
    """Return the calls that go with their results: all of an answer or none."""
    gone: set[str] = set()
    if wish.calls is None:
        return gone
    for at, message in enumerate(outline.messages[: outline.newest_from]):
        ids = {str(block.get("id")) for block in blocks(message) if block.get("type") == "tool_use"}
        if ids and ids <= outline.results.keys() and outline.age(at) >= wish.calls:
            gone |= ids
    return gone


def _input(block: Json) -> Json:
    short = shortened(msgspec.Raw(encode(block.get("input"))))
    return block if short is None else {**block, "input": short}


def _shown(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") in ("image", "document"):
        stands = {"type": "text", "text": hidden(block)}
        return stands if weight(stands) < weight(block) else block
    return block


def weight(block: Json) -> int:
    """Return about how many tokens a block is."""
    return estimate({"messages": [{"content": [block]}]})


def hidden(block: Json) -> str:
    """Return what stands in place of a picture or a document."""
    source = block.get("source")
    given = source if isinstance(source, dict) else {}
    what = f"{block.get('type')} {given.get('media_type') or ''}".strip()
    return stub(what, len(str(given.get("data") or "")), "trimmed to save room", "ask for it again if it is needed")


def _loads_tools(content: object) -> bool:
    """Tell whether a result brings tools: without it they would be gone."""
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_reference" for block in content
    )
