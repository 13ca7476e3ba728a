"""Groups failed tool calls and API errors by kind: search hits in, kinds with their number and sessions out. Pure.

Rules
  1. Two failures are of one kind if they are of the same tool, and their texts begin alike once everything that differs
     from case to case (numbers, paths, quoted texts, ids) is left out.
  2. Every hit is in exactly one kind, so the numbers add up. What the user rejected is one kind, whatever the tool.
  3. Every pattern is linear in the length of the text, which is the beginning of a result and hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from unspool.store.search.results import MATCH_END, MATCH_START, SearchHit

_COMPARED: Final = 90
"""Characters of a text that are compared once it is reduced."""
_VARYING: Final = re.compile(
    r"""(?P<quoted>"[^"]{0,200}"|'[^']{0,200}'|`[^`]{0,200}`)   # names and values
      | (?P<path>[~\w.-]{0,60}/[^\s'":;,()]*)                    # paths and addresses
      | (?P<number>\b(?:0x[0-9a-f]+|[0-9a-f]{7,40}|\d[\d.,:]*)) # numbers, times, hashes
    """,
    re.VERBOSE | re.IGNORECASE,
)


REJECTED: Final = "Rejected by the user"
"""The words of the kind of calls that the user refused."""
_REJECTIONS: Final = ("The user doesn't want to proceed", "The user doesn't want to take this action")
"""How Claude Code begins the result of such a call."""
_TAG: Final = re.compile(r"</?tool_use_error>")


class FailedSession(NamedTuple):
    """A session in which a failure occurred."""

    session: str | None
    failures: int
    last: SearchHit
    """The newest of them."""


class FailureKind(NamedTuple):
    """Failures that are alike."""

    tool: str | None
    """None for an error of the API, and for what the user rejected."""
    words: str
    """The text of the newest one."""
    failures: int
    sessions: tuple[FailedSession, ...]
    """The one with the newest failure first."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        sessions = [{**one._asdict(), "last": one.last._asdict()} for one in self.sessions]
        return {**self._asdict(), "sessions": sessions}


def group_failures(hits: Iterable[SearchHit]) -> list[FailureKind]:
    """Return the kinds of failures among some hits: the most frequent first, then the newest."""
    kinds: dict[tuple[str | None, str], dict[str | None, list[SearchHit]]] = {}
    for hit in hits:
        plain = _plain(hit.snippet)
        key = (None, REJECTED) if plain.startswith(_REJECTIONS) else (hit.tool, reduce_failure(plain))
        kinds.setdefault(key, {}).setdefault(hit.session, []).append(hit)
    return sorted((_make_kind(*key, sessions) for key, sessions in kinds.items()), key=_order)


def reduce_failure(text: str) -> str:
    """Return what the texts of failures of one kind have in common.

    >>> reduce_failure("File /a/b.py does not exist. Line 12") == reduce_failure("File /c.py does not exist. Line 7")
    True
    """
    return _VARYING.sub("…", _plain(text)).casefold()[:_COMPARED]


def _plain(text: str) -> str:
    """Return a snippet without marks and the tags that Claude Code puts around errors."""
    return _TAG.sub("", text.replace(MATCH_START, "").replace(MATCH_END, "")).strip()


def _make_kind(tool: str | None, reduced: str, sessions: dict[str | None, list[SearchHit]]) -> FailureKind:
    failed = [FailedSession(id, len(hits), max(hits, key=_time)) for id, hits in sessions.items()]
    failed.sort(key=lambda one: _time(one.last), reverse=True)
    words = REJECTED if reduced == REJECTED else _plain(failed[0].last.snippet)
    return FailureKind(tool, words, sum(one.failures for one in failed), tuple(failed))


def _time(hit: SearchHit) -> str:
    return hit.timestamp or ""


def _order(kind: FailureKind) -> tuple[int, tuple[int, ...], str]:
    newest = _time(kind.sessions[0].last)
    return -kind.failures, tuple(-ord(letter) for letter in newest), kind.words
