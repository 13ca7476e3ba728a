"""Answers that can be gone on with: asks, and asks again where that may help. Events out, the answer kept.

Rules
  1. An answer that breaks off is gone on with from where it broke, if something of it can be sent. If not, it is asked
     for again, and what came of it stays beside the conversation.
  2. A request that is refused for something that can be done without is asked again without; one that is too long,
     again when it is shorter. Everything else passes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias

from unspool.api.assembly import Answer
from unspool.client import events, lines
from unspool.client.asking import Asking
from unspool.client.conversation import THINKING
from unspool.client.inbox import Inbox
from unspool.client.room import Room
from unspool.client.totals import Totals
from unspool.client.transcript import Transcript
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]

TRIES = 10
"""How often a request is asked in all."""
BREAKS = 4
"""How often an answer may break off in a row."""


class Means(NamedTuple):
    """What it takes to ask."""

    request: Callable[[], tuple[Json, tuple[str, ...]]]
    """The next request, and its betas."""
    refused: Callable[[ApiFailed], events.Degraded | None]
    """Told of a request that was refused: what is done without from now on, if that may help."""
    pause: Callable[[int], float]
    """How many seconds to wait before an answer that broke off is asked for again."""
    clock: Callable[[], float]


class Replies:
    """The answers of one conversation."""

    def __init__(self, asking: Asking, transcript: Transcript, inbox: Inbox, room: Room, means: Means) -> None:
        self.asking = asking
        self._transcript = transcript
        self._inbox = inbox
        self._room = room
        self._means = means
        self.new_turn()

    def new_turn(self) -> None:
        """Count anew."""
        self.totals = Totals()
        """What this turn has used."""
        self.steps = 0
        self.seconds = 0.0
        """How long the API was waited for."""

    @property
    def answer(self) -> Answer:
        """The last one."""
        return self.asking.answer

    @property
    def calls(self) -> list[Json]:
        """The calls of the last one."""
        return [block for block in self.answer.content if block.get("type") == "tool_use"]

    async def next(self) -> Stream:
        """Get the next answer."""
        self.steps += 1
        yield events.StepBegan(number=self.steps, input_tokens=self._room.tokens)
        breaks = 0
        for _ in range(TRIES):
            before = self._transcript.writer.parent
            try:
                async with aclosing(self._asked()) as stream:
                    async for event in stream:
                        yield event
            except ApiFailed as failed:
                async with aclosing(self._helped(failed)) as stream:
                    async for event in stream:
                        yield event
                continue
            yield self._counted()
            if self.answer.broken is None or self.calls:
                if all(block.get("type") in THINKING for block in self.answer.content):
                    self._transcript.writer.parent = before  # it cannot be sent: it stays beside
                return
            breaks += 1
            yield self._mended(before, breaks, self.answer.broken)
            await self._inbox.take(self._means.pause(breaks))
            if breaks == BREAKS:
                break
        raise ApiFailed("the answer broke off again and again", hint="what was said before is kept: try again later")

    async def _asked(self) -> Stream:
        began = self._means.clock()
        try:
            async with aclosing(self.asking.ask(*self._means.request())) as stream:
                async for event in stream:
                    yield event
        finally:
            self.seconds += self._means.clock() - began

    def _counted(self) -> events.AnswerDone:
        answer = self.answer
        self._room.heard(answer.usage, answer.stop_reason)
        return events.AnswerDone(
            id=answer.id,
            model=answer.model,
            content=answer.content,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            cost_micros=self.totals.add(answer.model, answer.usage),
        )

    def _mended(self, before: str | None, breaks: int, reason: str) -> events.Waiting:
        """Prepare to ask again after an answer broke off."""
        if any(block.get("type") == "text" for block in self.answer.content):
            self._transcript.meta(lines.BROKEN_OFF)
        else:
            self._transcript.writer.parent = before
        seconds = self._means.pause(breaks)
        self._transcript.retried(reason, None, seconds, breaks)
        return events.Waiting(seconds=seconds, attempt=breaks, reason=reason)

    async def _helped(self, failed: ApiFailed) -> Stream:
        """Do something about a refusal, or let it pass."""
        degraded = self._means.refused(failed)
        if degraded is not None:
            yield degraded
        elif not self._room.refused(failed):
            raise failed
        else:
            async with aclosing(self._room.before_request()) as stream:
                async for event in stream:
                    yield event
