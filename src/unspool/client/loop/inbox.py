"""What happens while a turn runs, in one line: pieces of an answer, calls that end, an interrupt.

Whatever runs beside the turn (the stream of an answer, a tool, a question to a person) runs as a job and puts what
happens in here; the turn takes it out and is the only one that writes.

Rules
  1. An interrupt goes before everything that waits.
  2. A job that ends, however it ends, is told as `Done`: nobody waits for something that cannot come.
  3. What a stream has ready is taken without a pause between the pieces: one wake for all of them.

[merged: waiting.py] Words that wait: typed while a turn runs, for its next step (steering) or for its end (follow-ups).

Rules
  1. Words are written down when they are typed (`enqueue`), and again when they are taken (`remove` in mid-turn,
     `dequeue` as the next prompt): killed in between, they are still there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple

from unspool.client import events
from unspool.client.session.transcript import Transcript


class Interrupted(Exception):
    """Somebody wants the turn to end now."""


class Done(NamedTuple):
    """A job is over."""

    name: str
    job: asyncio.Task[Any]


class Inbox:
    """What waits to be taken."""

    def __init__(self) -> None:
        self._waiting: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._jobs: set[asyncio.Task[Any]] = set()
        self.is_interrupted = False

    def put(self, thing: object) -> None:
        """Let something be taken."""
        self._waiting.append(thing)
        self._wake.set()

    def interrupt(self) -> None:
        """Let whoever takes next be interrupted."""
        self.is_interrupted = True
        self._wake.set()

    def ready(self) -> Any:
        """Return the next thing if it waits already; None if there is none, or an interrupt."""
        return self._waiting.popleft() if self._waiting and not self.is_interrupted else None

    async def take(self, timeout: float | None = None) -> Any:
        """Return the next thing; None if nothing came in time."""
        while True:
            if self.is_interrupted:
                raise Interrupted
            if self._waiting:
                return self._waiting.popleft()
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return None

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a job; its end is put in here."""
        job = asyncio.ensure_future(work)
        self._jobs.add(job)
        job.add_done_callback(lambda ended: self._ended(name, ended))
        return job

    async def stop(self) -> None:
        """End all jobs, wait until they have ended, and forget what waits."""
        jobs = [*self._jobs]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        self._waiting.clear()

    def clear(self) -> None:
        """Begin anew: no interrupt, nothing waiting."""
        self._waiting.clear()
        self.is_interrupted = False

    def _ended(self, name: str, job: asyncio.Task[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            self.put(Done(name, job))


class Waiting:
    """The queues of one conversation."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._steering: deque[str] = deque()
        self._follow_ups: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._steering) + len(self._follow_ups)

    def steer(self, text: str) -> None:
        """Keep words for the next step."""
        self._transcript.queued("enqueue", text)
        self._steering.append(text)

    def follow(self, text: str) -> None:
        """Keep words for when the turn has ended."""
        self._transcript.queued("enqueue", text)
        self._follow_ups.append(text)

    def absorbed(self, **fields: str) -> Iterator[events.AnyEvent]:
        """Take the words for this step into the turn."""
        while self._steering:
            text = self._steering.popleft()
            self._transcript.queued("remove")
            self._transcript.said(text, **fields)
            yield events.Absorbed(text=text)

    def next_prompt(self) -> str | None:
        """Take the words that are the next prompt, if any wait."""
        queue = self._steering or self._follow_ups
        if not queue:
            return None
        self._transcript.queued("dequeue")
        return queue.popleft()

    def take_back(self) -> list[str]:
        """Take all words back, to be typed again."""
        found = [*self._steering, *self._follow_ups]
        if found:
            self._transcript.queued("popAll")
        self._steering.clear()
        self._follow_ups.clear()
        return found
