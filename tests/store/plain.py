"""A config folder read with nothing but `json`: what the tables of SQL must say, computed another way.

Nothing of unspool is imported here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]
SPACE = b" \t\r\n"
DECODER = json.JSONDecoder()
REFUSED = re.compile("[\0\ud800-\udfff]")


class Doc(NamedTuple):
    """A document in a file."""

    path: Path
    offset: int
    length: int
    value: Json


class Bad(NamedTuple):
    """Bytes that are none."""

    path: Path
    offset: int
    length: int


def files(root: Path) -> list[Path]:
    """Return the files of sessions and agents."""
    return sorted(path for path in root.rglob("*.jsonl") if path.name != "history.jsonl")


def documents(path: Path) -> list[Doc | Bad]:
    """Return the documents of a file; a torn one at its end is not there yet."""
    status = path.stat()
    return _documents(path, status.st_size, status.st_mtime_ns)


@lru_cache(1024)
def _documents(path: Path, _size: int, _modified: int) -> list[Doc | Bad]:
    return list(_read(path))


def _read(path: Path) -> Iterator[Doc | Bad]:
    data, offset = path.read_bytes(), 0
    for line in data.splitlines(keepends=True):
        found = list(_line(path, line, offset))
        if offset + len(line) == len(data) and not line.endswith(b"\n") and found and isinstance(found[-1], Bad):
            found.pop()
        yield from found
        offset += len(line)


def _line(path: Path, line: bytes, offset: int) -> Iterator[Doc | Bad]:
    text = line.decode("utf-8", "replace")
    at = 0
    while text[at:].strip():
        begin = at + len(text[at:]) - len(text[at:].lstrip())
        try:
            value, end = DECODER.raw_decode(text, begin)
        except ValueError:
            value, end = None, len(text)
        last = not text[end:].strip()
        stop = len(text) if last else end
        start, size = len(text[:at].encode()), len(text[at:stop].encode())
        if isinstance(value, dict):
            yield Doc(path, offset + start, size, fixed(value))
        else:
            yield Bad(path, offset + start, size)
        at = stop


def fixed(value: Any) -> Any:
    """Return a value with U+FFFD for what no database takes."""
    match value:
        case str():
            return REFUSED.sub("\ufffd", value)
        case dict():
            return {key: fixed(one) for key, one in value.items()}
        case list():
            return [fixed(one) for one in value]
        case _:
            return value


def docs(root: Path) -> list[Doc]:
    """Return all documents of a folder."""
    return [one for path in files(root) for one in documents(path) if isinstance(one, Doc)]


def time(text: Any) -> datetime | None:
    """Return a time in UTC, without saying so."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


def message(doc: Json) -> Json:
    """Return the API's part of a line."""
    found = doc.get("message")
    return found if isinstance(found, dict) else {}


def blocks(doc: Json) -> list[Any]:
    """Return the content of a line as blocks."""
    content = message(doc).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def words(found: list[Any]) -> str:
    """Return the text blocks, joined."""
    return "\n".join(block["text"] for block in found if isinstance(block, dict) and block.get("type") == "text")


def result_words(block: Json) -> str:
    """Return the text of a tool result."""
    content = block.get("content")
    if isinstance(content, list):
        return words(content)
    return content if isinstance(content, str) else ""


class Said(NamedTuple):
    """A message: its lines, its blocks."""

    path: Path
    id: str
    lines: list[Doc]
    blocks: list[tuple[Doc, Any]]


def messages(root: Path) -> list[Said]:
    """Return whole messages: lines by message id in a file, user lines by themselves, no line twice."""
    found: dict[tuple[Path, str], list[Doc]] = {}
    for doc in docs(root):
        value = doc.value
        if value.get("type") not in ("user", "assistant"):
            continue
        answer = value["type"] == "assistant" and message(value).get("id")
        found.setdefault((doc.path, answer or f"line {doc.offset}"), []).append(doc)
    said = []
    for (path, id), lines in found.items():
        kept = new_blocks(lines)
        first = kept[0][0].value
        name = id if not id.startswith("line ") else first.get("uuid") or id
        placed = [(line, block) for line, new in kept for block in new]
        said.append(Said(path, name, [line for line, _ in kept], placed))
    return said


