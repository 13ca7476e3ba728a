"""Queues what arrives while a turn runs: events of background jobs, interrupts, and what the user types meanwhile.

Whatever runs beside the turn (the response stream, a tool, a question to the user) is a job that puts its events into
the `EventQueue`; the turn takes them out, is the only one that writes, and emits events to the front end. Text that
the user types waits in the `InputQueue` for the next step of the turn, or to be the next prompt.

Rules
  1. An interrupt goes before everything that is queued.
  2. A job that ends, however it ends, is reported as `JobEnded`: nobody waits for something that cannot come.
  3. What a stream has ready is taken without a pause between the pieces: one wake-up for all of them.
  4. Typed text is written to the session when it is typed (`enqueue`), and again when it is taken (`remove` in
     mid-turn, `dequeue` as the next prompt): if the process is killed in between, the text is not lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from unspool.client import events
from unspool.client.session.transcript import Transcript

Emit: TypeAlias = Callable[[events.AnyEvent], None]
"""Takes an event of a turn: shows it, prints it, or reports it to a parent."""


class Interrupted(Exception):
    """Raised in the turn when the user wants it to end now."""


class TurnStopped(Exception):
    """Raised in the turn when it ends before the model has finished: at a limit, or by a hook."""

    def __init__(self, ending: events.Ending, text: str | None = None) -> None:
        super().__init__(ending)
        self.ending = ending
        self.text = text
        """The text of the turn; None: that of the last response."""


class ListenerFailed(Exception):
    """Raised in the turn when the front end could not take an event; its cause says why."""


class JobEnded(NamedTuple):
    """A job has returned or raised."""

    name: str
    job: asyncio.Task[Any]


class EventQueue:
    """The events of one agent's turn, and the jobs that produce them."""

    def __init__(self) -> None:
        # No `asyncio.Queue`: an interrupt overtakes what is queued, and `ready` takes events without a task switch.
        self._items: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._jobs: set[asyncio.Task[Any]] = set()
        self.is_interrupted = False
        self._listener: Emit | None = None

    def begin_turn(self, listener: Emit) -> None:
        """Start a new turn: no interrupt, nothing queued; its events go to `listener`."""
        self._items.clear()
        self.is_interrupted = False
        self._listener = listener

    def emit(self, event: events.AnyEvent) -> None:
        """Give an event to the front end."""
        if self._listener is not None:
            try:
                self._listener(event)
            except (OSError, ValueError) as error:  # nobody reads its output, or it cannot be encoded
                raise ListenerFailed from error

    def mute(self) -> None:
        """Give the front end no more events of this turn: it is gone, but what is open has to be written."""
        self._listener = None

    def put(self, item: object) -> None:
        """Add an event."""
        self._items.append(item)
        self._wake.set()

    def interrupt(self) -> None:
        """Raise `Interrupted` in whoever takes next."""
        self.is_interrupted = True
        self._wake.set()

    def ready(self) -> Any:
        """Return the next event if it is there already; None if there is none, or an interrupt."""
        return self._items.popleft() if self._items and not self.is_interrupted else None

    async def take(self, timeout: float | None = None) -> Any:
        """Return the next event; None if there was none in time."""
        while True:
            if self.is_interrupted:
                raise Interrupted
            if self._items:
                return self._items.popleft()
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return None

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a job; its end is put into the queue."""
        job = asyncio.ensure_future(work)
        self._jobs.add(job)
        job.add_done_callback(lambda ended: self._end(name, ended))
        return job

    async def stop(self) -> None:
        """Cancel all jobs, wait until they have ended, and drop what is queued."""
        # A copy: a job that ends removes itself from the set.
        jobs = [*self._jobs]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        self._items.clear()

    def _end(self, name: str, job: asyncio.Task[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            self.put(JobEnded(name, job))


class InputQueue:
    """The text that the user has typed while a turn ran, and that no turn has taken yet."""

    def __init__(self, transcript: Transcript, emit: Emit) -> None:
        self._transcript = transcript
        self._emit = emit
        self._texts: deque[str] = deque()

    def steer(self, text: str) -> None:
        """Queue text for the next step of the turn."""
        self._transcript.write_queue_operation("enqueue", text)
        self._texts.append(text)

    def take_steering(self) -> None:
        """Write the text that is meant for this step as part of the turn."""
        while self._texts:
            text = self._texts.popleft()
            self._transcript.write_queue_operation("remove")
            self._transcript.write_user(text)
            self._emit(events.InputTaken(text=text))

    def take_prompt(self) -> str | None:
        """Take text that no step has taken, if there is any: it is the next prompt."""
        if not self._texts:
            return None
        self._transcript.write_queue_operation("dequeue")
        return self._texts.popleft()

    def take_back(self) -> list[str]:
        """Remove all text, so that the user can edit it."""
        texts = [*self._texts]
        if texts:
            self._transcript.write_queue_operation("popAll")
        self._texts.clear()
        return texts
