"""Agents: an errand in, a conversation of their own, what they bring back out.

Rules
  1. An agent has its own file (`<session>/subagents/agent-a<16 hex>.jsonl`), its own loop and its own desk. Its lines
     carry the session's id and its own, and are a sidechain.
  2. What it may do is judged as for the session: same rules, mode and person. Its tools are those of its definition.
  3. Agents send agents, down to `DEEPEST`.
  4. What it used counts for whoever sent it. One in the background is told of when it has ended.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.client import events
from unspool.client.agent_definitions import Agent, tools_of
from unspool.client.config import Limits
from unspool.client.loop.background_tasks import AGENT, Task
from unspool.client.loop.loop import Prompt
from unspool.client.loop.tool_calls import ToolSideEffects, write_whole
from unspool.client.loop.usage_totals import KINDS, Totals
from unspool.client.loop.wiring import Seat
from unspool.client.session.rewind import Backups
from unspool.client.session.transcript import Conversation, Transcript, text_of
from unspool.client.session.writer import Writer
from unspool.client.tool_context import Errand
from unspool.client.tools.base import Outcome, ToolFailed

Json: TypeAlias = dict[str, Any]

SHOWN = 2000
"""Characters of a result that whoever sent an agent is shown: all of it is in the agent's own file."""
DEEPEST = 3
"""How many agents deep: one that the session sent is the first."""


class Session(NamedTuple):
    """What all agents of a session share."""

    transcript: Transcript
    backups: Backups
    late: list[Totals]
    """What agents in the background have used that nobody has counted yet."""


class Crew:
    """The agents that one conversation can send."""

    def __init__(self, boss: Seat, session: Session, depth: int = 1) -> None:
        self._boss = boss
        self._session = session
        self._depth = depth

    async def send(self, errand: Errand, call_id: str) -> Outcome:
        """Send an agent and return what it brings back."""
        definition = self._boss.around.fittings.agents.get(errand.kind)
        if definition is None:
            raise ToolFailed(f"Agent type '{errand.kind}' not found.")
        if self._depth > DEEPEST:
            raise ToolFailed("No agent can be sent from here: agents may not be nested any deeper. Do it yourself.")
        run = _Run(self._boss, self._session, errand, definition, call_id)
        run.seat.desk.crew = Crew(run.seat, self._session, self._depth + 1)
        run.describe(self._depth)
        if errand.background:
            return await run.launched()
        try:
            return await run.finished()
        finally:
            self._boss.replies.totals.include(run.seat.replies.totals)
            self._boss.loop.parts.calls.denials += run.seat.loop.parts.calls.denials


