"""A conversation, for front ends: prompts in, events out; everything else is behind this door.

    chat = await Chat.open(Start(), Settings(model="claude-opus-5-5"), world, person, fittings)
    async for event in chat.turn("Read the README."):
        ...                      # TurnBegan … TurnEnded
    await chat.close()

Rules
  1. One turn at a time. Words that come meanwhile wait (`steer`, `follow`); `interrupt` may come at any moment.
  2. A new session has no file until its first prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, TypeAlias

from unspool.client import events
from unspool.client.config import Settings, Start, World
from unspool.client.loop.background_tasks import notification
from unspool.client.loop.capabilities import Learned
from unspool.client.loop.inbox import Interrupted
from unspool.client.loop.loop import Prompt
from unspool.client.loop.subagents import Crew, Session
from unspool.client.loop.tool_calls import ToolSideEffects
from unspool.client.loop.usage_totals import Totals
from unspool.client.loop.wiring import Fittings, Seat, Surroundings
from unspool.client.protocols import Nobody, Person
from unspool.client.session import records, rewind
from unspool.client.session.prompt_history import is_command, remember, typed_as
from unspool.client.session.registration import Announced, Presence, branch, slug
from unspool.client.session.resume import Resumed, begun, entries_of, known_files, todos
from unspool.client.session.rewind import Backups, Branch, Point
from unspool.client.session.transcript import Conversation, Transcript, as_blocks, says_something, text_of
from unspool.client.session.writer import FORMAT_VERSION, Envelope, Writer, spelled
from unspool.client.tool_context import Desk, Place
from unspool.errors import NotFound, Unwritable, Usage
from unspool.graph.context import model_rules
from unspool.graph.context.build import NO_ANSWER

Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]

RESTATED = 32 * 1024
"""Bytes after which the session's titles are written again: lists of sessions look at the end of a file."""


