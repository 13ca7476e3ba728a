"""Checks a session file against the rules that resuming it depends on, and builds the context that it resumes with.

What must be true so that Claude Code resumes a session and the Messages API takes it has one name for each rule
(`violation.py`). Checking takes time linear in the bytes of the session, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from unspool.edit.rules.api import check_api_rules
from unspool.edit.rules.graph import check_graph_rules
from unspool.edit.rules.violation import Violation, sort_violations
from unspool.edit.session_text import SessionText
from unspool.format import BadLine, Entry
from unspool.graph import build_main_graph, find_thread_entries_in_graph
from unspool.graph import find_leaf as newest
from unspool.graph.context import ContextMessage, build_thread_context


class ResumeContext(NamedTuple):
    """What a resumed session continues with: from which line, with which lines, with which messages."""

    leaf: str | None
    lines: list[Entry]
    messages: list[ContextMessage]


class CheckResult(NamedTuple):
    """The violations of a session, and the messages that were checked."""

    violations: list[Violation]
    messages: list[ContextMessage]
    leaf: str | None = None


def resume_context(text: SessionText, leaf: str | None = None) -> ResumeContext:
    """Return what a session continues with, from its own leaf or from another line."""
    graph = build_main_graph(text.entries)
    tip = graph.numbers.get(leaf) if leaf is not None else newest(graph)
    lines = find_thread_entries_in_graph(graph, tip, leaf)
    uuid = graph.nodes[tip].entry.record.uuid if tip is not None else None
    return ResumeContext(uuid, lines, build_thread_context(lines))


def check_rules(
    text: SessionText, file: str = "", *, context: ResumeContext | None = None, levels: Collection[str] = "FGAC"
) -> CheckResult:
    """Check a session's own file against the rules of some levels; its context is built unless it is known."""
    context = context or resume_context(text)
    violations = [
        *_check_lines(text),
        *(check_graph_rules(text) if "G" in levels or "C" in levels else ()),
        *(check_api_rules(context.messages) if "A" in levels else ()),
    ]
    return CheckResult(sort_violations(violations, file), context.messages, context.leaf)


def _check_lines(text: SessionText) -> Iterable[Violation]:
    for item in text.items:
        if isinstance(item, BadLine):
            yield Violation("F1", item.offset, f"not a whole JSON object: {item.reason}", item.reason)
    if text.data and not text.data.endswith(b"\n"):
        yield Violation("F1", text.items[-1].offset, "the last line has no line end", "end")