class _Run:
    """One agent at work."""

    def __init__(self, boss: Seat, session: Session, errand: Errand, definition: Agent, call_id: str) -> None:
        self._boss, self._session = boss, session
        self._errand, self._definition, self._call_id = errand, definition, call_id
        world, place = boss.around.world, boss.desk.place
        self.id = f"a{world.new_id().replace('-', '')[:16]}"
        self._path = place.side / "subagents" / f"agent-{self.id}.jsonl"
        envelope = msgspec.structs.replace(boss.transcript.writer.envelope, agent_id=self.id)
        writer = Writer(self._path, envelope, world.now, world.new_id)
        transcript = Transcript(writer, Conversation(), world.new_id)
        self.seat = self._seated(transcript)
        self._calls = 0
        self._said: tuple[Json, ...] = ()
        self._usage: Json = {}

    def describe(self, depth: int) -> None:
        """Write what the agent is, beside its file."""
        about = {
            "agentType": self._errand.kind,
            "description": self._errand.description,
            "toolUseId": self._call_id,
            "spawnDepth": depth,
        }
        write_whole(self._path.with_suffix(".meta.json"), msgspec.json.encode(about))

    async def finished(self) -> Outcome:
        """Let it work until it is done."""
        began = self._boss.around.world.clock()
        ended: events.TurnEnded | None = None
        failed: events.Failed | None = None
        prompt = Prompt([{"type": "text", "text": self._errand.prompt}], self._prompted)
        async with aclosing(self.seat.loop.turn(prompt)) as stream:
            async for event in stream:
                self._tell(event)
                match event:
                    case events.TurnEnded():
                        ended = event
                    case events.Failed():
                        failed = event
                    case _:
                        pass
        if failed is not None or ended is None:
            raise ToolFailed(f"The agent failed: {failed.message if failed else 'it did not end'}")
        took = round((self._boss.around.world.clock() - began) * 1000)
        return self._brought(ended, took)

    async def launched(self) -> Outcome:
        """Let it work in the background."""
        errand, tasks = self._errand, self._boss.desk.tasks
        task = Task(self.id, AGENT, errand.description)
        task.prompt, task.path = errand.prompt, self._path
        task.job = asyncio.ensure_future(self._in_background(task))
        tasks.add(task)
        await asyncio.sleep(0)
        about = {"isAsync": True, "status": "async_launched", "agentId": self.id, "description": errand.description}
        words = (
            f"Async agent launched successfully.\nagentId: {self.id}\nIt works in the background; you will be told "
            f"when it has ended. Until then do something else, or ask TaskOutput for it.\noutput_file: {self._path}"
        )
        result = {**about, "prompt": errand.prompt, "outputFile": str(self._path)}
        return Outcome(content=[{"type": "text", "text": words}], result=result)

    async def _in_background(self, task: Task) -> None:
        tasks, status = self._boss.desk.tasks, "killed"
        try:
            outcome = await self.finished()
            task.result, status = outcome.result, "completed"
            task.output = "\n".join(str(block["text"]) for block in outcome.result["content"])
        except ToolFailed as failed:
            task.error, status = str(failed), "failed"
        finally:
            self._session.late.append(self.seat.replies.totals)
            tasks.end(task, status)

    def _seated(self, transcript: Transcript) -> Seat:
        boss, definition = self._boss, self._definition
        fittings = boss.around.fittings
        around = boss.around._replace(
            fittings=fittings._replace(
                tools=tools_of(definition, fittings.tools),
                system=lambda desk: [{"type": "text", "text": definition.prompt}, *fittings.system(desk)[1:]],
            )
        )
        wanted = self._errand.model or definition.model
        model = fittings.model_named(wanted) if wanted else boss.model
        seat = Seat(around, boss.desk.for_agent(), transcript, model)
        settings = boss.around.settings
        limits = Limits(tokens=settings.max_total_tokens, cost_micros=settings.max_cost_micros)
        aftermath = ToolSideEffects(seat.desk, transcript, self._session.transcript, self._session.backups)
        seat.sit(aftermath, limits, agent=self._errand.kind)
        return seat

    def _prompted(self) -> tuple[str, str]:
        return self._errand.prompt, self.seat.transcript.prompt(self._errand.prompt)

    def _tell(self, event: events.AnyEvent) -> None:
        """Tell whoever sent it what happens."""
        match event:
            case events.BlockDone(block={"type": "tool_use"} as block, message=head, uuid=uuid):
                self._progressed("assistant", {**head, "content": [block]}, uuid)
            case events.CallEnded(id=id, content=content, is_error=is_error, uuid=uuid):
                self._calls += 1
                block = {"tool_use_id": id, "type": "tool_result", "content": _shown(content), "is_error": is_error}
                self._progressed("user", {"role": "user", "content": [block]}, uuid)
            case events.AnswerDone(content=content, usage=usage):
                self._said, self._usage = content, usage
            case _:
                pass
        told = events.AgentTold(agent_id=self.id, call_id=self._call_id, kind=self._errand.kind, event=event)
        self._boss.inbox.put(told)

    def _progressed(self, kind: str, message: Json, uuid: str) -> None:
        if self._errand.background:  # nobody waits for it: the call has ended
            return
        line = {"type": kind, "message": message, "uuid": uuid, "timestamp": self.seat.transcript.writer.now()}
        about = {"type": "agent_progress", "prompt": self._errand.prompt, "agentId": self.id}
        self._boss.desk.progress(self._call_id, {"message": line, "normalizedMessages": [], **about})

    def _brought(self, ended: events.TurnEnded, took: int) -> Outcome:
        """Return what it brings back: its last words."""
        said = [{"type": "text", "text": str(b["text"])} for b in self._said if b.get("type") == "text"]
        if ended.ending not in ("end_turn", "stop_sequence"):
            said.append({"type": "text", "text": f"(The agent did not end by itself: {ended.ending}.)"})
        content = said or [{"type": "text", "text": "(The agent said nothing.)"}]
        result = {
            "status": "completed",
            "prompt": self._errand.prompt,
            "agentId": self.id,
            "content": content,
            "totalDurationMs": took,
            "totalTokens": sum(int(self._usage.get(kind) or 0) for kind in KINDS),
            "totalToolUseCount": self._calls,
            "usage": self._usage,
        }
        return Outcome(content=content, result=result)


def _shown(content: str | list[Json]) -> str:
    text = text_of(content)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
