"""The calls of one answer: permission, running them, their results. Blocks in, lines on disk and events out.

Rules
  1. Every call gets exactly one result, whatever happens: also one that is refused, unknown, malformed or interrupted.
  2. Calls that only look run together; any other runs alone, in its turn.
  3. Results are written in the order of the calls, each as soon as those before it are.
  4. A person is asked about one call at a time.

[merged: aftermath.py] What follows a call besides its result: backups told, todos kept, links noted, the folder the shell walked to.

Rules
  1. A file that was changed is told of in a snapshot before the next request goes out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from unspool.client import events
from unspool.client.loop.inbox import Done, Inbox, Interrupted
from unspool.client.protocols import Permit, Ruling, Wish
from unspool.client.session import records as lines
from unspool.client.session.registration import branch
from unspool.client.session.rewind import Backups
from unspool.client.session.transcript import Transcript
from unspool.client.session.writer import make_folder
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Outcome, Tool
from unspool.client.tools.shell.bash import pull_request
from unspool.errors import Unwritable

Json: TypeAlias = dict[str, Any]
MOST_AT_ONCE = 10
Run: TypeAlias = Callable[[Tool, Json, Desk, str], Awaitable[Outcome]]
Aftermath: TypeAlias = Callable[["Call", Outcome, str], Iterator[events.AnyEvent]]


class Judge(Protocol):
    """Says what mode and rules make of a call."""

    def judge(self, tool: str, input: Json, desk: Desk) -> Ruling:
        """Return what is to be done about a call."""

    def keep(self, rule: str, where: Literal["once", "session", "local"]) -> None:
        """Keep a rule that a person gave."""


class Call(NamedTuple):
    """A call of an answer."""

    id: str
    name: str
    input: Json
    tool: Tool | None

    @property
    def target(self) -> str:
        """What it is aimed at."""
        return self.tool.target(self.input) if self.tool else ""


class Bench(NamedTuple):
    """What calls are run with."""

    tools: Mapping[str, Tool]
    desk: Desk
    judge: Judge
    run: Run
    aftermath: Aftermath
    """What follows a result that is written: backups, todos, links."""
    agent: str | None = None


class Calls:
    """Runs the calls of answers."""

    def __init__(self, bench: Bench, transcript: Transcript, inbox: Inbox) -> None:
        self.bench = bench
        self._transcript = transcript
        self._inbox = inbox
        self.at_work = False
        """Whether calls of the last answer are open."""
        self.denials: list[Json] = []
        self._denied: dict[str, str] = {}
        self._jobs: dict[str, asyncio.Task[Outcome]] = {}
        self._stopped = False

    async def run(self, blocks: Sequence[Json], malformed: Mapping[str, str]) -> AsyncGenerator[events.AnyEvent, None]:
        """Run calls and yield what happens until all have their results; `Interrupted` if a person stops it."""
        calls = [self._call(block) for block in blocks]
        results: dict[str, Outcome] = {id: _malformed(text) for id, text in malformed.items()}
        self._denied.clear()
        self._jobs = {}
        self._stopped = False
        self.at_work = True
        waiting = [*calls]
        try:
            for batch in _batches([call for call in calls if call.id not in results]):
                async with aclosing(self._batch(batch, results, waiting)) as stream:
                    async for event in stream:
                        yield event
                if self._stopped:
                    raise Interrupted
            for event in self._written(results, waiting):
                yield event
            self.at_work = False
        except Interrupted:
            await self._inbox.stop()
            for event in self._rejected(results, waiting):
                yield event
            raise
        except (asyncio.CancelledError, GeneratorExit):
            await self._inbox.stop()
            for _ in self._rejected(results, waiting):
                pass
            raise

    async def _batch(
        self, batch: list[Call], results: dict[str, Outcome], waiting: list[Call]
    ) -> AsyncGenerator[events.AnyEvent, None]:
        """Run some calls together."""
        self._jobs = {call.id: self._inbox.start(call.id, self._one(call)) for call in batch}
        left = {*self._jobs}
        while left:
            thing = await self._inbox.take()
            if isinstance(thing, Done) and thing.name in left:
                left.remove(thing.name)
                results[thing.name] = thing.job.result()
                for event in self._written(results, waiting):
                    yield event
            elif isinstance(thing, events.Event):
                yield self._progressed(thing)

    def _progressed(self, event: Any) -> Any:
        if isinstance(event, events.CallProgressed):
            self._transcript.progress(event.id, event.data)
        return event

    async def _one(self, call: Call) -> Outcome:
        if call.tool is None:
            words = f"Error: No such tool available: {call.name}"
            return Outcome(content=f"<tool_use_error>{words}</tool_use_error>", result=words, is_error=True)
        refused = await self._refused(call, call.tool)
        if refused is not None:
            return refused
        self._inbox.put(events.CallBegan(id=call.id, name=call.name, input=call.input, target=call.target))
        return await self.bench.run(call.tool, call.input, self.bench.desk, call.id)

    async def _refused(self, call: Call, tool: Tool) -> Outcome | None:
        """Return what is said of a call that is not allowed."""
        desk, judge = self.bench.desk, self.bench.judge
        ruling, permit = judge.judge(tool.name, call.input, desk), None
        if ruling.behaviour == "ask":
            async with desk.asking:
                ruling = judge.judge(tool.name, call.input, desk)  # a rule may have been given since
                if ruling.behaviour == "ask":
                    wish = Wish(call.id, tool.name, call.input, call.target, self.bench.agent)
                    permit = await desk.person.permit(wish, ruling)
        if permit is not None:
            return self._permitted(call, tool, ruling, permit)
        if ruling.behaviour == "deny":
            return self._deny(call, f"Permission to use {tool.name} has been denied: {ruling.why}", ruling.why)
        return None

    def _permitted(self, call: Call, tool: Tool, ruling: Ruling, permit: Permit) -> Outcome | None:
        """Return what is said of a call after a person has answered."""
        if permit.mode is not None:
            self.bench.desk.mode = permit.mode
            self._inbox.put(events.ModeChanged(mode=permit.mode))
        if permit.allowed:
            if permit.rule is not None and permit.keep != "once":
                self.bench.judge.keep(permit.rule, permit.keep)
            return None
        if permit.words:
            return self._deny(call, lines.REJECTED_WITH + permit.words, permit.words, lines.REJECTED_RESULT)
        if not permit.stops:
            words = (
                f"Permission to use {tool.name} was not granted ({ruling.why}). Do without it, or say what is needed."
            )
            return self._deny(call, words, ruling.why)
        self._stopped = True
        return self._deny(call, lines.REJECTED, "the user rejected it", lines.REJECTED_RESULT)

    def _deny(self, call: Call, words: str, why: str, result: str | None = None) -> Outcome:
        self._denied[call.id] = why
        self.denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
        return Outcome(content=words, result=result or f"Error: {words}", is_error=True)

    def _written(self, results: Mapping[str, Outcome], waiting: list[Call]) -> Iterator[events.AnyEvent]:
        """Write the results that are next."""
        while waiting and waiting[0].id in results:
            call = waiting.pop(0)
            yield from self._write(call, results[call.id])

    def _write(self, call: Call, outcome: Outcome) -> Iterator[events.AnyEvent]:
        uuid = self._transcript.result(call.id, outcome)
        yield events.CallEnded(
            id=call.id,
            name=call.name,
            input=call.input,
            content=outcome.content,
            result=outcome.result,
            is_error=outcome.is_error,
            uuid=uuid,
            denied=self._denied.get(call.id),
        )
        yield from self.bench.aftermath(call, outcome, uuid)

    def _rejected(self, results: Mapping[str, Outcome], waiting: list[Call]) -> Iterator[events.AnyEvent]:
        """Write a result for every call that has none: its own if it has ended, else that it was not done."""
        gone = Outcome(content=lines.REJECTED, result=lines.REJECTED_RESULT, is_error=True)
        ended = {
            id: job.result()
            for id, job in self._jobs.items()
            if job.done() and not job.cancelled() and job.exception() is None
        }
        while waiting:
            call = waiting.pop(0)
            yield from self._write(call, results.get(call.id) or ended.get(call.id) or gone)

    def _call(self, block: Json) -> Call:
        name, given = str(block.get("name", "")), block.get("input")
        return Call(block["id"], name, given if isinstance(given, dict) else {}, self.bench.tools.get(name))


def _batches(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Yield calls that run together, in order."""
    for together, group in groupby(calls, key=lambda call: call.tool is None or call.tool.is_concurrent):
        found = [*group]
        size = MOST_AT_ONCE if together else 1
        for start in range(0, len(found), size):
            yield found[start : start + size]


