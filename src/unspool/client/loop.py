"""The loop: a prompt in; requests, answers, calls and their results, until it ends; events out. It prints nothing.

    prompt ─▶ room? ─▶ request ─▶ answer ─▶ calls ─▶ words typed meanwhile ─┐
                 ▲                                                         │
                 └─────────────────────────────────────────────────────────┘

Rules
  1. Whatever ends a turn, the session is one that can be gone on with, and `TurnEnded` says what it was.
  2. It knows neither terminal nor files: what is written goes through the transcript, what is asked through the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from unspool.api.retry import wait
from unspool.client import events, lines
from unspool.client.asking import Asking
from unspool.client.calls import Calls
from unspool.client.conversation import text_of
from unspool.client.inbox import Inbox, Interrupted
from unspool.client.limits import Limits
from unspool.client.room import Room
from unspool.client.totals import Totals
from unspool.client.transcript import Transcript
from unspool.client.waiting import Waiting
from unspool.client.window import refusal
from unspool.errors import ApiFailed, UnspoolError, Unwritable

Json: TypeAlias = dict[str, Any]
Stream: TypeAlias = AsyncGenerator[events.AnyEvent, None]

BREAKS = 4
"""How often an answer may break off in a row."""
GOES_ON = 3
"""How often an answer that hit the limit of its length is asked to go on."""


class Parts(NamedTuple):
    """What a loop works with."""

    inbox: Inbox
    transcript: Transcript
    asking: Asking
    calls: Calls
    waiting: Waiting
    room: Room
    request: Callable[[], tuple[Json, tuple[str, ...]]]
    """The next request, and its betas."""
    refused: Callable[[ApiFailed], events.Degraded | None]
    """Told of a request that was refused: what is done without from now on, if that may help."""
    clock: Callable[[], float]
    news: Callable[[], Iterator[events.AnyEvent]]
    """What has ended in the background, told to the model."""


class Loop:
    """One conversation's turns, one at a time."""

    def __init__(self, parts: Parts, limits: Limits) -> None:
        self.parts = parts
        self.limits = limits
        self._new_turn()

    def _new_turn(self) -> None:
        self.totals = Totals()
        """What this turn has used."""
        self._steps = 0
        self._api = 0.0
        self._began = self.parts.clock()
        self._ending: events.Ending = "failed"
        self._text = ""
        self._is_over = False
        self._limited = 0
        """How often in a row an answer was cut by a limit."""

    async def turn(self, prompt: Callable[[], tuple[str, str]], content: str | list[Json] = "") -> Stream:
        """Take a prompt (written when called: its text, its line's id) and work until the turn ends."""
        self.parts.inbox.clear()
        self.parts.calls.denials.clear()
        self._new_turn()
        timer = self._timer()
        try:
            told, stopped = await self._room_for(content)
            text, uuid = prompt()
            yield events.TurnBegan(text=text, uuid=uuid)
            for event in told:
                yield event
            if stopped is not None:
                raise stopped
            async for event in self._steps_of_turn():
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

    async def _room_for(self, content: str | list[Json]) -> tuple[list[events.AnyEvent], Interrupted | None]:
        """Make room for a prompt. Whatever comes of that, the prompt is written; what fails, fails again when asked."""
        told: list[events.AnyEvent] = []
        try:
            async for event in self.parts.room.before_prompt(content):
                told.append(event)
        except Interrupted as stopped:
            return told, stopped
        except UnspoolError:
            pass
        return told, None

    async def _steps_of_turn(self) -> Stream:
        parts = self.parts
        while (reached := self._reached()) is None:
            for event in (*parts.news(), *parts.waiting.absorbed()):
                yield event
            async for event in parts.room.before_request():
                yield event
            self._steps += 1
            yield events.StepBegan(number=self._steps, input_tokens=parts.room.tokens)
            async for event in self._asked():
                yield event
            answer = parts.asking.answer
            calls = [block for block in answer.content if block.get("type") == "tool_use"]
            if calls and answer.stop_reason != "refusal":
                async for event in parts.calls.run(calls, parts.asking.malformed):
                    yield event
            self._went_on(bool(calls))
            if self._is_over:
                return
        self._ending = reached

    async def _asked(self) -> Stream:
        """Ask until there is an answer that can be gone on with."""
        parts = self.parts
        for attempt in range(1, BREAKS + 1):
            before = parts.transcript.writer.parent
            began = parts.clock()
            try:
                async for event in parts.asking.ask(*parts.request()):
                    yield event
            except ApiFailed as failed:
                async for event in self._helped(failed):
                    yield event
                continue
            finally:
                self._api += parts.clock() - began
            answer = parts.asking.answer
            spent = self.totals.add(answer.model, answer.usage)
            parts.room.heard(answer.usage, answer.stop_reason)
            yield events.AnswerDone(
                id=answer.id, model=answer.model, content=answer.content,
                stop_reason=answer.stop_reason, usage=answer.usage, cost_micros=spent,
            )  # fmt: skip
            if answer.broken is None:
                return
            if any(block.get("type") == "tool_use" for block in answer.content):
                return
            if any(block.get("type") == "text" for block in answer.content):
                parts.transcript.meta(lines.BROKEN_OFF)
            else:
                parts.transcript.writer.parent = before  # nothing of it can be sent: it stays beside
            async for event in self._wait(attempt, answer.broken):
                yield event
        raise ApiFailed(f"the answer broke off {BREAKS} times", hint="what was said before is kept: try again later")

    async def _helped(self, failed: ApiFailed) -> Stream:
        """Do something about a refusal, or let it pass."""
        degraded = self.parts.refused(failed)
        if degraded is not None:
            yield degraded
            return
        if not self.parts.room.refused(failed):
            raise failed
        async for event in self.parts.room.before_request():
            yield event

    async def _wait(self, attempt: int, reason: str) -> Stream:
        seconds = wait(attempt, {}, 0.5)
        self.parts.transcript.retried(reason, None, seconds, attempt)
        yield events.Waiting(seconds=seconds, attempt=attempt, reason=reason)
        await self.parts.inbox.take(seconds)

    def _went_on(self, called: bool) -> None:
        """See why an answer has ended, and prepare the next request or end the turn."""
        answer, transcript = self.parts.asking.answer, self.parts.transcript
        self._text = "".join(str(block.get("text", "")) for block in answer.content if block.get("type") == "text")
        self._is_over = False
        match answer.stop_reason:
            case "refusal":
                transcript.retract("The model declined to answer this.")
                self._is_over, self._ending = True, "refusal"
            case "max_tokens" | "model_context_window_exceeded" as reason:
                self._limited += 1
                if self._limited > GOES_ON:
                    self._is_over = True
                    self._ending = "max_tokens" if reason == "max_tokens" else "context_full"
                    return
                cut = any(part.type == "tool_use" for part in answer.unfinished)
                transcript.meta(lines.CALL_CUT_SHORT if cut else lines.CUT_SHORT)
            case "pause_turn":
                pass
            case reason:
                self._limited = 0
                self._is_over = not called
                self._ending = "stop_sequence" if reason == "stop_sequence" else "end_turn"

    def _reached(self) -> events.Ending | None:
        seconds = self.parts.clock() - self._began
        return self.limits.reached(self._steps, self.totals.tokens, self.totals.cost_micros, seconds)

    def _timer(self) -> asyncio.TimerHandle | None:
        if self.limits.seconds is None:
            return None
        return asyncio.get_running_loop().call_later(self.limits.seconds, self.parts.inbox.interrupt)

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
            self._ending = "context_full" if is_too_long(error) else "failed"
            with suppress(Unwritable):
                self.parts.transcript.failed(f"API Error: {error.message}", error.kind)
        return events.Failed(message=error.message, hint=error.hint, exit_code=error.exit_code, status=status)

    def _ended(self) -> events.TurnEnded:
        duration = round((self.parts.clock() - self._began) * 1000)
        with suppress(Unwritable):
            self.parts.transcript.lasted(duration)
        return events.TurnEnded(
            ending=self._ending,
            text=self._text,
            steps=self._steps,
            usage=self.totals.usage,
            models=self.totals.models,
            cost_micros=self.totals.cost_micros,
            duration_ms=duration,
            api_ms=round(self._api * 1000),
            denials=tuple(self.parts.calls.denials),
        )


def is_too_long(failed: ApiFailed) -> bool:
    """Tell whether a request was refused for its length."""
    return refusal(failed.message, failed.status) is not None


def opening(transcript: Transcript, content: str | list[Json], **fields: Any) -> tuple[str, str]:
    """Write a prompt; return its text and its line's id."""
    return text_of(content), transcript.prompt(content, **fields)
