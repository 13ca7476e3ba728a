"""What failed today, in all sessions and agents: failed tool calls and API errors, grouped by kind.

Rules
  1. The search index knows which lines failed. Its passages get higher ids as they come, so only new ones are read.
  2. A kind is the tool and the line that says what went wrong, reduced as the search for errors reduces it.
  3. What a user rejected or interrupted has not failed. A line that several files repeat (forks) counts once.
  4. Lines are untrusted: any JSON anywhere. A line that cannot be read any more is left out.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.export import describe_calls
from unspool.files import open_regular
from unspool.store import IN_FOLDER, StoreAccess, folder_parameters
from unspool.store.search import reduce_failure

MAX_FAILURES: Final = 1_000
"""Failures that are kept, the newest."""
_USUAL_LINE: Final = 64 * 1024
_MAX_LINE: Final = 4_000_000
_MAX_TEXT: Final = 4_000
"""Characters of a failure in which the line is searched that says what went wrong."""
_MAX_WORDS: Final = 160
_NEW_FAILURES: Final = f"""
SELECT p.id, p.offset, p.tool, p.time, path, coalesce(session_id, (SELECT a.session_id FROM agents a WHERE
  a.source_id = p.source_id)), agent_id
FROM passages p JOIN sources ON sources.id = p.source_id AND sources.generation = p.generation
WHERE p.id > :seen AND p.failed = 1 AND p.time >= :since AND {IN_FOLDER}
ORDER BY p.id DESC LIMIT {MAX_FAILURES}
"""
_WRONG: Final = re.compile(r"(?i)error|exception|fail|not found|no such|denied|refused|invalid|cannot|unable|timed out")
_PYTHON_ERROR: Final = re.compile(r"[A-Za-z_.]{1,80}(?:Error|Exception)\b")


class Failure(NamedTuple):
    """Something that failed."""

    session_id: str
    agent_id: str | None
    offset: int
    time: int
    kind: str
    words: str
    """The tool, and the line that says what went wrong, as it was written."""
    call: str
    """Names the failure in every file that repeats it."""


class FailureGroup(NamedTuple):
    """Failures of one kind."""

    kind: str
    failures: list[Failure]
    """The newest first."""

    @property
    def by_session(self) -> dict[str, list[Failure]]:
        """The failures of each session, the one that failed last first."""
        found: dict[str, list[Failure]] = {}
        for failure in self.failures:
            found.setdefault(failure.session_id, []).append(failure)
        return found


class FailureLog:
    """The failures of a day, read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = self._seen = 0
        self._failures: dict[str, Failure] = {}

    def read(self, access: StoreAccess, since: int) -> list[FailureGroup]:
        """Return the failures since a time (milliseconds), the kind that occurred most often first."""
        if access.database is None:
            return []
        with self._lock:
            self._read_new(access, access.database, since)
            return group_failures(self._failures.values())

    def _read_new(self, access: StoreAccess, database: sqlite3.Connection, since: int) -> None:
        try:
            (last,) = database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()
        except sqlite3.OperationalError:  # a store that was never indexed
            return
        if since != self._since or last < self._seen:  # a new day, or a store that was built anew
            self._since, self._seen, self._failures = since, 0, {}
        if last == self._seen:
            return
        values = {**folder_parameters(access.roots), "seen": self._seen, "since": since}
        for _, offset, tool, time, path, session_id, agent_id in database.execute(_NEW_FAILURES, values).fetchall():
            line = _read_line(path, offset) if session_id else None
            for call, text in find_failures(line) if line is not None else ():
                kind, words = classify_failure(tool or "API", text)
                self._failures[call] = Failure(session_id, agent_id, offset, time, kind, words, call)
        self._seen = last
        newest = sorted(self._failures.values(), key=lambda failure: failure.time)[-MAX_FAILURES:]
        self._failures = {failure.call: failure for failure in newest}


def group_failures(failures: Iterable[Failure]) -> list[FailureGroup]:
    """Return failures by kind, the kind that occurred most often first."""
    groups: dict[str, list[Failure]] = {}
    for failure in sorted(failures, key=lambda failure: -failure.time):
        groups.setdefault(failure.kind, []).append(failure)
    found = [FailureGroup(kind, among) for kind, among in groups.items()]
    return sorted(found, key=lambda group: (-len(group.failures), -group.failures[0].time))


def find_failures(line: Any) -> list[tuple[str, str]]:
    """Return the failures in a decoded line: a name for each, and its text."""
    match line:
        case {"type": "user", "message": {"content": list(blocks)}}:
            found = [
                (str(block.get("tool_use_id")), _text_of(block.get("content")))
                for block in blocks
                if isinstance(block, dict) and block.get("type") == "tool_result" and block.get("is_error") is True
            ]
            return [(call, text) for call, text in found if not describe_calls.is_refusal(text)]
        case {"type": "assistant", "isApiErrorMessage": True, "message": {"content": content}}:
            return [(str(line.get("uuid")), _text_of(content))]
        case {"type": "system", "subtype": "api_error"}:
            return [(str(line.get("uuid")), _api_error_text(line))]
        case _:
            return []


def classify_failure(tool: str, text: str) -> tuple[str, str]:
    r"""Return the kind of a failure, and the tool with the line that says what went wrong.

    >>> classify_failure("Bash", "Exit code 1\nTraceback:\n  File 'a.py', line 3\nKeyError: 'total'")
    ('Bash: keyerror: …', "Bash: KeyError: 'total'")
    >>> classify_failure("Read", "<tool_use_error>File does not exist.</tool_use_error>")
    ('Read: file does not exist.', 'Read: File does not exist.')
    """
    code, rest = describe_calls.split_exit_code(describe_calls.strip_error_tags(text[:_MAX_TEXT]))
    lines = [" ".join(line.split())[:_MAX_WORDS] for line in rest.splitlines() if line.strip()]
    # The last line of a traceback says more than the first; of other output the first that sounds wrong does.
    named = next((line for line in reversed(lines) if _PYTHON_ERROR.match(line)), None)
    words = named or next((line for line in lines if _WRONG.search(line)), lines[0] if lines else "")
    if not words:
        words = f"exit code {code}" if code is not None else "no message"
    return f"{tool}: {reduce_failure(words)}", f"{tool}: {words}"


def _read_line(path: str, offset: int) -> Any:
    """Return the decoded line at an offset; None if it is not there any more."""
    try:
        with open_regular(Path(path)) as descriptor:
            data = os.pread(descriptor, _USUAL_LINE, offset)
            if b"\n" not in data:
                data = os.pread(descriptor, _MAX_LINE, offset)
        return msgspec.json.decode(data.partition(b"\n")[0])
    except (UnspoolError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))


def _api_error_text(line: Mapping[str, Any]) -> str:
    error = line.get("content") or line.get("error")
    for _ in range(8):
        if not isinstance(error, dict):
            break
        error = error.get("message") or error.get("error") or error.get("status") or error.get("cause")
    return f"API error {error}" if isinstance(error, int) else error if isinstance(error, str) else "API error"
