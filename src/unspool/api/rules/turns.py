"""Checks what depends on more than one message: the order of roles, calls and their results, thinking.

Rules
  1. Messages of one role in a row are one turn, as the API reads them.
  2. A turn's calls are answered by the turn after it, each once, before anything else in it.
  3. A server's tools are answered in the turn that called them; one that pauses at the end may still be waiting.
  4. A system message may follow a user's message, and an assistant's or nothing follows it.
  5. A signature without text is normal: from Claude Code 2.1.160 on the text of thinking is often not shown. Text
     without a signature is not: nobody can tell that it is the model's.
  6. A loop of tool calls that is still open is one response. It begins with thinking if thinking is enabled; in
     adaptive mode the model decides. The thinking of responses in this run (`ThinkingMemory`) must be there, as it was.
  7. No signature can be verified here. What is checked is that it is there, with the text that it was sent with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from unspool.api.rules.blocks import SERVER_RESULTS
from unspool.api.rules.parameters import thinking_mode
from unspool.api.rules.problem import Json, Problem, RequestBlock, numbered_blocks, refuse

_PREFILL_MODELS = re.compile(r"claude-(instant|[23])|claude-(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|-latest|@.*)?$")
"""Models that continue a response that was begun for them."""
_SERVER_CALLS = {"server_tool_use", "mcp_tool_use"}
_SERVER_ANSWERS = {*SERVER_RESULTS, "mcp_tool_result"}


class RoleTurn(NamedTuple):
    """Messages of one role in a row."""

    role: str
    messages: list[int]
    blocks: list[RequestBlock]

    def of(self, *kinds: str) -> list[RequestBlock]:
        """Return the blocks of some types."""
        return [block for block in self.blocks if block.type in kinds]


def group_turns(body: Json) -> list[RoleTurn]:
    """Return the turns of a request; system messages are in none."""
    turns: list[RoleTurn] = []
    for number, message in _numbered_messages(body):
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        if not turns or turns[-1].role != role:
            turns.append(RoleTurn(role, [], []))
        turns[-1].messages.append(number)
        blocks = numbered_blocks(message.get("content"))
        turns[-1].blocks.extend(RequestBlock(number, place, block, block["type"]) for place, block in blocks)
    return turns


def check_order(body: Json, turns: list[RoleTurn]) -> Iterator[Problem]:
    """Check the order of roles, and that no message is empty."""
    messages = _numbered_messages(body)
    if messages and messages[0][1].get("role") in ("assistant", "system"):
        yield refuse("messages", 'first message must use the "user" role')
    roles = [None, *(message.get("role") for _, message in messages), None]
    for at, (number, _) in enumerate(messages, 1):
        if roles[at] == "system" and number:
            yield from _check_system(roles[at - 1], f"messages.{number}", roles[at + 1])
    for number, message in messages:
        is_prefill = number == messages[-1][0] and message.get("role") == "assistant"
        yield from _check_texts(message, f"messages.{number}", may_be_empty=is_prefill)
    if turns and turns[-1].role == "assistant":
        yield from _check_prefill(turns[-1], str(body.get("model")))


def check_tool_pairs(turns: list[RoleTurn]) -> Iterator[Problem]:
    """Check that every call has its result, and every result its call."""
    seen: set[str] = set()
    for before, turn, after in zip([None, *turns], turns, [*turns[1:], None], strict=False):
        if turn.role == "assistant":
            for call in turn.of("tool_use", *_SERVER_CALLS):
                if _call_id(call) in seen:
                    yield refuse(call.path, "`tool_use` ids must be unique")
                seen.add(_call_id(call))
            yield from _check_answered(turn, after)
            yield from _check_server_tools(turn, is_last=after is None)
        else:
            yield from _check_results(turn, before)


def _numbered_messages(body: Json) -> list[tuple[int, Json]]:
    messages = body.get("messages")
    numbered = enumerate(messages if isinstance(messages, list) else ())
    return [(number, message) for number, message in numbered if isinstance(message, dict)]


def _check_system(before: object, path: str, after: object) -> Iterator[Problem]:
    if before == "system":
        yield refuse(path, "consecutive `system` messages are not supported")
    elif before == "assistant":
        yield refuse(path, "a `system` message must follow a `user` message")
    if after == "user":
        words = "a `system` message must be the last message or be followed by an `assistant` message"
        yield refuse(path, words)


def _check_texts(message: Json, path: str, *, may_be_empty: bool) -> Iterator[Problem]:
    content = message.get("content")
    if content in ("", []) and isinstance(content, str | list):
        if message.get("role") != "system" and not may_be_empty:  # a system message without text carries a setting
            words = "all messages must have non-empty content except for the optional final assistant message"
            yield refuse(path, words)
        return
    for number, block in numbered_blocks(content):
        text = block.get("text")
        if block["type"] != "text" or not isinstance(text, str) or text.strip():
            continue
        place = f"{path}.content.{number}"
        if text == "" and block.get("cache_control"):
            yield refuse(f"{place}.text", "cache_control cannot be set for empty text blocks")
        else:
            words = "contain non-whitespace text" if text else "be non-empty"
            yield Problem(f"messages: text content blocks must {words}", place)


def _check_prefill(turn: RoleTurn, model: str) -> Iterator[Problem]:
    """Check a response that was begun for the model. One that paused for a server's tool is sent back to continue."""
    if model.startswith("claude-") and not _PREFILL_MODELS.match(model) and not turn.of("server_tool_use"):
        words = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield refuse("", words)
    if turn.blocks and turn.blocks[-1].type == "text":
        text = turn.blocks[-1].block.get("text")
        if isinstance(text, str) and text.strip() and text != text.rstrip():
            yield refuse("messages", "final assistant content cannot end with trailing whitespace")


