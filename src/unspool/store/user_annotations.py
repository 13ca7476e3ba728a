"""Reads and writes the stars, tags, notes and saved filters of the user: the file `annotations.jsonl`.

    {"session_id": "3f2a…", "starred": true, "tags": ["release"], "note": "the fix", "changed_at": "2026-11-17T22:00Z"}
    {"filter": "errors of the shop", "query": "project=shop&has=error", "changed_at": "2026-11-17T22:00Z"}

Rules
  1. It is a file of its own in the data folder, and nothing else is in it. No sync, rebuild or new version of the store
     touches it, and it is read with `--no-store` too.
  2. One line is all that is known of one session or filter. A line that this version cannot read stays as it is; so do
     fields that it does not know.
  3. A change is there whole or not at all, and changes are made one at a time, as in `preferences.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.errors import NotFound, Unreadable, UsageError
from unspool.files import hold_lock, make_data_folder, read_whole

FILE_NAME: Final = "annotations.jsonl"
MAX_TAGS: Final = 50
"""Of a session."""
MAX_TAG_LENGTH: Final = 60
MAX_NOTE_LENGTH: Final = 20_000
MAX_QUERY_LENGTH: Final = 4000
_MAX_BYTES: Final = 200_000_000


class SessionAnnotation(NamedTuple):
    """What the user added to a session."""

    starred: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"starred": self.starred, "tags": list(self.tags), "note": self.note}


class Annotations(NamedTuple):
    """Everything in the file."""

    sessions: dict[str, SessionAnnotation]
    """By session id."""
    filters: dict[str, str]
    """Saved filters: the query of the list of sessions, by name."""

    def of(self, session_id: str) -> SessionAnnotation:
        """Return what was added to a session."""
        return self.sessions.get(session_id, _NOTHING)


_NOTHING: Final = SessionAnnotation()


def file_stamp(folder: Path) -> tuple[int, ...] | None:
    """Return what changes whenever the file does; None if there is none."""
    try:
        status = (folder / FILE_NAME).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_annotations(folder: Path) -> Annotations:
    """Return what the user added to sessions; nothing if there is no file."""
    sessions: dict[str, SessionAnnotation] = {}
    filters: dict[str, str] = {}
    for value in (value for _, value in _read_lines(folder) if value is not None):
        match value:
            case {"session_id": str(id)}:
                sessions[id] = _parse(value)
            case {"filter": str(name), "query": str(query)}:
                filters[name] = query
    return Annotations(sessions, filters)


def parse_tags(text: str) -> tuple[str, ...]:
    """Return the tags in a text, which are separated by commas.

    >>> parse_tags("release, fix ,, release")
    ('release', 'fix')
    """
    names = (" ".join(part.split()) for part in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def change_annotation(
    folder: Path, session_id: str, change: Callable[[SessionAnnotation], SessionAnnotation], changed_at: str
) -> SessionAnnotation:
    """Change what the user added to a session, and return it as it is now."""
    changed = _NOTHING

    def rewrite(value: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal changed
        changed = change(_parse(value))
        _check(changed)
        # Without a star, tags and a note there is nothing to keep.
        return {**value, **changed.data(), "changed_at": changed_at} if changed != _NOTHING else None

    _rewrite_line(folder, "session_id", session_id, rewrite)
    return changed


def save_filter(folder: Path, name: str, query: str, changed_at: str) -> None:
    """Save the query of a list under a name; an empty query removes it."""
    name = " ".join(name.split())
    if not name or len(name) > MAX_TAG_LENGTH:
        raise UsageError("a filter needs a name", hint=f"use 1 to {MAX_TAG_LENGTH} characters")
    if len(query) > MAX_QUERY_LENGTH:
        raise UsageError("the filter is too long", hint=f"use at most {MAX_QUERY_LENGTH:,} characters")
    new = {"query": query, "changed_at": changed_at} if query else None
    _rewrite_line(folder, "filter", name, lambda value: None if new is None else {**value, **new})


def _check(given: SessionAnnotation) -> None:
    if len(given.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_LENGTH for tag in given.tags):
        hint = f"use at most {MAX_TAGS} tags of {MAX_TAG_LENGTH} characters"
        raise UsageError("too many tags, or a tag that is too long", hint=hint)
    if len(given.note) > MAX_NOTE_LENGTH:
        raise UsageError("the note is too long", hint=f"use at most {MAX_NOTE_LENGTH:,} characters")


def _parse(value: dict[str, Any]) -> SessionAnnotation:
    """Return the annotation that a line has, whatever its fields are."""
    tags, note = value.get("tags"), value.get("note")
    named = tuple(tag for tag in tags if isinstance(tag, str) and tag) if isinstance(tags, list) else ()
    return SessionAnnotation(
        value.get("starred") is True, tuple(dict.fromkeys(named)), note if isinstance(note, str) else ""
    )


def _read_lines(folder: Path) -> list[tuple[bytes, dict[str, Any] | None]]:
    """Return the lines of the file, and what each holds; None for one that is no JSON object."""
    try:
        data = read_whole((folder / FILE_NAME).resolve(), _MAX_BYTES)  # resolved: the user may have made it a link
    except NotFound:
        return []
    except (PermissionError, Unreadable):
        if not os.access(folder, os.X_OK):  # as in `preferences.py`: such a folder has nothing for anybody
            return []
        raise
    return [(line, _decode(line)) for line in data.split(b"\n") if line.strip()]


def _decode(line: bytes) -> dict[str, Any] | None:
    import json  # start-up: most folders have no such file

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _rewrite_line(
    folder: Path, key: str, name: str, rewrite: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Replace the line of a session or filter, or add it; None removes it. All other lines stay byte for byte."""
    import json

    from unspool.files import write_atomically  # start-up, as above

    make_data_folder(folder)
    path = (folder / FILE_NAME).resolve()
    with hold_lock(folder):
        lines = _read_lines(folder)
        own = [value for _, value in lines if value is not None and value.get(key) == name]
        new = rewrite(own[-1] if own else {key: name})
        kept = [line for line, value in lines if value is None or value.get(key) != name]
        if new is not None:
            kept.append(json.dumps(new, ensure_ascii=True).encode())
        for left in path.parent.glob(f".{path.name}.*.tmp"):  # by processes that were killed: this one has the lock
            left.unlink(missing_ok=True)
        write_atomically(path, _join(kept))


def _join(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
