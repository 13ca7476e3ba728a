"""Builds session files line by line, as Claude Code writes them.

    >>> made = session(user("hi"), assistant("Let me look.", tool_use("Read", file_path="/a")), tool_result("b"))
    >>> [record.uuid is not None for record in made.records]
    [True, True, True, True]

Rules
  1. The output is deterministic: the same steps give the same bytes. Ids come from the session's id and a counter,
     times from `start` and `step`.
  2. Ids, parents, times, message ids and the calls of tool results are filled in; an explicit field wins.
  3. Lines have the shape of `version`: one line per block, parallel results as a chain before 2.1 and as a tree from
     then on, stop reasons on all lines only where that version has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from unspool.errors import UsageError
from unspool.format import AnyRecord, Entry, decode, encode_json, format_timestamp
from unspool.paths import agent_file, project_key, session_file


class Clock:
    """A simulated clock that advances by a step with each tick."""

    def __init__(self, start: str, step: float) -> None:
        self._time = datetime.fromisoformat(start).astimezone(UTC)
        self._step = timedelta(seconds=step)

    @property
    def now(self) -> str:
        """The time as Claude Code writes it."""
        return format_timestamp(self._time)

    def tick(self) -> str:
        """Return the time and advance by a step."""
        now = self.now
        self._time += self._step
        return now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._time += timedelta(seconds=seconds)


class Ids:
    """Generates ids that look like real ones and are the same in every run."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def uuid(self) -> str:
        """A line's id."""
        return str(UUID(bytes=self._next()[:16], version=4))

    def message(self) -> str:
        """An API message's id."""
        return f"msg_01{self._next().hex()[:22]}"

    def request(self) -> str:
        """An API request's id."""
        return f"req_01{self._next().hex()[:22]}"

    def tool(self) -> str:
        """A tool call's id."""
        return f"toolu_01{self._next().hex()[:22]}"

    def _next(self) -> bytes:
        self._count += 1
        return hashlib.sha256(f"{self._seed}:{self._count}".encode()).digest()


Json: TypeAlias = dict[str, Any]

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel."""


class Step(msgspec.Struct, frozen=True):
    """One event of a session; `write` adds its lines."""

    write: Callable[[Writer], object]


class Built(msgspec.Struct, frozen=True):
    """A session that was built."""

    id: str
    cwd: str
    lines: tuple[bytes, ...]
    agent: str | None = None
    """The sub-agent whose file it is."""

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return b"".join(self.lines)

    @property
    def entries(self) -> list[Entry]:
        """The entries that the reader decodes from the lines."""
        items, offset = [], 0
        for line in self.lines:
            items += decode(line, offset)
            offset += len(line)
        return [item for item in items if isinstance(item, Entry)]

    @property
    def records(self) -> list[AnyRecord]:
        """The records of the lines."""
        return [entry.record for entry in self.entries]

    def save(self, config: Path) -> Path:
        """Write the file to its place in a config folder, as that of a session."""
        return self._write(session_file(config, project_key(self.cwd), self.id))

    def save_agent(self, config: Path, **meta: Any) -> Path:
        """Write the file to its place as that of its sub-agent (from 2.1.2 on), with what its meta file says."""
        path = self._write(agent_file(config, project_key(self.cwd), self.id, self.agent or ""))
        path.with_suffix(".meta.json").write_bytes(encode_json(meta))
        return path

    def _write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


class Writer:
    """Collects the lines of a session, with the state that later steps need."""

    def __init__(self, envelope: Json, ids: Ids, clock: Clock) -> None:
        self.lines: list[bytes] = []
        self.envelope = envelope
        self.ids = ids
        self.clock = clock
        self.parent: str | None = None
        self.prompts: list[tuple[str | None, str]] = []
        """Each prompt's parent and uuid."""
        self.open_calls: dict[str, str] = {}
        """Tool calls without a result: tool id to the uuid of their line."""
        self.written: list[str] = []
        """The uuids of the conversation's lines."""
        version = str(envelope["version"])
        self.version = tuple(int(part) for part in version.split(".") if part.isdigit())

    def node(self, kind: str, fields: Json) -> str:
        """Add a line of the conversation graph, a child of the one before; return its uuid."""
        # Before 2.1.100 the whole envelope came before the body; since then only these two fields.
        early = ("isSidechain", "agentId") if self.version >= (2, 1, 100) else tuple(self.envelope)
        head = {"parentUuid": self.parent, **{key: self.envelope[key] for key in early if key in self.envelope}}
        tail = {"uuid": self.ids.uuid(), "timestamp": self.clock.tick(), **self.envelope}
        # Claude Code writes the type of an answer after the message, and of all other lines before.
        body = {**fields, "type": kind} if kind == "assistant" else {"type": kind, **fields}
        line = {**head, **body, **tail, **fields}
        self.add(line)
        self.parent = line["uuid"]
        self.written.append(line["uuid"])
        return str(line["uuid"])

    def note(self, kind: str, fields: Json) -> None:
        """Add a line outside the graph."""
        self.add({"type": kind, **fields, "sessionId": fields.get("sessionId", self.envelope["sessionId"])})

    def add(self, line: Json) -> None:
        """Add a line as it is."""
        self.lines.append(encode_json(line) + b"\n")


