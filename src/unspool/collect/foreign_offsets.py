"""Reads and writes a file of byte offsets in the form that other collectors use.

    {"claude_code": {"files": {"~/.claude/projects/-p/a.jsonl": {"offset": 45678, "mtime": 1768263841305}}}}

Rules
  1. It is a view: the truth is in `collect.db`. Its offsets count only for files of which nothing was sent yet.
  2. An offset is written when everything before it has been confirmed, and never earlier.
  3. What else stands in the file stays.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unspool.collect.selection import CollectCandidate
from unspool.errors import NotFound, Unreadable, Unwritable
from unspool.files import read_whole

_LIMIT = 256 * 1024 * 1024


def read_offsets(path: Path, home: Path) -> dict[str, int]:
    """Return how far files were read, by absolute path; a file that is not there says nothing."""
    files = _files(_document(path), path)
    return {
        _absolute(name, home): entry["offset"]
        for name, entry in files.items()
        if isinstance(entry, dict) and isinstance(entry.get("offset"), int)
    }


def write_offsets(path: Path, home: Path, candidates: Iterable[CollectCandidate], ends: Mapping[str, int]) -> None:
    """Write how far files have been confirmed."""
    document = _document(path)
    files = _files(document, path)
    names = {_absolute(name, home): name for name in files}
    for one in candidates:
        end = ends.get(one.path)
        if end is not None and one.is_lines:
            files[names.get(one.path, _short(one.path, home))] = {"offset": end, "mtime": one.modified // 1_000_000}
    _write(path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def _document(path: Path) -> dict[str, Any]:
    try:
        data = read_whole(path, _LIMIT)
    except NotFound:
        return {"claude_code": {"files": {}}}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None


def _files(document: dict[str, Any], path: Path) -> dict[str, Any]:
    tool = document.setdefault("claude_code", {})
    files = tool.setdefault("files", {}) if isinstance(tool, dict) else None
    if not isinstance(files, dict):
        raise _damaged(path, "no object `claude_code.files`")
    return files


def _damaged(path: Path, why: str) -> Unreadable:
    return Unreadable(f"not a file of offsets: `{path}`: {why}", hint="name another, or take it away")


def _absolute(name: str, home: Path) -> str:
    return str(home / name[2:]) if name.startswith("~/") else name


def _short(path: str, home: Path) -> str:
    return f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else path


def _write(path: Path, data: bytes) -> None:
    """Put a new file in the place of the old one, whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise Unwritable(f"cannot write `{path}`: {reason}") from None
