"""What is in a tree: counted line by line, with all that is unknown, damaged or missing.

Rules
  1. Every byte is accounted for by the span of something the reader returned, not by the size of the file.
  2. Damage is a finding. Nothing here raises for bad data; a file that cannot be read is a finding too.
  3. One pass, a piece at a time: memory does not grow with the files.

[merged: required.py] Which fields a user or assistant line should have and lacks.

The list is that of the format's own description (user and assistant message fields). Genuine data breaks it: lines
of other vendors' servers have no `requestId`, the errors the program writes itself neither.

[merged: side_files.py] What is wrong with the side files of a tree: those that cannot be read, and an index that has gone stale.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.files.open import MAX_SIDE_FILE, read_whole
from unspool.format.blocks import AnyBlock, Message, Other, ToolResult
from unspool.format.codec import HISTORY, SESSION
from unspool.format.entry import BadLine, Entry
from unspool.format.envelope import Unknown
from unspool.format.records import SYSTEM_SUBTYPES, Assistant, Attachment, Progress, System, User
from unspool.format.side_files import json as sidecars
from unspool.format.side_files import settings
from unspool.read.scan import LINE_KINDS, Kind, Source, Tree
from unspool.read.tail import pieces


def missing_fields(entry: Entry) -> list[str]:
    """Return the names of required fields that a line does not have, or has as null where it may not."""
    match entry.record:
        case Assistant() as record:
            named: dict[str, object] = {"requestId": record.request_id}
            inside = _missing_in_answer(entry, record.message)
        case User() as record:
            named = {
                "isSidechain": record.is_sidechain,
                "userType": record.user_type,
                "cwd": record.cwd,
                "version": record.version,
            }
            inside = _missing_in_message(entry, record.message)
        case _:
            return []
    named |= {"uuid": record.uuid, "sessionId": record.session_id, "timestamp": record.timestamp}
    missing = [name for name, value in named.items() if value is None]
    if record.parent_uuid is None and _lacks(entry, "parentUuid"):
        missing.append("parentUuid")
    return missing + inside


def _missing_in_message(entry: Entry, message: Message) -> list[str]:
    if message == Message() and _lacks(entry, "message"):
        return ["message"]
    missing = [] if message.role is not None else ["message.role"]
    return missing if message.content or not _lacks(entry, "content") else [*missing, "message.content"]


def _missing_in_answer(entry: Entry, message: Message) -> list[str]:
    missing = _missing_in_message(entry, message)
    if missing == ["message"]:
        return missing
    required = {"message.model": message.model, "message.id": message.id, "message.usage": message.usage}
    missing += [name for name, value in required.items() if value is None]
    if message.stop_reason is None and _lacks(entry, "stop_reason"):
        missing.append("message.stop_reason")
    return missing


def _lacks(entry: Entry, key: str) -> bool:
    """Tell an absent key from a null. Inside a string the quotes would be escaped, so the text can be searched."""
    return re.search(rb'"%s"\s*:' % key.encode(), entry.raw) is None


_STALE = 1.0
"""Milliseconds by which a time in the index may differ: the program rounds."""


class SideFinding(NamedTuple):
    """Something about a side file."""

    file: Path
    kind: str
    message: str


_PARSERS: dict[Kind, Callable[[bytes], object]] = {
    Kind.INDEX: sidecars.parse_sessions_index,
    Kind.STATS: sidecars.parse_stats,
    Kind.SETTINGS: settings.parse_settings,
    Kind.TODOS: sidecars.parse_todos,
    Kind.TASK: sidecars.parse_task,
    Kind.REGISTRY: sidecars.parse_process,
    Kind.AGENT_META: sidecars.parse_agent_meta,
    Kind.TITLE: sidecars.parse_custom_title,
    Kind.WORKFLOW: sidecars.parse_workflow,
}


def findings(tree: Tree) -> Iterator[SideFinding]:
    """Yield what is wrong with the side files of a tree."""
    for source in tree.of(*_PARSERS):
        try:
            parsed = _PARSERS[source.kind](read_whole(source.path, MAX_SIDE_FILE))
        except (UnspoolError, msgspec.DecodeError) as error:
            yield SideFinding(source.path, "unreadable", str(error))
            continue
        if isinstance(parsed, sidecars.SessionsIndex):
            yield from _index_findings(source.path, parsed, tree)


def _index_findings(path: Path, index: sidecars.SessionsIndex, tree: Tree) -> Iterator[SideFinding]:
    """Compare an index with the session files beside it. The paths written in it are never opened."""
    files = {s.session_id: s for s in tree.of(Kind.SESSION) if s.path.parent == path.parent}
    listed = {entry.session_id: entry for entry in index.entries}
    for session_id, entry in listed.items():
        source = files.get(session_id)
        if source is None:
            yield SideFinding(path, "index entry without file", f"`{session_id}` is listed but not there")
        elif _is_stale(entry, source):
            yield SideFinding(path, "stale index time", f"`{session_id}` has changed since it was listed")
    for name in sorted(str(session_id) for session_id in files.keys() - listed.keys()):
        yield SideFinding(path, "file without index entry", f"`{name}` is there but not listed")


def _is_stale(entry: sidecars.IndexEntry, source: Source) -> bool:
    if entry.file_mtime is None:
        return False
    return abs(source.modified / 1e6 - entry.file_mtime) > _STALE


class FoundBadLine(msgspec.Struct, frozen=True):
    """Bytes that are no entry."""

    file: Path
    offset: int
    length: int
    reason: str


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is not as it should be and costs nothing."""

    kind: str
    file: Path
    message: str
    offset: int | None = None
    count: int = 1


