"""Whether a planned session is as good as its source: the rules, and a strict API that is sent the result.

Rules
  1. An edit adds no violation that its source did not have, and no problem that the API would have had with it.
  2. Compared besides: the line to go on from, calls of one answer (all or none), thinking in an open tool loop, and
     in place what answers used.
  3. Only where something is found is the source looked at too: most sessions have nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from unspool.api.rules.validate import Memory, Problem, problems
from unspool.edit.ids import known_as
from unspool.edit.planner import Prepared
from unspool.edit.rules.check import added, check
from unspool.edit.session_view import Manuscript
from unspool.format.records import Assistant
from unspool.graph.context import model_rules
from unspool.graph.context.pairing import ContextMessage

GO_ON = "Go on."


class Verified(NamedTuple):
    """What came of the looking."""

    invariants: bool
    replay: bool
    faults: tuple[str, ...] = ()
    """What is wrong, in words."""


def verified(prepared: Prepared) -> Verified:
    """Look at a planned session."""
    broken = [*_rules(prepared), *_compared(prepared)]
    refused = [*_replayed(prepared)]
    return Verified(not broken, not refused, (*broken, *refused))


def request(messages: Sequence[ContextMessage]) -> dict[str, Any]:
    """Return the request that goes on with a conversation."""
    said = [message.json for message in messages]
    prompt = {"type": "text", "text": GO_ON}
    if said and said[-1]["role"] == "user":
        said[-1] = {**said[-1], "content": [*said[-1]["content"], prompt]}
    else:
        said.append({"role": "user", "content": [prompt]})
    return {"model": model_rules.DEFAULT, "max_tokens": 1024, "messages": said}


def _rules(prepared: Prepared) -> Iterator[str]:
    after = prepared.checked.violations
    if not after:
        return
    new = prepared.plan.identity
    levels = {violation.rule[0] for violation in after}
    before = check(prepared.source, seen=prepared.seen, levels=levels).violations
    for violation in added(after, before, known_as(new) if new and not new.keeps_ids else str):
        yield f"{violation.rule}: {violation.message} (at {violation.offset})"


def _compared(prepared: Prepared) -> Iterator[str]:
    plan = prepared.plan
    found = prepared.checked.leaf
    if found != plan.leaf:
        yield f"G3: it would go on from `{found}`, not from `{plan.leaf}`"
    asked, left = _calls(prepared.before), _calls(prepared.checked.messages)
    for answer, calls in left.items():
        if answer in asked and calls != asked[answer]:
            yield f"A5: only some calls of one answer are left: `{answer}`"
    if plan.in_place:
        gone = _used(prepared.source) - _used(prepared.result)
        if gone:
            yield f"C1: what {len(gone)} answers used would be lost"


def _calls(messages: Sequence[ContextMessage]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for message in messages:
        for block in message.blocks:
            record = block.entry.record if block.entry else None
            if block.kind == "tool_use" and isinstance(record, Assistant) and record.message.id:
                found.setdefault(record.message.id, set()).add(block.id or "")
    return found


def _used(manuscript: Manuscript) -> set[str]:
    return {
        entry.record.message.id
        for entry in manuscript.entries
        if isinstance(entry.record, Assistant) and entry.record.message.id and entry.record.message.usage
    }


def _is_media(problem: Problem) -> bool:
    return any(words in problem.message for words in ("Invalid base64 data", "Could not process image"))


def _replayed(prepared: Prepared) -> Iterator[str]:
    memory = Memory()
    for message in prepared.before:
        if message.role == "assistant" and any(block.kind.endswith("thinking") for block in message.blocks):
            memory.keep(message.json)
    found = problems(request(prepared.checked.messages), memory)
    if not found or all(_is_media(problem) for problem in found):
        return  # pictures are never changed: one that the API cannot see was like that before
    had = {problem.message.removeprefix(problem.path) for problem in problems(request(prepared.before), memory)}
    for problem in found:
        if problem.message.removeprefix(problem.path) not in had:
            yield f"the API would refuse it: {problem.message}"
