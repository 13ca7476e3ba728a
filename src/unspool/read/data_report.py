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
from unspool.files import MAX_SIDE_FILE, error_reason, read_whole
from unspool.format import (
    DECODE_ERRORS,
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
    ToolUse,
    Unknown,
    User,
    find_undeclared_fields,
    find_undeclared_in_result,
    type_name,
)
from unspool.format.side_files import ClaudeCodeSettings
from unspool.format.side_files import json as json_files
from unspool.format.tools import KNOWN_TOOLS, OtherResult, parse_result, plans
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


class Sighting(msgspec.Struct):
    """How often something was found, and in lines of which versions."""

    count: int = 0
    versions: dict[str, int] = {}

    def add(self, version: str | None) -> None:
        """Count it once more; of a hostile file not every version is kept."""
        self.count += 1
        if version and (version in self.versions or len(self.versions) < _MAX_VERSIONS):
            self.versions[version] = self.versions.get(version, 0) + 1


_MAX_VERSIONS = 200
_MAX_NAMES = 1_000
"""Names of undeclared fields and unknown tools that are kept: a line may give any."""
_MAX_OPEN_CALLS = 100_000


class Report(msgspec.Struct):
    """Counts and problems of a tree."""

    root: Path
    """What was examined; the first of several."""
    roots: list[Path] = []
    files: int = 0
    """Files that are read line by line: sessions, sub-agents, journals, history."""
    sessions: int = 0
    agent_files: int = 0
    lines: int = 0
    """Entries and bad lines."""
    bytes: int = 0
    """Of what could be read."""
    accounted_bytes: int = 0
    unread_files: int = 0
    """Files of lines that could not be read, or not to their end."""
    unread_bytes: int = 0
    """What is missing of them."""
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
    undeclared_fields: dict[str, Sighting] = msgspec.field(default_factory=dict)
    """Fields that are not described yet: `user.x`, `attachment/file.x`, `block/text.x`, `Bash.x` of a tool's result."""
    misfit_results: dict[str, Sighting] = msgspec.field(default_factory=dict)
    """Structured results that do not fit the description of their tool, by tool."""
    unknown_tools: dict[str, Sighting] = msgspec.field(default_factory=dict)
    """Tools that are not described yet, without those of MCP servers."""


def survey(tree: Tree, progress: Callable[[int], None] = lambda _: None) -> Report:
    """Read a whole tree and report. `progress` is called with the number of bytes read."""
    report = Report(tree.root, roots=list(tree.roots))
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
    problems, tools = dict[tuple[str, str], tuple[int, int]](), dict[str, str]()
    size, done = source.size, 0
    dialect = HISTORY if source.kind is Kind.HISTORY else SESSION
    try:
        size = source.path.stat().st_size  # the size now: a session in use grows after the scan
        for piece in pieces(source.path, final=True, dialect=dialect):
            read_bytes = 0
            for item in piece.items:
                read_bytes += item.length
                match item:
                    case Entry():
                        report.lines += 1
                        _count_entry(item, report, problems, tools)
                    case BadLine():
                        report.lines += 1
                        report.bad_lines.append(FoundBadLine(source.path, item.offset, item.length, item.reason))
                    case _:
                        pass
            done += read_bytes
            progress(read_bytes)
    except (UnspoolError, OSError) as error:
        reason = error.reason if isinstance(error, UnspoolError) else error_reason(error)
        report.warnings.append(Finding("unreadable", source.path, reason))
        report.unread_files += 1
        report.unread_bytes += max(size - done, 0)
        size = done
    report.bytes += size
    report.accounted_bytes += done
    for (kind, message), (offset, count) in problems.items():
        report.warnings.append(Finding(kind, source.path, message, offset, count))


def _count_entry(
    entry: Entry, report: Report, problems: dict[tuple[str, str], tuple[int, int]], tools: dict[str, str]
) -> None:
    """Count an entry; `problems` collects this file's findings (what, where first, how often), `tools` its calls."""
    _count_novelties(entry, report, tools)
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


def _count_novelties(entry: Entry, report: Report, tools: dict[str, str]) -> None:
    """Count fields, tools and results that are not described; `tools` has the names of the calls so far."""
    record = entry.record
    if type_name(record) is None or isinstance(record, Unknown):  # a line of `history.jsonl` has no type
        return
    for block in entry.content_blocks:
        if isinstance(block, ToolUse):
            if len(tools) < _MAX_OPEN_CALLS:
                tools[block.id] = block.name
            if block.name not in KNOWN_TOOLS and not block.name.startswith("mcp__"):
                _add_sighting(report.unknown_tools, block.name[:_MAX_TOOL_NAME] or "(no name)", record.version)
    try:
        value = msgspec.json.decode(entry.raw)
    except DECODE_ERRORS:  # such a line was mended, and is reported as that
        return
    for name in find_undeclared_fields(value):
        _add_sighting(report.undeclared_fields, name, record.version)
    if isinstance(record, User) and isinstance(value, dict) and value.get("toolUseResult") is not None:
        answered = [tools[id] for id in entry.answered_ids if id in tools]
        if len(answered) == 1:
            _count_result(answered[0], value["toolUseResult"], record, report)


def _count_result(tool: str, value: object, record: User, report: Report) -> None:
    if tool in KNOWN_TOOLS and isinstance(parse_result(tool, record.tool_use_result), OtherResult):
        _add_sighting(report.misfit_results, tool, record.version)
        return
    for name in find_undeclared_in_result(tool, value):
        _add_sighting(report.undeclared_fields, name, record.version)


_MAX_TOOL_NAME = 80


def _add_sighting(sightings: dict[str, Sighting], name: str, version: str | None) -> None:
    if name not in sightings and len(sightings) >= _MAX_NAMES:
        name = "(others)"
    sightings.setdefault(name, Sighting()).add(version)


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
            if isinstance(tag, str):
                return tag, True
            is_foreign = getattr(record, "is_foreign", False)  # a line of `history.jsonl`, which is no `Record`
            return ("history line of another program", False) if is_foreign else ("history", True)


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
            reason = error.reason if isinstance(error, UnspoolError) else str(error)
            yield Finding("unreadable", source.path, reason)
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
            yield Finding("index entry without file", path, f"`{session_id}` is listed but does not exist")
        elif _is_stale(entry, source):
            yield Finding("stale index time", path, f"`{session_id}` changed after it was listed")
    for name in sorted(str(session_id) for session_id in files.keys() - listed.keys()):
        yield Finding("file without index entry", path, f"`{name}` exists but is not listed")


def _is_stale(entry: json_files.IndexEntry, source: Source) -> bool:
    if entry.file_mtime is None:
        return False
    return abs(source.modified / 1e6 - entry.file_mtime) > _INDEX_TOLERANCE
