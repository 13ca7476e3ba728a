"""Reads a config folder: finds its files, reads them in chunks of whole lines, decodes and checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.read.changing_files import ChangingFiles, is_running, list_folder, registry_files
    from unspool.read.data_report import Finding, Report, Sighting, kind_of, survey
    from unspool.read.lines import (
        LIMITS, MAX_LINE, MAX_SEARCHED, SAMPLE_SIZE, START, Change, Line, LineBuffer, LineChunk, LongLine, Position,
        ReadLimits, detect_change, endless_reason, has_head, position_at, position_from_data, read_line_chunks,
    )
    from unspool.read.source_tree import (
        LINE_KINDS, Kind, KnownFiles, ScanChanges, Skipped, Source, Stamp, Tree, find_config_folder, find_unreadable,
        known_paths, scan, scan_all, scan_changes, stamp_of,
    )
    from unspool.read.tail import decode_lines, pieces, read_items

__all__ = [
    "LIMITS", "LINE_KINDS", "MAX_LINE", "MAX_SEARCHED", "SAMPLE_SIZE", "START", "Change", "ChangingFiles", "Finding",
    "Kind", "KnownFiles", "Line", "LineBuffer", "LineChunk", "LongLine", "Position", "ReadLimits", "Report",
    "ScanChanges", "Sighting", "Skipped", "Source", "Stamp", "Tree", "decode_lines", "detect_change", "endless_reason",
    "find_config_folder", "find_unreadable", "has_head", "is_running", "kind_of", "known_paths", "list_folder",
    "pieces", "position_at", "position_from_data", "read_items", "read_line_chunks", "registry_files", "scan",
    "scan_all", "scan_changes", "stamp_of", "survey",
]

__getattr__ = lazy_door(__name__, {
    "changing_files": "ChangingFiles is_running list_folder registry_files",
    "data_report": "Finding Report Sighting kind_of survey",
    "lines":
        "LIMITS MAX_LINE MAX_SEARCHED SAMPLE_SIZE START Change Line LineBuffer LineChunk LongLine Position ReadLimits "
        "detect_change endless_reason has_head position_at position_from_data read_line_chunks",
    "source_tree":
        "LINE_KINDS Kind KnownFiles ScanChanges Skipped Source Stamp Tree find_config_folder find_unreadable "
        "known_paths scan scan_all scan_changes stamp_of",
    "tail": "decode_lines pieces read_items",
})
