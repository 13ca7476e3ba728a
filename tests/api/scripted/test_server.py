"""The scripted API over a real socket: what is said, how it breaks, what is refused, what is noted."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.api.scripted.responder import build_message, message_events
from unspool.api.scripted.script import ScriptStep, convert_script, load_script
from unspool.errors import NotFound, Refused, Unreadable
from unspool.testing.api import scripted
from unspool.testing.strict import Memory, count_tokens, problems

Json = dict[str, Any]
HEADERS = {"x-api-key": "sk-ant-secret", "anthropic-version": "2023-06-01", "content-type": "application/json"}
READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "/notes.md"}}


class Answer(NamedTuple):
    """What came over the socket, up to where it ended or broke."""

    status: int
    headers: dict[str, str]
    data: bytes
    whole: bool

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def events(self) -> list[Json]:
        frames = self.data.decode().split("\n\n")
        assert frames.pop() == "" or not self.whole
        return [json.loads(frame.split("\ndata: ")[1]) for frame in frames]


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "claude-opus-5-5", "max_tokens": 100, "messages": list(messages), **more}


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def ask(url: str, value: Any, path: str = "/v1/messages", method: str = "POST", headers: Json = HEADERS) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        names = {name.lower(): text for name, text in response.getheaders()}
        try:
            return Answer(response.status, names, response.read(), True)
        except http.client.IncompleteRead as torn:
            return Answer(response.status, names, torn.partial, False)
    finally:
        connection.close()


HI = body(user("hi"))
STREAM = {**HI, "stream": True}


def test_an_answer_is_a_message_as_the_api_has_it() -> None:
    with scripted(["Hello."]) as api:
        answer = ask(api.url, HI)
    said = answer.json
    assert (answer.status, said["type"], said["role"], said["model"]) == (
        200,
        "message",
        "assistant",
        "claude-opus-5-5",
    )
    assert (said["content"], said["stop_reason"]) == ([{"type": "text", "text": "Hello."}], "end_turn")
    assert said["id"].startswith("msg_01")
    assert said["usage"]["input_tokens"] > 0 < said["usage"]["output_tokens"]
    assert answer.headers["request-id"] == api.requests[0].request_id
    assert (api.failures, api.unused, api.bodies) == ([], [], [HI])


def test_a_stream_is_framed_as_the_api_does() -> None:
    step = {
        "content": [{"type": "thinking", "thinking": "So."}, "Let me see.", READ],
        "chunk": 6,
        "usage": {"output_tokens": 7},
    }
    with scripted([step]) as api:
        answer = ask(api.url, STREAM)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.data.startswith(b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_01')
    parts = [(event["type"], event.get("delta") or event.get("content_block") or {}) for event in answer.events]
    kinds = [(kind, part.get("type")) for kind, part in parts]
    assert kinds == [
        ("message_start", None),
        ("content_block_start", "thinking"),
        ("ping", None),
        ("content_block_delta", "thinking_delta"),
        ("content_block_delta", "signature_delta"),
        ("content_block_stop", None),
        ("content_block_start", "text"),
        ("content_block_delta", "text_delta"),
        ("content_block_delta", "text_delta"),
        ("content_block_stop", None),
        ("content_block_start", "tool_use"),
        *[("content_block_delta", "input_json_delta")] * 6,
        ("content_block_stop", None),
        ("message_delta", None),
        ("message_stop", None),
    ]
    start, *_, ended, _ = answer.events
    assert (start["message"]["content"], start["message"]["usage"]["output_tokens"]) == ([], 1)
    assert (ended["delta"]["stop_reason"], ended["usage"]["output_tokens"]) == ("tool_use", 7)


blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text("aé\n😀", max_size=9)),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}, st.text("ab", max_size=9)),
    st.builds(lambda value: {"type": "tool_use", "name": "T", "input": {"a": value}}, st.text('"\\é', max_size=9)),
    st.just({"type": "redacted_thinking", "data": "eA=="}),
)


@given(st.lists(blocks, max_size=4), st.integers(1, 9))
def test_the_pieces_of_an_answer_are_the_answer(content: list[Json], chunk: int) -> None:
    whole = build_message(ScriptStep(content=[*content]), HI)
    found: list[Json] = []
    arguments = ""
    for event in message_events(whole, chunk):
        match event:
            case {"type": "content_block_start", "content_block": block}:
                found.append({**block})
                arguments = ""
            case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": part}}:
                arguments += part
                found[-1]["input"] = json.loads(arguments) if arguments and arguments.endswith("}") else {}
            case {"type": "content_block_delta", "delta": {"type": kind} as delta}:
                key = kind.removesuffix("_delta")
                found[-1][key] += delta[key]
            case _:
                pass
    assert found == whole["content"]


def test_the_same_request_gets_the_same_ids_and_another_gets_others() -> None:
    step = {"content": [READ, READ]}
    with scripted([step, step, step]) as api:
        first, again, other = (ask(api.url, value).json for value in (HI, HI, body(user("ho"))))
    ids = [block["id"] for block in first["content"]]
    assert first["id"] == again["id"] != other["id"]
    assert len({*ids, *(block["id"] for block in other["content"])}) == 4


def test_steps_are_said_in_order_and_what_is_left_is_known() -> None:
    with scripted(["One.", "Two.", "Three."]) as api:
        said = [ask(api.url, HI).json["content"][0]["text"] for _ in range(2)]
        assert api.unused == ["steps.2"]
    assert said == ["One.", "Two."]


def test_a_request_that_the_script_has_nothing_for_fails_the_run() -> None:
    with scripted([]) as api:
        answer = ask(api.url, HI)
    assert (answer.status, api.failures) == (400, ["request 1: the script has nothing to say to this"])


def test_a_default_is_said_to_the_rest() -> None:
    with scripted({"steps": ["One."], "default": "More."}) as api:
        assert [ask(api.url, HI).json["content"][0]["text"] for _ in range(3)] == ["One.", "More.", "More."]


def test_cues_find_their_place_in_a_conversation() -> None:
    script = {"cues": {"Say": ["First.", "Second."], "Sing": ["La."]}, "default": "?"}
    say = [user("Say it"), {"role": "assistant", "content": "First."}, user("and then")]
    with scripted(script) as api:
        told = [
            ask(api.url, body(*messages)).json["content"][0]["text"]
            for messages in (say, say[:1], [*say, {"role": "assistant", "content": "x"}, user("Sing it")], [user("hm")])
        ]
    assert told == ["Second.", "First.", "La.", "?"]


def test_requests_at_the_same_time_get_their_own_answers() -> None:
    cues = {f"number {number}!": [f"Answer {number}."] for number in range(20)}
    with scripted({"cues": {cue: [{"content": said[0], "pause": 0.001}] for cue, said in cues.items()}}) as api:
        with ThreadPoolExecutor(8) as threads:
            answers = [*threads.map(lambda cue: ask(api.url, body(user(cue), stream=True)), cues)]
        assert sorted(asked.number for asked in api.requests) == [*range(1, 21)]
    for answer, (said,) in zip(answers, cues.values(), strict=True):
        assert said in "".join(
            event["delta"].get("text", "") for event in answer.events if "text" in event.get("delta", {})
        )


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"status": 529}, "overloaded_error", "Overloaded"),
        ({"status": 429, "message": "Slow down."}, "rate_limit_error", "Slow down."),
        ({"status": 500, "type": "odd_error"}, "odd_error", "as the script has it"),
        ({"status": 418}, "api_error", "as the script has it"),
    ],
)
def test_an_error_is_said_as_the_api_does(error: Json, kind: str, words: str) -> None:
    with scripted([{"error": {**error, "retry_after": 1.5}}]) as api:
        answer = ask(api.url, STREAM)
    assert (answer.status, answer.headers["retry-after"]) == (error["status"], "1.5")
    assert answer.json["error"] == {"type": kind, "message": words}
    assert answer.json["request_id"] == answer.headers["request-id"]
    assert (api.requests[0].status, api.failures) == (error["status"], [])


def test_an_overload_ends_after_some_times() -> None:
    with scripted([{"error": {"status": 529, "times": 2}, "content": "At last."}, "Then."]) as api:
        assert [ask(api.url, HI).status for _ in range(4)] == [529, 529, 200, 200]
    with scripted([{"error": {"status": 529, "times": 2}}, "Then."]) as api:
        assert [ask(api.url, HI).status for _ in range(3)] == [529, 529, 200]
    with scripted({"cues": {"hi": [{"error": {"status": 529}}]}}) as api:
        assert [ask(api.url, HI).status for _ in range(3)] == [529, 529, 529]


def test_a_cut_answer_ends_inside_an_event() -> None:
    step = {"content": "Hello there.", "break": {"how": "cut", "after": 4}}
    with scripted([step, "Whole."]) as api:
        torn, after = ask(api.url, STREAM), ask(api.url, STREAM)
    assert (torn.status, torn.whole, after.whole) == (200, False, True)
    assert len(torn.events) == 4
    assert not torn.data.endswith(b"\n\n")


def test_a_stream_can_end_in_an_error_event() -> None:
    with scripted([{"content": "Hello.", "break": {"how": "error", "after": 3, "message": "Too much."}}]) as api:
        answer = ask(api.url, STREAM)
    assert answer.whole
    assert answer.events[-1]["error"] == {"type": "overloaded_error", "message": "Too much."}
    assert b"\nevent: error\ndata: " in answer.data


def test_a_stream_can_hold_what_is_not_json() -> None:
    with scripted([{"content": "Hello.", "break": {"how": "malformed", "after": 3}}]) as api:
        answer = ask(api.url, STREAM)
    assert answer.data.endswith(b"event: content_block_delta\ndata: {not json\n\n")


@pytest.mark.parametrize(
    ("how", "status", "whole"), [("cut", 200, False), ("malformed", 200, True), ("error", 500, True)]
)
def test_an_answer_that_is_not_streamed_breaks_too(how: str, status: int, whole: bool) -> None:
    with scripted([{"content": "Hello.", "break": {"how": how, "times": 1}}]) as api:
        answer, after = ask(api.url, HI), ask(api.url, HI)
    assert (answer.status, answer.whole, after.status) == (status, whole, 200)


def test_closing_ends_a_stall_and_a_delay_at_once() -> None:
    step = {"content": "Hello.", "break": {"how": "stall", "seconds": 3600}}
    with ThreadPoolExecutor(3) as threads:
        with scripted([step, {"content": "Late.", "delay": 3600}, {"content": "Slow.", "pause": 3600}]) as api:
            asked = []
            for number in range(3):
                asked.append(threads.submit(ask_and_be_cut, api.url))
                wait(lambda number=number: len(api.requests) > number)
        assert [future.result(20) for future in asked] == [True] * 3


def ask_and_be_cut(url: str) -> bool:
    try:
        return not ask(url, STREAM).whole
    except (ConnectionError, http.client.HTTPException):
        return True


def wait(until: Any) -> None:
    import time

    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Wrong(NamedTuple):
    """A request that the API refuses before it looks at its rules."""

    value: Any
    says: str
    status: int = 400
    path: str = "/v1/messages"
    method: str = "POST"
    headers: Json = HEADERS


WRONG = {
    "no key": Wrong(HI, "x-api-key header is required", 401, headers={"anthropic-version": "1"}),
    "no version": Wrong(HI, "anthropic-version: header is required", headers={"x-api-key": "k"}),
    "no JSON": Wrong(b"{", "The request body is not valid JSON"),
    "no UTF-8": Wrong(b'"\xff"', "The request body is not valid JSON"),
    "no object": Wrong([], "Input should be a valid dictionary or object"),
    "no such path": Wrong(HI, "Not found: /v1/complete", 404, "/v1/complete"),
    "no such method": Wrong(HI, "Method Not Allowed", 405, method="GET"),
    "too much": Wrong(b" " * (32 * 1024 * 1024 + 1), "Request exceeds the maximum size", 413),
    "a broken rule": Wrong({**HI, "max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
    "a broken rule, counted": Wrong(
        body(), "messages: at least one message is required", path="/v1/messages/count_tokens"
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_the_api_refuses_is_refused_in_its_words(wrong: Wrong) -> None:
    with scripted({"default": "OK."}) as api:
        answer = ask(api.url, wrong.value, wrong.path, wrong.method, wrong.headers)
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        405: "invalid_request_error",
        413: "request_too_large",
    }
    assert (answer.status, answer.json["type"], answer.json["error"]["type"]) == (
        wrong.status,
        "error",
        kinds[wrong.status],
    )
    assert wrong.says in answer.json["error"]["message"]
    assert bool(api.failures) == (wrong.status not in (404, 405))


def test_a_bearer_will_do_and_a_chunked_request_too() -> None:
    headers = {"authorization": "Bearer t", "anthropic-version": "2023-06-01"}
    with scripted(["Hello.", "Hello."]) as api:
        assert ask(api.url, HI, headers=headers).status == 200
        connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=20)
        data = json.dumps(HI).encode()
        connection.request("POST", "/v1/messages?beta=true", iter([data[:9], data[9:]]), headers, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()


def test_without_strict_nothing_but_the_script_is_asked() -> None:
    with scripted(["Hello."], strict=False) as api:
        assert ask(api.url, {"messages": []}).status == 200
    assert api.failures == []


def test_thinking_that_this_server_sent_must_come_back_unchanged() -> None:
    step = {"content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, READ]}
    with scripted({"steps": [step], "default": "OK."}) as api:
        said = ask(api.url, STREAM).events
        call = next(
            event["content_block"] for event in said if event.get("content_block", {}).get("type") == "tool_use"
        )
        back = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {**call, "input": READ["input"]}]
        result = user([{"type": "tool_result", "tool_use_id": call["id"], "content": "milk"}])
        request = body(user("hi"), {"role": "assistant", "content": back}, result, thinking={"type": "adaptive"})
        assert ask(api.url, request).status == 200
        request["messages"][1]["content"] = back[1:]
        refused = ask(api.url, request)
    assert "cannot be modified" in refused.json["error"]["message"]


RESULT = [
    user("Read it"),
    {"role": "assistant", "content": [{**READ, "id": "toolu_1"}]},
    user(
        [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": 'Buy "milk"'}]},
            {"type": "text", "text": "so?"},
        ]
    ),
]
ASKED = body(
    *RESULT, system=[{"type": "text", "text": "Be kind."}], tools=[{"name": "Read", "input_schema": {"type": "object"}}]
)
DEMANDS: dict[str, tuple[Json, Json, str]] = {
    "text": ({"text": "so"}, {"text": "Read it"}, "no text holds `Read it`"),
    "result": ({"result": ["Buy", '"milk"']}, {"result": ["Buy", "bread"]}, "no tool result holds `bread`"),
    "no error": ({"is_error": False}, {"is_error": True}, "the result of `toolu_1` is no error"),
    "system": ({"system": "kind"}, {"system": "cruel"}, "no system prompt holds `cruel`"),
    "anywhere": ({"anywhere": 'Buy "milk"'}, {"anywhere": "bread"}, "no message holds `bread`"),
    "absent": ({"absent": "bread"}, {"absent": "milk"}, "`milk` is there and should not be"),
    "tools": ({"tools": "Read"}, {"tools": ["Read", "Bash"]}, "no tool `Bash` is offered"),
    "header": (
        {"header": {"Anthropic-Version": "2023"}},
        {"header": {"anthropic-version": "2031"}},
        "holds `2023-06-01`",
    ),
    "no header": ({"header": {}}, {"header": {"x-app": "cli"}}, "there is no header `x-app`"),
    "secret": (
        {"header": {"x-api-key": "sk-ant-secret"}},
        {"header": {"x-api-key": "other"}},
        "`x-api-key` holds what it should not",
    ),
    "body": ({"body": {"max_tokens": 100}}, {"body": {"max_tokens": 1}}, "`max_tokens` is `100`, not `1`"),
    "inside the body": (
        {"body": {"metadata": None}},
        {"body": {"metadata": {"user_id": "me"}}},
        "`metadata` is `null`",
    ),
}


@pytest.mark.parametrize(("met", "unmet", "words"), DEMANDS.values(), ids=DEMANDS)
def test_a_step_can_demand_what_a_request_holds(met: Json, unmet: Json, words: str) -> None:
    with scripted([{"content": "Fine.", "expect": met}, {"content": "No.", "expect": unmet}]) as api:
        fine, failed = ask(api.url, ASKED), ask(api.url, ASKED)
    assert (fine.status, failed.status, failed.json["error"]["type"]) == (200, 400, "invalid_request_error")
    assert failed.json["error"]["message"].startswith("the script expects something else at `steps.1`: ")
    assert [words in failure for failure in api.failures] == [True]
    assert words in failed.json["error"]["message"]
    assert "sk-ant-secret" not in failed.data.decode()


def test_tokens_are_counted_as_the_script_says_or_estimated() -> None:
    for given_, status, tokens in [(None, 200, 5), (7, 200, 7), ({"status": 404}, 404, None)]:
        script = {"count_tokens": given_} if given_ else {}
        with scripted(script) as api:
            answer = ask(api.url, {key: HI[key] for key in ("model", "messages")}, "/v1/messages/count_tokens")
        assert (answer.status, answer.json.get("input_tokens")) == (status, tokens)
        assert api.requests[0].status == status


def test_the_log_has_every_request_and_no_secret(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    headers = {**HEADERS, "authorization": "Bearer sk-ant-secret", "x-custom-token": "sk-ant-secret", "x-app": "cli"}
    with scripted(["Hello."], log=log) as api:
        ask(api.url, HI, headers=headers)
        ask(api.url, body(), headers=headers)
        lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [(line["number"], line["status"], line["step"]) for line in lines] == [(1, 200, "steps.0"), (2, 400, None)]
    assert lines[1]["problems"] == ["messages: at least one message is required"]
    assert lines[0]["body"] == HI
    assert {name: lines[0]["headers"][name] for name in ("x-api-key", "authorization", "x-custom-token", "x-app")} == {
        "x-api-key": "(hidden)",
        "authorization": "(hidden)",
        "x-custom-token": "(hidden)",
        "x-app": "cli",
    }
    assert "sk-ant-secret" not in log.read_text() + repr(api.requests)


def test_only_this_machine_can_reach_it() -> None:
    with scripted([]) as api:
        assert urlsplit(api.url).hostname == "127.0.0.1"
        port = urlsplit(api.url).port
        assert port
        with pytest.raises(Refused, match=f"cannot listen on port {port}"), scripted([], port=port):
            pass
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"step": []}, "unknown field `step`"),
        ([{"contents": "a"}], "unknown field `contents` - at `$[0]`"),
        ({"cues": {"a": [5]}}, "expected `str | object`, got `int` - at `$.cues[...][0]`"),
        ([{"break": {"how": "gently"}}], "invalid enum value 'gently'"),
        (["${who}"], "needs a value for `${who}`"),
        ("Hello", "expected `object`, got `str`"),
    ],
)
def test_a_script_that_says_something_else_is_refused(script: Any, words: str) -> None:
    with pytest.raises(Unreadable) as raised:
        convert_script(script)
    assert words in raised.value.message
    assert raised.value.hint


def test_a_script_is_a_file_with_variables(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('["Hello, ${who}."]')
    assert load_script(path, {"who": "you"}).steps == ["Hello, you."]
    path.write_text("{")
    with pytest.raises(Unreadable, match="is not JSON"):
        load_script(path)
    with pytest.raises(NotFound):
        load_script(tmp_path / "none.json")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`unspool testing serve` at work."""
    script = tmp_path / "script.json"
    script.write_text('{"steps": [{"content": "Hello, ${who}.", "expect": {"text": "hi"}}], "default": "OK."}')
    command = [sys.executable, "-m", "unspool", "testing", "serve", str(script), "--set", "who=you"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--log", str(tmp_path / "log")],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_told_to_stop(
    serving: subprocess.Popen[str], number: int, tmp_path: Path
) -> None:
    assert serving.stdout
    url = serving.stdout.readline().strip()
    assert ask(url, HI).json["content"][0]["text"] == "Hello, you."
    serving.send_signal(number)
    assert serving.communicate(timeout=20) == ("", "")
    assert serving.returncode == 0
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_the_command_says_how_the_run_has_failed(serving: subprocess.Popen[str]) -> None:
    assert serving.stdout
    url = serving.stdout.readline().strip()
    assert ask(url, body(user("ho"))).status == 400
    assert ask(url, HI).status == 200
    serving.send_signal(signal.SIGINT)
    _, errors = serving.communicate(timeout=20)
    assert serving.returncode == 6
    assert errors == (
        "request 1: the script expects something else at `steps.0`: no text holds `hi`\n"
        "unspool: 1 request of 2 failed\n"
    )


