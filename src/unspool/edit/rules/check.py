"""Checks a session file against the rules that resuming it depends on, and builds the context that it resumes with.

What must be true so that Claude Code resumes a session and the Messages API takes it has one name for each rule
(`violation.py`). Checking takes time linear in the bytes of the session, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unspool.edit.rules.api import check_api_rules
from unspool.edit.rules.graph import check_graph_rules
from unspool.edit.rules.violation import Violation, sort_violations
from unspool.edit.session_text import SessionText
from unspool.format import BadLine, Entry
from unspool.graph import build_main_graph, find_leaf, find_thread_entries_in_graph
from unspool.graph.context import ContextMessage, build_thread_context


class ResumeContext(NamedTuple):
    """What a resumed session continues with: from which line, with which lines, with which messages."""

    leaf: str | None
    lines: list[Entry]
    messages: list[ContextMessage]


def resume_context(text: SessionText, leaf: str | None = None) -> ResumeContext:
    """Return what a session continues with, from its own leaf or from another line."""
    graph = build_main_graph(text.entries)
    tip = graph.numbers.get(leaf) if leaf is not None else find_leaf(graph)
    lines = find_thread_entries_in_graph(graph, tip, leaf)
    uuid = graph.nodes[tip].entry.record.uuid if tip is not None else None
    return ResumeContext(uuid, lines, build_thread_context(lines))


def check_rules(text: SessionText, file: str = "") -> list[Violation]:
    """Return the rules that a session's own file breaks, in order of place."""
    found = [*check_line_rules(text), *check_api_rules(resume_context(text).messages)]
    return sort_violations(found, file)


def check_line_rules(text: SessionText) -> list[Violation]:
    """Return the rules that the lines of a file break: all but those of the API."""
    return [*_check_file(text), *check_graph_rules(text)]


def _check_file(text: SessionText) -> Iterator[Violation]:
    for item in text.items:
        if isinstance(item, BadLine):
            yield Violation("F1", item.offset, f"not a whole JSON object: {item.reason}", item.reason)
    if text.data and not text.data.endswith(b"\n"):
        yield Violation("F1", text.items[-1].offset, "the last line has no line end", "end")
