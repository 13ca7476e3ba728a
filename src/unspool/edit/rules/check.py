"""Checks a session and the files beside it against the rules of resuming, and builds the context that it resumes with.

What must be true so that Claude Code resumes a session and the Messages API takes it has one name for each rule
(`violation.py`). What the API would refuse in the request that resumes a session is found and worded by its own rules
(`api/rules`); here it is decided which rule that breaks, and on which line. Refusals that break none (an image of a
wrong type, a field that is not known) are left out.

Checking takes time linear in the bytes of the session, whatever is in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from unspool.api.rules import find_problems
from unspool.edit.rules.graph import check_graph_rules
from unspool.edit.rules.violation import Violation, sort_violations
from unspool.edit.session_text import SessionText
from unspool.format import BadLine, Entry, FileHistoryDelta, FileHistorySnapshot, User
from unspool.graph import build_main_graph, find_leaf, find_thread_entries_in_graph
from unspool.graph.context import ContextMessage, build_thread_context, model_rules

CONTINUE_PROMPT = "Go on."
# The first that fits counts: the words about server tools and thinking name tool calls, too.
_API_RULES = (
    ("A3", re.compile(r"\.tool_use\.input: ")),
    ("A4", re.compile(r"thinking")),
    ("A7", re.compile(r"was found without a corresponding")),
    ("A2", re.compile(r"tool_use|tool_result")),
    ("A1", re.compile(r"first message|non-empty|non-whitespace")),
)
_PLACE = re.compile(r"messages\.(\d+)(?:\.content\.(\d+))?")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9-]{1,200}(-[0-9a-z]{1,7})?")
_OVERFLOW = re.compile(rb'"persistedOutputPath"\s*:\s*"(?:[^"\\]|\\.)*?[/\\]([^"/\\]+)"')


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


def resume_request(messages: Sequence[ContextMessage]) -> dict[str, Any]:
    """Return the request that continues a conversation."""
    sent = append_prompt([message.json for message in messages], CONTINUE_PROMPT)
    return {"model": model_rules.DEFAULT_MODEL, "max_tokens": 1024, "messages": sent}


def append_prompt(messages: Sequence[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Return messages with a prompt at the end: in the user's last message, or in a new one.

    A system message at the end comes after the prompt, as Claude Code sends it: the API takes none after an answer.
    """
    after = messages[-1:] if messages and messages[-1]["role"] == "system" else []
    before, block = messages[: len(messages) - len(after)], {"type": "text", "text": prompt}
    if before and before[-1]["role"] == "user":
        return [*before[:-1], {**before[-1], "content": [*before[-1]["content"], block]}, *after]
    return [*before, {"role": "user", "content": [block]}, *after]


def check_api_rules(messages: Sequence[ContextMessage]) -> Iterator[Violation]:
    """Yield what the API would refuse when a conversation is continued, if it breaks a rule."""
    for problem in find_problems(resume_request(messages)):
        rule = next((rule for rule, words in _API_RULES if words.search(problem.message)), None)
        if rule is not None:
            entry = _find_entry(messages, problem.path)
            words = problem.message.removeprefix(f"{problem.path}: ")
            yield Violation(rule, entry.offset if entry else 0, words, (entry and entry.record.uuid) or words)


def check_side_files(
    text: SessionText, file: str = "", *, project: str, results: Collection[str], backups: Collection[str]
) -> list[Violation]:
    """Return what is wrong with the files beside a session, by the names of the project, long results and backups."""
    found = [*_check_results(text, results), *_check_backups(text, backups)]
    if not _PROJECT_NAME.fullmatch(project):
        found.append(Violation("S2", 0, f"not a folder name that Claude Code would use: `{project}`", "project"))
    return sort_violations(found, file)


def check_agent(session_id: str, agent: SessionText, file: str = "") -> list[Violation]:
    """Return what is wrong with an agent's file: lines of another session."""
    foreign = [entry for entry in agent.entries if entry.record.session_id not in (None, session_id)]
    words = "an agent's line names another session: `{}`"
    return [
        Violation("S1", entry.offset, words.format(entry.record.session_id), f"agent {agent.id}", file)
        for entry in foreign[:1]
    ]


def _check_file(text: SessionText) -> Iterator[Violation]:
    for item in text.items:
        if isinstance(item, BadLine):
            yield Violation("F1", item.offset, f"not a complete JSON object: {item.reason}", item.reason)
    if text.data and not text.data.endswith(b"\n"):
        yield Violation("F1", text.items[-1].offset, "the last line has no line end", "end")


def _check_results(text: SessionText, names: Collection[str]) -> Iterator[Violation]:
    for entry in text.entries:
        # A plain search first: few lines have such a path.
        if isinstance(entry.record, User) and b'"persistedOutputPath"' in bytes(entry.raw):
            for match in _OVERFLOW.finditer(entry.raw):
                name = match[1].decode(errors="replace")
                if name not in names:
                    yield Violation("S1", entry.offset, f"missing stored result: `{name}`", f"result {name}")


def _check_backups(text: SessionText, names: Collection[str]) -> Iterator[Violation]:
    seen: set[str] = set()
    for entry in text.entries:
        for name in _backup_names(entry.record):
            if name not in seen and name not in names:
                yield Violation("S1", entry.offset, f"missing backup: `{name}`", f"backup {name}")
            seen.add(name)


def _backup_names(record: object) -> list[str]:
    match record:
        case FileHistorySnapshot(snapshot=snapshot):
            return [one.backup_file_name for one in snapshot.tracked_file_backups.values() if one.backup_file_name]
        case FileHistoryDelta(backup=backup) if backup and backup.backup_file_name:
            return [backup.backup_file_name]
        case _:
            return []


def _find_entry(messages: Sequence[ContextMessage], path: str) -> Entry | None:
    """Return the line that a place in the request comes from; of a whole message, its first."""
    place = _PLACE.match(path)
    number = int(place[1]) if place else 0
    blocks = messages[number].blocks[int((place and place[2]) or 0) :] if number < len(messages) else ()
    return next((block.entry for block in blocks if block.entry), None)
