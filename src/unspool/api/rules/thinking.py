"""Thinking: signed, where it may stand, unchanged while tools are at work.

Rules
  1. A signature without words is normal: from Claude Code 2.1.160 on the words are often not shown. Words without a
     signature are not: nobody can tell that they are the model's.
  2. A loop of tool calls that is still open is one answer. It begins with thinking if thinking is enabled; in adaptive
     mode the model decides. Of what was answered in this run (`Memory`), the thinking must be there, as it was.
  3. No signature can be verified here. What is checked is that it is there, with the words that it was sent with.
"""

from __future__ import annotations

from collections.abc import Iterator

from unspool.api.rules.parameters import thinks
from unspool.api.rules.problem import Json, Placed, Problem, at, blocks
from unspool.api.rules.turns import Turn

KINDS = ("thinking", "redacted_thinking")
_CHANGED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_MUST_START = (
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block "
    "(preceeding the lastmost set of `tool_use` and `tool_result` blocks). "
    "We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
)


class Memory:
    """What a server has answered so far: the thinking that went with each call, the words of each signature."""

    def __init__(self) -> None:
        self._thinking: dict[str, list[Json]] = {}
        self._words: dict[str, set[str]] = {}

    def keep(self, message: Json) -> None:
        """Remember an answer that was sent whole."""
        content = [block for _, block in blocks(message.get("content"))]
        thinking = [block for block in content if block["type"] in KINDS]
        for block in content:
            if block["type"] == "tool_use" and isinstance(block.get("id"), str):
                self._thinking[block["id"]] = thinking
        for block in thinking:
            if block.get("signature"):
                self._words.setdefault(str(block["signature"]), set()).add(str(block.get("thinking")))

    def thinking(self, call: str) -> list[Json] | None:
        """Return the thinking that was sent with a call; None if this server has not sent it."""
        return self._thinking.get(call)

    def denies(self, signature: object, words: object) -> bool:
        """Tell whether a signature was sent with other words."""
        sent = self._words.get(str(signature))
        return sent is not None and words not in sent


def thoughts(body: Json, talk: list[Turn], memory: Memory) -> Iterator[Problem]:
    """Check the thinking of a request."""
    loop = _open_loop(talk)
    latest = {placed.path for turn in loop for placed in turn.blocks}
    for turn in talk:
        if turn.role == "assistant":
            yield from _signed(turn, latest, memory)
    if loop and thinks(body) != "disabled":
        yield from _kept(loop, memory)
        yield from _begins(body, loop[0], memory)
    elif talk and talk[-1].role == "assistant":
        yield from _last(talk[-1])
        yield from _prefilled(body, talk[-1])


def _open_loop(talk: list[Turn]) -> list[Turn]:
    """Return the assistant's turns since somebody last said something, if it waits for results; from first to last."""
    found: list[Turn] = []
    for turn in reversed(talk):
        if turn.role == "assistant":
            found.append(turn)
        elif not turn.of("tool_result"):
            break
    return found[::-1] if talk and talk[-1].role == "user" and talk[-1].of("tool_result") else []


def _signed(turn: Turn, latest: set[str], memory: Memory) -> Iterator[Problem]:
    for placed in turn.of("thinking"):
        signature, words = placed.block.get("signature"), placed.block.get("thinking")
        if signature == "":
            yield at(placed.path, "Invalid `signature` in `thinking` block")
        elif memory.denies(signature, words):
            yield at(placed.path, _CHANGED if placed.path in latest else "Invalid `signature` in `thinking` block")
    for placed in turn.of("redacted_thinking"):
        if placed.block.get("data") == "":
            yield at(placed.path, "Invalid `data` in `redacted_thinking` block")


def _last(turn: Turn) -> Iterator[Problem]:
    """Check the end of a last answer. Earlier ones may end in thinking: one that was cut off is sent like that."""
    if turn.blocks and turn.blocks[-1].type in KINDS:
        placed = turn.blocks[-1]
        yield at(f"messages.{placed.message}", f"The final block in an assistant message cannot be `{placed.type}`.")


def _kept(loop: list[Turn], memory: Memory) -> Iterator[Problem]:
    """Check that the thinking of answers given in this run is there, as it was."""
    for turn in loop:
        for number in turn.messages:
            said = [placed for placed in turn.blocks if placed.message == number]
            sent = next((known for placed in said if (known := _sent(placed, memory)) is not None), None)
            if sent is None:
                continue
            thinking = [placed for placed in said if placed.type in KINDS]
            if [placed.block for placed in thinking] != sent and not _told(thinking, memory):
                yield at(thinking[0].path if thinking else f"messages.{number}.content.0", _CHANGED)


def _told(thinking: list[Placed], memory: Memory) -> bool:
    """Tell whether changed words were found already, signature by signature."""
    return any(memory.denies(placed.block.get("signature"), placed.block.get("thinking")) for placed in thinking)


def _begins(body: Json, turn: Turn, memory: Memory) -> Iterator[Problem]:
    """Check that an open loop begins with thinking, unless this server began it without."""
    if thinks(body) != "enabled" or not turn.blocks or turn.blocks[0].type in KINDS:
        return
    if any(_sent(placed, memory) is not None for placed in turn.blocks):
        return
    first = turn.blocks[0]
    yield at(
        f"{first.path}.type", f"Expected `thinking` or `redacted_thinking`, but found `{first.type}`. {_MUST_START}"
    )


def _prefilled(body: Json, turn: Turn) -> Iterator[Problem]:
    """Check an answer that was begun for a model."""
    thinking = turn.of(*KINDS)
    if thinks(body) == "disabled" and thinking:
        words = "When thinking is disabled, an `assistant` message in the final position cannot contain"
        yield at(
            thinking[0].path,
            f"{words} `{thinking[0].type}`. To use thinking blocks, enable `thinking` in your request.",
        )
    elif thinks(body) == "enabled" and turn.blocks and turn.blocks[0].type not in KINDS:
        first = turn.blocks[0]
        words = f"Expected `thinking` or `redacted_thinking`, but found `{first.type}`. {_MUST_START}"
        yield at(f"{first.path}.type", words)


def _sent(placed: Placed, memory: Memory) -> list[Json] | None:
    id = placed.block.get("id")
    return memory.thinking(id) if placed.type == "tool_use" and isinstance(id, str) else None
