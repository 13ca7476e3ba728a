"""Turns the lines of a session into steps (prompts, answers, tool calls, events) that a page or a terminal shows.

Rules
  1. Steps are in file order. A line that was written again makes no second step, nor does a call or its result.
  2. A result is part of its call. A result without a call is a step at its own line.
  3. User lines are shown as what they are: prompt, command, output, notification, interrupt. A command that begins a
     turn is a prompt.
  4. Lines of a sub-agent inside a session's own file (1.0.x) are one step, which holds them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.display import amount
from unspool.export import block_text
from unspool.export.block_text import blocks_to_text
from unspool.export.depth import Depth
from unspool.format import (
    Assistant,
    Attachment,
    Entry,
    QueuedCommand,
    QueueOperation,
    RedactedThinking,
    System,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    User,
    as_blocks,
)
from unspool.graph import (
    Speaker,
    ToolCall,
    classify_user_record,
    find_orphan_results,
    find_repeated_blocks,
    find_tool_calls,
    find_turn_starts,
    group_messages,
    is_boundary,
    is_message,
    join_text,
)


class PromptStep(msgspec.Struct, frozen=True):
    """A prompt of a person, a plan that was accepted, a command that starts work, or a task of another agent."""

    text: str
    entry: Entry
    queued: bool = False
    by_agent: bool = False
    is_plan: bool = False
    is_command: bool = False

    @property
    def name(self) -> str:
        """What it is, in a word or two."""
        if self.queued:
            return "queued"
        return (
            "agent's task" if self.by_agent else "plan" if self.is_plan else "command" if self.is_command else "prompt"
        )


class AnswerStep(msgspec.Struct, frozen=True):
    """A text of the model."""

    text: str
    entry: Entry
    block: int = 0
    """The number of its block in the line; other steps of single blocks have it too."""


class ThinkingStep(msgspec.Struct, frozen=True):
    """The model's thinking; the text is empty if it was redacted."""

    text: str
    entry: Entry
    block: int = 0


class ToolCallStep(msgspec.Struct, frozen=True):
    """A tool call with its result."""

    call: ToolCall
    block: int = 0

    @property
    def entry(self) -> Entry:
        """The line of the call."""
        return self.call.use_entry


class EventKind(Enum):
    """What happened; the values are shown to people."""

    COMPACTION = "compacted"
    INTERRUPT = "interrupted"
    API_ERROR = "API error"
    COMMAND = "command"
    OUTPUT = "output"
    NOTIFICATION = "notification"
    SUMMARY = "summary"
    RESULT = "result without a call"
    OTHER = "block"


class EventStep(msgspec.Struct, frozen=True):
    """Something that happened besides prompts, answers and tool calls."""

    kind: EventKind
    text: str
    entry: Entry
    block: int = 0


class SidechainStep(msgspec.Struct, frozen=True):
    """The lines of a sub-agent, written into the session's own file (1.0.x)."""

    entries: tuple[Entry, ...]

    @property
    def entry(self) -> Entry:
        """The first of them."""
        return self.entries[0]


Step: TypeAlias = PromptStep | AnswerStep | ThinkingStep | ToolCallStep | EventStep | SidechainStep

_EVENT_KINDS = {
    Speaker.COMMAND: EventKind.COMMAND,
    Speaker.OUTPUT: EventKind.OUTPUT,
    Speaker.NOTIFICATION: EventKind.NOTIFICATION,
    Speaker.SUMMARY: EventKind.SUMMARY,
    Speaker.INTERRUPT: EventKind.INTERRUPT,
}
_TAG_REMOVERS = {
    EventKind.COMMAND: block_text.command_text,
    EventKind.NOTIFICATION: block_text.notification_summary,
    EventKind.OUTPUT: block_text.strip_tags,
}
_NOT_SHOWN = (Speaker.META, Speaker.WARMUP)


