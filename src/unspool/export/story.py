"""What happened, in order: the lines of a session in, steps out that a page or a terminal can show.

Rules
  1. Steps stand in file order. A line that was written again is not told again, nor is a call or its result.
  2. A result is told with its call. A result without a call is told where it stands.
  3. What is written in the user's name is told as what it is: prompt, command, output, notification, interrupt.
  4. Lines of a sub-agent inside a session's own file (1.0.x) are one step, which holds them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.display.units import amount
from unspool.export import block_text
from unspool.export.block_text import words_of
from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import RedactedThinking, Text, Thinking, ToolResult, ToolUse, as_blocks
from unspool.format.entry import Entry
from unspool.format.meta_records import QueueOperation
from unspool.format.records import Assistant, Attachment, System, User
from unspool.graph.messages import messages
from unspool.graph.threads import is_boundary
from unspool.graph.tool_calls import ToolCall, results_without_call, tool_calls
from unspool.graph.turns import Speaker, prompts, speaker, text_of


class Prompt(msgspec.Struct, frozen=True):
    """What a person, or the one who started an agent, asked."""

    text: str
    entry: Entry
    queued: bool = False
    by_agent: bool = False


class Answer(msgspec.Struct, frozen=True):
    """Words of the model."""

    text: str
    entry: Entry


class Thought(msgspec.Struct, frozen=True):
    """The model's reasoning; the text may be withheld."""

    text: str
    entry: Entry


class Call(msgspec.Struct, frozen=True):
    """A tool call with its result."""

    call: ToolCall

    @property
    def entry(self) -> Entry:
        """The line of the call."""
        return self.call.use_entry


class MarkKind(Enum):
    """What a mark tells."""

    COMPACTION = "compacted"
    INTERRUPT = "interrupted"
    API_ERROR = "API error"
    COMMAND = "command"
    OUTPUT = "output"
    NOTIFICATION = "notification"
    SUMMARY = "summary"
    RESULT = "result without a call"
    OTHER = "block"


class Mark(msgspec.Struct, frozen=True):
    """Something that happened between question and answer."""

    kind: MarkKind
    text: str
    entry: Entry


class Inside(msgspec.Struct, frozen=True):
    """The lines of a sub-agent, written into the session's own file (1.0.x)."""

    entries: tuple[Entry, ...]

    @property
    def entry(self) -> Entry:
        """The first of them."""
        return self.entries[0]


Step: TypeAlias = Prompt | Answer | Thought | Call | Mark | Inside

_MARKS = {
    Speaker.COMMAND: MarkKind.COMMAND,
    Speaker.OUTPUT: MarkKind.OUTPUT,
    Speaker.NOTIFICATION: MarkKind.NOTIFICATION,
    Speaker.SUMMARY: MarkKind.SUMMARY,
    Speaker.INTERRUPT: MarkKind.INTERRUPT,
}
_LEFT_OUT = (Speaker.META, Speaker.WARMUP)


class Known(NamedTuple):
    """What is known of a whole file, to tell a stretch of it."""

    calls: Mapping[str, ToolCall]
    """Those of the stretch at least, by id."""
    orphans: Mapping[str, int]
    """Where the results stand whose call is not in the file."""
    queued: Container[int]
    """Where prompts stand that waited in the queue."""
    repeated: Container[int]
    """Where messages stand that were written before."""
    is_main: bool
    """Whether the file is a session's own, and lines of agents in it are none of its own."""


def known_of(entries: Sequence[Entry]) -> Known:
    """Return what there is to know of a file."""
    told = {entry.offset for message in messages(entries) for entry in message.entries}
    return Known(
        calls={call.id: call for call in tool_calls(entries)},
        orphans={result.tool_use_id: entry.offset for result, entry in results_without_call(entries)},
        queued={entry.offset for entry, who, _ in prompts(entries) if who is Speaker.QUEUED},
        repeated={entry.offset for entry in entries if _is_message(entry) and entry.offset not in told},
        is_main=any(_is_message(entry) and not entry.record.is_sidechain for entry in entries),
    )


