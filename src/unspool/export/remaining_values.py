"""Finds the values of a line that a text made of it does not show.

Rules
  1. A value is shown if the text contains it, without the markup around it. Every other value is returned, wherever it
     is in the line and whatever its name: a field that no version is known to write is there too.
  2. Left out are what identifies or counts a line (ids, times, flags, token counts), and encoded data, for which a
     description stands. `LEFT_OUT` says so to the reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from unspool.display import amount

LEFT_OUT: Final = (
    "This export contains every line, without ids, times, flags, versions, folders, token counts "
    "and the data of images and documents. `unspool export --jsonl` contains everything."
)
_ENVELOPE: Final = frozenset({
    "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "version", "cwd", "gitBranch",
    "userType", "entrypoint", "type", "requestId", "promptId", "slug", "agentId", "messageId", "leafUuid", "toolUseID",
    "parentToolUseID", "sourceToolAssistantUUID", "sourceToolUseID", "permissionMode",
})  # fmt: skip
_MESSAGE: Final = frozenset({"id", "type", "role", "model", "stop_reason", "stop_sequence"})
_BLOCK: Final = frozenset({"type", "id", "tool_use_id", "signature"})
_MAX_BOOKKEEPING: Final = 400
"""Characters of a value that is left out for its name; a longer one is no id."""
_MAX_DEPTH: Final = 200
_MAX_WORK: Final = 50_000_000
"""Characters that are searched for the values of one line. What is not searched for counts as not shown."""
_MIN_ENCODED: Final = 512
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_=\s-]+")
_TAG: Final = re.compile(r"</?[a-z][a-z0-9_-]*>")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$-]*")


class RemainingValue(NamedTuple):
    """A value that is not shown yet, and its path in the line."""

    path: str
    text: str


class ShownText:
    """The text that was made of a line so far."""

    def __init__(self, text: str) -> None:
        self._text = normalize(text)
        self._lines = {line.strip() for line in self._text.split("\n")}
        self._work = 0

    def has(self, value: str) -> bool:
        """Tell whether the text contains a value, but for tags that Claude Code puts around it."""
        return all(self._has_part(part) for part in _TAG.split(value))

    def _has_part(self, part: str) -> bool:
        part = normalize(part).strip()
        # Most values are whole lines of the text: found without a search, whose time grows with the text.
        if not part or part in self._lines:
            return True
        self._work += len(self._text)
        return self._work <= _MAX_WORK and part in self._text


def normalize(text: str) -> str:
    """Return a text with one kind of line end and without white space before it, as Markdown has it."""
    return "\n".join(line.rstrip() for line in text.splitlines())


def remaining_values(line: Any, shown: ShownText) -> list[RemainingValue]:
    """Return the values of a line's JSON that are not shown, in the order they are written in."""
    return [value for value in _walk(line, "", 0) if not _is_shown(value, shown)]


def _is_shown(value: RemainingValue, shown: ShownText) -> bool:
    # A name that is none, such as the question in `{"Which colour?": "red"}`, is text too.
    names = [name for name in value.path.split("\0") if name and not _NAME.fullmatch(name.partition("[")[0] or "x")]
    return shown.has(value.text) and all(shown.has(name) for name in names)


def _walk(value: Any, path: str, depth: int) -> Iterator[RemainingValue]:
    match value:
        case None | True | False | "":
            return
        case dict() | list() if depth > _MAX_DEPTH:
            yield RemainingValue(path, f"({amount(len(value), 'value')}, nested too deeply to show)")
        case dict():
            for name, item in value.items():
                place = f"{path}\0{name}" if path else name
                if item in (None, True, False, "", [], {}) and not _NAME.fullmatch(name):
                    yield RemainingValue(place, json.dumps(item))  # for its name
                elif not _is_bookkeeping(path, name, item):
                    yield from _walk(item, place, depth + 1)
        case list():
            for number, item in enumerate(value):
                yield from _walk(item, f"{path}[{number}]", depth + 1)
        case str() if len(value) >= _MIN_ENCODED and _ENCODED.fullmatch(value) and value.count(" ") < len(value) // 50:
            yield RemainingValue(path, f"({amount(len(value), 'character')} of encoded data, omitted)")
        case _:
            yield RemainingValue(path, str(value))


def _is_bookkeeping(path: str, name: str, value: Any) -> bool:
    """Tell whether a value identifies or counts its line; one that cannot be an id is never taken for one."""
    if name == "usage" and path == "message":
        return True
    if not isinstance(value, str | int | float) or len(str(value)) > _MAX_BOOKKEEPING or "\n" in str(value):
        return False
    if not path:
        return name in _ENVELOPE
    if path == "message":
        return name in _MESSAGE
    return name in _BLOCK and path.startswith("message\0content[") and "\0" not in path[len("message\0content[") :]
