"""One request and its answer: events of the API in, lines on disk and events for front ends out.

Rules
  1. A block is written when it has ended. What the answer used in all comes a moment later, so a block waits for it,
     but never longer than `HOLD`: killed at any time, no more than an unfinished block is lost.
  2. An answer that is interrupted or breaks off keeps its finished blocks and the words of an unfinished text.
     Unfinished thinking and calls go: they cannot be sent.
  3. A call whose input is no JSON object is kept without input and answered with an error (`malformed`), unless it was
     cut by the limit of the answer: then it was never made.

[merged: replies.py] Answers that can be gone on with: asks, and asks again where that may help. Events out, the answer kept.

Rules
  1. An answer that breaks off is gone on with from where it broke, if something of it can be sent. If not, it is asked
     for again, and what came of it stays beside the conversation.
  2. A request that is refused for something that can be done without is asked again without; one that is too long,
     again when it is shorter. Everything else passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from unspool.api.accumulator import Answer, Assembly
from unspool.api.events import (
    Begun,
    BlockBegun,
    BlockEnded,
    BlockGrown,
    Broken,
    Changed,
    Ended,
    TextDelta,
    ThinkingDelta,
    Waiting,
)
from unspool.api.events import Json as events_Json
from unspool.client import events
from unspool.client.compaction.policy import Room
from unspool.client.loop.inbox import Done, Inbox, Interrupted
from unspool.client.loop.usage_totals import Totals
from unspool.client.protocols import Model
from unspool.client.session import records as lines
from unspool.client.session.transcript import THINKING, Transcript
from unspool.errors import ApiFailed

HOLD = 0.05
"""Seconds."""


class Asking:
    """Asks, one request at a time."""

    def __init__(self, model: Model, transcript: Transcript, inbox: Inbox) -> None:
        self.model = model
        self._transcript = transcript
        self._inbox = inbox
        self._begin()

    def _begin(self) -> None:
        self.malformed: dict[str, str] = {}
        """Calls whose input was no JSON object, and what it was instead."""
        self._assembly = Assembly()
        self._id: str | None = None
        self._request_id: str | None = None
        self._written: list[events_Json] = []
        self._held: events_Json | None = None
        self._over = False

    @property
    def answer(self) -> Answer:
        """What was answered, as it stands on disk."""
        return msgspec.structs.replace(self._assembly.answer(), id=self._id, content=tuple(self._written))

    async def ask(self, body: events_Json, betas: Iterable[str]) -> AsyncGenerator[events.AnyEvent, None]:
        """Ask, and yield what happens until the answer ends or breaks off; `ApiFailed` if there is none."""
        self._begin()
        add, ready, take = self._assembly.add, self._inbox.ready, self._inbox.take
        job = self._inbox.start("answer", self._pump(body, betas))
        try:
            while not self._over:
                thing = ready() or await take(HOLD if self._held is not None else None)
                if type(thing) is BlockGrown and self._held is None:
                    add(thing)
                    delta = thing.delta
                    if type(delta) is TextDelta:
                        yield events.TextGrown(text=delta.text)
                    elif type(delta) is ThinkingDelta:
                        yield events.ThinkingGrown(text=delta.thinking)
                    continue
                for event in self._take(thing, job):
                    yield event
        except Interrupted:
            for event in self._break_off():
                yield event
            raise
        except (asyncio.CancelledError, GeneratorExit):
            for _ in self._break_off():
                pass
            raise
        finally:
            job.cancel()
            await asyncio.wait({job})

    async def _pump(self, body: events_Json, betas: Iterable[str]) -> None:
        put = self._inbox.put
        async with aclosing(self.model.events(body, betas)) as stream:
            async for event in stream:
                put(event)

    def _take(self, thing: Any, job: asyncio.Task[Any]) -> Iterator[events.AnyEvent]:
        match thing:
            case Waiting():
                self._transcript.retried(thing.reason, thing.status, thing.seconds, thing.attempt)
                yield events.Waiting(
                    seconds=thing.seconds, attempt=thing.attempt, reason=thing.reason, status=thing.status
                )
            case Begun(request_id=request_id):
                self._assembly.add(thing)
                self._request_id = request_id
                self._id = self._transcript.begin_answer(self._assembly.head())["id"]
            case Changed():
                self._assembly.add(thing)
                yield from self._flush()
            case BlockBegun() | BlockGrown():
                yield from self._flush()
                self._assembly.add(thing)
            case BlockEnded(index=index):
                yield from self._flush()
                self._assembly.add(thing)
                self._hold(self._assembly.block(index))
            case Ended() | Broken():
                self._assembly.add(thing)
                yield from self._finish()
            case Done(job=ended) if ended is job:
                ended.result()
                yield from self._finish()
            case None:
                yield from self._flush()
            case events.Event() as told:
                yield cast("events.AnyEvent", told)  # something in the background
            case _:
                pass

    def _hold(self, block: events_Json | None) -> None:
        if block is not None and not (block.get("type") == "text" and not str(block.get("text", "")).strip()):
            self._held = self._transcript.identified(block)

    def _flush(self) -> Iterator[events.AnyEvent]:
        """Write the block that waits."""
        block, self._held = self._held, None
        if block is None:
            return
        head = self._head()
        uuid = self._transcript.block(head, block, self._request_id)
        self._written.append(block)
        yield events.BlockDone(block=block, uuid=uuid, message=head)

    def _head(self) -> events_Json:
        if self._id is None:  # a stream without a beginning
            self._id = self._transcript.begin_answer({})["id"]
        head = self._assembly.head()
        head.pop("content", None)
        return {**head, "id": self._id}

    def _finish(self) -> Iterator[events.AnyEvent]:
        """Write what is left of an answer that has ended."""
        answer = self._assembly.answer()
        if answer.broken is not None:
            yield from self._break_off(only_after=True)
            return
        yield from self._flush()
        for part in answer.unfinished:
            if part.type == "tool_use" and answer.stop_reason != "max_tokens":
                block = self._transcript.identified({**part.block, "input": {}})
                self.malformed[block["id"]] = part.text
                self._held = block
                yield from self._flush()
        self._over = True
        self._transcript.end_answer(self._head(), self._request_id)

    def _break_off(self, *, only_after: bool = False) -> Iterator[events.AnyEvent]:
        """Write what can be kept of an answer that has not ended; `only_after`: words only after other words."""
        self._over = True
        yield from self._flush()
        if self._id is None:
            return
        said = any(block.get("type") in ("text", "tool_use") for block in self._written)
        for part in self._assembly.answer().unfinished:
            if part.type == "text" and part.text.strip() and (said or not only_after):
                self._held = {"type": "text", "text": part.text}
                yield from self._flush()
        self._transcript.end_answer(self._head(), self._request_id)


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