def _check_answered(turn: RoleTurn, following: RoleTurn | None) -> Iterator[Problem]:
    """Check that a turn's calls are answered at the beginning of the next."""
    # Only results at the beginning count: after any other block the API takes them for late.
    leading: set[str] = set()
    for placed in following.blocks if following else ():
        if placed.type != "tool_result":
            break
        leading.add(_answered_id(placed))
    lacking = [call for call in turn.of("tool_use") if _call_id(call) not in leading]
    if lacking:
        ids = ", ".join(map(_call_id, lacking))
        words = f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. "
        rest = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        yield refuse(f"messages.{lacking[0].message}", words + rest)


def _check_results(turn: RoleTurn, before: RoleTurn | None) -> Iterator[Problem]:
    """Check that a turn's results belong to calls of the turn before, each once."""
    calls = {_call_id(call) for call in before.of("tool_use")} if before else set()
    answered: set[str] = set()
    for result in turn.of("tool_result"):
        id = _answered_id(result)
        if id not in calls:
            words = f"unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
            rest = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            yield refuse(result.path, words + rest)
        elif id in answered:
            words = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            yield refuse(result.path, words)
        answered.add(id)


def _check_server_tools(turn: RoleTurn, *, is_last: bool) -> Iterator[Problem]:
    """Check the tools that the API itself runs."""
    waiting: dict[str, RequestBlock] = {}
    called: set[str] = set()
    for placed in turn.blocks:
        if placed.type in _SERVER_CALLS:
            waiting[_call_id(placed)] = placed
            called.add(_call_id(placed))
        elif placed.type in _SERVER_ANSWERS:
            id = _answered_id(placed)
            if id not in called:
                words = f"unexpected `tool_use_id` found in `{placed.type}` blocks: {id}. "
                call = "mcp_tool_use" if placed.type == "mcp_tool_result" else "server_tool_use"
                rest = f"Each `{placed.type}` block must have a corresponding `{call}` block before it."
                yield refuse(placed.path, words + rest)
            waiting.pop(id, None)
    # A last turn may have paused for the server: its call is still under way.
    for id, placed in waiting.items() if not is_last else ():
        name = placed.block.get("name")
        words = f"`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"
        yield refuse(f"messages.{placed.message}", words)


def _call_id(placed: RequestBlock) -> str:
    return str(placed.block.get("id"))


def _answered_id(placed: RequestBlock) -> str:
    return str(placed.block.get("tool_use_id"))


THINKING_BLOCKS = ("thinking", "redacted_thinking")
_CHANGED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_MUST_START = (
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block "
    "(preceeding the lastmost set of `tool_use` and `tool_result` blocks). "
    "We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
)


