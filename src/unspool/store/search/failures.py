"""Groups failed tool calls and API errors by kind: failures in, kinds with their number and sessions out. Pure.

Rules
  1. Two failures are of one kind if they are of the same tool, and the lines that say what went wrong are alike once
     everything that differs from case to case (numbers, paths, quoted texts, ids) is left out.
  2. Every failure is in exactly one kind, so the numbers add up.
  3. What the user rejected or interrupted has not failed. It is counted apart.
  4. Every pattern is linear in the length of the text, which is hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from unspool.export import describe_calls

_COMPARED: Final = 90
"""Characters of a text that are compared once it is reduced."""
_MAX_TEXT: Final = 4_000
"""Characters of a failure in which the line is searched that says what went wrong."""
_MAX_WORDS: Final = 160
_VARYING: Final = re.compile(
    r"""(?P<quoted>"[^"]{0,200}"|'[^']{0,200}'|`[^`]{0,200}`)   # names and values
      | (?P<path>[~\w.-]{0,60}/[^\s'":;,()]*)                    # paths and addresses
      | (?P<number>\b(?:0x[0-9a-f]+|[0-9a-f]{7,40}|\d[\d.,:]*)) # numbers, times, hashes
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WRONG: Final = re.compile(r"(?i)error|exception|fail|not found|no such|denied|refused|invalid|cannot|unable|timed out")
_PYTHON_ERROR: Final = re.compile(r"[A-Za-z_.]{1,80}(?:Error|Exception)\b")
_PYTEST_MARK: Final = re.compile(r"^E {2,}(?=\S)")
"""What pytest writes before the lines of an exception."""
_HEADING: Final = re.compile(r"[=_*#~-]{4}.*[=_*#~-]{4}")
"""A line such as `==== FAILURES ====`, which is the same for every failure."""


class SessionFailure(NamedTuple):
    """A tool call or a request to the API that failed."""

    session: str | None
    agent: str | None
    project: str | None
    offset: int
    """Of its line in the file of the session or agent."""
    time: int | None
    """Milliseconds since 1970."""
    tool: str | None
    """None for an error of the API."""
    words: str
    """The line that says what went wrong, as it was written."""

    @property
    def kind(self) -> str:
        """What all failures of its kind have in common."""
        return f"{self.tool or 'API'}: {reduce_failure(self.words)}"


class FailedSession(NamedTuple):
    """A session in which a failure occurred."""

    session: str | None
    failures: int
    last: SessionFailure
    """The newest of them."""


class FailureKind(NamedTuple):
    """Failures that are alike."""

    kind: str
    tool: str | None
    """None for an error of the API."""
    words: str
    """The words of the newest one."""
    failures: int
    sessions: tuple[FailedSession, ...]
    """The one with the newest failure first."""

    @property
    def last(self) -> SessionFailure:
        """The newest failure."""
        return self.sessions[0].last

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        sessions = [{**one._asdict(), "last": one.last._asdict()} for one in self.sessions]
        return {**self._asdict(), "sessions": sessions}


class FailureReport(NamedTuple):
    """What failed in a span of time."""

    kinds: list[FailureKind]
    """The most frequent first, then the newest."""
    failures: int
    rejected: int
    """Calls that the user rejected or interrupted, which are in no kind."""
    is_cut: bool
    """Whether there are more, which are older."""


def group_failures(failures: Iterable[SessionFailure]) -> list[FailureKind]:
    """Return the kinds of failures: the most frequent first, then the newest."""
    kinds: dict[str, dict[str | None, list[SessionFailure]]] = {}
    for failure in sorted(failures, key=_time, reverse=True):
        kinds.setdefault(failure.kind, {}).setdefault(failure.session, []).append(failure)
    made = [_make_kind(kind, sessions) for kind, sessions in kinds.items()]
    return sorted(made, key=lambda one: (-one.failures, -_time(one.last), one.kind))


def describe_failure(text: str) -> str:
    r"""Return the line of a failure's text that says what went wrong.

    >>> describe_failure("Exit code 1\nTraceback:\n  File 'a.py', line 3\nKeyError: 'total'")
    "KeyError: 'total'"
    >>> describe_failure("<tool_use_error>File does not exist.</tool_use_error>")
    'File does not exist.'
    >>> describe_failure("┌──────┐\n│ full │")
    '│ full │'
    >>> describe_failure("==== FAILURES ====\n    assert a == b\nE   assert 1 == 2\nFAILED test_a.py::test_b")
    'FAILED test_a.py::test_b'
    """
    code, rest = describe_calls.split_exit_code(describe_calls.strip_error_tags(text[:_MAX_TEXT]))
    written = [line for line in rest.splitlines() if any(map(str.isalnum, line))]
    written = [line for line in written if not _HEADING.fullmatch(line.strip())] or written
    lines = [_shorten(" ".join(_PYTEST_MARK.sub("", line).split())) for line in written]
    # The last line of a traceback says more than the first; of other output the first that sounds wrong does.
    named = next((line for line in reversed(lines) if _PYTHON_ERROR.match(line)), None)
    words = named or next((line for line in lines if _WRONG.search(line)), lines[0] if lines else "")
    return words or (f"exit code {code}" if code is not None else "no message")


def _shorten(words: str) -> str:
    return words if len(words) <= _MAX_WORDS else f"{words[: _MAX_WORDS - 1]}…"


def reduce_failure(text: str) -> str:
    """Return what the words of failures of one kind have in common.

    >>> reduce_failure("File /a/b.py does not exist. Line 12") == reduce_failure("File /c.py does not exist. Line 7")
    True
    """
    return _VARYING.sub("…", text.strip()).casefold()[:_COMPARED]


def _make_kind(kind: str, sessions: dict[str | None, list[SessionFailure]]) -> FailureKind:
    failed = tuple(FailedSession(id, len(among), among[0]) for id, among in sessions.items())
    newest = failed[0].last
    return FailureKind(kind, newest.tool, newest.words, sum(one.failures for one in failed), failed)


def _time(failure: SessionFailure) -> int:
    return failure.time or 0
