"""Sends requests to the Messages API and yields typed events: retries, streams, counts tokens.

    async with Connection(endpoint_from_environment(os.environ)) as api:
        async for event in api.events(body):
            ...                               # MessageStarted, BlockDelta, …, MessageFinished or StreamBroken
        response = await api.response(body)   # the same, put together
        tokens = await api.count(body)        # exact, or an estimate that says so

It is asynchronous, for a client that listens to a person while a response comes; `fetch_response` and
`count_request_tokens` are for everybody else.

Rules
  1. A request is retried only while nothing of its response has come (`errors.py` decides when). What has begun is
     never requested again here: somebody may have acted on it.
  2. A response that breaks off ends in `StreamBroken`, after all that came before. An exception means that there is no
     response.
  3. Redirects are not followed, and settings of the process are not read: a key goes where its owner sends it.
  4. A server that has no `/v1/messages` is spoken to as OpenAI's API (`chat_completions.py`), if its endpoint allows
     that. What it refuses of a request that is not needed is left out from then on.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.api import errors
from unspool.api.accumulator import ENDED_EARLY, ApiResponse, ResponseAccumulator
from unspool.api.chat_completions import (
    CompletionDecoder,
    CompletionDialect,
    encode_completion_request,
    learn_dialect,
    unsupported_tools,
)
from unspool.api.endpoint import Endpoint, ssl_context
from unspool.api.events import (
    AnyEvent,
    BlockDelta,
    Json,
    MessageFinished,
    MessageStarted,
    RetryWait,
    StreamBroken,
    UnknownEvent,
    decode_event,
    message_to_events,
    name_foreign_body,
    name_foreign_object,
)
from unspool.api.retry import DEFAULT_RETRY, QUICK_RETRY, RetryPolicy, is_retryable, retry_delay
from unspool.api.sse import EventTooLarge, SseParser
from unspool.errors import ApiFailed
from unspool.prices import estimate_request_tokens

if TYPE_CHECKING:
    import httpx2

_NOT_COUNTED = "the API did not count the tokens"
_COUNTED_FIELDS = ("model", "messages", "system", "tools", "tool_choice", "thinking", "cache_control", "output_config")
_MAX_ERROR_BYTES = 1 << 16
_MAX_LIST_BYTES = 1 << 24
_MESSAGES_PATH = "/v1/messages"
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""The fields of a list of models that vLLM, OpenRouter and others have the context window in."""


class TokenCount(NamedTuple):
    """A number of input tokens."""

    tokens: int
    exact: bool
    """Whether the API has counted them."""
    why: str | None = None
    """Why it has not."""


class ServedModel(NamedTuple):
    """A model that a server offers."""

    name: str
    window: int | None = None
    """Its context window, if the server says."""


