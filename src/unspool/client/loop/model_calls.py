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
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from unspool import api
from unspool.client import events
from unspool.client.config import ChatRuntime
from unspool.client.loop.compaction_policy import CompactionPolicy
from unspool.client.loop.inbox import Emit, EventQueue, Interrupted, JobEnded, ListenerFailed
from unspool.client.loop.request import EndpointKnowledge
from unspool.client.loop.usage_totals import TurnUsage
from unspool.client.session import wordings
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

    def __init__(self, transcript: Transcript, emit: Emit) -> None:
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

    def break_off(self, *, only_after_text: bool = False) -> None:
        """Write what can be kept of an unfinished response; `only_after_text`: drop a text that would come first."""
        self.is_over = True
        self._flush()
        if self._id is None:
            return
        has_content = any(block.get("type") in ("text", "tool_use") for block in self._written)
        for part in self._accumulator.response().unfinished:
            if part.type == "text" and part.text.strip() and (has_content or not only_after_text):
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
            self.break_off(only_after_text=True)
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

    @property
    def tool_calls(self) -> list[Json]:
        """The tool calls of the last response."""
        return [block for block in self.response.content if block.get("type") == "tool_use"]

    async def next_response(self) -> None:
        """Request the next response, and emit what happens until it has ended."""
        self.usage.steps += 1
        self.queue.emit(events.StepBegan(number=self.usage.steps, input_tokens=self.compaction.tokens))
        breaks = 0
        for _ in range(MAX_REQUESTS):
            parent = self.transcript.writer.parent
            reply = ReplyStream(self.transcript, self.queue.emit)
            try:
                await self._read_response(reply)
            except ApiFailed as failed:
                await self._recover(failed)
                continue
            self.response, self.malformed = reply.response(), reply.malformed
            self.queue.emit(self._count_usage())
            if self.response.broken is None or self.tool_calls:
                if all(block.get("type") in THINKING_TYPES for block in self.response.content):
                    self.transcript.writer.parent = parent  # thinking alone cannot be sent: it stays as a branch
                return
            breaks += 1
            self.queue.emit(self._prepare_retry(parent, breaks, self.response.broken))
            await self.queue.take(self.runtime.pause(breaks))
            if breaks == MAX_BREAKS:
                break
        raise ApiFailed(
            "the connection was lost several times during the response",
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

    def _prepare_retry(self, parent: str | None, breaks: int, reason: str) -> events.RetryScheduled:
        """Write what the next request needs after a response broke off."""
        if any(block.get("type") == "text" for block in self.response.content):
            self.transcript.write_meta(wordings.BROKEN_OFF)
        else:
            self.transcript.writer.parent = parent
        seconds = self.runtime.pause(breaks)
        self.transcript.write_retry(reason, None, seconds, breaks)
        return events.RetryScheduled(seconds=seconds, attempt=breaks, reason=reason)


def _needs_other_model(failed: ApiFailed) -> bool:
    """Tell whether a request failed for its model: it is overloaded, or not offered."""
    return failed.status == OVERLOADED or (failed.status == 404 and "model" in failed.message)
