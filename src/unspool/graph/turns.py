"""Finds the prompts of a session and splits it into turns, of a whole file or while it grows.

`speakers.py` tells prompts from the other user lines.

Rules
  1. A prompt typed while the model worked may have no line of its own. Before 2.1.100 its text is only in
     `queue-operation` lines, later in a `queued_command` attachment. It is a prompt if it is no command, notification
     or task (JSON), and no later user line or attachment has the same text.
  2. `PromptTracker` takes the lines one by one. After all lines of a file its prompts are those of `find_prompts`, in
     however many steps the lines came: a queued prompt that a later line repeats (rule 1) is taken back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from unspool.format import AnyBlock, Attachment, Entry, QueuedCommand, QueueOperation, Text, ToolResult, User, as_blocks
from unspool.graph.speakers import MACHINE_ORIGINS, Speaker, classify_user_line, is_typed_prompt, join_typed_texts


class Turn(msgspec.Struct, frozen=True):
    """A prompt and the lines after it, up to the next prompt."""

    prompt: Entry
    speaker: Speaker
    text: str
    entries: tuple[Entry, ...]
    """The lines after the prompt."""


def classify_user_record(record: User) -> Speaker:
    """Return what a user line is."""
    blocks = record.message.blocks
    has_result = any(isinstance(block, ToolResult) for block in blocks)
    return classify_user_line(record, _texts(blocks), has_result=has_result)


def find_prompts(entries: Sequence[Entry]) -> list[tuple[Entry, Speaker, str]]:
    """Return every prompt of a person in file order: the line, whether it was queued, its text."""
    prompts: dict[int, tuple[Entry, Speaker, str]] = {}
    waiting: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        if type(entry.record) not in _WITH_PROMPTS:  # most lines: `match` would try its cases one after the other
            continue
        match entry.record:
            case User(message=message) as record:
                text = join_text(message.blocks) if waiting else ""
                if classify_user_record(record) is Speaker.HUMAN:
                    prompts[index] = (entry, Speaker.HUMAN, typed_text(message.blocks))
            case Attachment(attachment=QueuedCommand() as queued):
                text = join_text(as_blocks(queued.prompt))
                if is_queued_prompt(queued):
                    prompts[index] = (entry, Speaker.QUEUED, text)
            case QueueOperation(operation="enqueue", content=content) if content:
                text = join_text(as_blocks(content))
                if is_typed_prompt(text):
                    prompts[index] = (entry, Speaker.QUEUED, text)
                    waiting.setdefault(text.strip(), []).append(index)
                continue
            case _:
                continue
        # A queued prompt that a later line repeats is no prompt of its own (rule 1).
        for repeated in waiting.pop(text.strip(), ()):
            del prompts[repeated]
    return list(prompts.values())


_WITH_PROMPTS = frozenset({User, Attachment, QueueOperation})


def split_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the turns of a conversation in file order; what comes before the first prompt belongs to none."""
    starts = {entry.offset: (kind, text) for entry, kind, text in find_prompts(entries)}
    groups: list[tuple[Entry, list[Entry]]] = []
    for entry in entries:
        if entry.offset in starts:
            groups.append((entry, []))
        elif groups:
            groups[-1][1].append(entry)
    return [Turn(prompt, *starts[prompt.offset], tuple(following)) for prompt, following in groups]


def is_queued_prompt(queued: QueuedCommand) -> bool:
    """Tell whether a person typed a queued command."""
    machine = isinstance(queued.origin, dict) and queued.origin.get("kind") in MACHINE_ORIGINS
    if machine or queued.is_meta or queued.command_mode not in (None, "prompt"):
        return False
    text = join_text(as_blocks(queued.prompt))
    # Blocks without text are a prompt too: a person may send nothing but an image.
    return is_typed_prompt(text) if text.strip() else bool(queued.prompt) and not isinstance(queued.prompt, str)


def join_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the texts of blocks, one after the other."""
    return "\n".join(_texts(blocks))


def typed_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the text of a prompt without what the editor or Claude Code put beside it."""
    return join_typed_texts(_texts(blocks))


def first_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the text of the first text block."""
    return next((block.text for block in blocks if isinstance(block, Text)), "")


def _texts(blocks: Sequence[AnyBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


class PromptTracker(msgspec.Struct):
    """The prompts of a file so far, and which of them are new.

    The search index stores it as msgpack by the names of its fields.
    """

    waiting: list[tuple[int, bytes]] = []
    """The offsets of queued prompts that no line has repeated yet, with a hash of their text."""
    found: list[tuple[int, str | None]] = []
    """The offsets of prompts since the owner last cleared this list, with the time of their lines."""
    taken_back: list[int] = []
    """The offsets of prompts that turned out to be none."""

    def add(self, entry: Entry) -> None:
        """Add a user line, an attachment or a queue operation; other lines change nothing."""
        match entry.record:
            case User() as record:
                self._drop_repeated(join_text(record.message.blocks))
                if classify_user_record(record) is Speaker.HUMAN:
                    self._add_prompt(entry)
            case Attachment(attachment=QueuedCommand() as queued):
                self._drop_repeated(join_text(as_blocks(queued.prompt)))
                if is_queued_prompt(queued):
                    self._add_prompt(entry)
            case QueueOperation(operation="enqueue", content=content) if content:
                if is_typed_prompt(text := join_text(as_blocks(content))):
                    self.waiting.append((entry.offset, _digest(text)))
                    self._add_prompt(entry)
            case _:
                pass

    def _add_prompt(self, entry: Entry) -> None:
        self.found.append((entry.offset, entry.record.timestamp))

    def _drop_repeated(self, text: str) -> None:
        if not self.waiting:
            return
        digest = _digest(text)
        repeated = [offset for offset, queued in self.waiting if queued == digest]
        if repeated:
            self.waiting = [queued for queued in self.waiting if queued[1] != digest]
            self.found = [start for start in self.found if start[0] not in repeated]
            self.taken_back += repeated


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
