"""Reads a whole tree and reports what is in it, with everything that is unknown, damaged or missing.

Rules
  1. Every byte is accounted for by the span of an item that the reader returned, not by the size of the file.
  2. Damage is a finding. Nothing here raises for bad data; a file that cannot be read is a finding too.
  3. One pass, a piece at a time: memory does not grow with the files.
  4. Which fields a user or assistant line requires is taken from the description of the format. Genuine data breaks it:
     lines of other vendors' servers have no `requestId`, nor have the errors that Claude Code writes itself.
  5. The paths written in an index are never opened: it is only compared with the session files beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.format import (
    HISTORY,
    SESSION,
    SYSTEM_SUBTYPES,
    AnyBlock,
    Assistant,
    Attachment,
    BadLine,
    Entry,
    Message,
    Other,
    Progress,
    System,
    ToolResult,
    Unknown,
    User,
)
from unspool.format.side_files import ClaudeCodeSettings
from unspool.format.side_files import json as json_files
from unspool.format.tools import plans
from unspool.read.source_tree import LINE_KINDS, Kind, Source, Tree
from unspool.read.tail import pieces


class FoundBadLine(msgspec.Struct, frozen=True):
    """A bad line and its file."""

    file: Path
    offset: int
    length: int
    reason: str


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem that loses no data."""

    kind: str
    file: Path
    message: str
    offset: int | None = None
    count: int = 1


class Report(msgspec.Struct):
    """Counts and problems of a tree."""

    root: Path
    files: int = 0
    """Files that are read line by line: sessions, sub-agents, journals, history."""
    sessions: int = 0
    agent_files: int = 0
    lines: int = 0
    """Entries and bad lines."""
    bytes: int = 0
    accounted_bytes: int = 0
    records: Counter[str] = msgspec.field(default_factory=Counter)
    """Entries by type."""
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    """Entries by type and subtype, attachment or progress: `system/turn_duration`."""
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    """Kinds that are not described yet: `some-type`, `system/x`, `attachment/x`, `progress/x`, `block/x`."""
    versions: Counter[str] = msgspec.field(default_factory=Counter)
    bad_lines: list[FoundBadLine] = msgspec.field(default_factory=list)
    warnings: list[Finding] = msgspec.field(default_factory=list)
    side_files: Counter[str] = msgspec.field(default_factory=Counter)
    side_bytes: int = 0


def survey(tree: Tree, progress: Callable[[int], None] = lambda _: None) -> Report:
    """Read a whole tree and report. `progress` is called with the number of bytes read."""
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
    report.warnings += _check_side_files(tree)
    return report


def _count_lines(source: Source, report: Report, progress: Callable[[int], None]) -> None:
    report.files += 1
    report.sessions += source.kind is Kind.SESSION
    report.agent_files += source.kind is Kind.AGENT
    problems: dict[tuple[str, str], tuple[int, int]] = {}
    dialect = HISTORY if source.kind is Kind.HISTORY else SESSION
    try:
        report.bytes += source.path.stat().st_size  # the size now: a session in use grows after the scan
        for piece in pieces(source.path, final=True, dialect=dialect):
            read_bytes = 0
            for item in piece.items:
                read_bytes += item.length
                match item:
                    case Entry():
                        report.lines += 1
                        _count_entry(item, report, problems)
                    case BadLine():
                        report.lines += 1
                        report.bad_lines.append(FoundBadLine(source.path, item.offset, item.length, item.reason))
                    case _:
                        pass
            report.accounted_bytes += read_bytes
            progress(read_bytes)
    except (UnspoolError, OSError) as error:
        report.warnings.append(Finding("unreadable", source.path, str(error)))
    for (kind, message), (offset, count) in problems.items():
        report.warnings.append(Finding(kind, source.path, message, offset, count))


