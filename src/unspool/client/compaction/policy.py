"""Room for one conversation: looked for before every request, made when there is too little, written down if need be.

    space = Space(walls, Gauge("claude-opus-5-5"))       # it is a `Room`
    async for event in space.before_request(): ...       # `Compacted` says what was done
    async for event in space.summarize("the colours"): ...   # a person's own `/compact the colours`
    space.gauge.used, space.gauge.window                 # how full it is

Rules
  1. First the lines, both or neither, then the memory.
  2. An interrupt ends a summary that is being written, and leaves everything as it was.
  3. A request that was refused for its length is asked again a few times at most, each time shorter.

[merged: room.py] Room in the window: what a loop asks before prompts and requests, and when the API says that one was too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from unspool.api.accumulator import Answer, Assembly
from unspool.api.events import Waiting
from unspool.client import events
from unspool.client.compaction import compact
from unspool.client.compaction.compact import Ask, Shorter
from unspool.client.compaction.token_window import Gauge
from unspool.client.events import AnyEvent
from unspool.client.loop.inbox import Done, Inbox
from unspool.client.loop.request import LEAST_BUDGET
from unspool.client.protocols import Model
from unspool.client.session.transcript import Transcript, as_blocks
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]
_NOTHING: tuple[AnyEvent, ...] = ()


class Walls(NamedTuple):
    """What a conversation's room lies between."""

    transcript: Transcript
    inbox: Inbox
    model: Model
    request: Callable[[], tuple[Json, tuple[str, ...]]]
    """The next request as it would be without any limit, and its betas."""
    spent: Callable[[str | None, Json], object]
    """Told of what summaries use: a model, its usage."""
    written: Callable[[], None]
    """Called when the conversation begins anew on disk: what lists of sessions look for is to be said again."""


