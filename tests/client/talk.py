"""Conversations with a script, and what must be true of what they leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.api.scripted.model import ScriptedModel
from unspool.api.scripted.script import Script, convert_script
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.compaction.token_window import TokenWindow
from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.loop.agent import Services
from unspool.client.prompt.agent_definitions import BUILT_IN_AGENTS
from unspool.client.protocols import UserInterface
from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolFailed, ToolOutcome
from unspool.edit.rules import check
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.graph.context.build import NO_RESPONSE, build_context
from unspool.permissions import RuleDecision
from unspool.testing.strict import problems

MODEL = "claude-opus-4-5-20251101"
Json = dict[str, Any]
Hear = Callable[[Any, Chat], object]
"""Is told of every event."""


class Echo:
    """Says what it is given; may wait, fail, or never end."""

    name = "Echo"
    description = "Says it back."
    is_concurrent = True

    def __init__(self) -> None:
        self.input_schema: Json = {"type": "object", "properties": {"text": {"type": "string"}}}

    def target(self, input: Json) -> str:
        return str(input.get("text", ""))

    def check(self, input: Json) -> None:
        """Accept any input."""

    def preview(self, input: Json, desk: ToolContext, call_id: str) -> None:
        """Change no file."""

    async def run(self, input: Json, desk: ToolContext, call_id: str) -> ToolOutcome:
        text = input.get("text")
        if not isinstance(text, str):
            raise ToolFailed("text is missing")
        for _ in range(int(input.get("turns", 0))):
            await asyncio.sleep(0)
        if text == "never":
            desk.report_progress(call_id, {"type": "bash_progress", "output": "still", "fullOutput": "still"})
            await asyncio.Event().wait()
        extra = ({"type": "text", "text": f"a document for {text}"},) if input.get("document") else ()
        return ToolOutcome(content=text, result={"text": text}, extra=extra)


class Put(Echo):
    """Writes a file, after keeping it."""

    name = "Put"
    is_concurrent = False

    def check(self, input: Json) -> None:
        """Accept any input."""

    async def run(self, input: Json, desk: ToolContext, call_id: str) -> ToolOutcome:
        path = desk.cwd / str(input["path"])
        desk.back_up(path)
        path.write_text(str(input["text"]))
        return ToolOutcome(content="written", result={"filePath": str(path)})


class Allow:
    """Judges nothing."""

    behaviour: Any = "allow"

    def __init__(self, behaviour: str = "allow") -> None:
        self.behaviour = behaviour
        self.kept: list[tuple[str, str]] = []

    def judge(self, tool: str, input: Json, desk: ToolContext) -> RuleDecision:
        return RuleDecision(behaviour=self.behaviour, why="the test says so")

    def keep(self, rule: str, where: str, *, sandboxed: bool = False) -> None:
        self.kept.append((rule, where))
        self.behaviour = "allow"

    def rule_file(self, *, sandboxed: bool = False) -> None:
        """Write no rule."""

    def can_sandbox(self, tool: str, input: Json) -> bool:
        return False


async def run_tool(tool: Tool, input: Json, desk: ToolContext, call_id: str) -> ToolOutcome:
    try:
        return await tool.run(input, desk, call_id)
    except ToolFailed as failed:
        return ToolOutcome(content=str(failed), result=f"Error: {failed}", is_error=True)


class NoLimit(TokenWindow):
    """A window without end: for a conversation that is shorter than any."""

    def __init__(self, model: str | None, window: int | None = None) -> None:
        super().__init__(model, window)
        self.size = self._tokens = 0

    def tokens(self, body: Json) -> int:
        return self._tokens

    def must_shorten(self, tokens: int) -> bool:
        return False

    def answer_tokens(self, tokens: int, max_tokens: int) -> int:
        return max_tokens

    def learn_usage(self, usage: Json) -> None:
        self._tokens = sum(value for key, value in usage.items() if key.endswith("tokens") and isinstance(value, int))

    def learn_refusal(self, message: str, status: int | None) -> bool:
        return False

    def learn_full(self) -> None:
        pass


def fitted(tools: Iterable[Tool] = (), judge: Any = None) -> Services:
    return Services(
        tools=(Echo(), Put(), *tools),
        permissions=judge or Allow(),
        run_tool=run_tool,
        system_prompt=lambda desk, model, agent_prompt: [{"type": "text", "text": agent_prompt or "You help."}],
        make_window=NoLimit,
        agents={agent.name: agent for agent in BUILT_IN_AGENTS},
    )


class Place(NamedTuple):
    """A folder to talk in."""

    config: Path
    work: Path


def place(folder: Path) -> Place:
    (folder / "work").mkdir(exist_ok=True)
    return Place(folder / "config", folder / "work")


class Session(NamedTuple):
    """A conversation that is open, and who answers in it."""

    chat: Chat
    model: ScriptedModel

    async def say(self, prompt: str | list[Json], at: Hear | None = None) -> list[Any]:
        """Take a turn and return what happened; `at` is told of every event."""
        found: list[Any] = []

        def hear(event: Any) -> None:
            found.append(event)
            if at is not None:
                at(event, self.chat)

        await self.chat.turn(prompt, hear)
        return found

    async def stop_listening(self, prompt: str, at: Callable[[Any], bool]) -> None:
        """Take a turn, and fail when an event comes for which `at` holds, as a front end does whose reader is gone."""

        def hear(event: Any) -> None:
            if at(event):
                raise BrokenPipeError

        with suppress(BrokenPipeError):
            await self.chat.turn(prompt, hear)


async def opened(
    there: Place,
    script: Any,
    start: SessionStart | None = None,
    fittings: Services | None = None,
    person: UserInterface | None = None,
    **settings: Any,
) -> Session:
    model = ScriptedModel(script if isinstance(script, Script) else convert_script(script))
    environment = {"UNSPOOL_HOME": str(there.work.parent / "own")}
    world = ChatRuntime(model, there.config, there.work, environment, pause=lambda attempt: 0.0)
    asked = ChatSettings(**{"model": MODEL, **settings})
    return Session(await Chat.open(start or SessionStart(), asked, world, person, fittings or fitted()), model)


def converse(
    there: Place, script: Any, *steps: str | Callable[[Chat], object], at: Hear | None = None, **more: Any
) -> tuple[Session, list[Any]]:
    """Have a conversation, and return it with all that happened. A step is a prompt, or is done with the chat."""

    async def go() -> tuple[Session, list[Any]]:
        session = await opened(there, script, **more)
        found: list[Any] = []
        for step in steps:
            if isinstance(step, str):
                found += await session.say(step, at)
            else:
                step(session.chat)
        await session.chat.close()
        return session, found

    return asyncio.run(go())


def talk(
    there: Place, script: Any, *steps: str | Callable[[Chat], object], at: Hear | None = None, **more: Any
) -> tuple[Session, list[Any]]:
    """Have a conversation as `converse` does, and check that it is sound and that the script was kept to."""
    session, found = converse(there, script, *steps, at=at, **more)
    sound(session.chat)
    assert session.model.failures == []
    return session, found


def manuscript(path: Path) -> SessionText:
    return parse_session_text(path.stem, path.read_bytes())


def sound(chat: Chat) -> None:
    """Check what must be true of every session that was left: rules, times, and that disk and memory agree."""
    written = manuscript(chat.path)
    assert check.check_rules(written) == []
    assert len(written.items) == len(written.entries)
    times = [entry.record.timestamp for entry in written.entries if entry.record.timestamp and entry.record.uuid]
    assert times == sorted(set(times))
    told = [message.json for message in build_context(written.entries, model=MODEL)]
    sent = [*map(_as_read, chat.transcript.conversation.messages)]
    unanswered = {"role": "assistant", "content": [{"type": "text", "text": NO_RESPONSE}]}
    if told and told[-1] == unanswered and sent[-1:] != [unanswered]:
        told.pop()  # what is added to a session that is opened again
    assert told == sent
    assert accepted(chat.path) == []


def _as_read(message: dict[str, Any]) -> dict[str, Any]:
    """Return what was said with the name that the newest program reads for the tool that sends agents."""
    blocks = [{**block, "name": "Agent"} if block.get("name") == "Task" else block for block in message["content"]]
    return {**message, "content": blocks}


def accepted(path: Path) -> list[str]:
    """Return what the API refuses of the request that going on makes."""
    messages = [message.json for message in build_context(manuscript(path).entries, model=MODEL)]
    body = {"model": MODEL, "max_tokens": 100, "messages": [*messages, {"role": "user", "content": "Go on."}]}
    return [problem.message for problem in problems(body)]


def of(kind: type, found: Iterable[Any]) -> list[Any]:
    return [event for event in found if isinstance(event, kind)]


def ending(found: list[Any]) -> str:
    assert isinstance(found[-1], events.TurnEnded)
    return found[-1].ending


def all_lines(path: Path) -> list[Any]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def records(path: Path, kind: str) -> list[Any]:
    return [line for line in all_lines(path) if line.get("type") == kind]
