"""Derives the rows of the column files from the lines of one session file.

In: decoded lines, one at a time. Out: rows of `parts.sql` without their first two columns, in no particular order.

Rules
  1. Messages, tool calls and turns are those of `graph/`: a message is all lines with one id, calls are paired by id, a
     turn is a prompt, a plan or a command that starts work, and what follows it. No row depends on another file.
  2. Memory is bounded by the text of the conversation: lines, results and structured results are not held.
  3. The base64 of images and documents, and signatures, are left out; their length is kept.
  4. All lines of an agent's file inside a session's folder belong to that session. In a file beside the session (Claude
     Code until 2.0.76) a line belongs to the session it names, and one that names none to each of them.
  5. The class of an agent is that of `graph/agents.py`, before the agent is linked to a call.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

import msgspec

from unspool.format import (
    ABSENT,
    AnyRecord,
    Assistant,
    Attachment,
    Entry,
    ForkContextRef,
    Item,
    Message,
    Progress,
    QueuedCommand,
    QueueOperation,
    RawJson,
    System,
    Unknown,
    User,
    cut_raw_json,
    encode_json,
    type_name,
)
from unspool.format import blocks as b
from unspool.graph import (
    AgentClass,
    RepeatedBlocks,
    Speaker,
    classify_user_record,
    find_turn_starts,
    first_text,
    is_special_fork,
    join_text,
    parse_task_notification,
)
from unspool.store.columns.derive_calls import LineContext, RowSink, ToolCallRows
from unspool.store.columns.values import epoch_micros

_NO_TIME = -(1 << 63)
_LINE_IDS = attrgetter("uuid", "parent_uuid", "session_id", "agent_id")
_LINE_ORIGIN = attrgetter("cwd", "version", "git_branch", "slug", "user_type", "entrypoint")


class SourceFile(NamedTuple):
    """What is known of a session file before it is read."""

    path: str
    kind: str
    session_id: str | None
    agent_id: str | None

    def family(self, session_id: str | None) -> str:
        """Return the folder that the files of a session share; `session_id` is the one that the lines name."""
        if self.kind == "session":
            return self.path.removesuffix(".jsonl")
        folder, found, _ = self.path.rpartition("/subagents/")
        # Until Claude Code 2.0.76 an agent's file stood beside its session: only its lines say which one that is.
        return folder if found else f"{self.path.rpartition('/')[0]}/{session_id}"


class _SessionLines(msgspec.Struct):
    """The lines of one session in an agent's file."""

    count: int = 0
    started: int | None = None
    ended: int | None = None
    first_prompt: tuple[int, str, str] | None = None
    """Of the first user line: its offset, the agent class it shows, its text."""
    forked_from: str | None = None
    """The line of its parent after which the agent was forked."""


class AgentFileRows:
    """Collects what a sub-agent's file says of the agent: a row of `agent_files` for each session it belongs to."""

    def __init__(self, file: SourceFile, emit: RowSink) -> None:
        self._file, self._emit = file, emit
        self._sessions: dict[str | None, _SessionLines] = {}

    def add(self, entry: Entry, time: int | None) -> None:
        """Count a line for the session it belongs to."""
        record = entry.record
        lines = self._sessions.setdefault(self._file.session_id or record.session_id, _SessionLines())
        lines.count += 1
        if time is not None:
            lines.started = time if lines.started is None else min(lines.started, time)
            lines.ended = time if lines.ended is None else max(lines.ended, time)
        if isinstance(record, ForkContextRef):
            lines.forked_from = lines.forked_from or record.parent_last_uuid
        if lines.first_prompt is None and isinstance(record, User):
            lines.first_prompt = (entry.offset, _agent_class(record), join_text(record.message.blocks))

    def finish(self) -> None:
        """Emit the rows."""
        file, sessions = self._file, self._sessions
        shared = sessions.pop(None, None) if len(sessions) > 1 else None
        id = file.agent_id or file.path.rpartition("/")[2].removesuffix(".jsonl")
        for session_id, lines in sessions.items() or [(file.session_id, _SessionLines())]:
            both = [lines, shared] if shared else [lines]
            first = min((some.first_prompt for some in both if some.first_prompt), default=None)
            kind = first[1] if first else AgentClass.ORPHAN.value
            if is_special_fork(id):
                kind = AgentClass.SPECIAL.value
            if "/subagents/workflows/" in file.path:
                kind = AgentClass.WORKFLOW.value
            started = min((some.started for some in both if some.started is not None), default=None)
            ended = max((some.ended for some in both if some.ended is not None), default=None)
            about = (file.family(session_id), session_id, id, kind, first[2] if first else "")
            forked = next((some.forked_from for some in both if some.forked_from), None)
            self._emit("agent_files", (*about, started, ended, sum(some.count for some in both), forked))


