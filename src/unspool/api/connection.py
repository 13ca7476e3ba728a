"""A connection to the Messages API: a request in, typed events out. The only module that knows an HTTP library.

    async with Connection(endpoint(os.environ)) as api:
        async for event in api.events(body):
            ...                             # Begun, BlockGrown, …, and in the end Ended or Broken
        answer = await api.answer(body)     # the same, put together
        tokens = await api.count(body)      # exact, or an estimate that says so

It is asynchronous, for a client that listens to a person while an answer comes; `ask.py` is for everybody else.

Rules
  1. A request is asked again only while nothing of its answer has come (`retry.py` says when). What has begun is never
     asked again here: somebody may have acted on it.
  2. An answer that breaks off ends in `Broken`, after all that came before. An exception means that there is no answer.
  3. Redirects are not followed, and settings of the process are not read: a key goes where its owner sends it.

[merged: count.py] How many tokens a request is: what is sent to be counted, and an estimate where nobody counts. Pure.

[merged: ask.py] The API for who waits for it: a request in, the answer out. `connection.py` without `await`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.api.accumulator import CUT, Answer, Assembly
from unspool.api.endpoint import Endpoint
from unspool.api.errors import IMPATIENT, PATIENT, Patience, again, refusal, unreachable, wait
from unspool.api.events import AnyEvent, Begun, BlockGrown, Broken, Ended, Json, Waiting, decode, events_of
from unspool.api.sse import Frames, TooLarge
from unspool.errors import ApiFailed, Usage
from unspool.prices.token_estimate import estimate

if TYPE_CHECKING:
    import httpx2

ESTIMATED = "the API did not count it"
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "cache_control", "output_config")


class Count(NamedTuple):
    """A number of input tokens."""

    tokens: int
    exact: bool
    """Whether the API has counted them."""
    why: str | None = None
    """Why it has not."""


def countable(body: Json) -> Json:
    """Return what of a request is counted."""
    return {key: body[key] for key in _COUNTED if key in body}


def estimated(body: Json, why: str) -> Count:
    """Return an estimate that says so."""
    return Count(max(1, estimate(body)), exact=False, why=why)


_LARGEST_ERROR = 1 << 16


class Times(NamedTuple):
    """Clock, sleep and chance, so that a test needs no patience."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


REAL = Times()