def test_what_is_scripted_passes_the_rules_when_it_is_sent_back() -> None:
    memory = Memory()
    said = build_message(ScriptStep(content=[{"type": "thinking"}, "I look.", READ]), HI)
    memory.keep(said)
    result = user([{"type": "tool_result", "tool_use_id": said["content"][2]["id"], "content": "milk"}])
    back = body(user("hi"), {"role": "assistant", "content": said["content"]}, result, thinking={"type": "adaptive"})
    assert problems(back, memory) == []


def test_an_answer_waits_for_a_file(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with scripted({"steps": [{"content": "Now.", "until": str(gate)}]}) as api, ThreadPoolExecutor(1) as other:
        asked = other.submit(ask, api.url, body(user("When?")))
        while not api.requests:
            assert not asked.done()
        gate.touch()
        assert asked.result(timeout=30).json["content"][0]["text"] == "Now."


def test_a_request_larger_than_the_window_is_refused_and_fails_no_run() -> None:
    with scripted({"default": "OK.", "window": 500}) as api:
        large = ask(api.url, body(user("word " * 500)))
        small = ask(api.url, body(user("word")))
    assert (large.status, small.status) == (400, 200)
    tokens = count_tokens(api.bodies[0])
    assert large.json["error"]["message"] == f"prompt is too long: {tokens} tokens > 500 maximum"
    assert api.failures == []


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 2000))
def test_an_answer_ends_where_the_window_or_its_own_limit_does(asked: int, answered: int, most: int) -> None:
    request = {**body(user("x" * asked + "?")), "max_tokens": most}
    whole = build_message(ScriptStep(content=["y" * answered + ".", READ]), request)
    within = build_message(ScriptStep(content=["y" * answered + ".", READ]), request, 1000)
    room = max(0, 1000 - count_tokens(request))
    assert within["usage"]["output_tokens"] <= max(1, min(room, most))
    if within["content"] == whole["content"]:
        assert within == whole
    else:
        assert within["stop_reason"] == ("max_tokens" if most < room else "model_context_window_exceeded")
        assert "".join(block["text"] for block in within["content"]) in whole["content"][0]["text"]
