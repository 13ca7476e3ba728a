"""Messages as they follow each other: who speaks, what is empty, which result belongs to which call.

Rules
  1. Messages of one role in a row are one turn, as the API reads them.
  2. A turn's calls are answered by the turn after it, each once, before anything else in it.
  3. A server's tools are answered in the turn that called them; one that pauses at the end may still be waiting.
  4. A system message may follow a user's message, and an assistant's or nothing follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from unspool.api.rules.contents import SERVER_RESULTS
from unspool.api.rules.problem import Json, Placed, Problem, at, blocks

_PREFILLED = re.compile(r"claude-(instant|[23])|claude-(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|-latest|@.*)?$")
"""Models that go on with an answer that was begun for them."""
_CALLS = {"server_tool_use", "mcp_tool_use"}
_ANSWERS = {*SERVER_RESULTS, "mcp_tool_result"}


class Turn(NamedTuple):
    """What one side says until the other does."""

    role: str
    messages: list[int]
    blocks: list[Placed]

    def of(self, *kinds: str) -> list[Placed]:
        """Return the blocks of some types."""
        return [block for block in self.blocks if block.type in kinds]


def turns(body: Json) -> list[Turn]:
    """Return the turns of a request; what the system says in between is in none."""
    found: list[Turn] = []
    for number, message in _messages(body):
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        if not found or found[-1].role != role:
            found.append(Turn(role, [], []))
        found[-1].messages.append(number)
        found[-1].blocks.extend(Placed(number, place, block) for place, block in blocks(message.get("content")))
    return found


def order(body: Json, talk: list[Turn]) -> Iterator[Problem]:
    """Check who speaks when, and that something is said."""
    messages = [*_messages(body)]
    if messages and messages[0][1].get("role") in ("assistant", "system"):
        yield at("messages", 'first message must use the "user" role')
    for (_, before), (number, message), (_, after) in zip(
        [(0, {}), *messages], messages, [*messages[1:], (0, {})], strict=False
    ):
        if message.get("role") == "system" and number:
            yield from _system(before.get("role"), number, after.get("role"))
    for number, message in messages:
        last = number == messages[-1][0] and message.get("role") == "assistant"
        yield from _said(message, number, last=last)
    if talk and talk[-1].role == "assistant":
        yield from _prefill(talk[-1], str(body.get("model")))


def pairs(talk: list[Turn]) -> Iterator[Problem]:
    """Check that every call has its result, and every result its call."""
    seen: set[str] = set()
    for number, turn in enumerate(talk):
        following = talk[number + 1] if number + 1 < len(talk) else None
        if turn.role == "assistant":
            for call in turn.of("tool_use", *_CALLS):
                if _id(call) in seen:
                    yield at(call.path, "`tool_use` ids must be unique")
                seen.add(_id(call))
            yield from _answered(turn, following)
            yield from _served(turn, last=following is None)
        else:
            yield from _asked(turn, talk[number - 1] if number else None)


def _messages(body: Json) -> Iterator[tuple[int, Json]]:
    given = body.get("messages")
    for number, message in enumerate(given if isinstance(given, list) else ()):
        if isinstance(message, dict):
            yield number, message


def _system(before: object, number: int, after: object) -> Iterator[Problem]:
    if before == "system":
        yield at(f"messages.{number}", "consecutive `system` messages are not supported")
    elif before == "assistant":
        yield at(f"messages.{number}", "a `system` message must follow a `user` message")
    if after == "user":
        yield at(
            f"messages.{number}", "a `system` message must be the last message or be followed by an `assistant` message"
        )


def _said(message: Json, number: int, *, last: bool) -> Iterator[Problem]:
    content, role = message.get("content"), message.get("role")
    if content in ("", []) and isinstance(content, str | list):
        if role != "system" and not last:  # a system message without text carries a setting
            words = "all messages must have non-empty content except for the optional final assistant message"
            yield at(f"messages.{number}", words)
        return
    for place, block in blocks(content):
        text = block.get("text")
        if block["type"] != "text" or not isinstance(text, str) or text.strip():
            continue
        if text == "" and block.get("cache_control"):
            words = "cache_control cannot be set for empty text blocks"
            yield at(f"messages.{number}.content.{place}.text", words)
        else:
            words = "contain non-whitespace text" if text else "be non-empty"
            yield Problem(f"messages: text content blocks must {words}", f"messages.{number}.content.{place}")


def _prefill(turn: Turn, model: str) -> Iterator[Problem]:
    """Check an answer that was begun for the model. One that paused for a server's tool is sent back to go on."""
    if model.startswith("claude-") and not _PREFILLED.match(model) and not turn.of("server_tool_use"):
        words = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield at("", words)
    if turn.blocks and turn.blocks[-1].type == "text":
        text = turn.blocks[-1].block.get("text")
        if isinstance(text, str) and text.strip() and text != text.rstrip():
            yield at("messages", "final assistant content cannot end with trailing whitespace")


def _answered(turn: Turn, following: Turn | None) -> Iterator[Problem]:
    """Check that a turn's calls are answered at the beginning of the next."""
    leading: set[str] = set()
    for placed in following.blocks if following else ():
        if placed.type != "tool_result":
            break
        leading.add(_answer(placed))
    lacking = [call for call in turn.of("tool_use") if _id(call) not in leading]
    if lacking:
        ids = ", ".join(_id(call) for call in lacking)
        words = f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        rest = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        yield at(f"messages.{lacking[0].message}", words + rest)


def _asked(turn: Turn, before: Turn | None) -> Iterator[Problem]:
    """Check that a turn's results were asked for, each once."""
    asked = {_id(call) for call in before.of("tool_use")} if before else set()
    given: set[str] = set()
    for result in turn.of("tool_result"):
        id = _answer(result)
        if id not in asked:
            words = f"unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
            rest = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            yield at(result.path, words + rest)
        elif id in given:
            words = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            yield at(result.path, words)
        given.add(id)


def _served(turn: Turn, *, last: bool) -> Iterator[Problem]:
    """Check the tools that the API itself runs."""
    waiting: dict[str, Placed] = {}
    called: set[str] = set()
    for placed in turn.blocks:
        if placed.type in _CALLS:
            waiting[_id(placed)] = placed
            called.add(_id(placed))
        elif placed.type in _ANSWERS:
            if _answer(placed) not in called:
                words = f"unexpected `tool_use_id` found in `{placed.type}` blocks: {_answer(placed)}. "
                call = "mcp_tool_use" if placed.type == "mcp_tool_result" else "server_tool_use"
                yield at(
                    placed.path,
                    f"{words}Each `{placed.type}` block must have a corresponding `{call}` block before it.",
                )
            waiting.pop(_answer(placed), None)
    for id, placed in waiting.items():
        if not last:
            name = placed.block.get("name")
            words = f"`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"
            yield at(f"messages.{placed.message}", words)


def _id(placed: Placed) -> str:
    return str(placed.block.get("id"))


def _answer(placed: Placed) -> str:
    return str(placed.block.get("tool_use_id"))