class Timing(NamedTuple):
    """Clock, sleep and chance, so that a test need not wait."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


_REAL_TIMING = Timing()


class _OpenResponse(NamedTuple):
    """A response of which the first bytes have come."""

    response: httpx2.Response
    first: bytes
    pieces: AsyncIterator[bytes]

    async def rest(self) -> bytes:
        """Return all bytes, the first included."""
        return self.first + b"".join([piece async for piece in self.pieces])


class Connection:
    """A connection to the API, while the `async with` lasts."""

    def __init__(
        self, endpoint: Endpoint, *, retry: RetryPolicy = DEFAULT_RETRY, timing: Timing = _REAL_TIMING
    ) -> None:
        self._endpoint = endpoint
        self._retry = retry
        self._timing = timing
        self._client = _open_client(endpoint, retry)
        self._protocol = endpoint.protocol
        self._dialect = CompletionDialect()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint, with the protocol that it has turned out to speak."""
        return msgspec.structs.replace(self._endpoint, protocol=self._protocol)

    async def __aenter__(self) -> Connection:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of a response until it ends; before it begins, every wait. `stream` is true by default."""
        while True:
            begun = False
            try:
                # Closed at once when the caller stops early; else the request would go on until it is collected.
                async with aclosing(self._request_events(body, betas)) as events:
                    async for event in events:
                        if not begun and not isinstance(event, RetryWait):
                            begun = True
                            self._protocol = "messages" if self._protocol == "any" else self._protocol
                        yield event
                return
            except ApiFailed as failed:
                if begun or not self._adapt(failed):
                    raise

    async def _request_events(self, body: Json, betas: Iterable[str]) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of one request in the protocol that the server is taken to speak."""
        completes = self._protocol == "completions"
        if completes and (tools := unsupported_tools(body)):
            raise ApiFailed(f"{self._endpoint.shown_url} does not have the tool {', '.join(tools)}", status=400)
        if completes:
            path, data = self._endpoint.completions_path, encode_completion_request(body, self._dialect)
        else:
            path, data = _MESSAGES_PATH, msgspec.json.encode({"stream": True, **body})
        async with aclosing(self._send(path, data, betas)) as steps:
            async for step in steps:
                if isinstance(step, RetryWait):
                    yield step
                    continue
                read = self._read_completion(step) if completes else self._read_events(step)
                async with aclosing(read) as events:
                    async for event in events:
                        yield event

    def _adapt(self, failed: ApiFailed) -> bool:
        """Change how requests are sent after a refusal; tell whether there is another way."""
        if self._protocol == "any" and isinstance(failed, errors.NoMessagesApi):
            self._protocol = "completions"
            return True
        if self._protocol != "completions" or failed.status not in (400, 422):
            return False
        learned = learn_dialect(self._dialect, failed.message)
        self._dialect = learned or self._dialect
        return learned is not None

    async def response(
        self, body: Json, betas: Iterable[str] = (), on_event: Callable[[AnyEvent], None] | None = None
    ) -> ApiResponse:
        """Return the response, whole or broken; `on_event` is called with each event as it comes."""
        accumulator = ResponseAccumulator()
        async with aclosing(self.events(body, betas)) as events:
            async for event in events:
                accumulator.add(event)
                if on_event is not None:
                    on_event(event)
        return accumulator.response()

    async def count(self, body: Json, betas: Iterable[str] = ()) -> TokenCount:
        """Return how many input tokens a request is; an estimate if the API does not say."""
        import httpx2

        if self._protocol == "completions":
            return estimate_count(body, "chat completions cannot count tokens")
        data = msgspec.json.encode({key: body[key] for key in _COUNTED_FIELDS if key in body})
        try:
            async with aclosing(self._send("/v1/messages/count_tokens", data, betas)) as steps:
                async for step in steps:
                    if not isinstance(step, RetryWait):
                        return _parse_count(await step.rest()) or estimate_count(body, _NOT_COUNTED)
        except ApiFailed as failed:
            return estimate_count(body, failed.message)
        except httpx2.RequestError as error:
            return estimate_count(body, errors.unreachable_error(self._endpoint, errors.describe_error(error)).message)
        return estimate_count(body, _NOT_COUNTED)

    async def models(self) -> list[ServedModel]:
        """Return the models that the server lists; `ApiFailed` if it lists none."""
        import httpx2

        path = self._endpoint.completions_path.replace("/chat/completions", "/models")
        try:
            async with self._client.stream("GET", path, headers=self._endpoint.headers()) as response:
                data = await _read_up_to(response.aiter_bytes(), _MAX_LIST_BYTES)
        except httpx2.RequestError as error:
            raise errors.unreachable_error(self._endpoint, errors.describe_error(error)) from None
        if response.status_code != 200:
            raise errors.error_from_response(self._endpoint, response.status_code, data, dict(response.headers))
        return _parse_models(data)

    async def _send(
        self, path: str, data: bytes, betas: Iterable[str]
    ) -> AsyncGenerator[RetryWait | _OpenResponse, None]:
        """Yield every wait, and then a response of which the first bytes have come."""
        import httpx2

        sent_headers, opened, began = self._endpoint.headers(betas), False, self._timing.clock()
        for attempt in range(1, self._retry.tries + 1):
            status: int | None = None
            headers: dict[str, str] = {}
            try:
                async with self._client.stream("POST", path, content=data, headers=sent_headers) as response:
                    pieces = response.aiter_bytes()
                    if response.status_code == 200:
                        # Not before the first bytes: a connection that closes without any is retried.
                        first = await _read_up_to(pieces, 0)
                        if first:
                            opened = True
                            yield _OpenResponse(response, first, pieces)
                            return
                        failure = errors.unreachable_error(self._endpoint, "the response is empty")
                    else:
                        status, headers = response.status_code, dict(response.headers)
                        body = await _read_up_to(pieces, _MAX_ERROR_BYTES)
                        failure = errors.error_from_response(self._endpoint, status, body, headers)
                        if isinstance(failure, errors.NoMessagesApi) or not is_retryable(status, headers):
                            raise failure
            except httpx2.RequestError as error:
                if opened:  # it closed badly; what it sent has been read
                    return
                failure = errors.unreachable_error(self._endpoint, errors.describe_error(error))
            seconds = retry_delay(attempt, headers, self._timing.chance())
            left = self._retry.seconds - (self._timing.clock() - began)
            if attempt == self._retry.tries or seconds > left:
                raise failure
            yield RetryWait(seconds=seconds, attempt=attempt, reason=failure.message, status=status)
            await self._timing.sleep(seconds)

    async def _read_events(self, opened: _OpenResponse) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of a response, the last of them `MessageFinished` or `StreamBroken`."""
        import httpx2

        parser = SseParser()
        piece = opened.first
        try:
            # Some gateways send a whole message, though a stream was requested.
            if "text/event-stream" not in opened.response.headers.get("content-type", ""):
                body = await opened.rest()
                if (problem := name_foreign_body(body)) is not None:
                    raise errors.foreign_error(self._endpoint, problem)
                for event in message_to_events(body):
                    yield self._complete(event, opened)
                return
            while True:
                for frame in parser.feed(piece):
                    event = decode_event(frame.data)
                    if isinstance(event, UnknownEvent) and (problem := name_foreign_object(event.json)) is not None:
                        raise errors.foreign_error(self._endpoint, problem)
                    if type(event) is BlockDelta:  # nearly every event is one
                        yield event
                        continue
                    yield self._complete(event, opened)
                    if isinstance(event, MessageFinished | StreamBroken):
                        return
                piece = await anext(opened.pieces)
        except StopAsyncIteration:
            yield StreamBroken(reason=ENDED_EARLY)
        except EventTooLarge as error:
            yield StreamBroken(reason=str(error))
        except httpx2.RequestError as error:
            words = self._endpoint.hide_secrets(errors.describe_error(error))
            yield StreamBroken(reason=f"connection to {self._endpoint.shown_url} lost: {words}")

    async def _read_completion(self, opened: _OpenResponse) -> AsyncGenerator[AnyEvent, None]:
        """Yield the events of a message for a chat completion, the last of them `MessageFinished` or `StreamBroken`."""
        import httpx2

        parser, decoder, piece = SseParser(), CompletionDecoder(_new_id), opened.first
        try:
            if "text/event-stream" not in opened.response.headers.get("content-type", ""):
                body = await opened.rest()
                problem = name_foreign_body(body)
                if problem is not None and problem.startswith("a web page"):
                    raise errors.foreign_error(self.endpoint, problem)
                for event in decoder.decode_whole(body):
                    yield self._complete(event, opened)
                return
            while True:
                for frame in parser.feed(piece):
                    for event in decoder.decode(frame.data):
                        yield self._complete(event, opened)
                        if isinstance(event, MessageFinished | StreamBroken):
                            return
                piece = await anext(opened.pieces)
        except StopAsyncIteration:
            for event in decoder.finish():
                yield self._complete(event, opened)
        except EventTooLarge as error:
            yield StreamBroken(reason=str(error))
        except httpx2.RequestError as error:
            words = self._endpoint.hide_secrets(errors.describe_error(error))
            yield StreamBroken(reason=f"connection to {self._endpoint.shown_url} lost: {words}")

    def _complete(self, event: AnyEvent, opened: _OpenResponse) -> AnyEvent:
        """Add the request's id to an event, and hide secrets that the API repeats."""
        match event:
            case MessageStarted():
                return msgspec.structs.replace(event, request_id=_request_id(opened.response))
            case StreamBroken(reason=reason):
                return msgspec.structs.replace(event, reason=self._endpoint.hide_secrets(reason))
            case _:
                return event


