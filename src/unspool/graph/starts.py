"""Where turns begin, found while a file grows: lines in, the prompts among them out.

Rules
  1. After all lines of a file the prompts are those of `turns.prompts`, in however many goes the lines came.
  2. A queued prompt that a later line repeats was none of its own (`turns.py`, rule 5): it is taken back.
"""

from __future__ import annotations

import hashlib

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import as_blocks
from unspool.format.entry import Entry
from unspool.format.notes import QueueOperation
from unspool.format.records import Attachment, User
from unspool.graph.turns import Speaker, is_prompt, is_typed, speaker, text_of


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
