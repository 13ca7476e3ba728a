"""Verifies planned edits (the rules are kept, the Messages API would take the result) and checks sessions on disk.

Rules
  1. An edit adds no violation that its source did not have, and no problem that the API would not have had with it. A
     result with a problem that the source has too may be written, but `replay` says that the API refuses it.
  2. Compared besides: the line to continue from, calls of one message (all or none), and in place what was billed.
  3. Only where something is found is the source checked too: most sessions have nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unspool.api.rules import ThinkingMemory, find_problems
from unspool.edit.planning.ids import source_subject
from unspool.edit.planning.planner import PreparedEdit
from unspool.edit.rules.check import (
    check_agent,
    check_line_rules,
    check_rules,
    check_side_files,
    resume_context,
    resume_request,
)
from unspool.edit.rules.violation import Violation, new_violations, sort_violations
from unspool.edit.session_text import SessionText
from unspool.edit.side_files import find_session_files, read_agent_lines, read_session_text
from unspool.format import Assistant
from unspool.graph.context import ContextMessage
from unspool.home import Session

_MEDIA_PROBLEMS = ("Invalid base64 data", "Could not process image")


class Verification(NamedTuple):
    """Whether the result keeps the rules, whether the API would take it, and what is wrong."""

    invariants: bool
    replay: bool
    faults: tuple[str, ...] = ()
    """What is wrong, in words."""
    inherited: tuple[str, ...] = ()
    """What the API would refuse in the result, and in its source too."""


def violations(session: Session) -> list[Violation]:
    """Return every rule that a session on disk breaks, with file and offset."""
    text = read_session_text(session)
    files, path = find_session_files(session, text), str(session.path)
    found = check_rules(text, path)
    # Of a session file outside of a config folder, nobody knows what should lie beside it.
    if files.config is not None:
        results, backups = ({file.path.name for file in files.with_role(role)} for role in ("result", "backup"))
        found += check_side_files(text, path, project=files.path.parent.name, results=results, backups=backups)
    for file in files.with_role("agent"):
        found += check_agent(text.id, read_agent_lines(file.path, session.id), str(file.path))
    return found


def verify_edit(prepared: PreparedEdit) -> Verification:
    """Verify a planned edit."""
    if prepared.plan.operation == "repair":
        return _verify_repair(prepared)
    broken = [*_find_violations(prepared), *_compare_sessions(prepared)]
    refused, inherited = _find_api_problems(prepared)
    return Verification(not broken, not (refused or inherited), (*broken, *refused), inherited)


def _verify_repair(prepared: PreparedEdit) -> Verification:
    """Verify a repair: no rule may be broken at all, whatever the source was like (`planning/repair.py`, rule 1)."""
    from unspool.edit.rules.breakage import find_remaining_violations  # start-up: no other operation needs it

    broken = [f"{one.rule}: {one.message} (at {one.offset})" for one in find_remaining_violations(prepared.result)]
    if prepared.after.leaf != prepared.plan.leaf:
        broken.append(f"G3: it would resume from `{prepared.after.leaf}`, not from `{prepared.plan.leaf}`")
    if prepared.plan.in_place and (lost := _billed_messages(prepared.source) - _billed_messages(prepared.result)):
        broken.append(f"C1: the usage of {len(lost)} responses would be lost")
    refused = [
        f"the API would reject it: {one.message}" for one in find_problems(resume_request(prepared.after.messages))
    ]
    # Refusals that break no rule, such as of a field that is not known, are the source's too: a repair adds no field.
    return Verification(not broken, not refused, tuple(broken), tuple(refused) if not broken else ())


def _find_violations(prepared: PreparedEdit) -> Iterator[str]:
    after = sort_violations(check_line_rules(prepared.result))
    if not after:
        return
    id_map = prepared.plan.id_map
    to_source = source_subject(id_map) if id_map and not id_map.keeps_ids else str
    for violation in new_violations(after, check_line_rules(prepared.source), to_source):
        yield f"{violation.rule}: {violation.message} (at {violation.offset})"


def _compare_sessions(prepared: PreparedEdit) -> Iterator[str]:
    plan, leaf = prepared.plan, prepared.after.leaf
    if leaf != plan.leaf:
        yield f"G3: it would resume from `{leaf}`, not from `{plan.leaf}`"
    in_context = {entry.record.uuid for entry in prepared.after.lines}
    if lost_lines := [uuid for uuid in plan.kept_in_context if uuid not in in_context]:
        yield f"G6: {len(lost_lines)} lines of kept turns would drop out of the context"
    before, after = _calls_by_message(prepared.before.messages), _calls_by_message(prepared.after.messages)
    for message_id, calls in after.items():
        if message_id in before and calls != before[message_id]:
            yield f"A5: only some calls of one response are left: `{message_id}`"
    if plan.in_place:
        lost = _billed_messages(prepared.source) - _billed_messages(prepared.result)
        if lost:
            yield f"C1: the usage of {len(lost)} responses would be lost"


def _calls_by_message(messages: Sequence[ContextMessage]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for message in messages:
        for block in message.blocks:
            record = block.entry.record if block.entry else None
            if block.kind == "tool_use" and isinstance(record, Assistant) and record.message.id:
                found.setdefault(record.message.id, set()).add(block.id or "")
    return found


def _billed_messages(text: SessionText) -> set[str]:
    return {
        entry.record.message.id
        for entry in text.entries
        if isinstance(entry.record, Assistant) and entry.record.message.id and entry.record.message.usage
    }


def _find_api_problems(prepared: PreparedEdit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Check the request that the result would send by the API's rules; return what is new, and what the source has."""
    before = prepared.before.messages
    # The source's thinking counts as sent by the API: what an edit changed of it would be refused.
    memory = ThinkingMemory()
    for message in before:
        if message.role == "assistant" and any(block.kind.endswith("thinking") for block in message.blocks):
            memory.keep(message.json)
    problems = [
        problem
        for problem in find_problems(resume_request(prepared.after.messages), memory)
        # Images are never changed: one that the API cannot see was like that before.
        if not any(words in problem.message for words in _MEDIA_PROBLEMS)
    ]
    if not problems:
        return (), ()
    # Of a fork, the session as it is resumed: another point of it may be one that nobody can continue from.
    source = resume_context(prepared.source).messages if prepared.plan.operation == "fork" else before
    had = {problem.message.removeprefix(problem.path) for problem in find_problems(resume_request(source), memory)}
    words = {
        is_inherited: tuple(
            f"the API would reject it: {problem.message}"
            for problem in problems
            if (problem.message.removeprefix(problem.path) in had) is is_inherited
        )
        for is_inherited in (False, True)
    }
    return words[False], words[True]
