"""What will be sent, as it grows: words, blocks and results in, messages out. What `graph/context.py` reads from disk.

Rules
  1. What the user's side says in a row is one message; two texts that meet have a line end between them.
  2. The blocks of an answer are one message, calls last. One that says nothing but its thinking is not sent.
  3. Nothing that was added is changed later, so that what the API has cached stays.
  4. What the system said last stays last: an answer follows it, not the user's words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

THINKING = frozenset({"thinking", "redacted_thinking"})


class Conversation:
    """The messages of one conversation."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: list[Json] = [*messages]
        self._answering: str | None = None

    def hear(self, content: str | list[Json]) -> None:
        """Add what the user's side says."""
        self._answering = None
        blocks = [block for block in as_blocks(content) if says_something(block)]
        if not blocks:
            return
        messages = self.messages
        after = [messages.pop()] if messages and messages[-1]["role"] == "system" else []
        last = messages[-1] if messages else None
        if last is None or last["role"] != "user":
            messages += [{"role": "user", "content": blocks}, *after]
            return
        said = [*last["content"]]
        if said[-1].get("type") == "text" and blocks[0].get("type") == "text":
            said[-1] = {**said[-1], "text": said[-1]["text"] + "\n"}
        messages[-1:] = [{"role": "user", "content": [*said, *blocks]}, *after]

    def say(self, id: str, block: Json) -> None:
        """Add a block of an answer."""
        if not says_something(block):
            return
        if self._answering != id:
            self._answering = id
            self.messages.append({"role": "assistant", "content": [block]})
            return
        content: list[Json] = self.messages[-1]["content"]
        place = len(content)
        if block.get("type") != "tool_use":
            while place and content[place - 1].get("type") == "tool_use":
                place -= 1
        content.insert(place, block)

    def settle(self) -> None:
        """End an answer: one that says nothing is forgotten."""
        if self._answering is not None and all(block["type"] in THINKING for block in self.messages[-1]["content"]):
            self.messages.pop()
        self._answering = None

    def become(self, messages: Iterable[Json]) -> None:
        """Be another conversation from now on: after a compaction, a way back, another model."""
        self.messages = [*messages]
        self._answering = None

    def without_thinking(self) -> None:
        """Forget what was thought: another model goes on."""
        kept = []
        for message in self.messages:
            content = [block for block in message["content"] if block.get("type") not in THINKING]
            if content:
                kept.append({**message, "content": content})
        self.become(kept)


def as_blocks(content: str | list[Json]) -> list[Json]:
    """Return content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def text_of(content: str | list[Json]) -> str:
    """Return the words of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def says_something(block: Json) -> bool:
    """Tell a block from a blank text, which the API refuses."""
    return block.get("type") != "text" or bool(str(block.get("text", "")).strip())