def fetch_response(endpoint: Endpoint, body: Json, *, betas: Iterable[str] = ()) -> ApiResponse:
    """Return the response to a request: `ApiFailed` if there is none; `broken` is set if it is not all."""

    async def fetch() -> ApiResponse:
        async with Connection(endpoint) as api:
            return await api.response(body, betas)

    return asyncio.run(fetch())


def count_request_tokens(endpoint: Endpoint | None, body: Json, *, retry: RetryPolicy = QUICK_RETRY) -> TokenCount:
    """Return how many input tokens a request is: exact if the API says, else an estimate that says so. Never fails."""
    if endpoint is None:
        return estimate_count(body, "no API is configured")

    async def count() -> TokenCount:
        async with Connection(endpoint, retry=retry) as api:
            return await api.count(body)

    return asyncio.run(count())


def estimate_count(body: Json, why: str) -> TokenCount:
    """Return an estimate, with the reason why it is no count."""
    return TokenCount(max(1, estimate_request_tokens(body)), exact=False, why=why)


def _open_client(endpoint: Endpoint, retry: RetryPolicy) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ModuleNotFoundError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("chat") from None
    return httpx2.AsyncClient(
        base_url=endpoint.base_url,
        timeout=httpx2.Timeout(retry.silence, connect=retry.connect),
        proxy=endpoint.proxy,
        verify=ssl_context(endpoint.certificates) if endpoint.certificates else True,
        # Proxy and certificates come from the endpoint, and a redirect could send the key to another host.
        trust_env=False,
        follow_redirects=False,
    )


async def _read_up_to(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    """Return bytes until there are more than a limit, or no more."""
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > limit:
            break
    return bytes(found)


def _new_id() -> str:
    return uuid.uuid4().hex[:24]


def _request_id(response: httpx2.Response) -> str | None:
    headers = response.headers
    found = headers.get("request-id") or headers.get("x-request-id")
    return str(found) if found else None


def _parse_models(data: bytes) -> list[ServedModel]:
    """Return the models of a list as OpenAI and the Messages API have it."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    rows = value.get("data") if isinstance(value, dict) else None
    found = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(name := row.get("id"), str):
            sizes = [row.get(key) for key in _WINDOW_FIELDS]
            found.append(ServedModel(name, next((size for size in sizes if type(size) is int and size > 0), None)))
    return found


def _parse_count(data: bytes) -> TokenCount | None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None
    tokens = value.get("input_tokens") if isinstance(value, dict) else None
    # In Python `True` is an integer; in JSON it is none.
    return TokenCount(tokens, exact=True) if isinstance(tokens, int) and not isinstance(tokens, bool) else None
