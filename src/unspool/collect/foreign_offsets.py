"""Reads and writes a file of byte offsets in the form that other collectors use.

    {"claude_code": {"files": {"~/.claude/projects/-p/a.jsonl": {"offset": 45678, "mtime": 1768263841305}}}}

Rules
  1. The file is an export; `collect.db` decides. Its offsets only count for files of which nothing was sent yet.
  2. An offset is written after everything before it has been confirmed, never earlier.
  3. Everything else in the file is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unspool.collect.selection import CollectCandidate
from unspool.errors import NotFound, Unreadable
from unspool.files import raise_unwritable, read_whole, write_atomically
from unspool.format import DECODE_ERRORS

_LIMIT = 256 * 1024 * 1024


def read_offsets(path: Path, home: Path) -> dict[str, int]:
    """Return the offset of each file by absolute path; a missing file of offsets has none."""
    files = _file_entries(_read_document(path), path)
    return {
        _absolute(name, home): entry["offset"]
        for name, entry in files.items()
        if isinstance(entry, dict) and isinstance(entry.get("offset"), int)
    }


def write_offsets(path: Path, home: Path, candidates: Iterable[CollectCandidate], ends: Mapping[str, int]) -> None:
    """Update the offsets of files to what the object store has confirmed."""
    document = _read_document(path)
    files = _file_entries(document, path)
    # The other collector may have written a path as `~/…` or absolute: its own spelling is kept, or it would be twice.
    names = {_absolute(name, home): name for name in files}
    for candidate in candidates:
        end = ends.get(candidate.path)
        if end is not None and candidate.is_lines:
            name = names.get(candidate.path, _shorten(candidate.path, home))
            files[name] = {"offset": end, "mtime": candidate.modified // 1_000_000}
    with raise_unwritable(f"cannot write `{path}`"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def _read_document(path: Path) -> dict[str, Any]:
    try:
        data = read_whole(path, _LIMIT)
    except NotFound:
        return {"claude_code": {"files": {}}}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise _damaged(path, str(error)) from None


def _file_entries(document: dict[str, Any], path: Path) -> dict[str, Any]:
    tool = document.setdefault("claude_code", {})
    files = tool.setdefault("files", {}) if isinstance(tool, dict) else None
    if not isinstance(files, dict):
        raise _damaged(path, "no object `claude_code.files`")
    return files


def _damaged(path: Path, reason: str) -> Unreadable:
    return Unreadable(f"invalid offsets file: `{path}`: {reason}", hint="name another file, or delete this one")


def _absolute(name: str, home: Path) -> str:
    return str(home / name[2:]) if name.startswith("~/") else name


def _shorten(path: str, home: Path) -> str:
    return f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else path