def _count_entry(entry: Entry, report: Report, problems: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Count an entry; `problems` collects this file's findings: what, where first, how often."""
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
            _add_problem(problems, "missing field", f"{name} line without `{field}`", entry.offset)
        if record.version:
            report.versions[record.version] += 1
    for flaw in entry.flaws:
        _add_problem(problems, "mended", flaw, entry.offset)


def missing_fields(entry: Entry) -> list[str]:
    """Return the required fields that a line does not have, or has as null where it may not."""
    match entry.record:
        case Assistant() as record:
            required: dict[str, object] = {"requestId": record.request_id}
            inside = _missing_in_response(entry, record.message)
        case User() as record:
            required = {
                "isSidechain": record.is_sidechain,
                "userType": record.user_type,
                "cwd": record.cwd,
                "version": record.version,
            }
            inside = _missing_in_message(entry, record.message)
        case _:
            return []
    required |= {"uuid": record.uuid, "sessionId": record.session_id, "timestamp": record.timestamp}
    missing = [name for name, value in required.items() if value is None]
    if record.parent_uuid is None and _lacks_key(entry, "parentUuid"):
        missing.append("parentUuid")
    return missing + inside


def _missing_in_message(entry: Entry, message: Message) -> list[str]:
    if message == Message() and _lacks_key(entry, "message"):
        return ["message"]
    missing = [] if message.role is not None else ["message.role"]
    return missing if message.content or not _lacks_key(entry, "content") else [*missing, "message.content"]


def _missing_in_response(entry: Entry, message: Message) -> list[str]:
    missing = _missing_in_message(entry, message)
    if missing == ["message"]:
        return missing
    required = {"message.model": message.model, "message.id": message.id, "message.usage": message.usage}
    missing += [name for name, value in required.items() if value is None]
    if message.stop_reason is None and _lacks_key(entry, "stop_reason"):
        missing.append("message.stop_reason")
    return missing


def _lacks_key(entry: Entry, key: str) -> bool:
    """Tell whether a key is absent, and not null."""
    # Inside a string the quotes would be escaped, so the raw text can be searched.
    return re.search(rb'"%s"\s*:' % key.encode(), entry.raw) is None


def kind_of(entry: Entry) -> tuple[str, bool]:
    """Return the kind of an entry, and whether that kind is known."""
    match entry.record:
        case Unknown(type=kind):
            return kind or "(no type)", False
        case System(subtype=subtype):
            return f"system/{subtype}" if subtype else "system", subtype in SYSTEM_SUBTYPES
        case Attachment(attachment=data):
            return _payload_kind("attachment", data)
        case Progress(data=data):
            return _payload_kind("progress", data)
        case record:
            tag = type(record).__struct_config__.tag
            return (tag, True) if isinstance(tag, str) else ("history", True)


def _payload_kind(kind: str, data: msgspec.Struct | None) -> tuple[str, bool]:
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


def _add_problem(problems: dict[tuple[str, str], tuple[int, int]], kind: str, message: str, offset: int) -> None:
    first, count = problems.get((kind, message), (offset, 0))
    problems[kind, message] = (first, count + 1)


_INDEX_TOLERANCE = 1.0
"""Milliseconds by which a time in the index may differ: Claude Code rounds."""


_SIDE_FILE_TYPES: dict[Kind, type[msgspec.Struct]] = {
    Kind.INDEX: json_files.SessionsIndex,
    Kind.STATS: json_files.StatsCache,
    Kind.SETTINGS: ClaudeCodeSettings,
    Kind.TASK: plans.TaskItem,
    Kind.REGISTRY: json_files.ProcessEntry,
    Kind.AGENT_META: json_files.AgentMeta,
    Kind.TITLE: json_files.CustomTitleFile,
    Kind.WORKFLOW: json_files.Workflow,
}


def _check_side_files(tree: Tree) -> Iterator[Finding]:
    """Yield the side files of a tree that cannot be read, and what is stale in an index."""
    for source in tree.of(*_SIDE_FILE_TYPES, Kind.TODOS):
        try:
            data = read_whole(source.path, MAX_SIDE_FILE)
            if source.kind is Kind.TODOS:
                json_files.parse_todos(data)
                continue
            parsed = json_files.parse_object(data, _SIDE_FILE_TYPES[source.kind])
        except (UnspoolError, msgspec.DecodeError) as error:
            yield Finding("unreadable", source.path, str(error))
            continue
        if isinstance(parsed, json_files.SessionsIndex):
            yield from _check_index(source.path, parsed, tree)


def _check_index(path: Path, index: json_files.SessionsIndex, tree: Tree) -> Iterator[Finding]:
    """Compare an index with the session files beside it."""
    files = {s.session_id: s for s in tree.of(Kind.SESSION) if s.path.parent == path.parent}
    listed = {entry.session_id: entry for entry in index.entries}
    for session_id, entry in listed.items():
        source = files.get(session_id)
        if source is None:
            yield Finding("index entry without file", path, f"`{session_id}` is listed but not there")
        elif _is_stale(entry, source):
            yield Finding("stale index time", path, f"`{session_id}` has changed since it was listed")
    for name in sorted(str(session_id) for session_id in files.keys() - listed.keys()):
        yield Finding("file without index entry", path, f"`{name}` is there but not listed")


def _is_stale(entry: json_files.IndexEntry, source: Source) -> bool:
    if entry.file_mtime is None:
        return False
    return abs(source.modified / 1e6 - entry.file_mtime) > _INDEX_TOLERANCE