def _agent_class(record: User) -> str:
    if classify_user_record(record) is Speaker.WARMUP:
        return AgentClass.WARMUP.value
    if record.team_name or join_text(record.message.blocks).startswith("<teammate-message"):
        return AgentClass.TEAMMATE.value
    return AgentClass.TASK.value


class _MessageRow(msgspec.Struct):
    """A message as far as its lines were read; the tuples are values of its row that its first line decides."""

    context: LineContext
    is_answer: bool
    about: tuple[str | None, ...]
    """Response id, role and speaker."""
    place: tuple[str | None, str | None, int]
    """Uuid, parent and offset."""
    started: int | None
    model: str | None
    origin: tuple[bool, str | None, str | None, str | None]
    """Whether it is a sidechain's, folder, branch and version."""
    last_time: str | None = None
    lines: int = 0
    stop_reason: str | None = None
    blocks: int = 0
    calls: int = 0
    texts: list[str] = []

    @property
    def offset(self) -> int:
        """Where its first line begins."""
        return self.place[2]

    def row(self, turn: int | None) -> tuple[object, ...]:
        """Return its row of `messages`."""
        times = (self.started, epoch_micros(self.last_time))
        end = (self.model, self.stop_reason, self.stop_reason is not None or not self.is_answer)
        ids = (self.context.session_id, self.context.agent_id, self.context.message_id)
        content = (self.blocks, self.calls, "\n".join(self.texts))
        return (*ids, *self.about, turn, *self.place, self.lines, *times, *end, *self.origin, *content)


