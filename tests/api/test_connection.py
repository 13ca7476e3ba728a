"""Asking over real sockets: retries, broken answers, silence, refusals, counting."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import zlib
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.api.raw import saying
from unspool.api import connection
from unspool.api.accumulator import ENDED_EARLY, ApiResponse
from unspool.api.connection import Connection, Timing, TokenCount
from unspool.api.endpoint import Endpoint, endpoint_from_environment
from unspool.api.errors import error_from_response
from unspool.api.events import AnyEvent, BlockDelta, MessageFinished, MessageStarted, RetryWait, StreamBroken, TextDelta
from unspool.api.retry import RetryPolicy
from unspool.api.scripted.responder import build_message, encode_event, message_events
from unspool.api.scripted.script import ScriptStep
from unspool.errors import ApiFailed, UsageError
from unspool.testing.api import scripted

Json = dict[str, Any]
KEY = "sk-ant-sesame"
BODY: Json = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
CALL = {"type": "tool_use", "name": "Read", "input": {"file_path": "/notes.md"}}
WHOLE = build_message(ScriptStep(content="Hello."), BODY)
SSE = b"".join(encode_event(event) for event in message_events(WHOLE, 4))
FREE = RetryPolicy(tries=4, seconds=3600, connect=5, silence=20)


class Slept:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    @property
    def times(self) -> Timing:
        return Timing(lambda: sum(self.waits), self.sleep, lambda: 0.0)


def at(url: str) -> Endpoint:
    return endpoint_from_environment({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY})


def answered(
    url: str,
    slept: Slept | None = None,
    patience: RetryPolicy = FREE,
    notice: Callable[[AnyEvent], None] | None = None,
    body: Json = BODY,
) -> ApiResponse:
    async def asked() -> ApiResponse:
        async with Connection(at(url), retry=patience, timing=(slept or Slept()).times) as api:
            return await api.response(body, on_event=notice)

    return asyncio.run(asked())


def reply(data: bytes, kind: str = "text/event-stream", status: str = "200 OK", more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n{more}\r\n"
    )
    return head.encode() + data


def test_an_answer_is_what_was_said() -> None:
    content = [{"type": "thinking", "thinking": "So.", "signature": "c2ln"}, "I look.", CALL]
    with scripted([{"content": content, "chunk": 2, "usage": {"output_tokens": 9}}]) as api:
        answer = answered(api.url)
    assert (answer.broken, answer.unfinished, answer.stop_reason) == (None, (), "tool_use")
    assert [block["type"] for block in answer.content] == ["thinking", "text", "tool_use"]
    assert answer.content[2]["input"] == CALL["input"]
    assert answer.usage["output_tokens"] == 9
    assert answer.request_id == api.requests[0].request_id
    assert api.failures == []
    assert api.bodies == [{**BODY, "stream": True}]


def test_events_come_as_they_are_said() -> None:
    seen: list[AnyEvent] = []
    with scripted([{"content": "Hello there.", "chunk": 5, "pause": 0.01}]) as api:
        answered(api.url, notice=seen.append)
    assert isinstance(seen[0], MessageStarted)
    assert isinstance(seen[-1], MessageFinished)
    parts = [event.delta.text for event in seen if isinstance(event, BlockDelta) and isinstance(event.delta, TextDelta)]
    assert parts == ["Hello", " ther", "e."]


def test_bytes_that_come_one_at_a_time_are_the_same_answer() -> None:
    data = reply(SSE)
    with saying([data[at : at + 1] for at in range(len(data))]) as raw:
        assert answered(raw.url).text == "Hello."


def test_key_token_headers_and_betas_are_sent() -> None:
    header = {"x-api-key": KEY, "authorization": "Bearer t-two", "x-team": "shore", "anthropic-beta": "a,b"}
    environment = {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_AUTH_TOKEN": "t-two",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Team: shore",
    }
    with scripted([{"content": "Hello.", "expect": {"header": header}}]) as api:
        answer = connection.fetch_response(
            endpoint_from_environment({**environment, "ANTHROPIC_BASE_URL": api.url}), BODY, betas=["a", "b"]
        )
    assert (answer.text, api.failures) == ("Hello.", [])


@pytest.mark.parametrize("status", [429, 500, 529])
def test_an_overload_is_waited_out(status: int) -> None:
    slept, seen = Slept(), list[AnyEvent]()
    with scripted([{"error": {"status": status, "times": 3}, "content": "At last."}]) as api:
        answer = answered(api.url, slept, notice=seen.append)
    assert (answer.text, len(api.requests)) == ("At last.", 4)
    assert slept.waits == [0.5, 1, 2]
    waits = [event for event in seen if isinstance(event, RetryWait)]
    assert [(event.attempt, event.seconds, event.status) for event in waits] == [
        (1, 0.5, status),
        (2, 1, status),
        (3, 2, status),
    ]


def test_a_wait_is_as_long_as_the_api_says() -> None:
    slept = Slept()
    with scripted([{"error": {"status": 429, "retry_after": 7.5}, "content": "At last."}]) as api:
        assert answered(api.url, slept).text == "At last."
    assert slept.waits == [7.5]


def test_there_is_an_end_of_trying() -> None:
    slept = Slept()
    with scripted({"default": {"error": {"status": 529}}}) as api, pytest.raises(ApiFailed) as raised:
        answered(api.url, slept)
    assert (len(api.requests), slept.waits) == (4, [0.5, 1, 2])
    assert (raised.value.status, raised.value.kind) == (529, "overloaded_error")
    assert raised.value.message == "the API says 529: Overloaded"


def test_a_wait_that_does_not_fit_is_not_begun() -> None:
    slept = Slept()
    with (
        scripted({"default": {"error": {"status": 429, "retry_after": 60}}}) as api,
        pytest.raises(ApiFailed) as raised,
    ):
        answered(api.url, slept, FREE._replace(seconds=100))
    assert (len(api.requests), slept.waits) == (2, [60])
    assert raised.value.hint == "wait 60 s, as the API asks"


def test_what_the_api_refuses_is_not_asked_again() -> None:
    slept = Slept()
    with scripted({"default": "OK."}) as api, pytest.raises(ApiFailed) as raised:
        answered(api.url, slept, body={**BODY, "messages": []})
    assert (len(api.requests), slept.waits) == (1, [])
    assert raised.value.message == "the API says 400: messages: at least one message is required"
    assert (raised.value.kind, raised.value.exit_code) == ("invalid_request_error", 6)
    assert raised.value.request_id == api.requests[0].request_id


def test_who_does_not_answer_is_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    slept = Slept()
    with pytest.raises(ApiFailed) as raised:
        answered(url, slept)
    assert len(slept.waits) == 3
    assert raised.value.message.startswith(f"no response from {url}: ")
    assert raised.value.hint == "check ANTHROPIC_BASE_URL and that this machine can reach the address"


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"<!DOCTYPE html><html><head><title>Sign in</title>", "text/html", "a web page: Sign in"),
        (b"\n<html>", "text/html", "a web page"),
        (b'{"object": "chat.completion", "choices": []}', "application/json", "OpenAI's format"),
        (b'data: {"object": "chat.completion.chunk", "choices": [{}]}\n\n', "text/event-stream", "OpenAI's format"),
    ],
)
def test_an_answer_of_something_else_is_named_and_not_asked_for_again(body: bytes, kind: str, words: str) -> None:
    with saying([reply(body, kind)]) as raw, pytest.raises(ApiFailed) as raised:
        answered(raw.url, Slept())
    assert raised.value.message.startswith(f"{raw.url} answers with {words}")
    assert len(raw.requests) == 1


def test_an_answer_is_whole_without_its_last_event() -> None:
    with scripted(["Hello."]) as api:
        whole = answered(api.url, Slept())
    message = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello."}}
    stop = {"type": "content_block_stop", "index": 0}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
    said = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in (message, start, stop, end)]
    with saying([reply(b"".join(said))]) as raw:
        response = answered(raw.url, Slept())
    assert (response.broken, response.text, response.stop_reason) == (None, whole.text, "end_turn")
    for missing in (2, 3):
        with saying([reply(b"".join(said[:missing] + said[missing + 1 :]))]) as raw:
            assert answered(raw.url, Slept()).broken is not None


@pytest.mark.parametrize(
    "nothing",
    [[], [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"], [reply(b"")]],
    ids=["hung up", "no byte", "empty"],
)
def test_while_nothing_has_come_a_lost_connection_is_no_loss(nothing: list[bytes]) -> None:
    with saying(nothing, nothing, [reply(SSE)]) as raw:
        assert answered(raw.url).text == "Hello."
        assert len(raw.requests) == 3


def test_what_has_begun_is_not_asked_again() -> None:
    slept = Slept()
    step = {"content": ["All of this.", CALL, "And some of this."], "chunk": 4, "break": {"how": "cut", "after": 19}}
    with scripted([step, "Not this."]) as api:
        answer = answered(api.url, slept)
    assert (len(api.requests), slept.waits) == (1, [])
    assert [block["type"] for block in answer.content] == ["text", "tool_use"]
    (rest,) = answer.unfinished
    assert (rest.type, answer.text) == ("text", f"All of this.{rest.text}")
    assert "And some of this.".startswith(rest.text)
    assert answer.broken
    assert answer.broken.startswith(f"connection to {api.url} lost: ")
    assert answer.usage["input_tokens"] > 0


@pytest.mark.parametrize(
    ("how", "reason", "kind"),
    [("error", "Overloaded", "overloaded_error"), ("malformed", "the stream contains a malformed event", None)],
)
def test_an_answer_can_break_from_within(how: str, reason: str, kind: str | None) -> None:
    seen: list[AnyEvent] = []
    with scripted([{"content": "Hello there.", "chunk": 5, "break": {"how": how, "after": 4}}]) as api:
        answer = answered(api.url, notice=seen.append)
    assert (answer.broken, answer.kind, answer.text) == (reason, kind, "Hello")
    assert isinstance(seen[-1], StreamBroken)


def test_silence_breaks_an_answer() -> None:
    with scripted([{"content": "Hello there.", "chunk": 5, "break": {"how": "stall", "after": 4}}]) as api:
        answer = answered(api.url, patience=FREE._replace(silence=0.2))
    assert answer.text == "Hello"
    assert answer.broken
    assert "Timeout" in answer.broken


def test_a_stream_that_ends_too_early_is_broken() -> None:
    with saying([reply(SSE[: SSE.index(b"event: message_delta")])]) as raw:
        answer = answered(raw.url)
    assert (answer.broken, answer.text) == (ENDED_EARLY, "Hello.")


@pytest.mark.parametrize(
    "said",
    [
        reply(json.dumps(WHOLE).encode(), "application/json"),
        reply(gzip.compress(SSE), more="content-encoding: gzip\r\n"),
        reply(SSE.replace(b"\n", b"\r\n"), "text/event-stream;charset=utf-8"),
        reply(b": hello\n\n" + SSE),
    ],
    ids=["whole", "compressed", "other ends of lines", "comments"],
)
def test_gateways_say_it_their_own_way(said: bytes) -> None:
    with saying([said]) as raw:
        answer = answered(raw.url)
    assert (answer.broken, answer.text, answer.id) == (None, "Hello.", WHOLE["id"])


def test_what_is_not_compressed_as_it_says_is_broken() -> None:
    packed = zlib.compressobj(wbits=31)
    noise = random.Random(5).randbytes(200_000).hex().encode()  # so much that it is read in several pieces
    begun = packed.compress(SSE[:400] + b"\n: " + noise) + packed.flush(zlib.Z_SYNC_FLUSH)
    with saying([reply(begun + b"\xff" * 99, more="content-encoding: gzip\r\n")]) as raw:
        answer = answered(raw.url)
    assert answer.broken
    assert answer.broken.startswith(f"connection to {raw.url} lost: ")
    assert answer.id == WHOLE["id"]


def test_what_cannot_be_unpacked_at_all_is_no_answer() -> None:
    with saying(*[[reply(b"hello" * 9, more="content-encoding: gzip\r\n")]] * 4) as raw, pytest.raises(ApiFailed):
        answered(raw.url)


def test_a_key_goes_nowhere_else() -> None:
    with saying() as elsewhere, saying([reply(b"", status="307 Away", more=f"location: {elsewhere.url}\r\n")]) as raw:
        with pytest.raises(ApiFailed, match="the API says 307"):
            answered(raw.url)
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", ["403 No", "502 Bad"])
def test_a_gateway_that_says_a_key_back_is_not_repeated(status: str) -> None:
    said = json.dumps({"error": {"type": "odd", "message": f"your key is\n{KEY}"}}).encode()
    with saying(*[[reply(said, status=status)]] * 4) as raw, pytest.raises(ApiFailed) as raised:
        answered(raw.url)
    assert raised.value.message == f"the API says {status[:3]}: your key is (hidden)"
    assert KEY not in f"{raised.value!r} {raised.value.hint}"


def test_a_page_of_a_proxy_is_an_error_too() -> None:
    with saying([reply(b"<html>" * 99999, "text/html", "403 No")]) as raw, pytest.raises(ApiFailed) as raised:
        answered(raw.url)
    assert (raised.value.message, raised.value.kind) == ("the API says 403: a web page", None)


def test_somebody_may_stop_listening() -> None:
    async def first(url: str) -> AnyEvent:
        async with Connection(at(url)) as api, aclosing(api.events(BODY)) as stream:
            return await anext(stream)

    with scripted([{"content": "Hello.", "break": {"how": "stall", "seconds": 3600}}]) as api:
        assert isinstance(asyncio.run(first(api.url)), MessageStarted)


def test_answers_can_come_at_the_same_time() -> None:
    cues = {f"number {number}!": [{"content": f"Answer {number}.", "chunk": 2, "pause": 0.001}] for number in range(8)}

    async def all_of(url: str) -> list[ApiResponse]:
        async with Connection(at(url)) as api:
            bodies = [{**BODY, "messages": [{"role": "user", "content": cue}]} for cue in cues]
            return await asyncio.gather(*(api.response(body) for body in bodies))

    with scripted({"cues": cues}) as api:
        answers = asyncio.run(all_of(api.url))
    assert [answer.text for answer in answers] == [f"Answer {number}." for number in range(8)]
    assert len({answer.request_id for answer in answers}) == 8


def test_tokens_are_counted_by_the_api() -> None:
    with scripted({"count_tokens": 1234}) as api:
        assert connection.count_request_tokens(at(api.url), {**BODY, "stream": True, "metadata": {}}) == TokenCount(
            1234, exact=True
        )
    assert api.failures == []
    assert set(api.requests[0].body) == {"model", "messages"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ({"count_tokens": {"status": 404}}, "the API says 404: as the script has it"),
        ({"count_tokens": {"status": 401}}, "the API says 401: as the script has it"),
    ],
)
def test_where_nobody_counts_there_is_an_estimate_that_says_so(script: Json, why: str) -> None:
    with scripted(script) as api:
        assert connection.count_request_tokens(at(api.url), BODY) == TokenCount(5, exact=False, why=why)


@pytest.mark.parametrize("said", [b"[]", b"{", b'{"input_tokens": "many"}', b'{"input_tokens": true}'])
def test_a_count_that_is_no_number_is_none(said: bytes) -> None:
    with saying([reply(said, "application/json")]) as raw:
        assert connection.count_request_tokens(at(raw.url), BODY) == TokenCount(
            5, exact=False, why="the API did not count the tokens"
        )


def test_a_count_that_breaks_off_is_none() -> None:
    with saying([reply(b'{"input')[:-3].replace(b"length: 7", b"length: 70")]) as raw:
        assert not connection.count_request_tokens(at(raw.url), BODY, retry=FREE._replace(tries=1)).exact


def test_without_an_api_there_is_an_estimate() -> None:
    assert connection.count_request_tokens(None, BODY) == TokenCount(5, exact=False, why="no API is configured")


def test_certificates_of_ones_own_must_be_some(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("none")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(UsageError, match=r"cannot read certificates"):
            connection.fetch_response(
                endpoint_from_environment({"ANTHROPIC_API_KEY": "k", "SSL_CERT_FILE": str(path)}), BODY
            )


@pytest.mark.parametrize(
    ("wait", "hint"),
    [
        ("60", "wait 60 s, as the API asks"),
        ("0", "wait, then try again"),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "wait, then try again"),
        ("soon", "wait, then try again"),
    ],
)
def test_a_hint_names_a_wait_only_if_there_is_one(wait: str, hint: str) -> None:
    failure = error_from_response(Endpoint(), 429, b"{}", {"retry-after": wait})
    assert failure.hint == hint
