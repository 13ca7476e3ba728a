"""A conversation in a terminal: what is typed in, what happens out. The screen shows it; the chat does it.

Rules
  1. What is typed while a turn runs goes to the model at its next step; a command waits until the turn has ended.
  2. Whatever becomes of a turn or a command, the prompt goes on. What failed is said in one line with a hint.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.config import Start
from unspool.client.protocols import Person
from unspool.client.ui import find_session, slash_actions, slash_commands, status_text
from unspool.client.ui.choice import Picked, Picking, Somebody
from unspool.client.ui.opened_chat import Led
from unspool.client.ui.render import Drawing, Look, recalled
from unspool.client.ui.render_events import Telling
from unspool.errors import UnspoolError, Usage

Json: TypeAlias = dict[str, Any]
Happening: TypeAlias = AsyncGenerator[events.AnyEvent, None]

Pick: TypeAlias = Callable[[Picking], Awaitable[Picked | None]]
MODES = ("default", "acceptEdits", "plan")


class Surface(Protocol):
    """What shows and reads: `Screen`, or `Plain`."""

    tail: Callable[[], str]
    queued: list[str]

    @property
    def width(self) -> int:
        """How many columns there are."""

    async def run(self) -> None:
        """Read until somebody leaves."""

    def leave(self) -> None:
        """End it."""

    def show(self, text: str) -> None:
        """Show a text for good."""

    def fill(self, text: str) -> None:
        """Let a text be changed and sent."""

    async def pick(self, picking: Picking) -> Picked | None:
        """Ask."""


class Opening(NamedTuple):
    """How the terminal comes to a conversation."""

    start: Start
    open: Callable[[Start, Person], Awaitable[Led]]
    ask_trust: Callable[[Pick], Awaitable[bool]]
    """Ask whether the folder is trusted, if that has to be asked; False: leave."""
    is_trusted: Callable[[], bool]
    trust: Callable[[], None]
    cwd: Path
    config: Path
    prompt: str | None = None
    """Said first."""


class Terminal:
    """The host of a screen."""

    def __init__(self, opening: Opening, look: Look, surface: Callable[[Terminal], Surface]) -> None:
        self.opening = opening
        self._look = look
        self._led: Led | None = None
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._since: float | None = None
        self._job: asyncio.Future[None] | None = None
        self._unwanted: list[str] = []
        """What waited when the turn was interrupted."""
        self._failure: UnspoolError | None = None
        self.surface = surface(self)
        self.telling = Telling(self.surface.show, self.drawing)
        self.surface.tail = lambda: self.telling.tail

    @property
    def led(self) -> Led:
        """What is led."""
        assert self._led is not None
        return self._led

    @property
    def chat(self) -> Chat:
        """The conversation that is led."""
        return self.led.chat

    def drawing(self) -> Drawing:
        """Return what draws, for the terminal as wide as it is now."""
        return Drawing(self._look._replace(width=self.surface.width), str(self.opening.cwd))

    async def run(self) -> None:
        """Lead conversations until somebody leaves."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.surface.leave)
        loop.add_signal_handler(signal.SIGINT, self._signalled)
        working = asyncio.ensure_future(self._work())
        working.add_done_callback(lambda _: self.surface.leave())
        try:
            await self.surface.run()
        finally:
            if self._led is not None:
                self.chat.interrupt()
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            if self._led is not None:
                await self.chat.close()
        if self._failure is not None:
            raise self._failure
        if self._led is not None and self.chat.path.exists():
            self.surface.show(self.drawing().text(f"unspool chat --resume {self.chat.session_id}", "dim"))

    # What the screen asks

    def entered(self, text: str) -> None:
        """Take what was typed."""
        if self._since is None or text.startswith(("/", "!")):
            if self._since is not None:
                self.surface.queued.append(text)
            self._typed.put_nowait(text)
        else:
            try:
                self.chat.steer(text)
            except UnspoolError as error:
                self.surface.show(self.drawing().error(error.message, error.hint))
            else:
                self.surface.queued.append(text)

    def interrupted(self) -> bool:
        """End what runs; tell whether anything did."""
        if self._since is None or self._led is None:
            return False
        if self._job is not None:
            self._job.cancel()
        self._unwanted = [*self.surface.queued]
        self.chat.interrupt()
        return True

    def rewound(self) -> None:
        """Somebody wants to go back."""
        self._typed.put_nowait("/rewind")

    def next_mode(self) -> None:
        """Go on with the next permission mode."""
        if self._led is not None:
            modes = (*MODES, "bypassPermissions") if self.chat.settings.mode == "bypassPermissions" else MODES
            place = modes.index(self.chat.mode) if self.chat.mode in modes else -1
            self.chat.set_mode(modes[(place + 1) % len(modes)])

    def commands(self) -> dict[str, str]:
        """Return the commands that can be typed, with what they do."""
        return {**slash_commands.TERMINAL, **(slash_commands.customs(self._led) if self._led is not None else {})}

    def footer(self) -> str:
        """Return what holds: mode, model, context."""
        return status_text.footer(self.chat) if self._led is not None else "opening…"

    def status(self) -> str | None:
        """Return what is going on, while something is."""
        if self._since is None:
            return None
        return f"{self.telling.doing}… ({self._since_words()}{self.telling.tokens_words}, Esc interrupts)"

    def _since_words(self) -> str:
        return f"{time.monotonic() - (self._since or 0):.0f} s"

    def _signalled(self) -> None:
        if not self.interrupted():
            self.surface.leave()

    # What is done

    async def _work(self) -> None:
        try:
            if not await self.opening.ask_trust(self.surface.pick):
                self.surface.leave()
                return
            await self.go(self.opening.start)
        except UnspoolError as error:
            self._failure = error
            self.surface.leave()
            return
        if self.opening.prompt:
            self._typed.put_nowait(self.opening.prompt)
        while True:
            await self._do(await self._typed.get())

    async def go(self, start: Start) -> None:
        """Lead another conversation."""
        trusts = self.opening.is_trusted()
        person = Somebody(self.surface, self.drawing, self.interrupted, trusts=trusts)
        led = await self.opening.open(start, person)
        if self._led is not None:
            await self.chat.close()
        self._led = led
        for problem in led.problems:
            self.surface.show(self.drawing().notice(problem))
        self.surface.show(status_text.greeting(led.chat, self.drawing()))
        if start.resume is not None:
            self.surface.show(recalled(find_session.read(led.chat.path), self.drawing()))

    async def _do(self, text: str) -> None:
        """Do what was typed, and what waits when it is done."""
        try:
            if text in self.surface.queued:
                self.surface.queued.remove(text)
            if text.startswith("!"):
                await self._run(slash_actions.shell(self, text[1:].strip()))
            elif (name := slash_commands.name_of(text)) in slash_actions.DOINGS:
                self.surface.show(self.drawing().prompt(text))
                await slash_actions.DOINGS[name](self, text.partition(" ")[2].strip())
            elif slash_commands.is_mistyped(text, self.commands()):
                raise Usage(f"no such command: `/{name}`", hint="`/help` tells those there are")
            elif (said := slash_commands.local(self.led, text)) is not None:
                self.surface.show(self.drawing().prompt(text) + self.drawing().text(said) + "\n")
            else:
                await self._happen(slash_commands.turn(self.led, text))
            while (waiting := self._next()) is not None:
                await self._happen(slash_commands.turn(self.led, waiting))
        except UnspoolError as error:
            self.surface.show(self.drawing().error(error.message, error.hint))
        except OSError as error:
            self.surface.show(self.drawing().error(f"{(error.strerror or str(error)).lower()}: `{error.filename}`"))

    def _next(self) -> str | None:
        """Take the words that waited until the turn had ended; none if it was interrupted."""
        if self.telling.ending == "interrupted":
            self._take_back()
        return self.chat.next_prompt()

    def _take_back(self) -> None:
        """Put what waited where it can be changed: who interrupts may want something else. What came after is next."""
        words = self.chat.take_back()
        self.surface.queued = [one for one in self.surface.queued if one not in words]
        for later in (one for one in words if one not in self._unwanted):
            self._typed.put_nowait(later)
        if back := [one for one in words if one in self._unwanted]:
            self.surface.fill("\n".join(back))

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something run that can be interrupted."""
        self._since, self._job = time.monotonic(), asyncio.ensure_future(work)
        try:
            await self._job
        except asyncio.CancelledError:
            if not self._job.cancelled():  # it is us who are to end
                self._job.cancel()
                raise
            self.surface.show(self.drawing().notice("interrupted"))
        finally:
            self._since = self._job = None

    async def _happen(self, happening: Happening) -> None:
        self._since = time.monotonic()
        try:
            async with aclosing(happening) as told:
                async for event in told:
                    self._heard(event)
        finally:
            self._since = None
            self.telling.rest()

    def _heard(self, event: events.Event) -> None:
        match event:
            case events.Absorbed(text=text) | events.TurnBegan(text=text) if text in self.surface.queued:
                self.surface.queued.remove(text)
            case _:
                pass
        self.telling.tell(event)
        if type(event) is events.TurnEnded and event.steps:
            self.surface.show(self.drawing().turn(event, status_text.window(self.chat)) + "\n")
