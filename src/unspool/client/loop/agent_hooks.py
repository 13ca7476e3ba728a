"""Calls the hooks of one agent on the events of its turns: builds what they get on stdin, and writes what they leave.

Rules
  1. What the model is told stands on a meta line of the user's, after the prompt or after all tool results: every
     version of Claude Code sends it. The attachments beside it say which hook ran, and how that ended.
  2. A hook runs in a job: an interrupt ends it.
  3. Hooks that only watch (`Notification`, `SessionEnd`) never hold up or fail anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from unspool.client import events
from unspool.client.hooks.answers import HookCall, RunHookAgent
from unspool.client.hooks.registry import HookRegistry, HookVerdict
from unspool.client.loop.inbox import EventQueue, JobEnded
from unspool.client.session.transcript import Transcript
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json, ToolOutcome
from unspool.format import written_lines as lines

if TYPE_CHECKING:
    from unspool.client.prompt.instructions import Instruction

MAX_STOP_BLOCKS = 8
"""How often in a row stop hooks may send the model back to work."""
_SESSION_END_SECONDS = 5.0
"""How long leaving may wait for hooks; Claude Code waits 1.5 s."""


_WITHOUT_MODE = frozenset(
    {"SessionStart", "SessionEnd", "StopFailure", "PreCompact", "PostCompact", "CwdChanged", "InstructionsLoaded"}
)
"""The events whose input has no permission mode, as measured with Claude Code 2.1.327."""


class TypedCommand(NamedTuple):
    """A command that the user typed and that was expanded to a prompt."""

    name: str
    arguments: str
    source: str

    @property
    def text(self) -> str:
        """What was typed."""
        return f"/{self.name} {self.arguments}".rstrip()


def as_reminder(text: str) -> str:
    """Return a text as the client tells it to the model."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


