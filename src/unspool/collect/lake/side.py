"""Side files as rows: the segments of the last state of one in, rows of the tables out.

Rules
  1. Values stand in the order of `parts.sql`, without the first two.
  2. A file that cannot be read is a bad line, and has no other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from unspool.collect.segments import Header, Segment
from unspool.format.sidecars import parse_agent_meta
from unspool.graph.gathering import Gathering
from unspool.read.lines import Line
from unspool.read.scan import Kind, Source
from unspool.store import side_rows
from unspool.store.cells import days, micros
from unspool.store.taking import Taken

Row = tuple[str, tuple[object, ...]]

_KINDS = {kind.value: kind for kind in Kind}
_NOWHERE = Path("/\0")
"""No file of this machine has such a name: what is said of a source's own time must not be read here."""


def rows(segments: list[Segment]) -> Iterator[Row]:
    """Yield the rows of a file."""
    header = segments[-1].header
    kind = _KINDS.get(header.kind)
    if kind is Kind.HISTORY:
        yield from _history(segments)
        return
    text = "\n".join(line.raw for segment in segments for line in segment.lines)
    if kind is None:
        return
    try:
        yield from _whole(header, kind, text.encode("utf-8", "surrogatepass"))
    except msgspec.DecodeError as error:
        yield "bad_lines", (header.generation, 0, header.end, str(error))


def _whole(header: Header, kind: Kind, data: bytes) -> Iterator[Row]:
    if kind is Kind.AGENT_META:
        meta = parse_agent_meta(data)
        path = header.source.removesuffix(".meta.json") + ".jsonl"
        yield "agent_meta", (path, meta.agent_type, meta.description, meta.tool_use_id)
        return
    written = micros(header.written) or 0
    place = (header.project, header.session, header.agent)
    source = Source(str(_NOWHERE / header.source), kind, header.end, written * 1000, *place)
    for table, values in side_rows.rows(source, data):
        match table:
            case "todos":
                yield table, values
            case "plans":
                yield table, (*values[:-2], None, written)
            case "stats_days":
                date = values[0]
                yield table, (days(date if isinstance(date, str) else None), *values[1:])
            case _:
                pass


def _history(segments: list[Segment]) -> Iterator[Row]:
    taken = Taken(Kind.HISTORY.value, segments[-1].header.source, Gathering())
    for segment in segments:
        for line in segment.lines:
            data = line.raw.encode("utf-8", "surrogatepass") + b"\n"
            taken.take([Line(line.offset, memoryview(data))])
    generation = segments[-1].header.generation
    for offset, time, *rest in taken.history:
        yield "history", (generation, offset, None if time is None else time * 1000, *rest)
    for offset, length, reason in taken.bad:
        yield "bad_lines", (generation, offset, length, reason)
