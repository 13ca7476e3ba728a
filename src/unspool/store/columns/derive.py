"""A file of lines as rows of the column files: items in, a line at a time; rows of `parts.sql` out, in no order.

Rules
  1. The rules are those of `graph/`: a message is all lines with one id, calls are paired by id, a turn is a prompt of
     a person and what follows. Nothing depends on another file.
  2. Memory is bounded by the words of the conversation: results, structured results and lines are not held.
  3. The base64 of pictures and documents, and signatures, are left out; how long they are is told.

[merged: derived_agents.py] What the file of a sub-agent says of it, for each session it belongs to: entries in, rows of `agent_files` out.

Rules
  1. In a file inside a session's folder all lines are that session's. Beside a session (until 2.0.76) a line is of the
     session it names; one that names none is of each.
  2. The class is that of `graph/agents.py`, before the agent is linked to a call.

[merged: derived_blocks.py] A content block as a row: a block in; its type, words, call, picture out. Nothing raises, whatever the block is.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unspool.format import blocks as b
from unspool.format.attachments import QueuedCommand
from unspool.format.base import ABSENT
from unspool.format.blocks import Message
from unspool.format.entry import Entry, Item
from unspool.format.envelope import Unknown
from unspool.format.json_edit import encode
from unspool.format.meta_records import QueueOperation
from unspool.format.projections import Written, written
from unspool.format.records import Assistant, Attachment, Progress, System, User
from unspool.graph.agents import AgentClass
from unspool.graph.session_facts_from_entries import is_special
from unspool.graph.turns import Speaker, prompts, speaker, text_of
from unspool.store.columns.derive_calls import Calls, Out, Where
from unspool.store.columns.values import micros


class _Seen(msgspec.Struct):
    """The lines of one session."""

    lines: int = 0
    started: int | None = None
    ended: int | None = None
    first: tuple[int, str, str] | None = None
    """The place of the first user line, the class it shows, its words."""


class AgentLines:
    """One pass over an agent's file."""

    def __init__(self, place: Place, out: Out) -> None:
        self._place, self._out = place, out
        self._seen: dict[str | None, _Seen] = {}

    def take(self, entry: Entry, time: int | None) -> None:
        """Take a line."""
        record = entry.record
        owner = self._place.session_id or record.session_id
        seen = self._seen.setdefault(owner, _Seen())
        seen.lines += 1
        if time is not None:
            seen.started = time if seen.started is None else min(seen.started, time)
            seen.ended = time if seen.ended is None else max(seen.ended, time)
        if seen.first is None and isinstance(record, User):
            seen.first = (entry.offset, _class(record), text_of(record.message.blocks))

    def finish(self) -> None:
        """Write a row for each session; one that is nobody's has none in it."""
        place = self._place
        shared = self._seen.pop(None, _Seen()) if len(self._seen) != 1 or None not in self._seen else None
        id = place.agent_id or place.path.rpartition("/")[2].removesuffix(".jsonl")
        for owner, seen in self._seen.items() or [(place.session_id, _Seen())]:
            both = [seen, shared] if shared else [seen]
            first = min((one.first for one in both if one.first), default=None)
            kind = AgentClass.ORPHAN.value if first is None else first[1]
            if is_special(id):
                kind = AgentClass.SPECIAL.value
            if "/subagents/workflows/" in place.path:
                kind = AgentClass.WORKFLOW.value
            family = place.family or f"{place.path.rpartition('/')[0]}/{owner}"
            started = min((one.started for one in both if one.started is not None), default=None)
            ended = max((one.ended for one in both if one.ended is not None), default=None)
            lines = sum(one.lines for one in both)
            self._out("agent_files", (family, owner, id, kind, first[2] if first else "", started, ended, lines))


def _class(record: User) -> str:
    if speaker(record) is Speaker.WARMUP:
        return AgentClass.WARMUP.value
    if record.team_name or text_of(record.message.blocks).startswith("<teammate-message"):
        return AgentClass.TEAMMATE.value
    return AgentClass.TASK.value