@dataclass(eq=False, kw_only=True)
class AgentHooks:
    """The hooks of one agent."""

    registry: HookRegistry
    context: ToolContext
    transcript: Transcript
    session_file: Path
    queue: EventQueue
    agent_type: str | None
    """Of a subagent."""
    add_usage: Callable[[str | None, Json], object]
    """Called with each model that hooks asked, and the usage of its response."""
    run_agent: RunHookAgent
    """Has an agent judge an event."""
    take_instructions: Callable[[], Sequence[Instruction]]
    """Returns the files of instructions that were loaded since the last call."""

    async def before_call(self, tool: str, input: Json, call_id: str) -> HookVerdict:
        """Run the `PreToolUse` hooks of a call."""
        return await self._run_in_job("PreToolUse", tool, self._call_fields(tool, input, call_id), call_id)

    async def on_question(self, tool: str, input: Json, call_id: str, suggestions: list[Json]) -> HookVerdict:
        """Run the `PermissionRequest` hooks of a call that the user would be asked about."""
        fields = self._call_fields(tool, input, call_id)
        del fields["tool_use_id"]
        return await self._run_in_job(
            "PermissionRequest", tool, {**fields, "permission_suggestions": suggestions}, call_id
        )

    async def after_call(self, tool: str, input: Json, call_id: str, outcome: ToolOutcome, ms: int) -> HookVerdict:
        """Run the hooks of a call that has ended."""
        fields = {**self._call_fields(tool, input, call_id), "duration_ms": ms}
        if outcome.is_error:
            failed = {**fields, "error": _text_of(outcome), "is_interrupt": False}
            return await self._run_in_job("PostToolUseFailure", tool, failed, call_id)
        response = outcome.content if outcome.result is None else outcome.result
        return await self._run_in_job("PostToolUse", tool, {**fields, "tool_response": response}, call_id)

    def notify(self, message: str, kind: str) -> None:
        """Run the `Notification` hooks; nobody waits for them."""
        if self.registry.has("Notification"):
            fields = {"message": message, "notification_type": kind}
            self.queue.start("notification hooks", self._run_in_job("Notification", kind, fields, None))

    async def on_prompt(
        self, text: str, source: str | None, command: TypedCommand | None = None
    ) -> tuple[HookVerdict, str]:
        """Run the hooks of a prompt, before them those of the session's start, after them those of a typed command.

        Also returns the event whose hooks spoke last: it is the one that blocks, if any does.
        """
        verdict, event = HookVerdict(), "SessionStart"
        if source is not None:
            verdict = await self._run_beside("SessionStart", source, {"source": source})
        # Between the two, as measured with Claude Code 2.1.327.
        await self._on_instructions()
        submitted = await self._run_beside("UserPromptSubmit", "", {"prompt": text})
        verdict, event = _join(verdict, submitted), "UserPromptSubmit"
        if command is not None and not verdict.blocks and verdict.stops is None:
            fields = {"expansion_type": "slash_command", "command_name": command.name}
            fields |= {"command_args": command.arguments, "command_source": command.source, "prompt": text}
            expanded = await self._run_beside("UserPromptExpansion", command.name, fields)
            verdict, event = _join(verdict, expanded), "UserPromptExpansion"
        return verdict, event

    async def on_subagent_start(self) -> HookVerdict:
        """Run the `SubagentStart` hooks of this agent."""
        return await self._run_beside("SubagentStart", self.agent_type or "", {})

    async def on_compaction_end(self) -> None:
        """Run the `SessionStart` hooks after a compaction, and tell the model what they say."""
        verdict = await self._run_beside("SessionStart", "compact", {"source": "compact"})
        self.write(verdict)

    async def before_compaction(self, trigger: str, hint: str) -> HookVerdict:
        """Run the `PreCompact` hooks."""
        fields = {"trigger": trigger, "custom_instructions": hint or None}
        return await self._run_in_job("PreCompact", trigger, fields, None)

    async def after_compaction(self, trigger: str, summary: str) -> None:
        """Run the `PostCompact` hooks, which watch."""
        fields = {"trigger": trigger, "compact_summary": summary}
        self._emit_notices(await self._run_beside("PostCompact", trigger, fields))

    async def after_batch(self, calls: Sequence[Json]) -> HookVerdict:
        """Run the `PostToolBatch` hooks, when all calls of a response have their results."""
        await self._on_instructions()
        return await self._run_beside("PostToolBatch", "", {"tool_calls": [*calls]})

    async def _on_instructions(self) -> None:
        """Run the `InstructionsLoaded` hooks for each file that was loaded since the last call; they watch."""
        if self.registry.has("InstructionsLoaded"):
            for loaded in self.take_instructions():
                fields = _instruction_fields(loaded)
                self._emit_notices(await self._run_beside("InstructionsLoaded", fields["load_reason"], fields))

    async def on_folder_change(self, earlier: Path) -> None:
        """Run the `CwdChanged` hooks after a command that changed the folder; they watch."""
        now = str(self.context.cwd)
        await self._run_in_job("CwdChanged", "", {"old_cwd": str(earlier), "new_cwd": now}, None)

    async def on_failure(self, kind: str, text: str) -> None:
        """Run the `StopFailure` hooks of a turn that an error of the API ended, which watch."""
        fields = {"error": kind, "last_assistant_message": text}
        self._emit_notices(await self._run_beside("StopFailure", kind, fields))

    async def on_stop(self, text: str, *, active: bool) -> HookVerdict:
        """Run the hooks of the end of a turn, and write a summary of them; `active`: one has blocked it before."""
        event = "SubagentStop" if self.agent_type else "Stop"
        fields: Json = {"stop_hook_active": active, "last_assistant_message": text}
        if self.agent_type:
            fields["agent_transcript_path"] = str(self.transcript.writer.path)
        verdict = await self._run_beside(event, self.agent_type or "", fields)
        if verdict.calls:
            self._write_records(verdict)
            self._write_stop_summary(verdict)
        return verdict

    async def on_session_end(self, reason: str) -> None:
        """Run the `SessionEnd` hooks."""
        await self._watch("SessionEnd", reason, {"reason": reason})

    def write(self, verdict: HookVerdict) -> None:
        """Write what hooks left, and what the model is told, after the last line."""
        self._write_records(verdict)
        if verdict.contexts:
            self.transcript.write_meta([{"type": "text", "text": as_reminder(text)} for text in verdict.contexts])

    def write_late(self) -> None:
        """Write what hooks that ran beside the turn have said since the last call."""
        for verdict in self.registry.take_late():
            self.write(verdict)

    def _write_records(self, verdict: HookVerdict) -> None:
        for record in verdict.records:
            self.transcript.write_attachment(record)
        self._emit_notices(verdict)

    def _emit_notices(self, verdict: HookVerdict) -> None:
        if verdict.notices:
            self.queue.emit(events.HookReported(records=(), notices=verdict.notices))

    def _write_stop_summary(self, verdict: HookVerdict) -> None:
        has_output = bool(verdict.errors or verdict.notices or verdict.contexts)
        self.transcript.writer.append_message(
            lines.StopHookSummaryLine(
                hook_count=len(verdict.calls),
                hook_infos=list(verdict.calls),
                hook_errors=list(verdict.errors),
                prevented_continuation=verdict.stops is not None,
                stop_reason=verdict.stops or "",
                has_output=has_output,
                tool_use_id=self.transcript.new_id(),
            )
        )

    async def _run_in_job(self, event: str, subject: str, fields: Json, call_id: str | None) -> HookVerdict:
        """Run hooks from inside a job; what they leave is written by the turn that takes the event."""
        if not self.registry.has(event):
            return HookVerdict()
        call = HookCall(event, self._input(event, fields), call_id, run_agent=self.run_agent)
        verdict = await self._run(call, subject)
        if verdict.records or verdict.notices:
            self.queue.put(events.HookReported(records=verdict.records, notices=verdict.notices))
        return verdict

    async def _run_beside(self, event: str, subject: str, fields: Json) -> HookVerdict:
        """Run hooks in a job, so that an interrupt ends them, and emit what happens meanwhile."""
        if not self.registry.has(event):
            return HookVerdict()
        messages = self.transcript.conversation.messages if event in ("Stop", "SubagentStop") else ()
        call = HookCall(event, self._input(event, fields), None, messages, self.run_agent)
        return await self._wait_for(self._run(call, subject))

    async def _watch(self, event: str, subject: str, fields: Json) -> None:
        """Run hooks that only watch, where no turn runs any more."""
        if self.registry.has(event):
            await self._run(HookCall(event, self._input(event, fields)), subject, _SESSION_END_SECONDS)

    async def _run(self, call: HookCall, subject: str, most_seconds: float | None = None) -> HookVerdict:
        verdict = await self.registry.run(call, subject, most_seconds=most_seconds)
        for model, usage in verdict.usages:
            self.add_usage(model, usage)
        return verdict

    async def _wait_for(self, work: Coroutine[Any, Any, HookVerdict]) -> HookVerdict:
        job = self.queue.start("hooks", work)
        try:
            while True:
                item = await self.queue.take()
                if isinstance(item, JobEnded) and item.job is job:
                    break
                if isinstance(item, events.ChatEvent):
                    self.queue.emit(cast("events.AnyEvent", item))
        finally:
            job.cancel()
            await asyncio.wait({job})
        return cast("HookVerdict", job.result())

    def _input(self, event: str, fields: Json) -> Json:
        """Return what hooks get on stdin, in the order in which Claude Code has it."""
        context, envelope = self.context, self.transcript.writer.envelope
        input: Json = {
            "session_id": envelope.session_id,
            "transcript_path": str(self.session_file),
            "cwd": str(context.cwd),
        }
        if event not in _WITHOUT_MODE:
            input["permission_mode"] = context.mode
        if self.agent_type is not None:
            input |= {"agent_id": envelope.agent_id, "agent_type": self.agent_type}
        return {**input, "hook_event_name": event, **fields}

    def _call_fields(self, tool: str, input: Json, call_id: str) -> Json:
        return {"tool_name": tool, "tool_input": input, "tool_use_id": call_id}


