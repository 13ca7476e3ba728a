"""Runs subagents: agents with a conversation of their own that an agent starts with the `Task` tool.

Rules
  1. A subagent has its own file (`<session>/subagents/agent-a<16 hex>.jsonl`), loop and tool context. Its lines carry
     the ids of the session and of the agent, and are a sidechain.
  2. Its tool calls are decided as those of the session: same rules, mode and user. Its tools are those of its
     definition.
  3. Subagents start subagents, down to `MAX_DEPTH`.
  4. What it used counts for its parent. The end of one in the background is reported to the session's own agent.
  5. The user can move one that the session's own agent waits for to the background: its call ends as if it had been
     started there, as in Claude Code 2.1.327.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from unspool.client import events
from unspool.client.background_tasks import AGENT_TASK, BackgroundTask
from unspool.client.loop.agent import ChatAgent
from unspool.client.loop.loop import TurnPrompt
from unspool.client.loop.usage_totals import TOKEN_KINDS
from unspool.client.prompt.agent_definitions import AgentDefinition
from unspool.client.session.transcript import MessageList, Transcript, text_of
from unspool.client.session.writer import SessionWriter, write_private_file
from unspool.client.tool_context import AgentTask
from unspool.client.tool_result import Json, ToolFailed, ToolOutcome

SHOWN_CHARACTERS = 2000
"""Of a tool result in the parent's progress lines: all of it is in the subagent's own file."""
MAX_DEPTH = 3
"""How many subagents deep: one that the session's own agent started is the first."""


async def run_subagent(parent: ChatAgent, task: AgentTask, call_id: str) -> ToolOutcome:
    """Run a subagent, in the background if the task says so, and return its answer."""
    definition = parent.shared.services.agents.get(task.kind)
    if definition is None:
        raise ToolFailed(f"Agent type '{task.kind}' not found.")
    if parent.depth >= MAX_DEPTH:
        raise ToolFailed("Agents cannot be nested any deeper. Do the work yourself.")
    run = _SubagentRun(parent, task, definition, call_id)
    if task.background:
        return await run.start_in_background()
    return await run.run_in_foreground()