class FileDerivation:
    """Derives the rows of one session file, line by line."""

    def __init__(self, file: SourceFile, emit: RowSink) -> None:
        self._file, self._emit = file, emit
        self._number = 0
        self._messages: dict[str, _MessageRow] = {}
        self._calls = ToolCallRows(emit)
        self._agent = AgentFileRows(file, emit) if file.kind == "agent" else None
        self._prompt_entries: list[Entry] = []
        # Two numbers for each line of the file: an array holds one in 8 bytes, a list in 40.
        self._offsets, self._times = array("q"), array("q")
        self._reported: set[tuple[str, str]] = set()
        self._repeated = RepeatedBlocks()

    def add(self, item: Item) -> None:
        """Derive the next item of the file. Bad lines are rows of the store already."""
        if not isinstance(item, Entry):
            return
        record = item.record
        self._number += 1
        self._offsets.append(item.offset)
        time = epoch_micros(record.timestamp)
        self._times.append(_NO_TIME if time is None else time)
        content = model = raw = None
        if isinstance(record, User | Assistant):
            raw = cut_raw_json(item)
            content = "\n".join(block.text for block in record.message.blocks if isinstance(block, b.Text))
            model = record.message.model
            self._add_message_line(item, record, raw)
        else:
            content = record.content if isinstance(record, System) else None
            self._add_other_line(item)
        self._emit("lines", _line_row(item, self._number, time, (content, model), raw))
        if self._agent:
            self._agent.add(item, time)

    def finish(self) -> None:
        """Emit the rows that needed the end of the file."""
        self._calls.finish()
        starts = self._emit_turns() if self._file.kind == "session" else []
        for message in self._messages.values():
            self._emit("messages", message.row(bisect_right(starts, message.offset) or None))
        if self._agent:
            self._agent.finish()

    def _ids(self, record: AnyRecord) -> tuple[str | None, str | None]:
        """Return session and agent of a line: the file's own, if its place says them."""
        return self._file.session_id or record.session_id, self._file.agent_id or record.agent_id

    def _add_message_line(self, entry: Entry, record: User | Assistant, raw: RawJson) -> None:
        message = self._message_of(entry, record)
        context = message.context._replace(uuid=record.uuid, offset=entry.offset, timestamp=record.timestamp)
        inputs = iter(raw.uses)
        repeated = self._repeated.add(record) if isinstance(record, Assistant) else frozenset[int]()
        is_repeated = bool(repeated) and len(repeated) == len(record.message.blocks)
        raw_result = record.tool_use_result if isinstance(record, User) else ABSENT
        for number, block in enumerate(record.message.blocks):
            in_call, text, input = False, None, None
            if isinstance(block, b.ToolUse):
                input = next(inputs)[1]
                in_call = self._calls.add_call(block, context, input)
            elif isinstance(block, b.ToolResult):
                text, in_call = self._calls.add_result(block, context, raw_result)
            if number not in repeated:
                message.calls += isinstance(block, b.ToolUse)
                # What a row of `tool_calls` holds is not stored twice: the view of `blocks` joins it.
                row = block_row(block, None if in_call else text, None if in_call else input)
                about = (context.session_id, context.agent_id, context.message_id, message.blocks, entry.offset)
                self._emit("blocks", (*about, *row, in_call))
                message.blocks += 1
                if isinstance(block, b.Text):
                    message.texts.append(block.text)
        if is_repeated:
            return
        message.lines += 1
        message.last_time = record.timestamp
        message.stop_reason = record.message.stop_reason or message.stop_reason
        if isinstance(record, User):
            self._keep_for_turns(entry, record)
            if named := parse_task_notification(first_text(record.message.blocks)):
                self._emit_report(entry, *named)

    def _message_of(self, entry: Entry, record: User | Assistant) -> _MessageRow:
        """Return the message that a line belongs to."""
        message, is_answer = record.message, isinstance(record, Assistant)
        # A user line, or an answer without an id, is a message of its own.
        key = message.id if is_answer and message.id else f"line {entry.offset}"
        if key not in self._messages:
            id = (message.id if is_answer else None) or record.uuid or f"line {entry.offset}"
            session_id, agent_id = self._ids(record)
            response_id = (message.id or record.uuid or _line_hash(entry)) if is_answer else None
            role = "assistant" if is_answer else "user"
            speaker = classify_user_record(record).value if isinstance(record, User) else role
            self._messages[key] = _MessageRow(
                context=LineContext(session_id, agent_id, self._file.family(session_id), id),
                is_answer=is_answer,
                about=(response_id, role, speaker),
                place=(record.uuid, record.parent_uuid, entry.offset),
                started=epoch_micros(record.timestamp),
                model=message.model if is_answer else None,
                origin=(bool(record.is_sidechain), record.cwd, record.git_branch, record.version),
            )
        return self._messages[key]

    def _keep_for_turns(self, entry: Entry, record: User) -> None:
        """Keep the text of a user line: whether it is a prompt is decided at the end of the file."""
        texts = tuple(block for block in record.message.blocks if isinstance(block, b.Text))
        if classify_user_record(record) is not Speaker.RESULT:
            self._prompt_entries.append(Entry(entry.offset, b"", _without_content(record, texts)))
        elif texts:  # text beside a result may be a prompt; the empty result block marks where it stood
            self._prompt_entries.append(Entry(entry.offset, b"", _without_content(record, (b.ToolResult(), *texts))))

    def _add_other_line(self, entry: Entry) -> None:
        match entry.record:
            case Attachment(attachment=QueuedCommand()) | QueueOperation():
                self._prompt_entries.append(Entry(entry.offset, b"", entry.record))
            case System(subtype="compact_boundary" | "microcompact_boundary") as record:
                about = (*self._ids(record), record.uuid, entry.offset, epoch_micros(record.timestamp))
                self._emit("compactions", (*about, *_compaction_values(record)))
            case Progress(parent_tool_use_id=str(call), data=data):
                agent = getattr(data, "agent_id", None)
                if isinstance(agent, str):
                    self._emit_report(entry, agent, call)
            case _:
                pass

    def _emit_report(self, entry: Entry, agent: str, call: str) -> None:
        """Emit that a line reports on an agent; it may do so many times, and the first links it to its call."""
        family = self._file.family(self._file.session_id or entry.record.session_id)
        if (family, agent) not in self._reported:
            self._reported.add((family, agent))
            self._emit("reports", (family, entry.offset, agent, call))

    def _emit_turns(self) -> list[int]:
        """Emit the turns; return the offset at which each begins."""
        found = find_turn_starts(self._prompt_entries)
        uuids = {entry.offset: entry.record.uuid for entry in self._prompt_entries}
        starts = [start.offset for start in found]
        answers, calls, errors = ([0] * (len(starts) + 1) for _ in range(3))
        for message in self._messages.values():
            answers[bisect_right(starts, message.offset)] += message.is_answer
        for offset, failed in self._calls.outcomes:
            turn = bisect_right(starts, offset)
            calls[turn] += 1
            errors[turn] += failed
        lines, ended = [-1] * (len(starts) + 1), [_NO_TIME] * (len(starts) + 1)
        turn = 0
        for offset, time in zip(self._offsets, self._times, strict=True):
            while turn < len(starts) and starts[turn] <= offset:
                turn += 1
            lines[turn] += 1
            ended[turn] = max(ended[turn], time)
        for number, (offset, kind, text, began, _) in enumerate(found, 1):
            last = ended[number]
            about = (self._file.session_id, number, uuids.get(offset), offset, text, kind is Speaker.QUEUED, kind.value)
            times = (epoch_micros(began), None if last == _NO_TIME else last)
            self._emit("turns", (*about, *times, lines[number], answers[number], calls[number], errors[number]))
        return starts


