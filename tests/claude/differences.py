"""Where Claude Code sends a different request than we predict, and edits that are refused: each with its reason.

A test fails when one of these no longer differs.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """What differs: of which scenario, written by which versions, read by which or after which edits."""

    feature: str
    writers: tuple[str, ...]
    others: tuple[str, ...]
    """The versions that resume it, or the edits."""
    words: str
    """What the difference shows."""
    reason: str

    def suits(self, writer: str, other: str) -> bool:
        return writer in self.writers and other in self.others


DIFFERENCES = [
    Difference(
        "plan approval",
        ("2.1.100", "2.1.200"),
        ("2.1.100", "2.1.200", "newest"),
        "Plan mode is active",
        "The line holds only that plan mode began; its instructions are a page of Claude Code's own prompt, of the "
        "version that reads, which is not ours to ship.",
    ),
    Difference(
        "MCP results with pictures",
        ("2.1.29",),
        ("2.1.29",),
        "tool search not enabled",
        "2.1.29 sends references to tools only where tool search is on, which depends on how many tools are connected.",
    ),
    Difference(
        "tools that come later",
        ("2.1.29",),
        ("2.1.29",),
        "tool search not enabled",
        "2.1.29 sends references to tools only where tool search is on, which depends on how many tools are connected.",
    ),
    Difference(
        "resumed by several versions",
        ("2.1.200",),
        ("2.1.200",),
        "total_tokens",
        "2.1.200 tells the tokens that are left by its own count, not by the line of the newer version.",
    ),
]
REFUSED = [
    Difference(
        "hooks that refuse a prompt",
        ("2.1.100", "2.1.200", "2.1.290", "2.1.325", "newest"),
        ("fork",),
        "turn 2 has no line to fork from",
        "The hook refused the prompt of the second turn: no message of it was written that a session could end with.",
    ),
]
