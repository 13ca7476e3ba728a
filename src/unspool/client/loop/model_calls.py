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
  4. A response that breaks off is requested again, as Claude Code does. What came of it stays in the file as a branch,
     and the next response replaces what was shown. But if it has whole tool calls, they are run.
  5. Repeats are bounded, also across tool calls: so many responses in a row may break off. Each counts as a step.
  6. A request that is refused for a feature is sent again without that feature; one that is too long, again when it is
     shorter. Every other error is passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from unspool import api
from unspool.client import events
from unspool.client.config import ChatRuntime
from unspool.client.loop.compaction_policy import CompactionPolicy
from unspool.client.loop.inbox import Emit, EventQueue, Interrupted, JobEnded, ListenerFailed, TurnStopped
from unspool.client.loop.request import EndpointKnowledge
from unspool.client.loop.usage_totals import TurnUsage
from unspool.client.session.transcript import THINKING_TYPES, Transcript, is_sendable
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed

MAX_HOLD_SECONDS = 0.05
MAX_REQUESTS = 10
"""How often one request is sent in all."""
OVERLOADED = 529
TRIES_BEFORE_FALLBACK = 3
MAX_BREAKS = 4
"""How often a response may break off in a row."""


class ReplyStream:
    """One response while it streams: takes the events of the API, writes blocks, emits events for front ends."""

    def __init__(self, transcript: Transcript, emit: Emit, *, keeps_text: bool = False) -> None:
        """Prepare for a response; `keeps_text`: keep the text of one that breaks off, as no other will come."""
        self._keeps_text = keeps_text
        self.malformed: dict[str, str] = {}
        """Tool calls whose input was no JSON object, and the text that came instead."""
        self.is_over = False
        self._transcript = transcript
        self._emit = emit
        self._accumulator = api.ResponseAccumulator()
        self._id: str | None = None
        self._request_id: str | None = None
        self._written: list[Json] = []
        self._held: Json | None = None

    @property
    def hold_seconds(self) -> float | None:
        """How long the next event may be waited for: a finished block waits with it."""
        return None if self._held is None else MAX_HOLD_SECONDS

    def response(self) -> api.ApiResponse:
        """Return the response as it stands on disk."""
        return msgspec.structs.replace(self._accumulator.response(), id=self._id, content=tuple(self._written))

    def handle(self, item: Any, job: asyncio.Task[Any]) -> None:
        """Handle the next item of the event queue; None: nothing came while a block was held."""
        match item:
            case api.BlockDelta(delta=delta) if self._held is None:  # first: nearly all items are deltas
                self._accumulator.add(item)
                if type(delta) is api.TextDelta:
                    self._emit(events.TextGrown(text=delta.text))
                elif type(delta) is api.ThinkingDelta:
                    self._emit(events.ThinkingGrown(text=delta.thinking))
            case api.RetryWait():
                self._transcript.write_retry(item.reason, item.status, item.seconds, item.attempt)
                self._emit(events.RetryScheduled(**msgspec.structs.asdict(item)))
            case api.StreamEvent():
                self._add(cast("api.AnyEvent", item))
            case JobEnded(job=ended) if ended is job:
                ended.result()
                self._finish()
            case None:
                self._flush()
            case events.ChatEvent() as event:
                self._emit(cast("events.AnyEvent", event))  # of something that runs in the background
            case _:
                pass

    def _add(self, event: api.AnyEvent) -> None:
        """Add an event of the API to the response."""
        if isinstance(event, api.BlockStarted | api.BlockDelta | api.BlockFinished):
            self._flush()
        self._accumulator.add(event)
        match event:
            case api.MessageStarted(request_id=request_id):
                self._request_id = request_id
                self._id = self._transcript.begin_response(self._accumulator.head())
                self._emit(events.ResponseBegan(message=self._head()))
            case api.MessageDelta():
                # It has the usage: the held block is written after it, so that its line is the one with the usage.
                self._flush()
            case api.BlockFinished(index=index):
                block = self._accumulator.block(index)
                if block is not None and is_sendable(block):
                    self._held = self._transcript.with_unique_id(block)
            case api.MessageFinished() | api.StreamBroken():
                self._finish()
            case _:
                pass

    def break_off(self, *, keeps_text: bool = True) -> None:
        """Write what can be kept of an unfinished response; without `keeps_text` only what was whole already."""
        self.is_over = True
        self._flush()
        if self._id is None:
            return
        for part in self._accumulator.response().unfinished:
            if part.type == "text" and part.text.strip() and keeps_text:
                self._held = {"type": "text", "text": part.text}
                self._flush()
        self._transcript.end_response(self._head(), self._request_id)

    def _flush(self) -> None:
        """Write the block that is held."""
        block, self._held = self._held, None
        if block is None:
            return
        head = self._head()
        uuid = self._transcript.write_block(head, block, self._request_id)
        self._written.append(block)
        self._emit(events.BlockDone(block=block, uuid=uuid, message=head))

    def _head(self) -> Json:
        if self._id is None:  # some servers send no `message_start`
            self._id = self._transcript.begin_response({})
        head = self._accumulator.head()
        head.pop("content", None)
        return {**head, "id": self._id}

    def _finish(self) -> None:
        """Write the rest of a response that has ended."""
        response = self._accumulator.response()
        if response.broken is not None:
            has_calls = any(block.get("type") == "tool_use" for block in (*self._written, self._held or {}))
            self.break_off(keeps_text=has_calls or self._keeps_text)
            return
        self._flush()
        for part in response.unfinished:
            if part.type == "tool_use" and response.stop_reason != "max_tokens":
                self._held = self._transcript.with_unique_id({**part.block, "input": {}})
                self.malformed[self._held["id"]] = part.text
                self._flush()
        self.is_over = True
        self._transcript.end_response(self._head(), self._request_id)


