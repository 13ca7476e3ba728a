"""Sends requests to the model and writes the responses as they stream.

`ReplyStream` turns the events of one response into lines on disk and events for front ends. `ModelCalls` sends a
request and, where that can help, sends it again.

Rules
  1. A block is written when it has ended. The usage of the whole response comes a moment later, so a block waits for
     it, but never longer than `MAX_HOLD_SECONDS`: killed at any time, no more than an unfinished block is lost.
  2. A response that is interrupted or breaks off keeps its finished blocks and the text of an unfinished one.
     Unfinished thinking and tool calls are dropped: they cannot be sent.
  3. A tool call whose input is no JSON object is kept without input and answered with an error (`malformed`), unless it
     was cut by the token limit of the response: then it was never made.
  4. A response that breaks off is continued from where it broke, if something of it can be sent. If not, it is
     requested again, and what came of it stays in the file as a branch.
  5. A request that is refused for a feature is sent again without that feature; one that is too long, again when it is
     shorter. Every other error is passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, cast

import msgspec

from unspool.api import (
    AnyEvent,
    ApiResponse,
    BlockDelta,
    BlockFinished,
    BlockStarted,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    ResponseAccumulator,
    RetryWait,
    StreamBroken,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from unspool.client import events
from unspool.client.config import ChatRuntime
from unspool.client.loop.compaction_policy import CompactionPolicy
from unspool.client.loop.inbox import EventQueue, Interrupted, JobEnded
from unspool.client.loop.request import EndpointKnowledge
from unspool.client.loop.usage_totals import TurnUsage
from unspool.client.session import wordings
from unspool.client.session.transcript import THINKING_TYPES, Transcript, is_sendable
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]

MAX_HOLD_SECONDS = 0.05
MAX_REQUESTS = 10
"""How often one request is sent in all."""
MAX_BREAKS = 4
"""How often a response may break off in a row."""


class ReplyStream:
    """One response while it streams: takes the events of the API, writes blocks, yields events for front ends."""

    def __init__(self, transcript: Transcript) -> None:
        self.malformed: dict[str, str] = {}
        """Tool calls whose input was no JSON object, and the text that came instead."""
        self.is_over = False
        self._transcript = transcript
        self._accumulator = ResponseAccumulator()
        self._id: str | None = None
        self._request_id: str | None = None
        self._written: list[Json] = []
        self._held: Json | None = None

    @property
    def hold_seconds(self) -> float | None:
        """How long the next event may be waited for: a finished block waits with it."""
        return None if self._held is None else MAX_HOLD_SECONDS

    def response(self) -> ApiResponse:
        """Return the response as it stands on disk."""
        return msgspec.structs.replace(self._accumulator.response(), id=self._id, content=tuple(self._written))

    def handle(self, item: Any, job: asyncio.Task[Any]) -> Iterator[events.AnyEvent]:
        """Handle the next item of the event queue; None: nothing came while a block was held."""
        match item:
            case BlockDelta(delta=delta) if self._held is None:  # first: nearly all items are deltas
                self._accumulator.add(item)
                if type(delta) is TextDelta:
                    yield events.TextGrown(text=delta.text)
                elif type(delta) is ThinkingDelta:
                    yield events.ThinkingGrown(text=delta.thinking)
            case RetryWait():
                self._transcript.write_retry(item.reason, item.status, item.seconds, item.attempt)
                yield events.RetryScheduled(**msgspec.structs.asdict(item))
            case StreamEvent():
                yield from self._add(cast("AnyEvent", item))
            case JobEnded(job=ended) if ended is job:
                ended.result()
                yield from self._finish()
            case None:
                yield from self._flush()
            case events.ChatEvent() as event:
                yield cast("events.AnyEvent", event)  # of something that runs in the background
            case _:
                pass

    def _add(self, event: AnyEvent) -> Iterator[events.AnyEvent]:
        """Add an event of the API to the response."""
        if isinstance(event, BlockStarted | BlockDelta | BlockFinished):
            yield from self._flush()
        self._accumulator.add(event)
        match event:
            case MessageStarted(request_id=request_id):
                self._request_id = request_id
                self._id = self._transcript.begin_response(self._accumulator.head())
            case MessageDelta():
                # It has the usage: the held block is written after it, so that its line is the one with the usage.
                yield from self._flush()
            case BlockFinished(index=index):
                block = self._accumulator.block(index)
                if block is not None and is_sendable(block):
                    self._held = self._transcript.with_unique_id(block)
            case MessageFinished() | StreamBroken():
                yield from self._finish()
            case _:
                pass

    def break_off(self, *, only_after_text: bool = False) -> Iterator[events.AnyEvent]:
        """Write what can be kept of an unfinished response; `only_after_text`: drop a text that would come first."""
        self.is_over = True
        yield from self._flush()
        if self._id is None:
            return
        has_content = any(block.get("type") in ("text", "tool_use") for block in self._written)
        for part in self._accumulator.response().unfinished:
            if part.type == "text" and part.text.strip() and (has_content or not only_after_text):
                self._held = {"type": "text", "text": part.text}
                yield from self._flush()
        self._transcript.end_response(self._head(), self._request_id)

    def _flush(self) -> Iterator[events.AnyEvent]:
        """Write the block that is held."""
        block, self._held = self._held, None
        if block is None:
            return
        head = self._head()
        uuid = self._transcript.write_block(head, block, self._request_id)
        self._written.append(block)
        yield events.BlockDone(block=block, uuid=uuid, message=head)

    def _head(self) -> Json:
        if self._id is None:  # some servers send no `message_start`
            self._id = self._transcript.begin_response({})
        head = self._accumulator.head()
        head.pop("content", None)
        return {**head, "id": self._id}

    def _finish(self) -> Iterator[events.AnyEvent]:
        """Write the rest of a response that has ended."""
        response = self._accumulator.response()
        if response.broken is not None:
            yield from self.break_off(only_after_text=True)
            return
        yield from self._flush()
        for part in response.unfinished:
            if part.type == "tool_use" and response.stop_reason != "max_tokens":
                self._held = self._transcript.with_unique_id({**part.block, "input": {}})
                self.malformed[self._held["id"]] = part.text
                yield from self._flush()
        self.is_over = True
        self._transcript.end_response(self._head(), self._request_id)


class ModelCalls:
    """The requests of one agent, and their responses."""

    def __init__(
        self,
        runtime: ChatRuntime,
        transcript: Transcript,
        queue: EventQueue,
        *,
        compaction: CompactionPolicy,
        usage: TurnUsage,
        build_request: Callable[[], tuple[Json, tuple[str, ...]]],
        endpoint: EndpointKnowledge,
    ) -> None:
        self._runtime = runtime
        self._transcript = transcript
        self._queue = queue
        self._compaction = compaction
        self._usage = usage
        self._build_request = build_request
        self._endpoint = endpoint
        self.response = ApiResponse()
        """The last one."""
        self.malformed: dict[str, str] = {}
        """Its tool calls whose input is no JSON object."""

    @property
    def tool_calls(self) -> list[Json]:
        """The tool calls of the last response."""
        return [block for block in self.response.content if block.get("type") == "tool_use"]

    async def next_response(self) -> AsyncGenerator[events.AnyEvent, None]:
        """Request the next response, and yield what happens until it has ended."""
        self._usage.steps += 1
        yield events.StepBegan(number=self._usage.steps, input_tokens=self._compaction.tokens)
        breaks = 0
        for _ in range(MAX_REQUESTS):
            parent = self._transcript.writer.parent
            reply = ReplyStream(self._transcript)
            try:
                async with self._receiving(reply) as job:
                    while not reply.is_over:
                        item = self._queue.ready() or await self._queue.take(reply.hold_seconds)
                        for event in reply.handle(item, job):
                            yield event
            except Interrupted:
                for event in reply.break_off():
                    yield event
                raise
            except ApiFailed as failed:
                async with aclosing(self._recover(failed)) as stream:
                    async for event in stream:
                        yield event
                continue
            self.response, self.malformed = reply.response(), reply.malformed
            yield self._count_usage()
            if self.response.broken is None or self.tool_calls:
                if all(block.get("type") in THINKING_TYPES for block in self.response.content):
                    self._transcript.writer.parent = parent  # thinking alone cannot be sent: it stays as a branch
                return
            breaks += 1
            yield self._prepare_retry(parent, breaks, self.response.broken)
            await self._queue.take(self._runtime.pause(breaks))
            if breaks == MAX_BREAKS:
                break
        raise ApiFailed("the answer broke off again and again", hint="what was said before is kept: try again later")

    @asynccontextmanager
    async def _receiving(self, reply: ReplyStream) -> AsyncIterator[asyncio.Task[None]]:
        """Run a job that sends the next request and puts the events of the response into the queue."""
        began = self._runtime.clock()
        body, betas = self._build_request()
        job = self._queue.start("answer", self._receive(self._compaction.fit_answer(body), betas))
        try:
            yield job
        except (asyncio.CancelledError, GeneratorExit):
            for _ in reply.break_off():  # nobody takes events any more, but the lines are written
                pass
            raise
        finally:
            job.cancel()
            await asyncio.wait({job})
            self._usage.api_seconds += self._runtime.clock() - began

    async def _recover(self, failed: ApiFailed) -> AsyncGenerator[events.AnyEvent, None]:
        """Prepare another request after a refusal: without a feature, or shorter; else pass the error on."""
        if (disabled := self._endpoint.learn_refusal(failed)) is not None:
            yield disabled
        elif not self._compaction.learn_refusal(failed):
            raise failed
        else:
            async with aclosing(self._compaction.before_request()) as stream:
                async for event in stream:
                    yield event

    async def _receive(self, body: Json, betas: Iterable[str]) -> None:
        put = self._queue.put
        async with aclosing(self._runtime.model.events(body, betas)) as stream:
            async for event in stream:
                put(event)

    def _count_usage(self) -> events.ResponseDone:
        response = self.response
        self._compaction.learn_usage(response.usage, response.stop_reason)
        return events.ResponseDone(
            id=response.id,
            model=response.model,
            content=response.content,
            stop_reason=response.stop_reason,
            usage=response.usage,
            cost_micros=self._usage.add(response.model, response.usage),
        )

    def _prepare_retry(self, parent: str | None, breaks: int, reason: str) -> events.RetryScheduled:
        """Write what the next request needs after a response broke off."""
        if any(block.get("type") == "text" for block in self.response.content):
            self._transcript.write_meta(wordings.BROKEN_OFF)
        else:
            self._transcript.writer.parent = parent
        seconds = self._runtime.pause(breaks)
        self._transcript.write_retry(reason, None, seconds, breaks)
        return events.RetryScheduled(seconds=seconds, attempt=breaks, reason=reason)