class Report(msgspec.Struct):
    """What a tree holds."""

    root: Path
    files: int = 0
    """Files of lines: sessions, sub-agents, journals, history."""
    sessions: int = 0
    agent_files: int = 0
    lines: int = 0
    """Entries and bad lines."""
    bytes: int = 0
    accounted_bytes: int = 0
    records: Counter[str] = msgspec.field(default_factory=Counter)
    """Entries by type."""
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    """The same by subtype, attachment or progress: `system/turn_duration`."""
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """What nobody has described yet: `some-type`, `system/x`, `attachment/x`, `progress/x`, `block/x`."""
    versions: Counter[str] = msgspec.field(default_factory=Counter)
    bad_lines: list[FoundBadLine] = msgspec.field(default_factory=list)
    warnings: list[Finding] = msgspec.field(default_factory=list)
    side_files: Counter[str] = msgspec.field(default_factory=Counter)
    side_bytes: int = 0


def survey(tree: Tree, progress: Callable[[int], None] = lambda _: None) -> Report:
    """Read a whole tree and report. `progress` is told how many bytes were read."""
    report = Report(tree.root)
    for skipped in tree.skipped:
        report.warnings.append(Finding("skipped", skipped.path, skipped.reason))
    for source in tree.sources:
        if source.kind in LINE_KINDS:
            _count_lines(source, report, progress)
        else:
            report.side_files[source.kind.value] += 1
            report.side_bytes += source.size
            progress(source.size)
    for path, kind, message in findings(tree):
        report.warnings.append(Finding(kind, path, message))
    return report


def _count_lines(source: Source, report: Report, progress: Callable[[int], None]) -> None:
    report.files += 1
    report.sessions += source.kind is Kind.SESSION
    report.agent_files += source.kind is Kind.AGENT
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    dialect = HISTORY if source.kind is Kind.HISTORY else SESSION
    try:
        report.bytes += source.path.stat().st_size
        for piece in pieces(source.path, final=True, dialect=dialect):
            read_bytes = 0
            for item in piece.items:
                read_bytes += item.length
                match item:
                    case Entry():
                        report.lines += 1
                        _count_entry(item, report, seen)
                    case BadLine():
                        report.lines += 1
                        report.bad_lines.append(FoundBadLine(source.path, item.offset, item.length, item.reason))
                    case _:
                        pass
            report.accounted_bytes += read_bytes
            progress(read_bytes)
    except (UnspoolError, OSError) as error:
        report.warnings.append(Finding("unreadable", source.path, str(error)))
    for (kind, message), (offset, count) in seen.items():
        report.warnings.append(Finding(kind, source.path, message, offset, count))


def _count_entry(entry: Entry, report: Report, seen: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Count an entry; `seen` collects this file's findings: what, where first, how often."""
    record = entry.record
    kind, known = kind_of(entry)
    name = kind.partition("/")[0]
    report.records[name] += 1
    report.kinds[kind] += 1
    if not known:
        report.unknown[kind] += 1
    if isinstance(record, User | Assistant):
        for block in record.message.blocks:
            _count_unknown_blocks(block, report)
        for field in missing_fields(entry):
            _note(seen, "missing field", f"{name} line without `{field}`", entry.offset)
        if record.version:
            report.versions[record.version] += 1
    for flaw in entry.flaws:
        _note(seen, "mended", flaw, entry.offset)


def kind_of(entry: Entry) -> tuple[str, bool]:
    """Return what kind of line an entry is, and whether that kind is known."""
    match entry.record:
        case Unknown(type=kind):
            return kind or "(no type)", False
        case System(subtype=subtype):
            return f"system/{subtype}" if subtype else "system", subtype in SYSTEM_SUBTYPES
        case Attachment(attachment=data):
            return _kind("attachment", data)
        case Progress(data=data):
            return _kind("progress", data)
        case record:
            tag = type(record).__struct_config__.tag
            return (tag, True) if isinstance(tag, str) else ("history", True)


def _kind(kind: str, data: msgspec.Struct | None) -> tuple[str, bool]:
    if data is None:
        return kind, True
    if isinstance(data, Other):
        return f"{kind}/{data.type or '(no type)'}", False
    return f"{kind}/{type(data).__struct_config__.tag}", True


def _count_unknown_blocks(block: AnyBlock, report: Report) -> None:
    match block:
        case Other(type=kind):
            report.unknown[f"block/{kind or '(no type)'}"] += 1
        case ToolResult() if not block.is_text:
            for inner in block.blocks:
                _count_unknown_blocks(inner, report)
        case _:
            pass


def _note(seen: dict[tuple[str, str], tuple[int, int]], kind: str, message: str, offset: int) -> None:
    first, count = seen.get((kind, message), (offset, 0))
    seen[kind, message] = (first, count + 1)