@dataclass(eq=False, kw_only=True)
class ModelCalls:
    """The requests of one agent, and their responses."""

    runtime: ChatRuntime
    transcript: Transcript
    queue: EventQueue
    compaction: CompactionPolicy
    usage: TurnUsage
    build_request: Callable[[], tuple[Json, tuple[str, ...]]]
    endpoint: EndpointKnowledge
    has_fallback: Callable[[], bool]
    fall_back: Callable[[], events.FeatureDisabled | None]
    """Changes to the fallback model and says so; None: there is none, or it answers already."""
    response: api.ApiResponse = field(default_factory=api.ApiResponse, init=False)
    """The last one."""
    malformed: dict[str, str] = field(default_factory=dict, init=False)
    """Its tool calls whose input is no JSON object."""
    _breaks: int = field(default=0, init=False)
    """How many responses in a row broke off, also such with tool calls."""

    @property
    def tool_calls(self) -> list[Json]:
        """The tool calls of the last response."""
        return [block for block in self.response.content if block.get("type") == "tool_use"]

    async def next_response(self) -> None:
        """Request the next response, and emit what happens until it has ended."""
        for _ in range(MAX_REQUESTS):
            if (limit := self.usage.reached_limit()) is not None:
                raise TurnStopped(limit)
            self.usage.steps += 1
            self.queue.emit(events.StepBegan(number=self.usage.steps, input_tokens=self.compaction.tokens))
            parent, messages = self.transcript.writer.parent, [*self.transcript.conversation.messages]
            reply = ReplyStream(self.transcript, self.queue.emit, keeps_text=self._breaks == MAX_BREAKS - 1)
            try:
                await self._read_response(reply)
            except ApiFailed as failed:
                self.usage.steps -= 1  # it was refused: no turn of the model
                await self._recover(failed)
                continue
            self.response, self.malformed = reply.response(), reply.malformed
            self.queue.emit(self._count_usage())
            self._breaks = 0 if self.response.broken is None else self._breaks + 1
            if self.response.broken is None or (self.tool_calls and self._breaks < MAX_BREAKS):
                if all(block.get("type") in THINKING_TYPES for block in self.response.content):
                    self.transcript.writer.parent = parent  # thinking alone cannot be sent: it stays as a branch
                return
            if self._breaks >= MAX_BREAKS:
                break
            self.transcript.writer.parent = parent
            self.transcript.conversation.replace(messages)
            self.queue.emit(self._write_retry(self.response.broken))
            await self.queue.take(self.runtime.pause(self._breaks))
        breaks, self._breaks = self._breaks, 0
        raise ApiFailed(
            f"the response broke off {breaks} times: {self.response.broken}" if breaks else "the request was refused",
            hint="the conversation is saved; try again later",
        )

    async def _read_response(self, reply: ReplyStream) -> None:
        """Send the next request in a job, and handle the events of its response until it is over."""
        began = self.runtime.clock()
        body, betas = self.build_request()
        job = self.queue.start("answer", self._receive(self.compaction.fit_answer(body), betas))
        try:
            while not reply.is_over:
                reply.handle(self.queue.ready() or await self.queue.take(reply.hold_seconds), job)
        except Interrupted:
            reply.break_off()
            raise
        except (asyncio.CancelledError, ListenerFailed):
            self.queue.mute()
            reply.break_off()
            raise
        finally:
            job.cancel()
            await asyncio.wait({job})
            self.usage.api_seconds += self.runtime.clock() - began

    async def _recover(self, failed: ApiFailed) -> None:
        """Prepare another request after a refusal: without a feature, or shorter; else pass the error on."""
        if (disabled := self.endpoint.learn_refusal(failed)) is not None:
            self.queue.emit(disabled)
        elif _needs_other_model(failed) and (changed := self.fall_back()) is not None:
            self.queue.emit(changed)
        elif self.compaction.learn_refusal(failed):
            await self.compaction.before_request()
        else:
            raise failed

    async def _receive(self, body: Json, betas: Iterable[str]) -> None:
        put = self.queue.put
        async with aclosing(self.runtime.model.events(body, betas)) as stream:
            async for event in stream:
                put(event)
                # Claude Code changes the model after the third refusal too, and does not wait until all tries are used.
                if isinstance(event, api.RetryWait) and self._gives_up(event):
                    raise ApiFailed(event.reason, status=event.status)

    def _gives_up(self, wait: api.RetryWait) -> bool:
        return wait.status == OVERLOADED and wait.attempt >= TRIES_BEFORE_FALLBACK and self.has_fallback()

    def _count_usage(self) -> events.ResponseDone:
        response = self.response
        self.compaction.learn_usage(response.usage, response.stop_reason)
        return events.ResponseDone(
            id=response.id,
            model=response.model,
            content=response.content,
            stop_reason=response.stop_reason,
            usage=response.usage,
            cost_micros=self.usage.add(response.model, response.usage),
        )

    def _write_retry(self, reason: str) -> events.RetryScheduled:
        """Write that a response broke off and is requested again."""
        seconds = self.runtime.pause(self._breaks)
        self.transcript.write_retry(reason, None, seconds, self._breaks)
        return events.RetryScheduled(seconds=seconds, attempt=self._breaks, reason=reason)


def _needs_other_model(failed: ApiFailed) -> bool:
    """Tell whether a request failed for its model: it is overloaded, or not offered."""
    return failed.status == OVERLOADED or (failed.status == 404 and "model" in failed.message)