class Story:
    """A file's lines, ready to be told a stretch at a time."""

    def __init__(self, entries: Sequence[Entry], known: Known | None = None) -> None:
        self.calls, self._orphans, self._queued, self._repeated, self._is_main = known or known_of(entries)

    def steps(self, entries: Iterable[Entry]) -> Iterator[Step]:
        """Yield what some of the lines tell."""
        inside: list[Entry] = []
        for entry in entries:
            if self._is_main and entry.record.is_sidechain:
                inside.append(entry)
                continue
            if inside and _is_message(entry):
                yield Inside(tuple(inside))
                inside = []
            yield from self._of(entry)
        if inside:
            yield Inside(tuple(inside))

    def _of(self, entry: Entry) -> Iterator[Step]:
        match entry.record:
            case User() as record if entry.offset not in self._repeated:
                yield from self._user(record, entry)
            case Assistant() as record if entry.offset not in self._repeated:
                yield from self._assistant(record, entry)
            case System():
                yield from _system(entry, entry.record)
            case Attachment(attachment=QueuedCommand(prompt=prompt)):
                said = words_of(as_blocks(prompt))
                typed = entry.offset in self._queued
                yield from [Prompt(said, entry, queued=True)] if typed else _mark(MarkKind.NOTIFICATION, said, entry)
            case QueueOperation(content=content) if content and entry.offset in self._queued:
                yield Prompt(words_of(as_blocks(content)), entry, queued=True)
            case _:
                pass

    def _user(self, record: User, entry: Entry) -> Iterator[Step]:
        who = speaker(record)
        if who in (Speaker.HUMAN, Speaker.AGENT):
            yield Prompt(words_of(record.message.blocks), entry, by_agent=who is Speaker.AGENT)
        elif who is Speaker.RESULT:
            yield from self._results(record, entry)
        elif who not in _LEFT_OUT:
            yield from _mark(_MARKS[who], text_of(record.message.blocks), entry)

    def _results(self, record: User | Assistant, entry: Entry) -> Iterator[Step]:
        for block in record.message.blocks:
            if isinstance(block, ToolResult) and self._orphans.get(block.tool_use_id) == entry.offset:
                yield Mark(MarkKind.RESULT, words_of(block.blocks), entry)

    def _assistant(self, record: Assistant, entry: Entry) -> Iterator[Step]:
        if record.is_api_error_message:
            yield Mark(MarkKind.API_ERROR, text_of(record.message.blocks), entry)
            return
        for block in record.message.blocks:
            match block:
                case Text(text=text):
                    if text.strip():
                        yield Answer(text, entry)
                case Thinking(thinking=text):
                    yield Thought(text, entry)
                case RedactedThinking():
                    yield Thought("", entry)
                case ToolUse(id=id):
                    if self.calls[id].use_entry.offset == entry.offset:
                        yield Call(self.calls[id])
                case ToolResult():
                    yield from self._results(record, entry)
                case other:
                    yield Mark(MarkKind.OTHER, words_of([other]), entry)


def compaction(record: System) -> str:
    """Say what a compaction did."""
    done = record.compact_metadata
    if done is None:
        return ""
    tokens = f"{done.pre_tokens:,} tokens" if done.pre_tokens is not None else ""
    tokens += f" to {done.post_tokens:,}" if tokens and done.post_tokens is not None else ""
    kept = done.preserved_messages
    lines = f"{amount(len(kept.all_uuids or kept.uuids), 'line')} kept" if kept else ""
    return ", ".join(part for part in (done.trigger or "", tokens, lines) if part)


def _mark(kind: MarkKind, text: str, entry: Entry) -> Iterator[Mark]:
    """Yield a mark in plain words; none for output that says nothing."""
    match kind:
        case MarkKind.COMMAND:
            text = block_text.command(text)
        case MarkKind.NOTIFICATION:
            text = block_text.notification(text)
        case MarkKind.OUTPUT:
            text = block_text.untagged(text)
        case _:
            pass
    if text or kind is not MarkKind.OUTPUT:
        yield Mark(kind, text, entry)


def _system(entry: Entry, record: System) -> Iterator[Step]:
    if is_boundary(entry):
        yield Mark(MarkKind.COMPACTION, compaction(record), entry)
    elif record.subtype in ("api_error", "api_refusal"):
        yield Mark(MarkKind.API_ERROR, record.content or _error(record.error), entry)
    elif record.subtype == "local_command" and record.content:
        is_output = record.content.lstrip().startswith("<local-command-")
        yield from _mark(MarkKind.OUTPUT if is_output else MarkKind.COMMAND, record.content, entry)


def _error(error: Any) -> str:
    """Return the message of an error, however deep it lies."""
    while isinstance(error, dict):
        message = error.get("message")
        if isinstance(message, str) and message:
            return message
        error = error.get("error") or error.get("status") or error.get("cause")
    return "" if error is None else str(error)


def _is_message(entry: Entry) -> bool:
    return isinstance(entry.record, User | Assistant)