def joined(blocks: Iterable[b.AnyBlock]) -> str:
    """Return the words of a line, joined by line ends."""
    return "\n".join(block.text for block in blocks if isinstance(block, b.Text))


def block_row(block: b.AnyBlock, text: str | None, input: str | None) -> tuple[object, ...]:
    """Return type, text, tool_use_id, tool_name, input, is_error, media_type and data_bytes.

    `text` is that of a result, `input` that of a call: they are not decoded again.
    """
    kind = _type(block)
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
            return kind, _words(content), id, None, None, error, None, None
        case b.SearchResult(content=content) | b.Compaction(content=content):
            return kind, _words(content), None, None, None, None, None, None
        case b.Other(value=value):
            return kind, _json(value), None, None, None, None, None, None
        case _:
            return kind, None, None, None, None, None, None, None


def _type(block: b.AnyBlock) -> str | None:
    tag = type(block).__struct_config__.tag
    return tag if isinstance(tag, str) else getattr(block, "type", None)


def _words(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else _json(content)


def _json(value: object) -> str:
    return encode(value).decode()


_NO_TIME = -(1 << 63)


class Place(NamedTuple):
    """What is known of a file before it is read."""

    path: str
    kind: str
    session_id: str | None
    agent_id: str | None

    @property
    def family(self) -> str | None:
        """The folder that the files of a session share; nothing for an agent beside its session: its lines say."""
        if self.kind == "session":
            return self.path.removesuffix(".jsonl")
        before, found, _ = self.path.rpartition("/subagents/")
        return before if found else None


class _Told(msgspec.Struct):
    """A message so far."""

    id: str
    role: str
    speaker: str
    response_id: str | None
    first: Entry
    where: Where
    last: str | None
    lines: int = 0
    model: str | None = None
    stop_reason: str | None = None
    blocks: int = 0
    calls: int = 0
    text: list[str] = []
    seen: set[tuple[str, int]] | None = None


class Derivation:
    """One pass over a file."""

    def __init__(self, place: Place, out: Out) -> None:
        self._place, self._out = place, out
        self._family = place.family
        self._number = 0
        self._messages: dict[str, _Told] = {}
        self._calls = Calls(out)
        self._agents = AgentLines(place, out) if place.kind == "agent" else None
        self._spoken: list[Entry] = []
        self._offsets, self._times = array("q"), array("q")
        self._reported: set[tuple[str | None, str]] = set()

    def take(self, item: Item) -> None:
        """Take the next item of the file. Bad lines are the store's to tell."""
        if isinstance(item, Entry):
            self._entry(item)

    def finish(self) -> None:
        """Write what could not be told before the end."""
        self._calls.finish()
        starts = self._turns() if self._place.kind == "session" else []
        for told in self._messages.values():
            self._out("messages", _message_row(told, bisect_right(starts, told.first.offset) or None))
        if self._agents:
            self._agents.finish()

    def _entry(self, entry: Entry) -> None:
        record = entry.record
        self._number += 1
        self._offsets.append(entry.offset)
        time = micros(record.timestamp)
        self._times.append(_NO_TIME if time is None else time)
        content: str | None = None
        model = said = None
        if isinstance(record, User | Assistant):
            said = written(entry)
            content, model = joined(record.message.blocks), record.message.model
            self._message(entry, record, said)
        else:
            content = record.content if isinstance(record, System) else None
            self._note(entry)
        self._out("lines", _line_row(entry, self._number, time, (content, model), said))
        if self._agents:
            self._agents.take(entry, time)

    def _message(self, entry: Entry, record: User | Assistant, said: Written) -> None:
        told = self._told(entry, record)
        where = told.where._replace(uuid=record.uuid, offset=entry.offset, timestamp=record.timestamp)
        inputs = iter(said.uses)
        again = isinstance(record, Assistant) and _is_again(told, record)
        raw = record.tool_use_result if isinstance(record, User) else ABSENT
        for block in record.message.blocks:
            in_call, text, input = False, None, None
            if isinstance(block, b.ToolUse):
                input = next(inputs)[1]
                in_call = self._calls.use(block, where, input)
            elif isinstance(block, b.ToolResult):
                text, in_call = self._calls.result(block, where, raw)
            if not again:
                told.calls += isinstance(block, b.ToolUse)
                row = block_row(block, None if in_call else text, None if in_call else input)
                about = (where.session_id, where.agent_id, told.id, told.blocks, entry.offset)
                self._out("blocks", (*about, *row, in_call))
                told.blocks += 1
                if isinstance(block, b.Text):
                    told.text.append(block.text)
        if again:
            return
        told.lines += 1
        told.last = record.timestamp
        told.stop_reason = record.message.stop_reason or told.stop_reason
        if isinstance(record, User):
            self._hear(entry, record)

    def _told(self, entry: Entry, record: User | Assistant) -> _Told:
        """Return the message that a line belongs to."""
        message = record.message
        is_answer = isinstance(record, Assistant)
        key = message.id if is_answer and message.id else f"line {entry.offset}"
        told = self._messages.get(key)
        if told is None:
            light = Entry(entry.offset, b"", _light(record))
            id = (message.id if is_answer else None) or record.uuid or f"line {entry.offset}"
            told = self._messages[key] = _Told(
                id=id,
                role="assistant" if is_answer else "user",
                speaker="assistant" if is_answer else speaker(record).value,  # type: ignore[arg-type]
                response_id=(message.id or record.uuid or _digest(entry)) if is_answer else None,
                first=light,
                where=self._where(record, id),
                last=None,
                model=message.model if is_answer else None,
                text=[],
            )
        return told

    def _where(self, record: User | Assistant, message_id: str) -> Where:
        place = self._place
        session = place.session_id or record.session_id
        agent = place.agent_id or record.agent_id
        family = self._family or f"{place.path.rpartition('/')[0]}/{session}"
        return Where(session, agent, family, message_id, None, 0, None)

    def _hear(self, entry: Entry, record: User) -> None:
        """Keep what tells prompts from all else that is said in the user's name."""
        words = tuple(block for block in record.message.blocks if isinstance(block, b.Text))
        if speaker(record) is not Speaker.RESULT:
            self._spoken.append(Entry(entry.offset, b"", _light(record, words)))
        elif words:
            self._spoken.append(Entry(entry.offset, b"", _light(record, (b.ToolResult(), *words))))

    def _note(self, entry: Entry) -> None:
        match entry.record:
            case Attachment(attachment=QueuedCommand()) | QueueOperation():
                self._spoken.append(Entry(entry.offset, b"", entry.record))
            case System(subtype="compact_boundary" | "microcompact_boundary") as record:
                self._out("compactions", self._compaction(entry.offset, record))
            case Progress(parent_tool_use_id=str(call), data=data):
                agent = getattr(data, "agent_id", None)
                session = self._place.session_id or entry.record.session_id
                family = self._family or f"{self._place.path.rpartition('/')[0]}/{session}"
                if isinstance(agent, str) and (family, agent) not in self._reported:
                    self._reported.add((family, agent))
                    self._out("reports", (family, entry.offset, agent, call))
            case _:
                pass

    def _compaction(self, offset: int, record: System) -> tuple[object, ...]:
        session = self._place.session_id or record.session_id
        about = (session, self._place.agent_id or record.agent_id, record.uuid, offset, micros(record.timestamp))
        if record.subtype == "compact_boundary":
            done = record.compact_metadata
            took = None if done is None or done.duration_ms is None else round(done.duration_ms)
            told = (done.trigger, done.pre_tokens, done.post_tokens, took) if done else (None,) * 4
            return (*about, "compact", *told)
        cleared = record.microcompact_metadata
        told = (cleared.trigger, cleared.pre_tokens, None, None) if cleared else (None,) * 4
        return (*about, "microcompact", *told)

    def _turns(self) -> list[int]:
        """Write the turns; return where each begins."""
        found = prompts(self._spoken)
        starts = [entry.offset for entry, _, _ in found]
        answers = [0] * (len(starts) + 1)
        for told in self._messages.values():
            answers[bisect_right(starts, told.first.offset)] += told.role == "assistant"
        calls, errors = [0] * (len(starts) + 1), [0] * (len(starts) + 1)
        for offset, failed in self._calls.made:
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
        for number, (entry, kind, text) in enumerate(found, 1):
            record, last = entry.record, ended[number]
            about = (self._place.session_id, number, record.uuid, entry.offset, text, kind is Speaker.QUEUED)
            times = (micros(record.timestamp), None if last == _NO_TIME else last)
            self._out("turns", (*about, *times, lines[number], answers[number], calls[number], errors[number]))
        return starts


def _line_row(
    entry: Entry, number: int, time: int | None, said: tuple[str | None, str | None], written: Written | None
) -> tuple[object, ...]:
    record = entry.record
    kind, subtype = _kind(entry)
    answer = record if isinstance(record, Assistant) else None
    uses = [use for use, _ in written.uses] if written else []
    return (
        entry.offset,
        entry.length,
        number,
        kind,
        subtype,
        record.uuid,
        record.parent_uuid,
        record.session_id,
        record.agent_id,
        time,
        record.is_sidechain,
        record.is_meta,
        answer.message.id if answer else None,
        answer.request_id if answer else None,
        record.cwd,
        record.version,
        record.git_branch,
        record.slug,
        record.user_type,
        record.entrypoint,
        encode(entry.flaws).decode() if entry.flaws else None,
        *said,
        f"[{','.join(uses)}]" if uses else None,
        written.usage if written else None,
    )


def _message_row(told: _Told, turn: int | None) -> tuple[object, ...]:
    where, record = told.where, told.first.record
    return (
        where.session_id,
        where.agent_id,
        told.id,
        told.response_id,
        told.role,
        told.speaker,
        turn,
        record.uuid,
        record.parent_uuid,
        told.first.offset,
        told.lines,
        micros(record.timestamp),
        micros(told.last),
        told.model,
        told.stop_reason,
        told.stop_reason is not None or told.role == "user",
        bool(record.is_sidechain),
        record.cwd,
        record.git_branch,
        record.version,
        told.blocks,
        told.calls,
        "\n".join(told.text),
    )


def _is_again(told: _Told, record: Assistant) -> bool:
    """Tell whether a line repeats one of its message: same moment, same content."""
    if record.timestamp is None or record.message.id is None:
        return False
    key = (record.timestamp, hash(encode(record.message.content)))
    told.seen = told.seen or set()
    if key in told.seen:
        return True
    told.seen.add(key)
    return False


def _light(record: User | Assistant, content: tuple[b.AnyBlock, ...] = ()) -> User | Assistant:
    """Return a record that holds on to none of the bytes it was read from, with no other content than this."""
    message = Message(content=content)
    if isinstance(record, User):
        return msgspec.structs.replace(record, tool_use_result=ABSENT, message=message)
    return msgspec.structs.replace(record, message=message)


def _kind(entry: Entry) -> tuple[str | None, str | None]:
    """Return the type of a line and its subtype."""
    match entry.record:
        case Unknown(type=kind):
            return kind, None
        case System(subtype=subtype):
            return "system", subtype
        case Attachment(attachment=data):
            return "attachment", _tag(data)
        case Progress(data=data):
            return "progress", _tag(data)
        case record:
            return _tag(record), None


def _tag(struct: msgspec.Struct | None) -> str | None:
    tag = type(struct).__struct_config__.tag if struct is not None else None
    return tag if isinstance(tag, str) else getattr(struct, "type", None)


def _digest(entry: Entry) -> str:
    return hashlib.sha256(entry.line.strip()).hexdigest()