def _malformed(text: str) -> Outcome:
    shown = text if len(text) <= 500 else f"{text[:500]}… ({len(text):,} characters)"
    words = f"InputValidationError: the input of this call is not a JSON object: {shown}"
    return Outcome(content=f"<tool_use_error>{words}</tool_use_error>", result=words, is_error=True)


class ToolSideEffects:
    """Looks after a conversation's surroundings. An agent's has its own lines; files belong to the session."""

    def __init__(self, desk: Desk, transcript: Transcript, session: Transcript, backups: Backups) -> None:
        self._desk = desk
        self._transcript = transcript
        self._session = session
        self._backups = backups
        self._todos = [*desk.todos]
        self._mode = desk.mode

    def __call__(self, call: Call, outcome: Outcome, uuid: str) -> Iterator[events.AnyEvent]:
        """Do what a call that has ended makes necessary."""
        if self._backups.changed:
            self.told_again(self._transcript.source(call.id) or uuid)
        if self._desk.todos != self._todos:
            self._todos = [*self._desk.todos]
            self._keep_todos()
            yield events.TodosChanged(todos=tuple(self._todos))
        if self._desk.mode != self._mode:
            self._mode = self._desk.mode
            yield events.ModeChanged(mode=self._mode)
        self.look_around()
        self._link(call, outcome)

    def look_around(self) -> None:
        """Let the next lines say where the shell is now, and on which branch."""
        writer, cwd = self._transcript.writer, self._desk.cwd
        there = branch(cwd)
        if (str(cwd), there) != (writer.envelope.cwd, writer.envelope.branch):
            writer.envelope = msgspec.structs.replace(writer.envelope, cwd=str(cwd), branch=there)

    def told_again(self, message: str) -> None:
        """Tell of files that are tracked since the last snapshot."""
        prompt, writer = self._session.prompt_uuid, self._session.writer
        if self._transcript is not self._session:
            message = prompt or message  # the agent's lines are in another file
        if prompt is not None:
            line = lines.snapshot(message, prompt, self._backups.told(), writer.now(), update=True)
            writer.note(line, named=False)
        self._backups.changed = False

    def _keep_todos(self) -> None:
        place, agent = self._desk.place, self._transcript.writer.envelope.agent_id
        name = f"{place.session_id}-agent-{agent or place.session_id}.json"
        write_whole(place.config / "todos" / name, msgspec.json.encode(self._todos))

    def _link(self, call: Call, outcome: Outcome) -> None:
        """Note a pull request that a call has made."""
        command = call.input.get("command")
        if outcome.is_error or not isinstance(command, str) or not isinstance(outcome.content, str):
            return
        if made := pull_request(command, outcome.content):
            about = dict(zip(("prNumber", "prUrl", "prRepository"), made, strict=True))
            id = {"sessionId": self._session.writer.envelope.session_id}
            self._session.writer.note({"type": "pr-link", **id, **about}, timed=True, named=False)


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file anew, for its owner alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
            file.write(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or '').lower()}") from None
