"""A script as the model, in this process: `--model script:FILE`. No network, and the same strictness.

A request is judged as the scripted API judges it (`api/scripted/responder.py`): refused in the API's words if it breaks a rule,
or if it lacks what the script expects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import msgspec

from unspool.api.accumulator import CUT
from unspool.api.connection import Count, estimated
from unspool.api.endpoint import Endpoint
from unspool.api.errors import PATIENT, Patience, again, refusal, wait
from unspool.api.events import AnyEvent, Begun, Broken, Json, Waiting, decode
from unspool.api.rules.validate import Memory
from unspool.api.scripted.responder import MESSAGES, Asked, Verdict, error, judge, worded
from unspool.api.scripted.script import Cast, Play, Script
from unspool.api.scripted.sse_events import events, message

_ENDPOINT = Endpoint(base_url="script:", key="none")


class Scripted:
    """Who answers from a script."""

    def __init__(self, script: Script, *, patience: Patience = PATIENT) -> None:
        self._play = Play(script)
        self._memory = Memory()
        self._patience = patience
        self.requests: list[Json] = []
        """What was asked, also what was refused."""
        self.failures: list[str] = []
        """Why the run has failed, request by request."""

    @property
    def unused(self) -> list[str]:
        """The names of steps that nobody has asked for."""
        return self._play.unused

    async def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield what the script says."""
        sent = {**body, "stream": True}
        data = msgspec.json.encode(sent)
        headers = {**_ENDPOINT.headers(betas)}
        for attempt in range(1, self._patience.tries + 1):
            number = len(self.requests) + 1
            self.requests.append(msgspec.json.decode(data))
            verdict = judge(Asked("POST", MESSAGES, headers, data), self._play, self._memory, strict=True)
            if verdict.failure:
                self.failures.append(f"request {number}: {verdict.failure}")
            failed = await self._failure(verdict)
            if failed is None:
                assert verdict.cast is not None
                async for event in self._say(verdict.cast, sent, f"req_{number:024}"):
                    yield event
                return
            status, words, said = failed
            failure = refusal(_ENDPOINT, status, words, said)
            if not again(status, said) or attempt == self._patience.tries:
                raise failure
            seconds = wait(attempt, said, 0.0)
            yield Waiting(seconds=seconds, attempt=attempt, reason=failure.message, status=status)
            await asyncio.sleep(seconds)

    async def count(self, body: Json, betas: Iterable[str] = ()) -> Count:
        """Return an estimate."""
        return estimated(body, "a script does not count")

    async def _failure(self, verdict: Verdict) -> tuple[int, bytes, dict[str, str]] | None:
        """Return status, body and headers of a request that fails."""
        if verdict.error or verdict.cast is None:
            return verdict.status, msgspec.json.encode(error(verdict.status, verdict.error, "req_0")), {}
        step = verdict.cast.step
        if step.delay:
            await asyncio.sleep(step.delay)
        while step.until is not None and not Path(step.until).exists():
            await asyncio.sleep(0.01)
        if step.error is None or not verdict.cast.fails:
            return None
        words, said = worded(step.error)
        return step.error.status, msgspec.json.encode(error(step.error.status, words, "req_0", step.error.type)), said

    async def _say(self, cast: Cast, body: Json, request_id: str) -> AsyncGenerator[AnyEvent, None]:
        step = cast.step
        whole = message(step, body, self._play.window)
        breaks = step.breaks if cast.fails else None
        if breaks is None:
            self._memory.keep(whole)
        for number, said in enumerate(events(whole, step.chunk)):
            if step.pause and number:
                await asyncio.sleep(step.pause)
            if breaks is not None and number == breaks.after:
                if breaks.how == "stall":
                    await asyncio.sleep(breaks.seconds)
                match breaks.how:
                    case "error":
                        yield Broken(reason=breaks.message, kind=breaks.type)
                    case "malformed":
                        yield decode("{not json")
                    case _:
                        yield Broken(reason=CUT)
                return
            event: Any = decode(msgspec.json.encode(said).decode())
            yield msgspec.structs.replace(event, request_id=request_id) if isinstance(event, Begun) else event
