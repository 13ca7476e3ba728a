"""What a session that is gone on with knows of files, and what it has to do: its lines in, texts and todos out.

The program reads it off the results of its tools; so do we.

Rules
  1. A file is known if all of it was read, or it was written. What it was then is compared with what it is, when it is
     to be changed: one that is another now has to be read again.
  2. Results may be of any version, and have any shape: what does not fit says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from unspool.client.desk import Desk
from unspool.client.places import resolved
from unspool.client.tools.tool import BadCall
from unspool.format import results
from unspool.format.entry import Entry
from unspool.format.file_tools import EditResult, ReadText, WriteResult
from unspool.format.plan_tools import TodoWriteResult
from unspool.format.records import User

Json: TypeAlias = dict[str, Any]


def known_files(lines: Iterable[Entry], desk: Desk) -> dict[Path, str]:
    """Return the texts of files as they were last seen, by their real paths."""
    known: dict[Path, str] = {}
    for result in _results(lines):
        match result:
            case ReadText(file=file) if file.start_line == 1 and file.num_lines == file.total_lines:
                _know(known, file.file_path, file.content, desk)
            case WriteResult(file_path=path, content=content):
                _know(known, path, content, desk)
            case EditResult(file_path=path):
                _know(known, path, _edited(result, known.get(_place(path, desk) or Path())), desk)
            case _:
                pass
    return known


def todos(lines: Sequence[Entry]) -> list[Json]:
    """Return what was still to be done."""
    for line in reversed(lines):
        record = line.record
        if isinstance(record, User) and b'"newTodos"' in bytes(record.tool_use_result):
            result = results.parse("TodoWrite", record.tool_use_result)
            if isinstance(result, TodoWriteResult):
                found = [_without_nothing(msgspec.to_builtins(todo)) for todo in result.new_todos]
                return [] if all(todo.get("status") == "completed" for todo in found) else found
    return []


def _without_nothing(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _results(lines: Iterable[Entry]) -> Iterator[object]:
    for line in lines:
        record = line.record
        if isinstance(record, User):
            yield results.parse(None, record.tool_use_result)


def _edited(result: EditResult, before: str | None) -> str | None:
    """Return a text after an edit; newer versions leave the text before it out where it is long."""
    before = result.original_file if result.original_file is not None else before
    if before is None:
        return None
    if not result.old_string:
        return result.new_string
    return before.replace(result.old_string, result.new_string, -1 if result.replace_all else 1)


def _know(known: dict[Path, str], path: str, text: str | None, desk: Desk) -> None:
    place = _place(path, desk)
    if place is None:
        return
    known.pop(place, None)  # the last one seen comes last
    if text is not None:
        known[place] = text.replace("\r\n", "\n")


def _place(path: str, desk: Desk) -> Path | None:
    try:
        return resolved(path, desk)
    except BadCall:
        return None
