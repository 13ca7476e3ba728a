"""What one line says of a billed response. In: an entry. Out: a `Response`, or why nothing was billed.

Rules
  1. A response is known by its `message.id`. The request id plays no part: a replay may carry a new one, other vendors
     send none. A line without a message id is known by its uuid, one without either by its bytes.
  2. The model `<synthetic>` is the program itself: nothing was billed.
  3. Cache writes are split into 5 minutes and 1 hour where the parts make up the whole; else all are 5 minutes.
  4. What a progress line tells of a sub-agent's answer counts like the agent's own line: that may be gone.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.format.codec import decode
from unspool.format.entry import Entry
from unspool.format.message import Usage
from unspool.format.progress import AgentProgress
from unspool.format.records import Assistant, Progress

SYNTHETIC = "<synthetic>"


class Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One billed answer, as the line that counts has it."""

    id: str
    """What it is known by (rule 1)."""
    request_id: str | None = None
    model: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    """Of the earliest line."""
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    final: bool = False
    speed: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    offset: int = 0
    counted_at: str | None = None
    """The timestamp of the line that counts."""
    sidechain: bool = False
    retold: bool = False
    """The line that counts is a progress line."""
    at_home: bool = False
    """It lies in the file named after its session or agent, and was not copied there from another session."""

    @property
    def prompt(self) -> int:
        """How many tokens the request had, cached or not."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


class Dropped(NamedTuple):
    """An answer's line that nothing was billed for."""

    offset: int
    reason: str


def of_entry(entry: Entry, file: str = "") -> Response | Dropped | None:
    """Return what one line says of a response; nothing if it is no answer."""
    match entry.record:
        case Assistant() as answer:
            return _response(entry, answer, file)
        case Progress(data=AgentProgress() as data) as told:
            retold = _retold(told, data)
            response = _response(entry, retold, file) if retold else None
            return replace(response, retold=True) if isinstance(response, Response) else response
        case _:
            return None


def _retold(told: Progress, data: AgentProgress) -> Assistant | None:
    """Return the agent's answer in a progress line. Those before it (`normalized_messages`) had their own lines."""
    line = bytes(data.message)
    match decode(line) if b'"usage"' in line else []:
        case [Entry(record=Assistant() as answer)]:
            return replace(
                answer,
                timestamp=answer.timestamp or told.timestamp,
                session_id=told.session_id,
                agent_id=data.agent_id,
                is_sidechain=True,
                cwd=told.cwd,
                git_branch=told.git_branch,
                version=told.version,
            )
        case _:
            return None


def _response(entry: Entry, answer: Assistant, file: str) -> Response | Dropped:
    message, usage = answer.message, answer.message.usage
    if message.model == SYNTHETIC:
        return Dropped(entry.offset, "synthetic")
    if usage is None:
        return Dropped(entry.offset, "no usage")
    writes, writes_1h = _cache_writes(usage)
    session = answer.session_id or answer.session_id_again
    return Response(
        id=message.id or answer.uuid or hashlib.sha256(entry.line.strip()).hexdigest(),
        request_id=answer.request_id,
        model=message.model,
        session_id=session,
        agent_id=answer.agent_id,
        timestamp=answer.timestamp or None,
        cwd=answer.cwd,
        branch=answer.git_branch,
        version=answer.version,
        input=max(usage.input_tokens, 0),
        output=max(usage.output_tokens, 0),
        cache_read=max(usage.cache_read_input_tokens, 0),
        cache_write_5m=writes,
        cache_write_1h=writes_1h,
        web_searches=max(usage.server_tool_use.web_search_requests, 0) if usage.server_tool_use else 0,
        final=message.stop_reason is not None,
        speed=usage.speed,
        service_tier=usage.service_tier,
        inference_geo=usage.inference_geo,
        offset=entry.offset,
        counted_at=answer.timestamp or None,
        sidechain=bool(answer.is_sidechain),
        at_home=not answer.forked_from and _stem(file) in {session, f"agent-{answer.agent_id}"},
    )


def _cache_writes(usage: Usage) -> tuple[int, int]:
    whole, parts = max(usage.cache_creation_input_tokens, 0), usage.cache_creation
    if parts is None or min(parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens) < 0:
        return whole, 0
    split = (parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens)
    return split if sum(split) == whole else (whole, 0)


def _stem(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
