"""The loop: a prompt in; requests, answers, calls and their results, until it ends; events out. It prints nothing.

    prompt ─▶ words typed meanwhile ─▶ room ─▶ request and answer ─▶ calls and results ─▶ the end
                 ▲                                                       │
                 └───────────────────────────────────────────────────────┘
Rules
  1. Whatever ends a turn, the session is one that can be gone on with, and `TurnEnded` says what it was.
  2. It knows neither terminal nor files: what is written goes through the transcript, what is asked through the model.

[merged: course.py] What follows an answer: why it ended in, how the turn goes on out. Pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, TypeAlias

from unspool.api.accumulator import Answer
from unspool.client import events
from unspool.client.compaction.policy import Room
from unspool.client.compaction.token_window import refusal
from unspool.client.config import Limits
from unspool.client.events import Ending
from unspool.client.loop.inbox import Inbox, Interrupted, Waiting
from unspool.client.loop.model_calls import Replies
from unspool.client.loop.tool_calls import Calls
from unspool.client.session import records as lines
from unspool.client.session.transcript import THINKING, Transcript
from unspool.errors import ApiFailed, UnspoolError, Unwritable

GOES_ON = 3
"""How often in a row an answer that hit a limit of its length is asked to go on."""
_LIMITED: dict[str | None, Ending] = {"max_tokens": "max_tokens", "model_context_window_exceeded": "context_full"}


class Course(NamedTuple):
    """How a turn goes on."""

    ending: Ending | None = None
    """It ends, and why."""
    say: str | None = None
    """What the model is told before it is asked again."""
    cut: bool = False
    """Whether the answer was cut by a limit."""


def after(answer: Answer, *, called: bool, cuts: int) -> Course:
    """Return how a turn goes on; `called`: it has calls, and their results are there; `cuts`: answers cut in a row."""
    match answer.stop_reason:
        case "refusal":
            return Course("refusal")
        case "max_tokens" | "model_context_window_exceeded" as reason:
            if cuts >= GOES_ON:
                return Course(_LIMITED[reason])
            lost = any(part.type == "tool_use" for part in answer.unfinished)
            return Course(say=lines.CALL_CUT_SHORT if lost else lines.CUT_SHORT, cut=True)
        case "pause_turn":
            if all(block.get("type") in THINKING for block in answer.content):  # the same would be asked again
                return Course("end_turn") if cuts >= GOES_ON else Course(cut=True)
            return Course()
        case reason:
            ending: Ending = "stop_sequence" if reason == "stop_sequence" else "end_turn"
            return Course(None if called else ending)


Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]

DECLINED = "The model declined to answer this."


class Prompt(NamedTuple):
    """What a turn begins with: what will be said, and how it is written (its text and its line's id come back)."""

    content: list[Json]
    write: Callable[[], tuple[str, str]]
    prepare: Callable[[], None] = lambda: None
    """Called before anything else is written."""


class Parts(NamedTuple):
    """What a loop works with."""

    inbox: Inbox
    transcript: Transcript
    replies: Replies
    calls: Calls
    waiting: Waiting
    room: Room
    clock: Callable[[], float]
    news: Callable[[], Iterator[events.AnyEvent]]
    """What has ended in the background, told to the model."""


class Loop:
    """One conversation's turns, one at a time."""

    def __init__(self, parts: Parts, limits: Limits) -> None:
        self.parts = parts
        self.limits = limits
        self._began = 0.0
        self._cuts = 0
        self._ending: events.Ending = "failed"
        self._text = ""

    async def turn(self, prompt: Prompt) -> Stream:
        """Take a prompt and work until the turn ends."""
        timer = self._new_turn()
        try:
            prompt.prepare()
            told, stopped = await self._room_for(prompt)
            text, uuid = prompt.write()
            yield events.TurnBegan(text=text, uuid=uuid)
            for event in told:
                yield event
            if stopped is not None:
                raise stopped
            async with aclosing(self._steps()) as stream:
                async for event in stream:
                    yield event
        except Interrupted:
            self._ending = "interrupted" if self._within_time() else "max_seconds"
            self._mark()
        except (asyncio.CancelledError, GeneratorExit):
            self._mark()
            raise
        except UnspoolError as error:
            yield self._failed(error)
        finally:
            if timer is not None:
                timer.cancel()
            await self.parts.inbox.stop()
        yield self._ended()

    async def _steps(self) -> Stream:
        stages = (self._told, self.parts.room.before_request, self.parts.replies.next, self._called)
        while (reached := self._reached()) is None:
            for stage in stages:
                async with aclosing(stage()) as stream:
                    async for event in stream:
                        yield event
            if self._is_over():
                return
        self._ending = reached

    async def _told(self) -> Stream:
        """Tell the model what has happened meanwhile."""
        for event in (*self.parts.news(), *self.parts.waiting.absorbed()):
            yield event

    async def _called(self) -> Stream:
        """Run the calls of an answer."""
        replies = self.parts.replies
        if replies.calls and replies.answer.stop_reason != "refusal":
            async with aclosing(self.parts.calls.run(replies.calls, replies.asking.malformed)) as stream:
                async for event in stream:
                    yield event

    def _is_over(self) -> bool:
        """See why an answer has ended; prepare the next request, or end the turn."""
        replies, transcript = self.parts.replies, self.parts.transcript
        answer = replies.answer
        self._text = "".join(str(block.get("text", "")) for block in answer.content if block.get("type") == "text")
        course = after(answer, called=bool(replies.calls), cuts=self._cuts)
        self._cuts = self._cuts + 1 if course.cut else 0
        if course.say is not None:
            transcript.meta(course.say)
        if course.ending == "refusal":
            transcript.retract(DECLINED)
        if course.ending is not None:
            self._ending = course.ending
        return course.ending is not None

    def _new_turn(self) -> asyncio.TimerHandle | None:
        """Count anew; return what ends the turn when its time is up."""
        self.parts.inbox.clear()
        self.parts.calls.denials.clear()
        self.parts.replies.new_turn()
        self._began, self._cuts, self._ending, self._text = self.parts.clock(), 0, "failed", ""
        if self.limits.seconds is None:
            return None
        return asyncio.get_running_loop().call_later(self.limits.seconds, self.parts.inbox.interrupt)

    async def _room_for(self, prompt: Prompt) -> tuple[list[events.AnyEvent], Interrupted | None]:
        """Make room for a prompt. Whatever comes of that, the prompt is written; what fails, fails again when asked."""
        told: list[events.AnyEvent] = []
        try:
            async with aclosing(self.parts.room.before_prompt(prompt.content)) as stream:
                async for event in stream:
                    told.append(event)
        except Interrupted as stopped:
            return told, stopped
        except ApiFailed:
            pass
        return told, None

    def _reached(self) -> events.Ending | None:
        replies = self.parts.replies
        seconds = self.parts.clock() - self._began
        return self.limits.reached(replies.steps, replies.totals.tokens, replies.totals.cost_micros, seconds)

    def _within_time(self) -> bool:
        return self.limits.seconds is None or self.parts.clock() - self._began < self.limits.seconds

    def _mark(self) -> None:
        """Leave the program's own marker; a full disk does not end an interrupt."""
        with suppress(Unwritable):
            self.parts.transcript.interrupted(calls=self.parts.calls.at_work)
        self.parts.calls.at_work = False

    def _failed(self, error: UnspoolError) -> events.Failed:
        status = error.status if isinstance(error, ApiFailed) else None
        if isinstance(error, ApiFailed):
            self._ending = "context_full" if refusal(error.message, error.status) is not None else "failed"
            with suppress(Unwritable):
                self.parts.transcript.close_calls(error.message)
                self.parts.transcript.failed(f"API Error: {error.message}", error.kind)
        return events.Failed(message=error.message, hint=error.hint, exit_code=error.exit_code, status=status)

    def _ended(self) -> events.TurnEnded:
        replies, duration = self.parts.replies, round((self.parts.clock() - self._began) * 1000)
        with suppress(Unwritable):
            self.parts.transcript.lasted(duration)
        return events.TurnEnded(
            ending=self._ending,
            text=self._text,
            steps=replies.steps,
            usage=replies.totals.usage,
            models=replies.totals.models,
            cost_micros=replies.totals.cost_micros,
            duration_ms=duration,
            api_ms=round(replies.seconds * 1000),
            denials=tuple(self.parts.calls.denials),
        )
