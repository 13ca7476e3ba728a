"""A conversation, for front ends: prompts in, events out; everything else is behind this door.

    chat = await Chat.open(Start(), Settings(model="claude-opus-5-5"), world, person)
    async for event in chat.turn("Read the README."):
        ...                      # TurnBegan … TurnEnded
    await chat.close()

Rules
  1. One turn at a time. Words that come meanwhile wait (`steer`, `follow`); `interrupt` may come at any moment.
  2. A new session has no file until its first prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from unspool.client import events, lines
from unspool.client.aftermath import Aftermath
from unspool.client.asked import Settings, Start, World
from unspool.client.asking import Asking
from unspool.client.backups import Backups
from unspool.client.branch import branch
from unspool.client.calls import Bench, Calls
from unspool.client.capabilities import WITHOUT, Capabilities, without
from unspool.client.conversation import Conversation, as_blocks
from unspool.client.desk import Desk, Place
from unspool.client.fittings import Fittings, definitions
from unspool.client.history import remember
from unspool.client.inbox import Inbox
from unspool.client.loop import Loop, Parts, opening
from unspool.client.person import Person
from unspool.client.presence import Presence
from unspool.client.request import request
from unspool.client.resume import Resumed, claim, resumed
from unspool.client.room import Walls
from unspool.client.slug import slug
from unspool.client.totals import Totals
from unspool.client.transcript import Transcript
from unspool.client.waiting import Waiting
from unspool.client.writer import FORMAT_VERSION, Envelope, Writer
from unspool.errors import ApiFailed, Refused
from unspool.graph.context import NO_ANSWER
from unspool.paths import project_key, session_file

Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]


class Chat:
    """One conversation."""

    def __init__(self, place: Place, settings: Settings, world: World, desk: Desk) -> None:
        self.place = place
        self.settings = settings
        self.model = settings.model
        self.world = world
        self.desk = desk
        self.totals = Totals()
        self.capabilities = Capabilities()
        self._before: Resumed | None = None
        self._last_prompt = ""

    @classmethod
    async def open(
        cls, start: Start, settings: Settings, world: World, person: Person | None, fittings: Fittings
    ) -> Chat:
        """Begin a session, or go on with one."""
        root = world.cwd.resolve()
        before = resumed(start.resume, settings.model, leaf=start.leaf) if start.resume is not None else None
        if before is not None and not start.force:
            claim(before.path, world.config)
        key = project_key(str(root))
        id = before.id if before is not None else start.session_id or world.new_id()
        path = before.path if before is not None else session_file(world.config, key, id)
        if before is None and path.exists():
            raise Refused(f"there is a session with this id: `{id}`", hint="`--resume` goes on with it")
        place = Place(world.config, path.parent, id, root, settings.added)
        desk = Desk(place, world.environment, person)
        desk.mode = settings.mode or (before.mode if before else None) or "default"
        chat = cls(place, settings, world, desk)
        chat._fit(fittings, before)
        return chat

    def _fit(self, fittings: Fittings, before: Resumed | None) -> None:
        world, place = self.world, self.place
        name = (before.facts.slug if before else None) or slug(place.session_id)
        there = Envelope(session_id=place.session_id, cwd=str(place.root), branch=branch(place.root), slug=name)
        writer = Writer(place.project / f"{place.session_id}.jsonl", there, world.now, world.new_id)
        self.transcript = Transcript(writer, Conversation(before.messages if before else ()), world.new_id)
        self.backups = Backups(place.config / "file-history" / place.session_id, place.root, writer.now)
        if before is not None:
            self._before = before
            writer.go_on(before.parent, before.last)
            self.transcript.know(before.ids)
            self.backups.go_on(before.files)
        self.desk.keep = self.backups.keep
        self.fittings = fittings
        self.inbox = Inbox()
        self.desk.progress = self._progressed
        self.aftermath = Aftermath(self.desk, self.transcript, self.transcript, self.backups)
        tools = {tool.name: tool for tool in fittings.tools}
        bench = Bench(tools, self.desk, fittings.judge, fittings.run, self.aftermath)
        self.waiting = Waiting(self.transcript)
        walls = Walls(self.transcript, self.inbox, world.model, self._whole_request, self._spent, self.restate)
        self.room = fittings.room(walls)
        self._presence = Presence(place.config, place.session_id, place.root, world.now)
        self.loop = Loop(
            Parts(
                inbox=self.inbox,
                transcript=self.transcript,
                asking=Asking(world.model, self.transcript, self.inbox),
                calls=Calls(bench, self.transcript, self.inbox),
                waiting=self.waiting,
                room=self.room,
                request=self.request,
                refused=self._refused,
                clock=world.clock,
                news=self._news,
            ),
            self.settings.limits,
        )

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.place.session_id

    @property
    def path(self) -> Path:
        """The session's file."""
        return self.transcript.writer.path

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.desk.mode

    @property
    def todos(self) -> list[Json]:
        """What is to be done."""
        return self.desk.todos

    def began(self) -> events.SessionBegan:
        """Return what there is to say of the session before its first turn."""
        return events.SessionBegan(
            session_id=self.session_id,
            path=str(self.path),
            cwd=str(self.place.root),
            model=self.model,
            mode=self.mode,
            tools=tuple(tool.name for tool in self.fittings.tools),
            version=FORMAT_VERSION,
            resumed=self._before is not None,
            messages=len(self.transcript.conversation.messages),
        )

    async def turn(self, prompt: str | list[Json], expansion: list[Json] | None = None) -> Stream:
        """Take a prompt and yield what happens until the turn ends; a command's expansion follows its line."""
        self._presence.tell("busy")
        said = [*as_blocks(prompt), *(expansion or [])]
        try:
            async for event in self.loop.turn(lambda: self._opened(prompt, expansion), said):
                if type(event) is events.TurnEnded:
                    self.totals.include(self.loop.totals)
                    self.restate()
                yield event
        finally:
            self._presence.tell("idle")

    def steer(self, text: str) -> events.Queued:
        """Keep words for the next step of the turn."""
        self.waiting.steer(text)
        return events.Queued(text=text)

    def follow(self, text: str) -> events.Queued:
        """Keep words for when the turn has ended."""
        self.waiting.follow(text)
        return events.Queued(text=text)

    def next_prompt(self) -> str | None:
        """Take the words that wait to be the next prompt, if there are any."""
        return self.waiting.next_prompt()

    def interrupt(self) -> None:
        """End the turn now."""
        self.inbox.interrupt()

    def set_mode(self, mode: str) -> None:
        """Go on with another permission mode."""
        self.desk.mode = mode

    def local_command(self, name: str, arguments: str, output: str) -> None:
        """Write down a command that the front end has done by itself."""
        tags = f"<command-name>/{name}</command-name>\n            <command-message>{name}</command-message>\n"
        said = f"{tags}            <command-args>{arguments}</command-args>"
        for text in (said, f"<local-command-stdout>{output}</local-command-stdout>"):
            self.transcript.writer.tell(lines.system("local_command", text, level="info"))

    async def close(self) -> None:
        """End what runs, and say so."""
        await self.inbox.stop()
        await self.desk.tasks.stop()
        self._presence.end()

    def request(self) -> tuple[Json, tuple[str, ...]]:
        """Return the next request."""
        body, betas = self._whole_request()
        return self.room.allowed(body), betas

    def _whole_request(self) -> tuple[Json, tuple[str, ...]]:
        manner = self.settings.manner(self.model)
        system, tools = self.fittings.system(self.desk), definitions(self.fittings.tools)
        return request(manner, self.capabilities, system, tools, self.transcript.conversation.messages)

    def restate(self) -> None:
        """Write again what lists of sessions look for at the end of a file."""
        uuid = self.transcript.writer.parent
        if self._last_prompt and uuid is not None:
            self.transcript.writer.note({"type": "last-prompt", "lastPrompt": self._last_prompt, "leafUuid": uuid})

    def _opened(self, prompt: str | list[Json], expansion: list[Json] | None) -> tuple[str, str]:
        """Write a prompt, and before it what a session that was left in the middle lacks."""
        self._mend()
        self.aftermath.look_around()
        typed: Json = {} if expansion is not None else {"permissionMode": self.desk.mode}
        text, uuid = opening(self.transcript, prompt, **typed)
        writer = self.transcript.writer
        line = lines.snapshot(uuid, uuid, self.backups.at_prompt(), writer.now(), update=False)
        writer.note(line, named=False)
        if expansion is not None:
            self.transcript.meta(expansion)
        self._last_prompt = text[:2000]
        if self.settings.interactive:
            remember(self.place.config, text, self.place.root, self.session_id, self.world.now())
        return text, uuid

    def _mend(self) -> None:
        """Write what is sent of a session and stands on none of its lines."""
        before, self._before = self._before, None
        if before is None:
            return
        writer = self.transcript.writer
        for call, source, words in before.open_calls:
            writer.tell(lines.result(call, words, is_error=True, structured=f"Error: {words}", source=source))
        if before.unanswered:
            writer.tell(lines.synthetic(self.world.new_id(), NO_ANSWER))

    def _refused(self, failed: ApiFailed) -> events.Degraded | None:
        found = without(self.capabilities, failed)
        if found is None:
            return None
        self.capabilities, what = found
        return events.Degraded(what=f"{what}: {WITHOUT[what]}", why=failed.message)

    def _spent(self, model: str | None, usage: Json) -> None:
        self.loop.totals.add(model, usage)

    def _progressed(self, call_id: str, data: Json) -> None:
        self.inbox.put(events.CallProgressed(id=call_id, data=data))

    def _news(self) -> Iterator[events.AnyEvent]:
        for task in self.desk.tasks.news():
            self.transcript.said(notification(task.id, task.status, task.description, task.output))
            yield events.TaskEnded(id=task.id, status=task.status, description=task.description)


def notification(id: str, status: str, description: str, result: str) -> str:
    """Return how a model is told that something in the background has ended."""
    tags = {"task-id": id, "status": status, "summary": f"{description}: {status}", "result": result}
    inside = "\n".join(f"<{name}>{value}</{name}>" for name, value in tags.items() if value)
    return f"<task-notification>\n{inside}\n</task-notification>"