class Story(NamedTuple):
    """Turns any part of a file into steps, with what must be known of the whole file."""

    calls: Mapping[str, ToolCall]
    """Those of the part at least, by id."""
    orphans: Mapping[str, int]
    """The offsets of results whose call is not in the file, by the id of the call."""
    queued: Container[int]
    """The offsets of prompts that waited in the queue."""
    repeated: Container[int]
    """The offsets of messages that were written before."""
    is_main: bool
    """Whether the file is a session's own, and lines of agents in it are none of its own."""
    commands: Container[int] = frozenset()
    """The offsets of commands with which a turn begins: they are prompts."""
    repeated_blocks: Mapping[int, Container[int]] = MappingProxyType({})
    """By offset, the blocks of other lines that were written before."""

    def steps(self, entries: Iterable[Entry]) -> Iterator[Step]:
        """Yield the steps of some of the lines."""
        sidechain: list[Entry] = []
        for entry in entries:
            if self.is_main and entry.record.is_sidechain:
                sidechain.append(entry)
                continue
            if sidechain and is_message(entry):
                yield SidechainStep(tuple(sidechain))
                sidechain = []
            yield from self._entry_steps(entry)
        if sidechain:
            yield SidechainStep(tuple(sidechain))

    def _entry_steps(self, entry: Entry) -> Iterator[Step]:
        match entry.record:
            case User() as record if entry.offset not in self.repeated:
                yield from self._user_steps(record, entry)
            case Assistant() as record if entry.offset not in self.repeated:
                yield from self._assistant_steps(record, entry)
            case System():
                yield from _system_steps(entry, entry.record)
            case Attachment(attachment=QueuedCommand(prompt=prompt)):
                text = blocks_to_text(as_blocks(prompt))
                if entry.offset in self.queued:
                    yield PromptStep(text, entry, queued=True)
                else:
                    yield from _event_steps(EventKind.NOTIFICATION, text, entry)
            case QueueOperation(content=content) if content and entry.offset in self.queued:
                yield PromptStep(blocks_to_text(as_blocks(content)), entry, queued=True)
            case _:
                pass

    def _user_steps(self, record: User, entry: Entry) -> Iterator[Step]:
        speaker = classify_user_record(record)
        if speaker in (Speaker.HUMAN, Speaker.AGENT, Speaker.PLAN):
            text = blocks_to_text(record.message.blocks)
            yield PromptStep(text, entry, by_agent=speaker is Speaker.AGENT, is_plan=speaker is Speaker.PLAN)
        elif speaker is Speaker.COMMAND and entry.offset in self.commands:
            yield PromptStep(block_text.command_text(join_text(record.message.blocks)), entry, is_command=True)
        elif speaker is Speaker.RESULT:
            for number, block in enumerate(record.message.blocks):
                if isinstance(block, ToolResult):
                    yield from self._orphan_steps(block, entry, number)
        elif speaker not in _NOT_SHOWN:
            yield from _event_steps(_EVENT_KINDS[speaker], join_text(record.message.blocks), entry)

    def _orphan_steps(self, result: ToolResult, entry: Entry, number: int) -> Iterator[Step]:
        # A result that was written again is a step at its first line only.
        if self.orphans.get(result.tool_use_id) == entry.offset:
            yield EventStep(EventKind.RESULT, blocks_to_text(result.blocks), entry, number)

    def _assistant_steps(self, record: Assistant, entry: Entry) -> Iterator[Step]:
        if record.is_api_error_message:
            yield EventStep(EventKind.API_ERROR, join_text(record.message.blocks), entry)
            return
        repeated = self.repeated_blocks.get(entry.offset, ())
        for number, block in enumerate(record.message.blocks):
            if number in repeated:
                continue
            match block:
                case Text(text=text):
                    if text.strip():
                        yield AnswerStep(text, entry, number)
                case Thinking(thinking=text):
                    yield ThinkingStep(text, entry, number)
                case RedactedThinking():
                    yield ThinkingStep("", entry, number)
                case ToolUse(id=id):
                    # A call that was written again is a step at its first line only.
                    if self.calls[id].use_entry.offset == entry.offset:
                        yield ToolCallStep(self.calls[id], number)
                case ToolResult():  # servers of other vendors write results into assistant lines
                    yield from self._orphan_steps(block, entry, number)
                case other:
                    yield EventStep(EventKind.OTHER, blocks_to_text([other]), entry, number)


def build_story(entries: Sequence[Entry]) -> Story:
    """Return the story of a whole file."""
    starts = find_turn_starts(entries)
    kept = {entry.offset for message in group_messages(entries) for entry in message.entries}
    return Story(
        calls={call.id: call for call in find_tool_calls(entries)},
        orphans={result.tool_use_id: entry.offset for result, entry in find_orphan_results(entries)},
        queued={start.offset for start in starts if start.kind is Speaker.QUEUED},
        repeated={entry.offset for entry in entries if is_message(entry) and entry.offset not in kept},
        is_main=any(is_message(entry) and not entry.record.is_sidechain for entry in entries),
        commands={start.offset for start in starts if start.kind is Speaker.COMMAND},
        repeated_blocks=find_repeated_blocks(entries),
    )


def min_depth(step: Step) -> Depth:
    """Return the least depth at which a step is shown."""
    match step:
        case PromptStep() | EventStep(kind=EventKind.COMPACTION | EventKind.INTERRUPT | EventKind.API_ERROR):
            return Depth.PROMPTS
        case AnswerStep():
            return Depth.ANSWERS
        case _:
            return Depth.STEPS


def describe_compaction(record: System) -> str:
    """Return what a compaction did: its trigger, tokens before and after, lines kept."""
    metadata = record.compact_metadata
    if metadata is None:
        return ""
    tokens = f"{metadata.pre_tokens:,} tokens" if metadata.pre_tokens is not None else ""
    tokens += f" to {metadata.post_tokens:,}" if tokens and metadata.post_tokens is not None else ""
    kept = metadata.preserved_messages
    lines = f"{amount(len(kept.all_uuids or kept.uuids), 'line')} kept" if kept else ""
    return ", ".join(part for part in (metadata.trigger or "", tokens, lines) if part)


def _event_steps(kind: EventKind, text: str, entry: Entry) -> Iterator[EventStep]:
    """Yield an event without the tags of its text; none for empty output."""
    text = _TAG_REMOVERS[kind](text) if kind in _TAG_REMOVERS else text
    if text or kind is not EventKind.OUTPUT:
        yield EventStep(kind, text, entry)


def _system_steps(entry: Entry, record: System) -> Iterator[Step]:
    if is_boundary(entry):
        yield EventStep(EventKind.COMPACTION, describe_compaction(record), entry)
    elif record.subtype in ("api_error", "api_refusal"):
        yield EventStep(EventKind.API_ERROR, record.content or _find_error_message(record.error), entry)
    elif record.subtype == "local_command" and record.content:
        is_output = record.content.lstrip().startswith("<local-command-")
        yield from _event_steps(EventKind.OUTPUT if is_output else EventKind.COMMAND, record.content, entry)


def _find_error_message(error: Any) -> str:
    """Return the message of an error, however deeply it is nested."""
    while isinstance(error, dict):
        message = error.get("message")
        if isinstance(message, str) and message:
            return message
        error = error.get("error") or error.get("status") or error.get("cause")
    return "" if error is None else str(error)