def session(
    *steps: Step,
    id: str = "00000000-0000-4000-8000-000000000001",
    cwd: str = "/home/me/project",
    version: str = "2.1.325",
    branch: str = "main",
    start: str = "2026-01-05T09:00:00.000Z",
    step: float = 1.0,
    agent: str | None = None,
    **envelope: Any,
) -> Built:
    """Build a session; `agent` makes it the file of that sub-agent."""
    shared: Json = {
        "isSidechain": agent is not None,
        "userType": "external",
        "cwd": cwd,
        "sessionId": id,
        "version": version,
        "gitBranch": branch,
    }
    if agent is not None:
        shared["agentId"] = agent
    writer = Writer({**shared, **envelope}, Ids(f"{id}/{agent or ''}"), Clock(start, step))
    for event in steps:
        event.write(writer)
    return Built(id, cwd, tuple(writer.lines), agent)


def records(*steps: Step) -> list[AnyRecord]:
    """Return the records of a session built from these steps."""
    return session(*steps).records


def user(*content: str | Json, **fields: Any) -> Step:
    """A prompt: words, or blocks."""

    def write(writer: Writer) -> None:
        body: Any = content[0] if len(content) == 1 and isinstance(content[0], str) else _blocks(content)
        before = writer.parent
        uuid = writer.node("user", {"message": {"role": "user", "content": body}, **fields})
        if not fields.get("isMeta"):
            writer.prompts.append((before, uuid))

    return Step(write)


def assistant(
    *content: str | Json,
    model: str = "claude-opus-4-5-20251101",
    usage: Json | None = None,
    stop_reason: str | None = None,
    **fields: Any,
) -> Step:
    """An answer of the model: one line for each block, all of one message."""

    def write(writer: Writer) -> None:
        blocks = [{**block} for block in _blocks(content)]
        for block in blocks:
            if block["type"] == "tool_use":
                block["id"] = block["id"] or writer.ids.tool()
        reason = stop_reason or ("tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn")
        # Stop reasons on every line of a message: from 2.0.36 to 2.0.49, and again since 2.1.100.
        always = writer.version >= (2, 1, 100) or (2, 0, 36) <= writer.version < (2, 0, 50)
        message = {"id": writer.ids.message(), "type": "message", "role": "assistant", "model": model}
        request = writer.ids.request()
        for number, block in enumerate(blocks):
            last = number == len(blocks) - 1
            body = {
                **message,
                "content": [block],
                "stop_reason": reason if always or (stop_reason and last) else None,
                "stop_sequence": None,
                "usage": _usage(usage, final=always or last),
            }
            # The index of a block is written since 2.1.290.
            index = {"apiBlockIndex": number} if writer.version >= (2, 1, 290) else {}
            uuid = writer.node("assistant", {"message": body, "requestId": request, **index, **fields})
            if block["type"] == "tool_use":
                writer.open_calls[block["id"]] = uuid

    return Step(write)


def tool_result(
    content: str | list[Json] = "",
    *,
    id: str | None = None,
    error: bool = False,
    structured: Any = None,
    **fields: Any,
) -> Step:
    """The result of a tool call: of the one with this id, else of the oldest still open."""

    def write(writer: Writer) -> None:
        called = id or next(iter(writer.open_calls), None)
        if called is None:
            raise UsageError("no tool call is pending", hint="put `assistant(tool_use(…))` before the result")
        source = writer.open_calls.pop(called, None)
        line: Json = {"message": {"role": "user", "content": [result_block(called, content, error=error)]}}
        if structured is not None:
            line["toolUseResult"] = structured
        # Since 2.1 a result is a child of the line with its call (a tree); before, of the line before it (a chain).
        if source is not None and writer.version >= (2, 1):
            line["sourceToolAssistantUUID"] = source
            line["parentUuid"] = source
        writer.node("user", {**line, **fields})

    return Step(write)


def system(subtype: str | None, content: str | None = None, **fields: Any) -> Step:
    """Something the program notes in the conversation."""
    head = {"subtype": subtype} if subtype else {}
    body = {} if content is None else {"content": content}
    return Step(lambda writer: writer.node("system", {**head, **body, "isMeta": False, **fields}))