class _SubagentRun:
    """One subagent at work."""

    def __init__(self, parent: ChatAgent, task: AgentTask, definition: AgentDefinition, call_id: str) -> None:
        runtime, services = parent.shared.runtime, parent.shared.services
        self._parent, self._task, self._call_id = parent, task, call_id
        self.id = f"a{runtime.new_id().replace('-', '')[:16]}"
        self._path = parent.context.workspace.side_folder / "subagents" / f"agent-{self.id}.jsonl"
        # The lines of a subagent carry the id of the session, and its own.
        envelope = msgspec.structs.replace(parent.transcript.writer.envelope, is_sidechain=True, agent_id=self.id)
        writer = SessionWriter(self._path, envelope, runtime.now, runtime.new_id)
        model_name = task.model or definition.model
        self.agent = ChatAgent(
            parent.shared,
            Transcript(writer, MessageList(), runtime.new_id),
            parent.context.for_subagent,
            model=services.resolve_model_name(model_name) if model_name else parent.model,
            parent=parent,
            definition=definition,
        )
        self._in_background = task.background
        self._calls = 0
        self._last_content: tuple[Json, ...] = ()
        self._last_usage: Json = {}
        self._failure: str | None = None
        self._write_metadata()

    def _write_metadata(self) -> None:
        fields = {
            "agentType": self._task.kind,
            "description": self._task.description,
            "toolUseId": self._call_id,
            "spawnDepth": self.agent.depth,
        }
        write_private_file(self._path.with_suffix(".meta.json"), msgspec.json.encode(fields))

    async def run_to_end(self) -> ToolOutcome:
        """Run the subagent until its turn ends."""
        clock, prompt = self._parent.shared.runtime.clock, self._task.prompt
        began = clock()
        turn = TurnPrompt(
            [{"type": "text", "text": prompt}], lambda: (prompt, self.agent.transcript.write_prompt(prompt))
        )
        ended = await self.agent.loop.run_turn(turn, self._report)
        self._report(ended)
        if self._failure is not None:
            raise ToolFailed(f"The agent failed: {self._failure}")
        return self._outcome(ended, round((clock() - began) * 1000))

    async def run_in_foreground(self) -> ToolOutcome:
        """Run the subagent until its turn ends, or the user moves it to the background."""
        parent, job = self._parent, asyncio.ensure_future(self.run_to_end())
        with parent.context.tasks.foreground(self._call_id, of_subagent=parent.context.is_subagent) as moved:
            moving = asyncio.ensure_future(moved.wait())
            try:
                await asyncio.wait({job, moving}, return_when=asyncio.FIRST_COMPLETED)
                if not job.done():
                    return await self._continue_in_background(job)
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait({job})
                raise
            finally:
                moving.cancel()
                if not self._in_background:  # else its end is counted there
                    parent.usage.totals.include(self.agent.usage.totals)
                    parent.tool_runner.denials += self.agent.tool_runner.denials
        return job.result()

    async def start_in_background(self) -> ToolOutcome:
        """Start the subagent as a background task."""
        return await self._continue_in_background(self.run_to_end())

    async def _continue_in_background(self, work: Awaitable[ToolOutcome]) -> ToolOutcome:
        """Make the work of the subagent a background task."""
        self._in_background = True
        prompt, description = self._task.prompt, self._task.description
        task = BackgroundTask(self.id, AGENT_TASK, description, prompt=prompt, path=self._path)
        self._parent.context.tasks.add(task)
        await task.start(self._follow(task, work))
        fields = {"isAsync": True, "status": "async_launched", "agentId": self.id, "description": description}
        text = (
            f"Async agent launched successfully.\nagentId: {self.id}\nIt works in the background; you will be told "
            f"when it has ended. Until then do something else, or ask TaskOutput for it.\noutput_file: {self._path}"
        )
        result = {**fields, "prompt": prompt, "outputFile": str(self._path)}
        return ToolOutcome(content=[{"type": "text", "text": text}], result=result)

    async def _follow(self, task: BackgroundTask, work: Awaitable[ToolOutcome]) -> None:
        """Wait for the end of the subagent, and report it."""
        status = "killed"
        try:
            outcome = await work
            status = "completed"
            task.output = "\n".join(str(block["text"]) for block in outcome.result["content"])
        except ToolFailed as failed:
            task.error, status = str(failed), "failed"
        finally:
            # Its turn may be over: the next turn of the session counts it, or `close`.
            self._parent.shared.background_usage.append(self.agent.usage.totals)
            self._parent.context.tasks.end(task, status)

    def _report(self, event: events.AnyEvent) -> None:
        """Report an event of the subagent to its parent."""
        match event:
            case events.BlockDone(block={"type": "tool_use"} as block, message=head, uuid=uuid):
                self._report_progress("assistant", {**head, "content": [block]}, uuid)
            case events.CallEnded(id=id, content=content, is_error=is_error, uuid=uuid):
                self._calls += 1
                text = text_of(content)
                shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
                block = {"tool_use_id": id, "type": "tool_result", "content": shown, "is_error": is_error}
                self._report_progress("user", {"role": "user", "content": [block]}, uuid)
            case events.ResponseDone(content=content, usage=usage):
                self._last_content, self._last_usage = content, usage
            case events.TurnFailed(message=message):
                self._failure = message
            case _:
                pass
        self._parent.queue.put(
            events.SubagentEvent(agent_id=self.id, call_id=self._call_id, kind=self._task.kind, event=event)
        )

    def _report_progress(self, kind: str, message: Json, uuid: str) -> None:
        if self._in_background:  # the tool call has ended: it has no progress any more
            return
        timestamp = self.agent.transcript.writer.next_timestamp()
        line = {"type": kind, "message": message, "uuid": uuid, "timestamp": timestamp}
        fields = {"type": "agent_progress", "prompt": self._task.prompt, "agentId": self.id}
        self._parent.context.report_progress(self._call_id, {"message": line, "normalizedMessages": [], **fields})

    def _outcome(self, ended: events.TurnEnded, milliseconds: int) -> ToolOutcome:
        """Return the texts of the last response as the result of the tool call."""
        content = [{"type": "text", "text": str(b["text"])} for b in self._last_content if b.get("type") == "text"]
        if ended.ending not in ("end_turn", "stop_sequence"):
            content.append({"type": "text", "text": f"(The agent was stopped: {ended.ending}.)"})
        content = content or [{"type": "text", "text": "(The agent returned no text.)"}]
        result = {
            "status": "completed",
            "prompt": self._task.prompt,
            "agentId": self.id,
            "content": content,
            "totalDurationMs": milliseconds,
            "totalTokens": sum(int(self._last_usage.get(kind) or 0) for kind in TOKEN_KINDS),
            "totalToolUseCount": self._calls,
            "usage": self._last_usage,
        }
        return ToolOutcome(content=content, result=result)
