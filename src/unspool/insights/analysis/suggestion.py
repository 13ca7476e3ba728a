"""What a suggestion is: what to change, what that would have saved, how this was computed, and the lines behind it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

Line: TypeAlias = dict[str, Any]
"""Where a line stands: `source_id`, `session_id`, `agent_id`, `offset`, `time`."""
MAX_LINES: Final = 20
"""Lines of evidence that a suggestion lists, the newest."""


class Suggestion(NamedTuple):
    """A change that would have saved something measured."""

    kind: str
    """`claude_md`, `permission` or `trim`."""
    action: str
    """What to do, in a sentence."""
    text: str
    """The line, the rule or the command."""
    project: str
    """The folder or project that it is for."""
    saved: dict[str, int]
    """What it would have saved, by what it is: `cost_micros`, `milliseconds`, `approvals`, `tokens`, …"""
    computed: str
    """How that was computed."""
    lines: list[Line]
    """The evidence."""
    evidence: int
    """How many lines of evidence there are."""

    @property
    def weight(self) -> tuple[int, int]:
        """What suggestions are sorted by: the money, then the time or the number of approvals."""
        saved = self.saved
        return saved.get("cost_micros", saved.get("saved_micros_per_request", 0)), saved.get("milliseconds", 0)


def newest_lines(lines: list[Line]) -> list[Line]:
    """Return the newest lines of evidence, as many as are listed."""
    return sorted(lines, key=lambda line: line.get("time") or 0, reverse=True)[:MAX_LINES]