class Room(Protocol):
    """Who makes room."""

    @property
    def state(self) -> tuple[int, int]:
        """How many tokens the window holds now, and how many it can."""

    def change(self, model: str) -> None:
        """Go on with another model."""

    def summarize(self, hint: str = "") -> AsyncGenerator[AnyEvent, None]:
        """Go on from a summary, because a person wants it."""

    @property
    def tokens(self) -> int:
        """About how many tokens the next request is."""

    def before_prompt(self, content: str | list[Json]) -> AsyncGenerator[AnyEvent, None]:
        """Make room before a prompt is written, so that it comes whole after what the rest became."""

    def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make room if there is too little; tell what was done."""

    def allowed(self, body: Json) -> Json:
        """Return a request with as long an answer as there is room for."""

    def refused(self, failed: ApiFailed) -> bool:
        """Learn from a refusal; tell whether a shorter request may be taken."""

    def heard(self, usage: Json, stop_reason: str | None) -> None:
        """Take note of what an answer used, and why it ended."""


class Ample:
    """Room without end: for a conversation that is shorter than any window."""

    tokens = 0
    state = (0, 0)

    def change(self, model: str) -> None:
        """Change nothing."""

    async def summarize(self, hint: str = "") -> AsyncGenerator[AnyEvent, None]:
        """Make no summary."""
        for event in _NOTHING:
            yield event

    async def before_prompt(self, content: str | list[Json]) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    async def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    def allowed(self, body: Json) -> Json:
        """Allow everything."""
        return body

    def refused(self, failed: ApiFailed) -> bool:
        """Learn nothing."""
        return False

    def heard(self, usage: Json, stop_reason: str | None) -> None:
        """Take the number of tokens as it comes."""
        self.tokens = sum(value for key, value in usage.items() if key.endswith("tokens") and isinstance(value, int))


Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]
_TRIES = 5


class Space:
    """Who makes room in one conversation."""

    def __init__(self, walls: Walls, gauge: Gauge) -> None:
        self.gauge = gauge
        self._walls = walls
        self._tokens = 0
        self._refusals = 0

    @property
    def tokens(self) -> int:
        """About how many tokens the next request is."""
        return self._tokens

    @property
    def state(self) -> tuple[int, int]:
        """How many tokens the window holds now, and how many it can."""
        return self.gauge.used, self.gauge.window

    def change(self, model: str) -> None:
        """Go on with another model."""
        self.gauge.change(model)

    async def before_prompt(self, content: str | list[Json]) -> Stream:
        """Make room before a prompt is written: then it comes after the boundary, as it was said."""
        body = self._body()
        coming = [{"role": "user", "content": as_blocks(content)}]
        if not self.gauge.must_shorten(self.gauge.tokens({**body, "messages": [*body["messages"], *coming]})):
            return
        if not body["messages"]:
            return  # the prompt alone is too long: it is cut when it is sent
        async for event in self._shortened(lambda ask: compact.shorten(body, self.gauge, ask, coming=coming), "auto"):
            yield event

    async def before_request(self) -> Stream:
        """Make room if there is too little."""
        body = self._body()
        self._tokens = self.gauge.tokens(body)
        if self.gauge.must_shorten(self._tokens):
            async for event in self._shortened(lambda ask: compact.shorten(body, self.gauge, ask), "auto"):
                yield event

    def refused(self, failed: ApiFailed) -> bool:
        """Learn from a refusal; tell whether a shorter request may be taken."""
        self._refusals += 1
        return self._refusals <= _TRIES and self.gauge.refused(failed.message, failed.status)

    async def summarize(self, hint: str = "") -> Stream:
        """Make a summary of all of it, because a person wants it; `ApiFailed` if none came."""
        body = self._body()
        if body["messages"]:
            summing = compact.summarize
            async for event in self._shortened(lambda ask: summing(body, self.gauge, ask, hint), "manual"):
                yield event

    def heard(self, usage: Json, stop_reason: str | None) -> None:
        """Take note of what an answer used, and why it ended."""
        self._refusals = 0
        self.gauge.told(usage)
        if stop_reason == "model_context_window_exceeded":
            self.gauge.full()

    def allowed(self, body: Json) -> Json:
        """Return a request with as long an answer as there is room for; no thinking where it would not fit."""
        self._tokens = self.gauge.tokens(body)
        most = self.gauge.answer(self._tokens, body["max_tokens"])
        asked = {**body, "max_tokens": most}
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            budget = min(int(thinking["budget_tokens"]), most - 1)
            if budget < LEAST_BUDGET:
                del asked["thinking"]
            else:
                asked["thinking"] = {**thinking, "budget_tokens": budget}
        return asked

    def _body(self) -> Json:
        """Return the next request with the messages as they are kept: without what is marked in them to be cached."""
        body, _ = self._walls.request()
        return {**body, "messages": self._walls.transcript.conversation.messages}

    async def _shortened(
        self, work: Callable[[Ask], Coroutine[Any, Any, Shorter | None]], trigger: Literal["auto", "manual"]
    ) -> Stream:
        """Do it beside the turn, so that it can be interrupted, and tell what happens meanwhile."""
        inbox = self._walls.inbox
        job = inbox.start("room", work(self._ask))
        try:
            while True:
                thing = await inbox.take()
                if isinstance(thing, Done) and thing.job is job:
                    break
                if isinstance(thing, events.Event):
                    yield thing  # type: ignore[misc]
        finally:
            job.cancel()
            await asyncio.wait({job})
        done = job.result()
        if done is not None and not done.fits:
            words = f"prompt is too long: {done.after} tokens > {self.gauge.window} maximum"
            raise ApiFailed(words, hint="system prompt, tools and CLAUDE.md alone fill the window", status=400)
        if done is not None:
            self._keep(done, trigger)
            self._tokens = self.gauge.used = done.after
            yield events.Compacted(trigger=trigger, how=done.how, before=done.before, after=done.after)

    def _keep(self, done: Shorter, trigger: str) -> None:
        transcript = self._walls.transcript
        if done.words is None:
            transcript.conversation.become(done.messages)
        else:
            transcript.boundary(done.words, {"trigger": trigger, "preTokens": done.before})
            self._walls.written()

    async def _ask(self, body: Json) -> Answer:
        assembly = Assembly()
        async with aclosing(self._walls.model.events(body)) as stream:
            async for event in stream:
                assembly.add(event)
                if isinstance(event, Waiting):
                    self._walls.inbox.put(
                        events.Waiting(
                            seconds=event.seconds, attempt=event.attempt, reason=event.reason, status=event.status
                        )
                    )
        answer = assembly.answer()
        self._walls.spent(answer.model, answer.usage)
        return answer
