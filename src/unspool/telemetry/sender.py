"""Sends requests of the OpenTelemetry protocol over HTTP: compressed, again if that may help, never without an end.

Rules
  1. Sent again is what the protocol says may be: after 429, 502, 503 and 504, and if no connection came about or it
     broke. The ids are the same, so a receiver that had it already counts it once. What the receiver says
     (`Retry-After`) goes before our own delays; a wait that does not fit into the policy is not begun.
  2. An error is one line with the address. No value of a header is in it, also if the receiver repeats it.
  3. Redirects are not followed, and settings of the process are not read: a key goes where its owner sends it.
"""

from __future__ import annotations

import gzip
import random
import re
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unspool.api import RetryPolicy, retry_delay, ssl_context
from unspool.errors import TelemetryFailed
from unspool.telemetry.endpoint import METRICS, TelemetryEndpoint

if TYPE_CHECKING:
    import httpx2

RETRY: Final = RetryPolicy(tries=4, seconds=60.0, connect=5.0)
_RETRIED: Final = frozenset({429, 502, 503, 504})
_TOO_LARGE: Final = 413
_MAX_ANSWER: Final = 64 * 1024
_MAX_WORDS: Final = 200
_HINTS: Final = {
    401: "put the key into OTEL_EXPORTER_OTLP_HEADERS, as `name=value`",
    403: "put the key into OTEL_EXPORTER_OTLP_HEADERS, as `name=value`",
    404: "the address must take OTLP over HTTP; most receivers listen on port 4318",
}
_TRACES_ONLY: Final = "if the receiver takes no metrics, set OTEL_METRICS_EXPORTER=none"
_RESUME: Final = "run the command again: what was sent is not sent twice"
_ERRNO: Final = re.compile(r"\A\[Errno -?\d+\] ")
_GRPC_PORT: Final = ":4317/"


class SendTiming(NamedTuple):
    """Clock, sleep and chance, so that a test need not wait."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


_REAL_TIMING = SendTiming()


class _Answer(NamedTuple):
    """The answer of a receiver."""

    status: int
    headers: Any
    body: bytes


class TelemetrySender:
    """A connection to a receiver, while the `with` lasts."""

    def __init__(
        self, endpoint: TelemetryEndpoint, *, retry: RetryPolicy = RETRY, timing: SendTiming = _REAL_TIMING
    ) -> None:
        self._endpoint, self._retry, self._timing = endpoint, retry, timing
        self._client = _open_client(endpoint, retry)

    def __enter__(self) -> TelemetrySender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def post(self, signal: str, body: bytes) -> bytes:
        """Send a request; return the receiver's answer, or raise `TelemetryFailed`."""
        url = self._endpoint.url(signal)
        headers = {**self._endpoint.signal_headers(signal), "content-type": "application/x-protobuf"}
        headers.setdefault("user-agent", "unspool")
        if self._endpoint.compress:
            body = gzip.compress(body, 6, mtime=0)
            headers["content-encoding"] = "gzip"
        waited = 0.0
        for attempt in range(1, self._retry.tries + 1):
            answer = self._try(url, headers, body)
            if isinstance(answer, _Answer) and answer.status < 300:
                return answer.body
            is_retryable = not isinstance(answer, _Answer) or answer.status in _RETRIED
            answer_headers = answer.headers if isinstance(answer, _Answer) else {}
            delay = retry_delay(attempt, answer_headers, self._timing.chance())
            if not is_retryable or attempt == self._retry.tries or waited + delay > self._retry.seconds:
                raise self._failure(url, answer)
            self._timing.sleep(delay)
            waited += delay
        raise self._failure(url, "no attempt was made")

    def _try(self, url: str, headers: dict[str, str], body: bytes) -> _Answer | str:
        """Send a request once; return the answer, or in words why there is none."""
        import httpx2

        until = self._timing.clock() + 2 * self._endpoint.timeout
        try:
            with self._client.stream("POST", url, headers=headers, content=body) as response:
                found = bytearray()
                for piece in response.iter_bytes():
                    found += piece
                    # Nobody needs more of an answer; one that comes byte by byte must not hold us.
                    if len(found) > _MAX_ANSWER or self._timing.clock() > until:
                        break
                return _Answer(response.status_code, response.headers, bytes(found[:_MAX_ANSWER]))
        except httpx2.TimeoutException:
            return "no answer in time"
        except (httpx2.HTTPError, OSError) as error:
            words = _ERRNO.sub("", str(error)) or type(error).__name__
            return words[:1].lower() + words[1:]

    def _failure(self, url: str, answer: _Answer | str) -> TelemetryFailed:
        if isinstance(answer, str):
            words = " ".join(self._endpoint.hide_secrets(answer).split())[:_MAX_WORDS]
            hint = _HINTS[404] if _GRPC_PORT in url else _RESUME
            return TelemetryFailed(f"cannot send to `{url}`: {words}", hint=hint)
        text = answer.body.decode("utf-8", "replace")
        # The answer of a receiver is a protobuf or a page; only a short text is worth showing.
        is_shown = text.isprintable() and len(text) < _MAX_WORDS
        words = f": {self._endpoint.hide_secrets(' '.join(text.split()))}" if is_shown and text.strip() else ""
        has_none = answer.status in (404, 405) and url == self._endpoint.url(METRICS)
        return TelemetryFailed(
            f"`{url}` answered {answer.status}{words}",
            hint=_TRACES_ONLY if has_none else _HINTS.get(answer.status, _RESUME),
            is_too_large=answer.status == _TOO_LARGE,
        )


def _open_client(endpoint: TelemetryEndpoint, retry: RetryPolicy) -> httpx2.Client:
    try:
        import httpx2
    except ModuleNotFoundError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("otlp", feature="OpenTelemetry") from None
    return httpx2.Client(
        timeout=httpx2.Timeout(endpoint.timeout, connect=min(retry.connect, endpoint.timeout)),
        proxy=endpoint.proxy,
        verify=ssl_context(endpoint.certificates) if endpoint.certificates else True,
        trust_env=False,
        follow_redirects=False,
    )