class ThinkingMemory:
    """Remembers the thinking that a server has sent: that of each call, and the texts of each signature."""

    def __init__(self) -> None:
        self._by_call: dict[str, list[Json]] = {}
        self._texts: dict[str, set[str]] = {}

    def keep(self, message: Json) -> None:
        """Remember a response that was sent whole."""
        content = [block for _, block in numbered_blocks(message.get("content"))]
        thinking = [block for block in content if block["type"] in THINKING_BLOCKS]
        for block in content:
            if block["type"] == "tool_use" and isinstance(block.get("id"), str):
                self._by_call[block["id"]] = thinking
        for block in thinking:
            if block.get("signature"):
                self._texts.setdefault(str(block["signature"]), set()).add(str(block.get("thinking")))

    def of_call(self, placed: RequestBlock) -> list[Json] | None:
        """Return the thinking that was sent with a call; None if it is no call, or this server has not sent it."""
        id = placed.block.get("id")
        return self._by_call.get(id) if placed.type == "tool_use" and isinstance(id, str) else None

    def denies(self, block: Json) -> bool:
        """Return whether the signature of a thinking block was sent with another text."""
        sent = self._texts.get(str(block.get("signature")))
        return sent is not None and str(block.get("thinking")) not in sent  # as `keep` has it: it may be any JSON


def check_thinking(body: Json, turns: list[RoleTurn], memory: ThinkingMemory) -> Iterator[Problem]:
    """Check the thinking of a request."""
    loop = _find_open_loop(turns)
    latest = {placed.path for turn in loop for placed in turn.blocks}
    for turn in turns:
        if turn.role == "assistant":
            yield from _check_signatures(turn, latest, memory)
    mode = thinking_mode(body)
    if loop and mode != "disabled":
        yield from _check_unchanged(loop, memory)
        # What this server began without thinking may be continued without.
        if mode == "enabled" and all(memory.of_call(placed) is None for placed in loop[0].blocks):
            yield from _check_start(loop[0])
    elif turns and turns[-1].role == "assistant":
        yield from _check_last(turns[-1], mode)


def _find_open_loop(turns: list[RoleTurn]) -> list[RoleTurn]:
    """Return the assistant's turns since the last prompt, if the last of them waits for its results."""
    found: list[RoleTurn] = []
    for turn in reversed(turns):
        if turn.role == "assistant":
            found.append(turn)
        elif not turn.of("tool_result"):
            break
    return found[::-1] if turns and turns[-1].role == "user" and turns[-1].of("tool_result") else []


def _check_signatures(turn: RoleTurn, latest: set[str], memory: ThinkingMemory) -> Iterator[Problem]:
    for placed in turn.of("thinking"):
        if placed.block.get("signature") == "":
            yield refuse(placed.path, "Invalid `signature` in `thinking` block")
        elif memory.denies(placed.block):
            yield refuse(placed.path, _CHANGED if placed.path in latest else "Invalid `signature` in `thinking` block")
    for placed in turn.of("redacted_thinking"):
        if placed.block.get("data") == "":
            yield refuse(placed.path, "Invalid `data` in `redacted_thinking` block")


def _check_unchanged(loop: list[RoleTurn], memory: ThinkingMemory) -> Iterator[Problem]:
    """Check that the thinking of responses given in this run is there, as it was."""
    for turn in loop:
        for number in turn.messages:
            blocks = [placed for placed in turn.blocks if placed.message == number]
            sent = next((known for placed in blocks if (known := memory.of_call(placed)) is not None), None)
            if sent is None:
                continue
            thinking = [placed for placed in blocks if placed.type in THINKING_BLOCKS]
            if [placed.block for placed in thinking] == sent or any(memory.denies(placed.block) for placed in thinking):
                continue  # as it was, or named already, signature by signature
            yield refuse(thinking[0].path if thinking else f"messages.{number}.content.0", _CHANGED)


def _check_start(turn: RoleTurn) -> Iterator[Problem]:
    """Check that a turn begins with thinking."""
    if turn.blocks and (first := turn.blocks[0]).type not in THINKING_BLOCKS:
        words = f"Expected `thinking` or `redacted_thinking`, but found `{first.type}`. {_MUST_START}"
        yield refuse(f"{first.path}.type", words)


def _check_last(turn: RoleTurn, mode: str) -> Iterator[Problem]:
    """Check a final message of the assistant. Earlier ones may end in thinking: one that was cut off is sent so."""
    if turn.blocks and (last := turn.blocks[-1]).type in THINKING_BLOCKS:
        yield refuse(f"messages.{last.message}", f"The final block in an assistant message cannot be `{last.type}`.")
    if mode == "enabled":
        yield from _check_start(turn)
    elif mode == "disabled" and (thinking := turn.of(*THINKING_BLOCKS)):
        words = "When thinking is disabled, an `assistant` message in the final position cannot contain"
        rest = "To use thinking blocks, enable `thinking` in your request."
        yield refuse(thinking[0].path, f"{words} `{thinking[0].type}`. {rest}")
