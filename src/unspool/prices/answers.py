"""What one line says of a billed response. In: an entry. Out: a `Response`, or why nothing was billed.

Rules
  1. A response is known by its `message.id`. The request id plays no part: a replay may carry a new one, other vendors
     send none. A line without a message id is known by its uuid, one without either by its bytes.
  2. The model `<synthetic>` is the program itself: nothing was billed.
  3. Cache writes are split into 5 minutes and 1 hour where the parts make up the whole; else all are 5 minutes.
  4. What a progress line tells of a sub-agent's answer counts like the agent's own line: that may be gone.
  5. Where no stop reason says that the output is final, the size of the content is kept to estimate it from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from unspool.format.blocks import Text
from unspool.format.codec import decode
from unspool.format.entry import Buffer, Entry
from unspool.format.message import CacheCreation, ServerToolUsage
from unspool.format.progress import AgentProgress
from unspool.format.records import Assistant, Progress
from unspool.format.recover import UNDECODABLE
from unspool.format.shape import ABSENT, CamelShape, Shape

SYNTHETIC = "<synthetic>"
MOST = 10**9
"""Tokens. No response has more; a number beyond is damage, and sums must stay within 64 bits."""


class Response(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
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
    size: int = 0
    """Bytes of its content, on all lines of a file; 0 if it is final."""
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
    timestamp: str | None = None
    notice: str = ""
    """What the program said in the model's place, if it was about a limit."""


class BilledUsage(Shape, frozen=True):
    """The part of a line's usage that is billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUsage | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None


class BilledMessage(Shape, frozen=True):
    """The part of a message that tells what was billed; its content stays as it is written."""

    content: msgspec.Raw = ABSENT
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: BilledUsage | None = None


class BilledLine(CamelShape, frozen=True):
    """The part of an assistant line that tells what was billed, by the names of `Assistant`."""

    type: str | None = None
    message: BilledMessage = BilledMessage()
    uuid: str | None = None
    request_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    session_id_again: str | None = msgspec.field(default=None, name="session_id")
    agent_id: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    forked_from: object = None


Answer: TypeAlias = Assistant | BilledLine

billed_line: Callable[[Buffer], BilledLine] = msgspec.json.Decoder(BilledLine).decode


def of_entry(entry: Entry, file: str = "") -> Response | Dropped | None:
    """Return what one line says of a response; nothing if it is no answer. `file` is its file's path or name."""
    match entry.record:
        case Assistant() as answer:
            return response(answer, entry.raw, entry.offset, stem(file))
        case Progress(data=AgentProgress() as data) as told:
            return _retold(entry.offset, told, data, stem(file))
        case _:
            return None


def response(answer: Answer, line: Buffer, offset: int, home: str) -> Response | Dropped:
    """Return what an answer's line says of a response; `home` is the name of its file without the ending."""
    message, usage = answer.message, answer.message.usage
    if message.model == SYNTHETIC:
        return Dropped(offset, "synthetic", answer.timestamp, _notice(answer))
    if usage is None:
        return Dropped(offset, "no usage", answer.timestamp)
    writes, writes_1h = _cache_writes(usage.cache_creation_input_tokens, usage.cache_creation)
    session, time = answer.session_id or answer.session_id_again, answer.timestamp or None
    read, searches = usage.cache_read_input_tokens, usage.server_tool_use
    return Response(
        id=message.id or answer.uuid or _digest(line),
        request_id=answer.request_id,
        model=message.model,
        session_id=session,
        agent_id=answer.agent_id,
        timestamp=time,
        cwd=answer.cwd,
        branch=answer.git_branch,
        version=answer.version,
        input=usage.input_tokens if 0 <= usage.input_tokens <= MOST else _tamed(usage.input_tokens),
        output=usage.output_tokens if 0 <= usage.output_tokens <= MOST else _tamed(usage.output_tokens),
        cache_read=read if 0 <= read <= MOST else _tamed(read),
        cache_write_5m=writes,
        cache_write_1h=writes_1h,
        web_searches=_tamed(searches.web_search_requests) if searches else 0,
        final=message.stop_reason is not None,
        size=content_size(answer, line) if message.stop_reason is None else 0,
        speed=usage.speed,
        service_tier=usage.service_tier,
        inference_geo=usage.inference_geo,
        offset=offset,
        counted_at=time,
        sidechain=bool(answer.is_sidechain),
        at_home=not answer.forked_from and home in (session, f"agent-{answer.agent_id}"),
    )


def _retold(offset: int, told: Progress, data: AgentProgress, home: str) -> Response | Dropped | None:
    """Return what a progress line tells of an agent's answer. Those before it (`normalized_messages`) had their own."""
    line = bytes(data.message)
    match decode(line) if b'"usage"' in line else []:
        case [Entry(record=Assistant() as answer)]:
            told_again = replace(
                answer,
                timestamp=answer.timestamp or told.timestamp,
                session_id=told.session_id,
                agent_id=data.agent_id,
                is_sidechain=True,
                cwd=told.cwd,
                git_branch=told.git_branch,
                version=told.version,
            )
            found = response(told_again, line, offset, home)
            return replace(found, retold=True) if isinstance(found, Response) else found
        case _:
            return None


def _cache_writes(whole: int, parts: CacheCreation | None) -> tuple[int, int]:
    whole = _tamed(whole)
    if parts is None:
        return whole, 0
    short, long = parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens
    return (short, long) if short + long == whole and short >= 0 and long >= 0 else (whole, 0)


def _tamed(number: int) -> int:
    """Return a number of tokens that can be added up: none is negative, none absurd."""
    return min(max(number, 0), MOST)


def content_size(answer: Answer, line: Buffer) -> int:
    """Return how many bytes the content of an answer's line has."""
    if type(answer) is BilledLine:
        return len(memoryview(answer.message.content))
    try:
        return len(memoryview(billed_line(line).message.content))
    except UNDECODABLE:
        return 0


def _notice(answer: Answer) -> str:
    """Return what the program says of a limit: `5-hour limit reached ∙ resets 3pm`, or nothing."""
    if isinstance(answer, Assistant):
        texts = [block.text for block in answer.message.blocks if isinstance(block, Text)]
    else:
        try:
            texts = [block.text for block in _texts(answer.message.content)]
        except UNDECODABLE:
            return ""
    return next((text for text in texts if "limit" in text.lower()), "")


_texts: Callable[[Buffer], list[Text]] = msgspec.json.Decoder(list[Text]).decode


def _digest(line: Buffer) -> str:
    import hashlib  # only for lines that no program of Anthropic's wrote

    return hashlib.sha256(bytes(line).strip()).hexdigest()


def stem(file: str) -> str:
    """Return the name of a file of lines without its folder and ending."""
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
