"""Finds the lines with which turns begin, while the lines of a file are added one by one.

Every list of turns is made here: of whole files (`turns.py`), of files that grow (the store, the search index, a page).

Rules
  1. A turn begins with a prompt of a person, with a plan that a person accepted, and with a command that starts work.
  2. A command starts work if it is sent to the model: its line has `<command-message>` first or a `turnOrigin`, or
     Claude Code writes a text for the model after it, with the same `promptId` where there is one (`/goal`). What a
     local command prints is no such text. A command that the model ran itself (`sourceToolUseID`) begins no turn.
  3. A prompt typed while the model worked may have no line of its own. Before 2.1.100 its text is only in
     `queue-operation` lines, later in a `queued_command` attachment. It is a prompt if it is no command, notification
     or task (JSON), and no later user line or attachment has the same text.
  4. What a person takes back from the queue (`popAll`) is no prompt. Claude Code writes one line for each text; without
     a text, all that wait are taken back. `dequeue` and `remove` deliver a text: the first, unless they name another.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.graph.speakers import Speaker, is_typed_prompt, starts_work, typed_command

if TYPE_CHECKING:  # start-up: `unspool ls` reads projections of lines and never loads the types of all records
    from unspool.format import Glance, User


class TurnStart(NamedTuple):
    """The line with which a turn begins."""

    offset: int
    kind: Speaker
    """`HUMAN`, `QUEUED`, `PLAN` or `COMMAND`."""
    text: str
    time: str | None = None
    is_open: bool = False
    """Whether the text is only in the queue so far: a later line may repeat it or take it back."""


class TurnChange(NamedTuple):
    """What a line changes: a turn that begins, and the offsets of queued prompts that turned out to be none."""

    began: TurnStart | None = None
    dropped: tuple[int, ...] = ()


NO_CHANGE = TurnChange()
HUMAN_TURNS = frozenset({Speaker.HUMAN, Speaker.QUEUED})
"""The kinds of turns that begin with words a person typed."""
_QUEUE_LIMIT = 1_000
"""So many texts are followed on their way through the queue: a file may hold any number that never leave it."""


class TurnStarts(msgspec.Struct, omit_defaults=True):
    """What the lines so far say about the turns to come. Stored as MessagePack, by the names of the fields."""

    queue: list[tuple[int, bytes]] = []
    """What waits in Claude Code's queue: the offset of its line, and a hash of its text."""
    waiting: dict[bytes, list[int]] = {}
    """The offsets of queued prompts that no line has repeated yet, by the hash of their text."""
    command: tuple[int, str, str | None, str | None] | None = None
    """A command that may yet start work: offset, text, `promptId` and time of its line."""

    def add_user(self, offset: int, record: Glance | User, speaker: Speaker, texts: tuple[str, str]) -> TurnChange:
        """Add a user line; `texts` are all of its text, and what of it was typed."""
        text, typed = texts
        dropped = self._drop_repeated(text) if self.waiting else ()
        if speaker in (Speaker.RESULT, Speaker.OUTPUT):
            return TurnChange(None, dropped)
        command, self.command = self.command, None
        start = None
        if speaker in (Speaker.HUMAN, Speaker.PLAN):
            start = TurnStart(offset, speaker, typed, record.timestamp)
        elif record.is_sidechain or record.source_tool_use_id is not None:
            self.command = command
        elif speaker is Speaker.COMMAND:
            if starts_work(record, text):
                start = TurnStart(offset, speaker, typed_command(text) or text, record.timestamp)
            else:
                self.command = (offset, typed_command(text) or text, record.prompt_id, record.timestamp)
        elif speaker is Speaker.META and command is not None and record.is_meta and not _is_aside(text):
            at, words, prompt_id, time = command
            if prompt_id == record.prompt_id:
                start = TurnStart(at, Speaker.COMMAND, words, time)
        return TurnChange(start, dropped)

    def add_attachment(self, offset: int, text: str, time: str | None, *, is_prompt: bool) -> TurnChange:
        """Add a queued command that was inserted during a turn."""
        dropped = self._drop_repeated(text)
        if not is_prompt:
            return TurnChange(None, dropped)
        self.command = None
        return TurnChange(TurnStart(offset, Speaker.QUEUED, text, time), dropped)

    def add_operation(self, offset: int, operation: str | None, text: str, time: str | None) -> TurnChange:
        """Add a change of the queue; `text` is empty where the line has none."""
        match operation:
            case "enqueue":
                return self._enqueue(offset, text, time)
            case "dequeue" | "remove":
                self._take_from_queue(_digest(text) if text else None)
            case "popAll":
                return TurnChange(None, self._take_back(_digest(text) if text else None))
        return NO_CHANGE

    def _enqueue(self, offset: int, text: str, time: str | None) -> TurnChange:
        digest = _digest(text)
        self.queue.append((offset, digest))
        del self.queue[:-_QUEUE_LIMIT]
        if not is_typed_prompt(text):
            return NO_CHANGE
        self.command = None
        self.waiting.setdefault(digest, []).append(offset)
        return TurnChange(TurnStart(offset, Speaker.QUEUED, text, time, is_open=True))

    def _take_from_queue(self, digest: bytes | None) -> int | None:
        """Remove a text from the queue, the first if none is named; return the offset of its line."""
        for number, (offset, queued) in enumerate(self.queue):
            if digest is None or queued == digest:
                del self.queue[number]
                return offset
        return None

    def _take_back(self, digest: bytes | None) -> tuple[int, ...]:
        """Return the offsets of the prompts that went back into the input."""
        if digest is not None:
            offset = self._take_from_queue(digest)
            among = self.waiting.get(digest, [])
            if offset is not None or among:
                # Of equal texts the newest, if the queue does not tell which.
                taken = [at for at in (among[-1:] if offset is None else [offset]) if at in among]
                self._forget(digest, taken)
                return tuple(taken)
        # Without a text, or with several texts joined: all that wait.
        queued: dict[bytes, list[int]] = {}
        for offset, text in self.queue:
            if offset in self.waiting.get(text, ()):
                queued.setdefault(text, []).append(offset)
        for text, offsets in queued.items():
            self._forget(text, offsets)
        taken = [offset for offsets in queued.values() for offset in offsets]
        self.queue = [entry for entry in self.queue if entry[0] not in taken]
        return tuple(taken)

    def _forget(self, digest: bytes, offsets: list[int]) -> None:
        left = [offset for offset in self.waiting.pop(digest, ()) if offset not in offsets]
        if left:
            self.waiting[digest] = left

    def _drop_repeated(self, text: str) -> tuple[int, ...]:
        """Forget the queued prompts that a line repeats: they are no prompts of their own."""
        return tuple(self.waiting.pop(_digest(text), ())) if self.waiting else ()


_ASIDES = ("<local-command-caveat>", "Caveat: The messages below were generated by the user", "<system-reminder>")


def _is_aside(text: str) -> bool:
    """Tell whether a text of Claude Code gives the model nothing to do."""
    return text.lstrip().startswith(_ASIDES)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
