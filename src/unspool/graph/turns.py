"""Prompts in the order they were given, and turns made of them; `speakers.py` tells prompts from the rest.

Rules
  1. A prompt typed while the model worked may have no line of its own. Before 2.1.100 its text stands only in
     `queue-operation` lines, later in a `queued_command` attachment. It is a prompt if it is no command, notification
     or task (JSON), and no later user line or attachment has the same text.

[merged: starts.py] Where turns begin, found while a file grows: lines in, the prompts among them out.

Rules
  1. After all lines of a file the prompts are those of `turns.prompts`, in however many goes the lines came.
  2. A queued prompt that a later line repeats was none of its own (`turns.py`, rule 5): it is taken back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Text, ToolResult, as_blocks
from unspool.format.entry import Entry
from unspool.format.meta_records import QueueOperation
from unspool.format.records import Attachment, User
from unspool.graph.speakers import MACHINES, Speaker, is_typed, speaker_of, typed_of

__all__ = [
    "Speaker",
    "Turn",
    "first_text",
    "is_prompt",
    "is_typed",
    "prompts",
    "speaker",
    "text_of",
    "turns",
    "typed_text",
]


class Turn(msgspec.Struct, frozen=True):
    """A prompt and all that followed it, up to the next."""

    prompt: Entry
    speaker: Speaker
    text: str
    entries: tuple[Entry, ...]
    """The lines after the prompt."""


def speaker(record: User) -> Speaker:
    """Tell what a user line is."""
    blocks = record.message.blocks
    has_result = any(isinstance(block, ToolResult) for block in blocks)
    return speaker_of(record, _texts(blocks), has_result=has_result)


def prompts(entries: Sequence[Entry]) -> list[tuple[Entry, Speaker, str]]:
    """Return every prompt of a person in file order: the line, whether it was queued, its text."""
    found: list[tuple[Entry, Speaker, str]] = []
    said_later: dict[str, int] | None = None
    for place, entry in enumerate(entries):
        if type(entry.record) not in _SPOKEN:
            continue
        match entry.record:
            case User() as record if speaker(record) is Speaker.HUMAN:
                found.append((entry, Speaker.HUMAN, typed_text(record.message.blocks)))
            case Attachment(attachment=QueuedCommand() as queued) if is_prompt(queued):
                found.append((entry, Speaker.QUEUED, text_of(as_blocks(queued.prompt))))
            case QueueOperation(operation="enqueue", content=content) if content:
                text = text_of(as_blocks(content))
                if is_typed(text):
                    said_later = _said_later(entries) if said_later is None else said_later
                    if said_later.get(text.strip(), -1) < place:
                        found.append((entry, Speaker.QUEUED, text))
            case _:
                pass
    return found


_SPOKEN = frozenset({User, Attachment, QueueOperation})


def turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the turns of a conversation in file order; what comes before the first prompt belongs to none."""
    starts = {entry.offset: (kind, text) for entry, kind, text in prompts(entries)}
    groups: list[tuple[Entry, list[Entry]]] = []
    for entry in entries:
        if entry.offset in starts:
            groups.append((entry, []))
        elif groups:
            groups[-1][1].append(entry)
    return [Turn(prompt, *starts[prompt.offset], tuple(following)) for prompt, following in groups]


def is_prompt(queued: QueuedCommand) -> bool:
    """Tell whether a person typed what waited in the queue."""
    machine = isinstance(queued.origin, dict) and queued.origin.get("kind") in MACHINES
    if machine or queued.is_meta or queued.command_mode not in (None, "prompt"):
        return False
    words = text_of(as_blocks(queued.prompt))
    return is_typed(words) if words.strip() else bool(queued.prompt) and not isinstance(queued.prompt, str)


def text_of(blocks: Sequence[AnyBlock]) -> str:
    """Return the words of some blocks."""
    return "\n".join(_texts(blocks))


def typed_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the words of a prompt without what the editor or the program put beside them."""
    return typed_of(_texts(blocks))


def first_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the first words of some blocks."""
    return next((block.text for block in blocks if isinstance(block, Text)), "")


def _texts(blocks: Sequence[AnyBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def _said_later(entries: Sequence[Entry]) -> dict[str, int]:
    """Return for each text of a user line or attachment where it stands last."""
    places: dict[str, int] = {}
    for place, entry in enumerate(entries):
        match entry.record:
            case User() as record:
                places[text_of(record.message.blocks).strip()] = place
            case Attachment(attachment=QueuedCommand() as queued):
                places[text_of(as_blocks(queued.prompt)).strip()] = place
            case _:
                pass
    return places


class Starts(msgspec.Struct):
    """What was seen of a file so far, and what is new of it."""

    waiting: list[tuple[int, bytes]] = []
    """The offsets of queued prompts that no line has repeated yet, with a hash of their words."""
    found: list[tuple[int, str | None]] = []
    """The offsets of prompts since `taken` was last asked, with the time of their lines."""
    taken_back: list[int] = []
    """The offsets of those that were none."""

    def take(self, entry: Entry) -> None:
        """Look at a line in the user's name, an attachment or what was put into the queue."""
        match entry.record:
            case User() as record:
                self._said(text_of(record.message.blocks))
                if speaker(record) is Speaker.HUMAN:
                    self._begins(entry)
            case Attachment(attachment=QueuedCommand() as queued):
                self._said(text_of(as_blocks(queued.prompt)))
                if is_prompt(queued):
                    self._begins(entry)
            case QueueOperation(operation="enqueue", content=content) if content:
                if is_typed(text := text_of(as_blocks(content))):
                    self.waiting.append((entry.offset, _digest(text)))
                    self._begins(entry)
            case _:
                pass

    def _begins(self, entry: Entry) -> None:
        self.found.append((entry.offset, entry.record.timestamp))

    def _said(self, text: str) -> None:
        if not self.waiting:
            return
        digest = _digest(text)
        repeated = [offset for offset, words in self.waiting if words == digest]
        if repeated:
            self.waiting = [queued for queued in self.waiting if queued[1] != digest]
            self.found = [start for start in self.found if start[0] not in repeated]
            self.taken_back += repeated


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