def progress(kind: str, *, tool: str | None = None, **data: Any) -> Step:
    """What a long-running tool is doing."""

    def write(writer: Writer) -> None:
        called = tool or next(iter(writer.open_calls), "toolu_none")
        line = {"data": {"type": kind, **data}, "toolUseID": called, "parentToolUseID": called}
        writer.node("progress", line)

    return Step(write)


def attachment(kind: str, **data: Any) -> Step:
    """Something the program puts beside the conversation."""
    return Step(lambda writer: writer.node("attachment", {"attachment": {"type": kind, **data}}))


def note(kind: str, **fields: Any) -> Step:
    """Any line outside the graph: a title, a mode, a link."""
    return Step(lambda writer: writer.note(kind, fields))


def snapshot(**backups: Json) -> Step:
    """The files tracked at the newest prompt."""

    def write(writer: Writer) -> None:
        message = writer.prompts[-1][1] if writer.prompts else writer.ids.uuid()
        files = {"messageId": message, "trackedFileBackups": backups, "timestamp": writer.clock.now}
        line = {"type": "file-history-snapshot", "messageId": message, "snapshot": files}
        writer.add({**line, "isSnapshotUpdate": False})

    return Step(write)


def queued(prompt: str, *, taken: bool = True) -> Step:
    """A prompt typed while the model works; taken in mid-turn it never becomes a user line."""

    def write(writer: Writer) -> None:
        writer.note("queue-operation", {"operation": "enqueue", "timestamp": writer.clock.tick(), "content": prompt})
        if taken:
            writer.note("queue-operation", {"operation": "remove", "timestamp": writer.clock.tick()})
            # In older versions only the queue has the prompt.
            if writer.version >= (2, 1, 100):
                data = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
                writer.node("attachment", {"attachment": data})

    return Step(write)


def compaction(summary: str, *, keep: int = 0, trigger: str = "auto", before: int = 160_000, **more: Any) -> Step:
    """A compaction: boundary and summary, with the last `keep` lines preserved; `more` is metadata."""

    def write(writer: Writer) -> None:
        kept, logical = writer.written[-keep:] if keep else [], writer.parent
        metadata: Json = {"trigger": trigger, "preTokens": before, **more}
        writer.parent = None
        # The boundary names the summary that follows it, so the uuid of that line is drawn first.
        anchor = writer.ids.uuid()
        if kept:
            metadata["preservedSegment"] = {"headUuid": kept[0], "anchorUuid": anchor, "tailUuid": kept[-1]}
            metadata["preservedMessages"] = {"anchorUuid": anchor, "uuids": kept, "allUuids": kept}
        writer.node(
            "system",
            {"subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False, "level": "info",
             "logicalParentUuid": logical, "compactMetadata": metadata},
        )  # fmt: skip
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True, "uuid": anchor}
        writer.node("user", {"message": {"role": "user", "content": summary}, **flags})

    return Step(write)


def rewind(prompts: int = 1) -> Step:
    """Go back to before the last prompt, or before several; what follows is a new branch."""

    def write(writer: Writer) -> None:
        if not 0 < prompts <= len(writer.prompts):
            raise UsageError(f"cannot rewind {prompts} of {len(writer.prompts)} prompts")
        writer.parent = writer.prompts[-prompts][0]
        del writer.prompts[-prompts:]
        writer.open_calls.clear()

    return Step(write)


def wait(seconds: float) -> Step:
    """Let time pass."""
    return Step(lambda writer: writer.clock.wait(seconds))


def raw(line: bytes) -> Step:
    """These bytes, as they are."""
    return Step(lambda writer: writer.lines.append(line))


def text(words: str) -> Json:
    """A text block."""
    return {"type": "text", "text": words}


def thinking(words: str, signature: str = "c2lnbmF0dXJl") -> Json:
    """A thinking block."""
    return {"type": "thinking", "thinking": words, "signature": signature}


def tool_use(name: str, *, id: str | None = None, **input: Any) -> Json:
    """A tool call; without an id it gets one."""
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result_block(id: str, content: str | list[Json] = "", *, error: bool = False) -> Json:
    """A tool result as a block, for `user(...)`; `tool_result` is the step."""
    block: Json = {"tool_use_id": id, "type": "tool_result", "content": content}
    return {**block, "is_error": True} if error else block


def image(data: str = DOT, media_type: str = "image/png") -> Json:
    """A picture."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def document(data: str, media_type: str = "application/pdf") -> Json:
    """A document."""
    return {"type": "document", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _blocks(content: Iterable[str | Json]) -> list[Json]:
    return [text(item) if isinstance(item, str) else item for item in content]


def _usage(usage: Json | None, *, final: bool) -> Json:
    full = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 12_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 120,
        "service_tier": "standard",
        **(usage or {}),
    }
    # Until its last line a message has the count of output tokens from the beginning of the stream.
    return full if final else {**full, "output_tokens": min(full["output_tokens"], 2)}
