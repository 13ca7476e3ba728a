"""Builds the document of `unspool show --json`: a session, its turns and their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from unspool.cli.session_argument import SessionCost
from unspool.export import (
    AnswerStep,
    Depth,
    EventStep,
    PromptStep,
    Section,
    SidechainStep,
    Step,
    Story,
    ThinkingStep,
    ToolCallStep,
    build_story,
    describe_calls,
    json_data,
    outline,
)
from unspool.format import Entry, to_utc_text
from unspool.graph import describe_target
from unspool.home import Session

Json: TypeAlias = dict[str, Any]


def session_document(
    session: Session, sections: Iterable[Section], depth: Depth, cost: SessionCost, resume: str | None
) -> Json:
    """Return a session with some of its turns, as much of them as a depth shows; `resume` is the command for it."""
    facts = session.facts
    writer = _StepWriter(session, depth)
    return {
        **json_data.session_head(session),
        "turn_count": facts.turns,
        "command_turns": facts.command_turns,
        "tool_calls": facts.tool_calls,
        "errors": facts.errors,
        "cost_micros": cost.micros,
        "unpriced_tokens": cost.unpriced_tokens,
        "context_tokens": facts.context_tokens,
        "resume_command": resume,
        "turns": [writer.turn(section) for section in sections],
        "agents": [
            {
                "agent_id": agent.id,
                "kind": agent.kind.value,
                "type": agent.type,
                "description": agent.description,
                "call_id": agent.call.id if agent.call else None,
                "path": source.place,
            }
            for agent, source in zip(session.agents, session.agent_sources, strict=True)
        ],
    }


class _StepWriter:
    """Writes the steps of a session at one depth."""

    def __init__(self, session: Session, depth: Depth) -> None:
        self._session, self._depth = session, depth
        self._story = build_story(session.entries)
        self._agents = outline.group_agents_by_call(session)

    def turn(self, section: Section) -> Json:
        prompt = section.turn.prompt.record if section.turn else None
        return {
            "number": section.number,
            "time": to_utc_text(prompt.timestamp) if prompt else None,
            "uuid": prompt.uuid if prompt else None,
            "prompt": section.turn.text if section.turn else "",
            "is_abandoned": section.left,
            "starts_branch": section.starts_branch,
            "steps": self._steps(self._story, section.entries),
        }

    def _steps(self, story: Story, entries: Sequence[Entry]) -> list[Json]:
        found = []
        for step in story.steps(entries):
            for fields in self._step(step):
                record = step.entry.record
                found.append(
                    {"type": fields.pop("type"), "time": to_utc_text(record.timestamp), "uuid": record.uuid, **fields}
                )
        return found

    def _step(self, step: Step) -> Iterator[Json]:
        match step:
            case PromptStep():
                yield {"type": "prompt", "kind": step.name, "text": step.text}
            case EventStep():
                yield {"type": "event", "kind": step.kind.value, "text": step.text}
            case AnswerStep(text=text) if self._depth >= Depth.ANSWERS:
                yield {"type": "answer", "text": text}
            case ThinkingStep(text=text) if self._depth >= Depth.STEPS:
                yield {"type": "thinking", "text": text}
            case ToolCallStep() if self._depth >= Depth.STEPS:
                yield self._call(step)
            case SidechainStep(entries=entries) if self._depth >= Depth.STEPS:
                inner = {"steps": self._steps(build_story(entries), entries)} if self._depth is Depth.ALL else {}
                yield {"type": "agent", **inner}
            case _:
                pass

    def _call(self, step: ToolCallStep) -> Json:
        call = step.call
        fields: Json = {
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "target": describe_target(call.name, call.input, self._session.cwd),
            "failed": call.failed,
            "has_result": call.result is not None,
            "seconds": None if call.duration is None else call.duration.total_seconds(),
        }
        if error := describe_calls.error_text(call):
            fields["error"] = error
        if self._depth is Depth.ALL:
            fields["result"] = describe_calls.result_text(call)
        if agents := self._agents.pop(call.id, []):  # taken out, so that no agent is written inside itself
            fields["agent_ids"] = [nested.agent.id for nested in agents]
            if self._depth is Depth.ALL:
                fields["steps"] = [
                    inner for nested in agents for inner in self._steps(build_story(nested.entries), nested.entries)
                ]
        return fields