def with_contexts(outcome: ToolOutcome, *verdicts: HookVerdict) -> ToolOutcome:
    """Return the outcome of a call with what hooks tell the model; it follows all results of the response."""
    texts = [as_reminder(text) for verdict in verdicts for text in verdict.contexts]
    if not texts:
        return outcome
    return msgspec.structs.replace(outcome, extra=(*outcome.extra, *({"type": "text", "text": text} for text in texts)))


def _instruction_fields(loaded: Instruction) -> Json:
    """Return what hooks are told about a file of instructions, with the names of Claude Code 2.1.327."""
    reason = "session_start" if loaded.trigger is None else "nested_traversal"
    fields: Json = {"file_path": str(loaded.path), "memory_type": loaded.owner.capitalize()}
    fields["load_reason"] = reason if loaded.parent is None else "include"
    if loaded.trigger is not None:
        fields["trigger_file_path"] = str(loaded.trigger)
    if loaded.parent is not None:
        fields["parent_file_path"] = str(loaded.parent)
    return fields


def _join(first: HookVerdict, then: HookVerdict) -> HookVerdict:
    """Return what the hooks of two events say about one prompt."""
    return then._replace(
        contexts=first.contexts + then.contexts,
        records=first.records + then.records,
        notices=first.notices + then.notices,
        stops=then.stops if then.stops is not None else first.stops,
    )


def _text_of(outcome: ToolOutcome) -> str:
    if isinstance(outcome.content, str):
        return outcome.content
    return "\n".join(str(block.get("text", "")) for block in outcome.content)
