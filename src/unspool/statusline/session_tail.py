"""Reads the end of a session file, which the store has not read yet: its responses, and the context of the last one.

Rules
  1. The rules of `prices/responses.py` hold, for lines as Claude Code writes them: one line of a response counts, the
     one with the most output, and it is dated by its earliest line. Lines that only the full decoder understands count
     when the store has read them.
  2. The file is untrusted: a regular file, at most `MAX_TAIL` bytes of it, any JSON anywhere.

A second reader beside `prices/responses.py`, because that one takes 25 ms to import: a test says that both agree.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, NamedTuple

MAX_TAIL = 1024 * 1024
"""Bytes at the end of a file that are read."""
_SYNTHETIC = "<synthetic>"
_MAX_TOKENS = 10**9
_ENVELOPE_BYTES = 800
_MAX_MODEL = 200


class TailResponse(NamedTuple):
    """A billed response in the part of a file that is not in the store; what it has is called as in `Response`."""

    id: str
    model: str | None
    timestamp: str | None
    time: int | None
    """Milliseconds since 1970, of the earliest line."""
    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    web_searches: int
    final: bool
    size: int
    speed: str | None
    inference_geo: str | None
    sidechain: bool
    from_progress: bool
    in_own_file: bool

    @property
    def rank(self) -> tuple[int, bool, int, int, bool, bool]:
        """What decides which line of a response counts: the largest (`prices/responses.py`, rule 6)."""
        others = (self.prompt, self.web_searches, not self.from_progress, self.in_own_file)
        return (self.output, not self.sidechain, *others)

    @property
    def prompt(self) -> int:
        """How many tokens the request had, cached or not."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.prompt + self.output


class SessionTail(NamedTuple):
    """The end of a session file."""

    responses: tuple[TailResponse, ...] = ()
    """Each once, in the order they appear."""
    context_tokens: int | None = None
    """Of the last request of the main chain."""
    is_complete: bool = True
    """Whether everything from the start that was asked for was read."""


class FileStamp(NamedTuple):
    """Which file it was when the store read it, and how far it read."""

    device: int
    inode: int
    offset: int


def read_tail(path: str, known: FileStamp | None) -> SessionTail:
    """Return what a session file has after the place that the store has read up to; all of it if that is unknown."""
    if not path.endswith(".jsonl"):
        return SessionTail(is_complete=False)
    try:
        # O_NONBLOCK: opening a named pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        # A session that has just begun has no file yet: nothing is missing then.
        return SessionTail(is_complete=known is None)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return SessionTail(is_complete=False)
        is_same = known is None or (known[:2] == (found.st_dev, found.st_ino) and known.offset <= found.st_size)
        start = known.offset if known and is_same else 0
        begin = max(start, found.st_size - MAX_TAIL)
        data = _read(descriptor, begin)
    except OSError:
        return SessionTail(is_complete=False)
    finally:
        os.close(descriptor)
    if begin > start:
        data = data.partition(b"\n")[2]  # it begins inside a line
    session = os.path.basename(path).removesuffix(".jsonl")
    return _parse(data, session)._replace(is_complete=is_same and begin == start)


def _read(descriptor: int, begin: int) -> bytes:
    os.lseek(descriptor, begin, os.SEEK_SET)
    parts, left = [], MAX_TAIL
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _parse(data: bytes, session: str) -> SessionTail:
    responses: dict[str, TailResponse] = {}
    context = None
    lines = data.split(b"\n")
    for line in lines[:-1]:  # after the last line end is nothing, or a line that is being written
        if b'"usage"' not in line:
            continue
        found = _response_of_line(line, session)
        if found is None:
            continue
        if not found.sidechain:
            context = found.prompt
        before = responses.get(found.id)
        responses[found.id] = found if before is None else _merge(before, found)
    return SessionTail(tuple(responses.values()), context)


def _response_of_line(line: bytes, session: str) -> TailResponse | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    is_progress = record.get("type") == "progress"
    if is_progress:  # repeats a response of an agent (until 2.1)
        data = record.get("data")
        inner = data.get("message") if isinstance(data, dict) and data.get("type") == "agent_progress" else None
        if not isinstance(inner, dict) or inner.get("type") != "assistant":
            return None
        record = {"timestamp": record.get("timestamp"), **inner, "isSidechain": True}
    elif record.get("type") != "assistant":
        return None
    message = record.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(usage, dict) or message.get("model") == _SYNTHETIC:
        return None
    id = message.get("id") or record.get("uuid")
    if not isinstance(id, str) or not id:
        return None
    from unspool.format import milliseconds  # here, because often there is no new response

    timestamp = record.get("timestamp") if isinstance(record.get("timestamp"), str) else None
    final = message.get("stop_reason") is not None
    return TailResponse(
        id=id,
        model=_text(message.get("model")),
        timestamp=timestamp,
        time=milliseconds(timestamp),
        **_tokens(usage),
        final=final,
        size=0 if final else max(len(line) - _ENVELOPE_BYTES, 0),
        speed=_text(usage.get("speed")),
        inference_geo=_text(usage.get("inference_geo")),
        sidechain=record.get("isSidechain") is True,
        from_progress=is_progress,
        in_own_file=record.get("sessionId") == session and not record.get("forkedFrom"),
    )


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    writes, long = _count(usage.get("cache_creation_input_tokens")), 0
    parts = usage.get("cache_creation")
    if isinstance(parts, dict):
        short, hour = (_count(parts.get(f"ephemeral_{name}_input_tokens")) for name in ("5m", "1h"))
        if short + hour == writes:
            writes, long = short, hour
    searches = usage.get("server_tool_use")
    return {
        "input": _count(usage.get("input_tokens")),
        "output": _count(usage.get("output_tokens")),
        "cache_read": _count(usage.get("cache_read_input_tokens")),
        "cache_write_5m": writes,
        "cache_write_1h": long,
        "web_searches": _count(searches.get("web_search_requests")) if isinstance(searches, dict) else 0,
    }


def _merge(one: TailResponse, other: TailResponse) -> TailResponse:
    """Return two lines of a response as one."""
    best = max(one, other, key=lambda line: line.rank)  # of equal ones the first
    times = [(line.time, line.timestamp) for line in (one, other) if line.time is not None]
    time, timestamp = min(times, default=(None, best.timestamp))
    final = one.final or other.final
    size = 0 if final else one.size + other.size
    return best._replace(time=time, timestamp=timestamp, final=final, size=size)


def _count(value: Any) -> int:
    return min(max(value, 0), _MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: Any) -> str | None:
    return value[:_MAX_MODEL] if isinstance(value, str) else None