def new_blocks(lines: list[Doc]) -> list[tuple[Doc, list[Json]]]:
    """Return the lines of a message with the blocks that no earlier line has: history may be written again."""
    kept, seen, times = [], list[Any](), list[Any]()
    for line in lines:
        all_blocks, time = blocks(line.value), line.value.get("timestamp")
        keys = [(b["type"], b.get("id")) if is_call(b) else b for b in all_blocks]
        known = [key in seen for key in keys]
        # An equal text in another line is a repetition only if the line is: written at the same time, or with a call.
        repeats = (time is not None and time in times) or any(
            k and is_call(b) for k, b in zip(known, all_blocks, strict=True)
        )
        new = [b for k, b in zip(known, all_blocks, strict=True) if not (k and repeats)]
        if new or not all_blocks:
            kept.append((line, new))
        seen += keys
        times.append(time)
    return kept


def is_call(block: object) -> bool:
    """Tell whether a block is a tool call."""
    return isinstance(block, dict) and block.get("type") == "tool_use"


class Call(NamedTuple):
    """A tool call and its result."""

    use: Doc
    block: Json
    result: Doc | None
    given: Json | None


def calls(root: Path) -> list[Call]:
    """Return tool calls by id in a file, the first of each."""
    found = []
    for path in files(root):
        uses: dict[str, tuple[Doc, Json]] = {}
        results: dict[str, tuple[Doc, Json]] = {}
        for doc in documents(path):
            if not isinstance(doc, Doc) or doc.value.get("type") not in ("user", "assistant"):
                continue
            for block in blocks(doc.value):
                if isinstance(block, dict) and block.get("type") == "tool_use":
                    uses.setdefault(block.get("id", ""), (doc, block))
                elif isinstance(block, dict) and block.get("type") == "tool_result":
                    results.setdefault(block.get("tool_use_id", ""), (doc, block))
        found += [Call(doc, block, *results.get(id, (None, None))) for id, (doc, block) in uses.items()]
    return found


RATES = {
    "claude-opus-4-5-20251101": ("5", "25", "0.5", "6.25", "10"),
    "claude-haiku-4-5": ("1", "5", "0.1", "1.25", "2"),
}
"""Dollars a million tokens: input, output, cache read, cache write for 5 minutes and for an hour."""


def billed(root: Path) -> dict[str, Json]:
    """Return each response once: of all lines with its id the one with the most output."""
    found: dict[str, Json] = {}
    for doc in docs(root):
        message = doc.value.get("message")
        if doc.value.get("type") != "assistant" or not isinstance(message, dict):
            continue
        usage = message.get("usage")
        if not usage or message.get("model") == "<synthetic>":
            continue
        id, when = message.get("id") or doc.value["uuid"], time(doc.value.get("timestamp"))
        writes = usage.get("cache_creation_input_tokens", 0)
        split = usage.get("cache_creation") or {"ephemeral_5m_input_tokens": writes, "ephemeral_1h_input_tokens": 0}
        one = {
            "model": message.get("model"),
            "time": when,
            "input_tokens": usage.get("input_tokens", 0),
            "output_tokens": usage.get("output_tokens", 0),
            "cache_read_tokens": usage.get("cache_read_input_tokens", 0),
            "cache_write_5m_tokens": split["ephemeral_5m_input_tokens"],
            "cache_write_1h_tokens": split["ephemeral_1h_input_tokens"],
            "session_id": doc.value.get("sessionId"),
        }
        before = found.get(id)
        if before is None or one["output_tokens"] > before["output_tokens"]:
            earlier = [t for t in (when, before and before["time"]) if t]
            found[id] = {**one, "time": min(earlier, default=None)}
        elif when and (before["time"] is None or when < before["time"]):
            before["time"] = when
    return {id: {**one, "cost_micros": cost(one)} for id, one in found.items()}


def cost(one: Json) -> int | None:
    """Return what a response cost, in micro-dollars; None if that is not known."""
    rates = RATES.get(one["model"])
    if rates is None:
        return None
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
    exact = sum((Decimal(rate) * one[name] for rate, name in zip(rates, names, strict=True)), Decimal(0))
    return int(exact.quantize(Decimal(1), ROUND_HALF_EVEN))
