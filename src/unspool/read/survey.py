"""What is in a tree: counted line by line, with all that is unknown, damaged or missing.

Rules
  1. Every byte is accounted for by the span of something the reader returned, not by the size of the file.
  2. Damage is a finding. Nothing here raises for bad data; a file that cannot be read is a finding too.
  3. One pass, a piece at a time: memory does not grow with the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.format.blocks import AnyBlock, Other, ToolResult
from unspool.format.codec import HISTORY, SESSION
from unspool.format.entry import BadLine, Entry
from unspool.format.envelope import Unknown
from unspool.format.records import SYSTEM_SUBTYPES, Assistant, Attachment, Progress, System, User
from unspool.read import side_files
from unspool.read.required import missing_fields
from unspool.read.scan import LINE_KINDS, Kind, Source, Tree
from unspool.read.tail import pieces


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
    for path, kind, message in side_files.findings(tree):
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