def block_row(block: b.AnyBlock, text: str | None, input: str | None) -> tuple[object, ...]:
    """Return type, text, tool_use_id, tool_name, input, is_error, media_type and data_bytes of a content block.

    `text` is that of a result, `input` the JSON of a call: they are not decoded again. Nothing raises, whatever the
    block is.
    """
    kind = type_name(block)
    match block:
        case b.Text(text=words):
            return kind, words, None, None, None, None, None, None
        case b.Thinking(thinking=words, signature=signature):
            return kind, words, None, None, None, None, None, len(signature or "")
        case b.RedactedThinking(data=data):
            return kind, None, None, None, None, None, None, len(data)
        case b.ToolUse(id=id, name=name):
            return kind, None, id, name, input, None, None, None
        case b.ToolResult(tool_use_id=id, is_error=error):
            return kind, text, id, None, None, bool(error), None, None
        case b.Image(source=source) | b.Document(source=source):
            is_text = source.type == "text"
            length = 0 if is_text else len(source.data or "")
            return kind, source.data if is_text else source.url, None, None, None, None, source.media_type, length
        case b.ToolReference(tool_name=name):
            return kind, None, None, name, None, None, None, None
        case b.ServerToolUse(id=id, name=name) | b.McpToolUse(id=id, name=name):
            return kind, None, id, name, _json(block.input), None, None, None
        case b.ServerToolResult(tool_use_id=id, content=content, is_error=error):
            return kind, _text_or_json(content), id, None, None, error, None, None
        case b.SearchResult(content=content) | b.Compaction(content=content):
            return kind, _text_or_json(content), None, None, None, None, None, None
        case b.Other(value=value):
            return kind, _json(value), None, None, None, None, None, None
        case _:
            return kind, None, None, None, None, None, None, None


def _text_or_json(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else _json(content)


def _json(value: object) -> str:
    return encode_json(value).decode()


def _line_row(
    entry: Entry, number: int, time: int | None, text: tuple[str | None, str | None], raw: RawJson | None
) -> tuple[object, ...]:
    record = entry.record
    kind, subtype = _type_and_subtype(entry)
    answer = (record.message.id, record.request_id) if isinstance(record, Assistant) else (None, None)
    uses = [use for use, _ in raw.uses] if raw else []
    place = (entry.offset, entry.length, number, kind, subtype)
    marks = (time, record.is_sidechain, record.is_meta)
    flaws = _json(entry.flaws) if entry.flaws else None
    written = (f"[{','.join(uses)}]" if uses else None, raw.usage if raw else None)
    return (*place, *_LINE_IDS(record), *marks, *answer, *_LINE_ORIGIN(record), flaws, *text, *written)


def _compaction_values(record: System) -> tuple[object, ...]:
    """Return kind, trigger, pre_tokens, post_tokens and duration_ms of a compaction."""
    if record.subtype == "microcompact_boundary":
        cleared = record.microcompact_metadata
        return "microcompact", *((cleared.trigger, cleared.pre_tokens) if cleared else (None, None)), None, None
    metadata = record.compact_metadata
    if metadata is None:
        return "compact", None, None, None, None
    duration = None if metadata.duration_ms is None else round(metadata.duration_ms)
    return "compact", metadata.trigger, metadata.pre_tokens, metadata.post_tokens, duration


def _without_content(record: User, content: tuple[b.AnyBlock, ...]) -> User:
    """Return a record with other content, so that it keeps none of the bytes of its line in memory."""
    return msgspec.structs.replace(record, tool_use_result=ABSENT, message=Message(content=content))


def _type_and_subtype(entry: Entry) -> tuple[str | None, str | None]:
    match entry.record:
        case Unknown(type=kind):
            return kind, None
        case System(subtype=subtype):
            return "system", subtype
        case Attachment(attachment=data):
            return "attachment", type_name(data) if data is not None else None
        case Progress(data=data):
            return "progress", type_name(data) if data is not None else None
        case record:
            return type_name(record), None


def _line_hash(entry: Entry) -> str:
    return hashlib.sha256(entry.line.strip()).hexdigest()
