"""Reads which calls waited for approval: those that the permission rules ask about, in turns in which they did.

Rules
  1. No line says that Claude Code asked. What is computed is which calls the rules of today ask about: the settings as
     they are now, in the folder of each call, and the permission mode that the prompt of the turn has.
  2. A prompt without a mode (older versions) says nothing: such calls are counted as unknown, and no suggestion is made
     of them. In `bypassPermissions` and `auto` nobody is asked.
  3. Calls that took less than a second waited for nobody.
  4. Lines and folders are untrusted. A settings file that cannot be read allows nothing (`live/approval_settings.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.format import decode_plain
from unspool.insights.analysis import AskedCall, Suggestion, asks, suggest_rules
from unspool.live import ApprovalSettings
from unspool.live.state import ApprovalRules, make_call_check
from unspool.permissions import CallCheck
from unspool.store import StoreAccess
from unspool.store.search import CorpusReader, open_corpus

_ASKING_MODES: Final = frozenset({"default", "acceptEdits", "plan"})
_PLACES: Final = 5


class Approvals(NamedTuple):
    """The calls that waited for approval."""

    rows: list[dict[str, Any]]
    """By tool, the one that waited longest first."""
    suggestions: list[Suggestion]
    unknown: dict[str, int]


def read_approvals(access: StoreAccess, rows: Sequence[Mapping[str, Any]], now: datetime) -> Approvals:
    """Return what rows of the section `approved` say of approvals."""
    modes = _PromptModes(access)
    check_of = _make_check_finder(access, now)
    asked_calls: list[AskedCall] = []
    unknown = 0
    try:
        for row in rows:
            mode = modes.read(row["prompt_source"], row["prompt_offset"])
            if mode is None:
                unknown += 1
            elif mode in _ASKING_MODES and (call := _asked_call(row, mode, check_of)) is not None:
                asked_calls.append(call)
    finally:
        modes.close()
    by_tool: dict[str, list[AskedCall]] = {}
    for call in asked_calls:
        by_tool.setdefault(call.tool, []).append(call)
    summed = [_sum_calls(tool, calls) for tool, calls in by_tool.items()]
    summed.sort(key=lambda row: (-row["waited_at_most_ms"], row["tool"]))
    return Approvals(summed, suggest_rules(asked_calls), {"calls_without_permission_mode": unknown})


def _sum_calls(tool: str, calls: Sequence[AskedCall]) -> dict[str, Any]:
    longest = sorted(calls, key=lambda call: call.milliseconds - (call.ran or 0), reverse=True)[:_PLACES]
    return {
        "tool": tool,
        "calls": len(calls),
        "approved": sum(not call.rejected for call in calls),
        "rejected": sum(call.rejected for call in calls),
        "waited_at_most_ms": sum(call.milliseconds - (call.ran or 0) for call in calls),
        "measured_calls": sum(call.ran is not None for call in calls),
        "places": [call.line for call in longest],
        "weights": [call.milliseconds - (call.ran or 0) for call in longest],
    }


CheckFinder = Callable[[str | None, str, str | None, str], CallCheck | None]


def _asked_call(row: Mapping[str, Any], mode: str, check_of: CheckFinder) -> AskedCall | None:
    """Return the call of a row if the rules ask about it."""
    tool, input, line = str(row["tool"]), row["input"], row["line"]
    check = check_of(row["cwd"], tool, row["path"], mode)
    if check is None or not isinstance(input, dict) or not _asks(check, tool, input):
        return None
    return AskedCall(
        tool, input, check, bool(row["rejected"]), bool(row["failed"]), row["duration_ms"], _ran(row), line
    )


def _asks(check: CallCheck, tool: str, input: Mapping[str, Any]) -> bool:
    try:
        return asks(check, tool, input)
    except UnspoolError:  # a command that is not understood is asked about, but no rule can be tested with it
        return False


def _ran(row: Mapping[str, Any]) -> int | None:
    """Return the milliseconds that a tool ran, if its result says so."""
    text = row["ran_ms"]
    try:
        ran = round(float(text)) if isinstance(text, str | int | float) else None
    except (ValueError, OverflowError):
        return None
    return ran if ran is not None and 0 <= ran <= row["duration_ms"] else None


def _make_check_finder(access: StoreAccess, now: datetime) -> CheckFinder:
    settings: dict[Path, ApprovalSettings] = {}

    @lru_cache(None)
    def rules(config: Path, cwd: str | None) -> ApprovalRules:
        return settings.setdefault(config, ApprovalSettings(config)).rules(cwd, now)

    @lru_cache(None)
    def find(cwd: str | None, tool: str, path: str | None, mode: str) -> CallCheck | None:
        return make_call_check(tool, mode, rules(_config_of(path, access), cwd))

    return find


def _config_of(path: str | None, access: StoreAccess) -> Path:
    """Return the config folder that a session file is in; of a file elsewhere the folder that is read."""
    parts = Path(path or "").parts
    if "projects" in parts:
        return Path(*parts[: len(parts) - 1 - parts[::-1].index("projects")])
    return access.roots[0]


class _PromptModes:
    """The permission modes of prompts, each read once from its line."""

    def __init__(self, access: StoreAccess) -> None:
        self._corpus = open_corpus(access)
        self._reader = CorpusReader(self._corpus.archive)
        self._files = lru_cache(None)(self._find_file)
        self.read = lru_cache(None)(self._read)

    def _find_file(self, source: int) -> Any:
        database = self._corpus.database
        assert database is not None
        row = database.execute("SELECT generation FROM sources WHERE id = ?", (source,)).fetchone()
        return self._corpus.file(source, row[0]) if row else None

    def _read(self, source: int | None, offset: int | None) -> str | None:
        """Return the permission mode that a line has."""
        if source is None or offset is None:
            return None
        try:
            file = self._files(source)
            line = self._reader.line_at(file, offset) if file is not None else b""
        except (UnspoolError, StopIteration):
            return None
        values = (value for _, value in decode_plain(line) if isinstance(value, dict))
        mode = next(values, {}).get("permissionMode")
        return mode if isinstance(mode, str) else None

    def close(self) -> None:
        """Close the archive, if it was opened."""
        self._reader.close()