class Connection:
    """An API to ask, while the `async with` lasts."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience = PATIENT, times: Times = REAL) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._times = times
        self._client = _client(endpoint, patience)

    async def __aenter__(self) -> Connection:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield what happens until the answer ends; before it begins, every wait. `stream` is set here."""
        data = msgspec.json.encode({**body, "stream": True})
        async with aclosing(self._asked("/v1/messages", data, betas)) as steps:
            async for step in steps:
                if isinstance(step, Waiting):
                    yield step
                    continue
                async with aclosing(self._read(step)) as events:
                    async for event in events:
                        yield event

    async def answer(
        self, body: Json, betas: Iterable[str] = (), notice: Callable[[AnyEvent], None] | None = None
    ) -> Answer:
        """Return the answer, whole or broken. Who wants to see it come gives a function for the events."""
        assembly = Assembly()
        async with aclosing(self.events(body, betas)) as events:
            async for event in events:
                assembly.add(event)
                if notice is not None:
                    notice(event)
        return assembly.answer()

    async def count(self, body: Json, betas: Iterable[str] = ()) -> Count:
        """Return how many input tokens a request is; an estimate if the API does not say."""
        import httpx2

        data = msgspec.json.encode(countable(body))
        try:
            async with aclosing(self._asked("/v1/messages/count_tokens", data, betas)) as steps:
                async for step in steps:
                    if not isinstance(step, Waiting):
                        return _counted(step.first + await _rest(step)) or estimated(body, ESTIMATED)
        except ApiFailed as failed:
            return estimated(body, failed.message)
        except httpx2.RequestError as error:
            return estimated(body, unreachable(self._endpoint, _words(error)).message)
        return estimated(body, ESTIMATED)

    async def _asked(self, path: str, data: bytes, betas: Iterable[str]) -> AsyncGenerator[Waiting | _Opened, None]:
        """Yield every wait, and then an answer of which the first bytes have come."""
        import httpx2

        headers = self._endpoint.headers(betas)
        opened = False
        began = self._times.clock()
        for attempt in range(1, self._patience.tries + 1):
            status: int | None = None
            said: dict[str, str] = {}
            try:
                async with self._client.stream("POST", path, content=data, headers=headers) as response:
                    pieces = response.aiter_bytes()
                    if response.status_code == 200:
                        first = await _first(pieces)
                        if first:
                            opened = True
                            yield _Opened(response, first, pieces)
                            return
                        failure = unreachable(self._endpoint, "the answer is empty")
                    else:
                        status, said = response.status_code, dict(response.headers)
                        failure = refusal(self._endpoint, status, await _start(pieces), said)
                        if not again(status, said):
                            raise failure
            except httpx2.RequestError as error:
                if opened:  # it closed badly; what it said has been read
                    return
                failure = unreachable(self._endpoint, _words(error))
            seconds = wait(attempt, said, self._times.chance())
            left = self._patience.seconds - (self._times.clock() - began)
            if attempt == self._patience.tries or seconds > left:
                raise failure
            yield Waiting(seconds=seconds, attempt=attempt, reason=failure.message, status=status)
            await self._times.sleep(seconds)

    async def _read(self, opened: _Opened) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of an answer, the last of them `Ended` or `Broken`."""
        import httpx2

        frames = Frames()
        piece = opened.first
        try:
            if "text/event-stream" not in opened.response.headers.get("content-type", ""):
                for event in events_of(piece + await _rest(opened)):
                    yield self._placed(event, opened)
                return
            while True:
                for frame in frames.feed(piece):
                    event = decode(frame.data)
                    if type(event) is BlockGrown:
                        yield event
                        continue
                    yield self._placed(event, opened)
                    if isinstance(event, Ended | Broken):
                        return
                piece = await anext(opened.pieces)
        except StopAsyncIteration:
            yield Broken(reason=CUT)
        except TooLarge as error:
            yield Broken(reason=str(error))
        except httpx2.RequestError as error:
            yield Broken(reason=f"the connection broke: {self._endpoint.hide(_words(error))}")

    def _placed(self, event: AnyEvent, opened: _Opened) -> AnyEvent:
        """Add to an event what only the connection knows, and hide what it must not tell."""
        match event:
            case Begun():
                return msgspec.structs.replace(event, request_id=opened.response.headers.get("request-id"))
            case Broken(reason=reason):
                return msgspec.structs.replace(event, reason=self._endpoint.hide(reason))
            case _:
                return event


class _Opened(NamedTuple):
    """An answer of which something has come."""

    response: httpx2.Response
    first: bytes
    pieces: AsyncIterator[bytes]


def _client(endpoint: Endpoint, patience: Patience) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise Usage("talking to the API needs a library", hint="pip install 'unspool[chat]'") from None
    verify: object = True
    if endpoint.certificates:
        context = httpx2.create_ssl_context(trust_env=False)
        try:
            context.load_verify_locations(endpoint.certificates)
        except OSError as error:
            words = (error.strerror or "not certificates").lower()
            raise Usage(f"cannot read the certificates in `{endpoint.certificates}`: {words}") from None
        verify = context
    return httpx2.AsyncClient(
        base_url=endpoint.base_url,
        timeout=httpx2.Timeout(patience.silence, connect=patience.connect),
        proxy=endpoint.proxy,
        verify=verify,  # type: ignore[arg-type]
        trust_env=False,
        follow_redirects=False,
    )


async def _first(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the first bytes that come, or none."""
    async for piece in pieces:
        if piece:
            return piece
    return b""


async def _start(pieces: AsyncIterator[bytes]) -> bytes:
    """Return what an error says, up to a limit."""
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > _LARGEST_ERROR:
            break
    return bytes(found)


async def _rest(opened: _Opened) -> bytes:
    return b"".join([piece async for piece in opened.pieces])


def _counted(data: bytes) -> Count | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None
    tokens = value.get("input_tokens") if isinstance(value, dict) else None
    return Count(tokens, exact=True) if isinstance(tokens, int) and not isinstance(tokens, bool) else None


def _words(error: Exception) -> str:
    """Return what a library says went wrong; some of its errors say nothing but their name."""
    return str(error) or type(error).__name__


def answer(
    endpoint: Endpoint,
    body: Json,
    *,
    betas: Iterable[str] = (),
    notice: Callable[[AnyEvent], None] | None = None,
    patience: Patience = PATIENT,
) -> Answer:
    """Return what the API says to a request: `ApiFailed` if that is nothing, and `broken` is set if it is not all."""

    async def ask() -> Answer:
        async with Connection(endpoint, patience=patience) as api:
            return await api.answer(body, betas, notice)

    return asyncio.run(ask())


def count(
    endpoint: Endpoint | None,
    body: Json,
    *,
    betas: Iterable[str] = (),
    patience: Patience = IMPATIENT,
) -> Count:
    """Return how many input tokens a request is: exact if the API says, else an estimate that says so. Never fails."""
    if endpoint is None:
        return estimated(body, "there is no API to ask")

    async def ask() -> Count:
        async with Connection(endpoint, patience=patience) as api:
            return await api.count(body, betas)

    return asyncio.run(ask())
