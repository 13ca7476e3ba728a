"""Answers requests from a script in this process, without a network: `--model script:FILE`.

A request is answered as the scripted API answers it (`responder.py`): refused in the API's words if it breaks a rule,
or if it lacks what the script expects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import msgspec

from unspool.api import errors
from unspool.api.accumulator import ENDED_EARLY
from unspool.api.connection import TokenCount, estimate_count
from unspool.api.endpoint import Endpoint
from unspool.api.events import AnyEvent, Json, MessageStarted, RetryWait, StreamBroken, decode_event
from unspool.api.retry import DEFAULT_RETRY, RetryPolicy, is_retryable, retry_delay
from unspool.api.rules.turns import ThinkingMemory
from unspool.api.scripted.responder import build_message, decide_reply, message_events
from unspool.api.scripted.script import PlayedStep, Script, ScriptPlayer

_ENDPOINT = Endpoint(base_url="script:", key="none")


class ScriptedModel:
    """Answers from a script; it has the methods of a `Connection`."""

    def __init__(self, script: Script, *, retry: RetryPolicy = DEFAULT_RETRY) -> None:
        self._player = ScriptPlayer(script)
        self._memory = ThinkingMemory()
        self._retry = retry
        self.requests: list[Json] = []
        """All requests, also those that were refused."""
        self.failures: list[str] = []
        """Why the run has failed, request by request."""

    @property
    def unused(self) -> list[str]:
        """The names of steps that no request has reached."""
        return self._player.unused

    async def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of the script's response."""
        sent = {"stream": True, **body}
        data = msgspec.json.encode(sent)
        for attempt in range(1, self._retry.tries + 1):
            number = len(self.requests) + 1
            self.requests.append(msgspec.json.decode(data))
            reply = decide_reply(self._player, self._memory, data=data, headers=_ENDPOINT.headers(betas))
            if reply.failure:
                self.failures.append(f"request {number}: {reply.failure}")
            if reply.step is not None and not reply.error:
                step = reply.step.step
                if step.delay:
                    await asyncio.sleep(step.delay)
                while step.until is not None and not Path(step.until).exists():
                    await asyncio.sleep(0.01)
            error = reply.error_response("req_0")
            if error is None:
                assert reply.step is not None
                async for event in self._play(reply.step, sent, f"req_{number:024}"):
                    yield event
                return
            status, error_body, headers = error
            failure = errors.error_from_response(_ENDPOINT, status, msgspec.json.encode(error_body), headers)
            if not is_retryable(status, headers) or attempt == self._retry.tries:
                raise failure
            # No jitter: a run with a script can be repeated exactly.
            seconds = retry_delay(attempt, headers, 0.0)
            yield RetryWait(seconds=seconds, attempt=attempt, reason=failure.message, status=status)
            await asyncio.sleep(seconds)

    async def count(self, body: Json, betas: Iterable[str] = ()) -> TokenCount:
        """Return an estimate."""
        return estimate_count(body, "a script does not count")

    async def _play(self, played: PlayedStep, body: Json, request_id: str) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of a step, up to where it breaks."""
        step = played.step
        message = build_message(step, body, self._player.script.window)
        breaks = step.breaks if played.fails else None
        if breaks is None:
            self._memory.keep(message)
        for number, data in enumerate(message_events(message, step.chunk)):
            if step.pause and number:
                await asyncio.sleep(step.pause)
            if breaks is not None and number == breaks.after:
                match breaks.how:
                    case "error":
                        yield StreamBroken(reason=breaks.message, kind=breaks.type)
                    case "malformed":
                        yield decode_event("{not json")
                    case "stall":
                        await asyncio.sleep(breaks.seconds)
                        yield StreamBroken(reason=ENDED_EARLY)
                    case "cut":
                        yield StreamBroken(reason=ENDED_EARLY)
                return
            event: Any = decode_event(msgspec.json.encode(data).decode())
            yield msgspec.structs.replace(event, request_id=request_id) if isinstance(event, MessageStarted) else event