class Chat:
    """One conversation."""

    def __init__(self, seat: Seat, backups: Backups, before: Resumed | None) -> None:
        self.seat = seat
        self.desk, self.transcript = seat.desk, seat.transcript
        self.place = seat.desk.place
        self.world, self.settings, self.fittings = seat.around.world, seat.around.settings, seat.around.fittings
        self.totals = Totals()
        """What the session has used since it was opened here."""
        self.title: str | None = before.title if before else None
        self._backups = backups
        self._before = before
        self._moved = before is not None and before.moved
        """Whether it goes on from another line than its last."""
        self._busy = False
        self._last_prompt = ""
        self._restated = 0
        self._aftermath = ToolSideEffects(self.desk, self.transcript, self.transcript, backups)
        self._presence = Presence(self.place.config, self.place.session_id, self.place.root, self.world.now)
        self.desk.keep = backups.keep
        if not isinstance(self.desk.person, Nobody):
            self.desk.person = Announced(self.desk.person, self._presence)
        seat.news, seat.written = self._news, self.restate
        seat.sit(self._aftermath, self.settings.limits)
        self._late: list[Totals] = []
        self.desk.crew = Crew(seat, Session(self.transcript, backups, self._late))

    @classmethod
    async def open(
        cls, start: Start, settings: Settings, world: World, person: Person | None, fittings: Fittings
    ) -> Chat:
        """Begin a session, or go on with one."""
        root = world.cwd.resolve()
        path, before = begun(start, settings, world, root)
        place = Place(world.config, path.parent, path.stem, root, settings.added)
        desk = Desk(place, world.environment, person)
        desk.mode = settings.mode or ("plan" if before is not None and before.plans else "default")
        name = (before.slug if before else None) or slug(path.stem)
        there = Envelope(session_id=path.stem, cwd=str(root), branch=branch(root), slug=name)
        writer = Writer(path, there, world.now, world.new_id)
        said = Conversation(before.messages if before else ())
        transcript = Transcript(writer, said, world.new_id)
        backups = Backups(place.config / "file-history" / path.stem, root, writer.now)
        if before is not None:
            writer.go_on(before.parent, before.last)
            transcript.know(before.ids)
            backups.go_on(before.files)
            desk.seen.remember(lambda: known_files(before.lines, desk))
            desk.todos = todos(before.lines)
        around = Surroundings(world, settings, fittings, Learned())
        return cls(Seat(around, desk, transcript, before.model if before else settings.model), backups, before)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.place.session_id

    @property
    def path(self) -> Path:
        """The session's file."""
        return self.transcript.writer.path

    @property
    def model(self) -> str:
        """Who answers."""
        return self.seat.model

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.desk.mode

    @property
    def todos(self) -> list[Json]:
        """What is to be done."""
        return self.desk.todos

    @property
    def window_state(self) -> tuple[int, int]:
        """How many tokens the window holds now, and how many it can."""
        return self.seat.room.state

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
        """Take a prompt and yield what happens until it ends; a command's expansion, or a file, follows its line."""
        prompt, expansion = spelled(prompt), spelled(expansion)
        said = [*as_blocks(prompt), *(expansion or [])]
        if not any(map(says_something, said)):
            raise Usage("there is nothing to say")
        self._begin()
        try:
            begin = Prompt(said, lambda: self._opened(prompt, expansion), self._mend)
            async with aclosing(self.seat.loop.turn(begin)) as stream:
                async for event in stream:
                    if type(event) is events.TurnEnded:
                        self.totals.include(self.seat.replies.totals)
                        with suppress(Unwritable):  # the turn has told of it already
                            self.restate()
                    yield event
        finally:
            self._end()

    async def compact(self, hint: str = "") -> Stream:
        """Go on from a summary, because a person wants it. Interrupted, nothing has changed."""
        self._begin()
        self.seat.inbox.clear()
        self.seat.replies.new_turn()
        try:
            self._mend()
            async with aclosing(self.seat.room.summarize(hint)) as stream:
                async for event in stream:
                    yield event
        except Interrupted:
            pass
        finally:
            self.totals.include(self.seat.replies.totals)
            await self.seat.inbox.stop()
            self._end()

    def steer(self, text: str) -> events.Queued:
        """Keep words for the next step of the turn."""
        self.seat.waiting.steer(spelled(text))
        return events.Queued(text=text)

    def follow(self, text: str) -> events.Queued:
        """Keep words for when the turn has ended."""
        self.seat.waiting.follow(spelled(text))
        return events.Queued(text=text)

    def next_prompt(self) -> str | None:
        """Take the words that wait to be the next prompt, if there are any."""
        return self.seat.waiting.next_prompt()

    def take_back(self) -> list[str]:
        """Take all words that wait back, to be typed again."""
        return self.seat.waiting.take_back()

    def interrupt(self) -> None:
        """End what runs, now."""
        self.seat.inbox.interrupt()

    def set_mode(self, mode: str) -> None:
        """Go on with another permission mode."""
        self.desk.mode = mode

    def set_model(self, model: str) -> None:
        """Go on with another model. What the one before thought is not sent to it."""
        if model_rules.family(model) != model_rules.family(self.seat.model):
            self.transcript.conversation.without_thinking()
        self.seat.model = model
        self.seat.room.change(model)

    def rename(self, title: str) -> None:
        """Give the session a title."""
        self.title = title
        self.restate()

    def points(self) -> list[Point]:
        """Return the prompts that can be gone back to, the oldest first."""
        return rewind.points(entries_of(self.path), self._backups) if self.path.exists() else []

    def tree(self) -> list[Branch]:
        """Return every way the conversation went, the oldest first."""
        return rewind.branches(entries_of(self.path)) if self.path.exists() else []

    def rewind(self, uuid: str, *, conversation: bool, files: bool) -> list[str]:
        """Go back to before a prompt; return the files that changed."""
        entries = entries_of(self.path)
        point = next((one for one in rewind.points(entries, self._backups) if one.uuid == uuid), None)
        if point is None:
            raise NotFound(f"there is no such prompt: `{uuid}`")
        changed: list[str] = []
        if files:
            self._backups.at_prompt()  # so that the way forth is there too
            changed = rewind.restore(self._backups, self.place.root, rewind.before(entries, uuid))
        if conversation:
            said = [] if point.parent is None else rewind.said(entries, point.parent, self.model)
            self.transcript.go_back(point.parent, said)
            self._last_prompt = self._last_prompt or point.text
            self._moved = True
            self.restate()
        return changed

    def local_command(self, name: str, arguments: str, output: str) -> None:
        """Write down a command that the front end has done by itself. It makes no session of nothing."""
        if not self.path.exists():
            return
        tags = f"<command-name>/{name}</command-name>\n            <command-message>{name}</command-message>\n"
        said = f"{tags}            <command-args>{arguments}</command-args>"
        for text in (said, f"<local-command-stdout>{output}</local-command-stdout>"):
            self.transcript.noted("local_command", text)

    async def close(self) -> None:
        """End what runs, and say so."""
        await self.seat.inbox.stop()
        await self.desk.tasks.stop()
        while self._late:
            self.totals.include(self._late.pop())
        self._presence.end()

    def restate(self) -> None:
        """Write again what lists of sessions look for at the end of a file."""
        writer = self.transcript.writer
        if writer.parent is None:
            return
        if self._last_prompt:
            writer.note({"type": "last-prompt", "lastPrompt": self._last_prompt, "leafUuid": writer.parent})
        if self.title:
            writer.note({"type": "custom-title", "customTitle": self.title})
        self._restated = writer.written

    def _opened(self, prompt: str | list[Json], expansion: list[Json] | None) -> tuple[str, str]:
        """Write a prompt, and how the files were before it."""
        self._aftermath.look_around()
        text = text_of(prompt)
        typed: Json = {} if is_command(text) else {"permissionMode": self.desk.mode}
        uuid = self.transcript.prompt(prompt, **typed)
        writer = self.transcript.writer
        told = self._backups.at_prompt()
        writer.note(records.snapshot(uuid, uuid, told, writer.now(), update=False), named=False)
        if expansion is not None:
            self.transcript.meta(expansion)
        self._last_prompt = typed_as(text)[:2000]
        if self._moved:
            self.restate()  # else a list would go on from where it was before
            self._moved = False
        if self.settings.interactive:
            remember(self.place.config, text, self.place.root, self.session_id, self.world.now())
        return text, uuid

    def _begin(self) -> None:
        if self._busy:
            raise Usage("a turn is running", hint="words can wait for its next step, or its end")
        self._busy = True
        self._presence.tell("busy")

    def _end(self) -> None:
        self._busy = False
        self._presence.tell("idle")

    def _mend(self) -> None:
        """Write what is sent of a session and stands on none of its lines."""
        before, self._before = self._before, None
        if before is None:
            return
        writer = self.transcript.writer
        for call, source, words in before.open_calls:
            writer.tell(records.result(call, words, is_error=True, structured=f"Error: {words}", source=source))
        if before.unanswered:
            writer.tell(records.synthetic(self.world.new_id(), NO_ANSWER))

    def _news(self) -> Iterator[events.AnyEvent]:
        if self.transcript.writer.written - self._restated > RESTATED:
            self.restate()
        while self._late:
            self.seat.replies.totals.include(self._late.pop())
        for task in self.desk.tasks.news():
            self.transcript.said(notification(task))
            yield events.TaskEnded(id=task.id, status=task.status, description=task.description)
