"""`unspool chat --endpoint` against a scripted server of OpenAI's API: a whole task, faults, probing."""

from __future__ import annotations

import json
import sys

from tests.api.completions_server import Manners, completing
from tests.client.conftest import Chat, Place
from unspool.testing.api import scripted

TEST = "import calc\nassert calc.add(2, 3) == 5\nprint('passed')\n"


def call(name: str, **given: object) -> dict[str, object]:
    return {"type": "tool_use", "name": name, "input": given}


def test_a_model_behind_chat_completions_reads_edits_and_tests(chat: Chat, place: Place) -> None:
    source = place.work / "calc.py"
    source.write_text("def add(a, b):\n    return a - b\n")
    (place.work / "check.py").write_text(TEST)
    steps = [
        [call("Read", file_path=str(source)), call("Read", file_path=str(place.work / "check.py"))],
        [call("Edit", file_path=str(source), old_string="a - b", new_string="a + b")],
        [call("Bash", command=f"{sys.executable} check.py", description="Run the test")],
        "The test has passed.",
    ]
    with completing(steps) as server:
        done = chat(
            *("-p", "Make the test pass.", "--endpoint", server.url, "--output-format", "json"),
            *("--allowedTools", "Edit", "Bash", "--sandbox", "off"),
            UNSPOOL_API_KEY="sesame",
        )
    assert (done.code, done.err, server.problems) == (0, "", [])
    assert (done.object["result"], done.object["num_turns"]) == ("The test has passed.", 4)
    assert source.read_text() == "def add(a, b):\n    return a + b\n"
    results = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "tool"]
    assert len(results) == 4
    assert results[-1] == "passed"
    assert all(headers["authorization"] == "Bearer sesame" for headers in server.headers)
    # The session is what Claude Code writes: one line a block, each call answered.
    (session,) = place.sessions()
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    said = [line["message"] for line in lines if line.get("type") == "assistant"]
    assert [block["name"] for message in said for block in message["content"] if block["type"] == "tool_use"] == [
        "Read", "Read", "Edit", "Bash"
    ]  # fmt: skip
    assert said[-1]["usage"]["cache_read_input_tokens"] == 100
    assert said[-1]["stop_reason"] == "end_turn"


def test_the_only_model_of_a_server_is_used_with_the_window_it_says(chat: Chat) -> None:
    with completing(["Hello."]) as server:
        assert chat("-p", "hi", "--endpoint", server.url).out == "Hello.\n"
    assert server.bodies[0]["model"] == "tiny"
    assert server.bodies[0]["max_tokens"] == 10_000  # a quarter of the window


def test_a_server_with_several_models_says_which(chat: Chat) -> None:
    with completing([], Manners(models=({"id": "one"}, {"id": "two"}))) as server:
        done = chat("-p", "hi", "--endpoint", server.url)
    assert done == (2, "", "unspool: missing option --model\nhint: choose one of its models: one, two\n")


def test_a_call_with_broken_arguments_is_told_to_the_model(chat: Chat) -> None:
    with completing([[{"type": "tool_use", "name": "Read", "input": '{"file_path": '}], "Sorry."]) as server:
        assert chat("-p", "hi", "--endpoint", server.url).out == "Sorry.\n"
    assert server.problems == []
    (result,) = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert "JSON" in result["content"]


def test_a_key_of_the_endpoint_is_hidden_from_commands(chat: Chat) -> None:
    steps = [[call("Bash", command="echo key=$OPENAI_API_KEY", description="Show")], "Done."]
    with completing(steps, Manners(key="sesame")) as server:
        done = chat(
            *("-p", "hi", "--endpoint", "openai", "--model", "tiny", "--allowedTools", "Bash", "--sandbox", "off"),
            OPENAI_BASE_URL=server.url,
            OPENAI_API_KEY="sesame",
        )
    assert done.out == "Done.\n"
    assert server.bodies[1]["messages"][-1]["content"] == "key="


def test_faults_of_a_server_are_one_line_and_a_session_that_can_be_resumed(chat: Chat, place: Place) -> None:
    with completing([(200, b"<!doctype html><title>Sign in</title>")]) as server:
        done = chat("-p", "hi", "--endpoint", f"{server.url}/v1/chat/completions", "--model", "tiny")
    assert done.code == 6
    assert "answers with a web page: Sign in" in done.err
    with completing([(401, {"error": {"message": "no"}})]) as server:
        done = chat("-p", "hi", "--endpoint", server.url, "--model", "tiny")
    assert done.code == 6
    assert "check UNSPOOL_API_KEY" in done.err
    with completing(["Here again."]) as server:
        done = chat("-p", "hi", "--continue", "--endpoint", server.url)
    assert done.out == "Here again.\n"


def test_the_probe_says_what_a_server_does_and_what_to_change(chat: Chat) -> None:
    look = [call("look")]
    answers = ["yes.", "yes.", "yes.", "yes.", look, "yes.", "yes."]
    with completing(answers) as server:
        done = chat("--probe", "--endpoint", server.url)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:3] == [f"endpoint: {server.url}", "model: tiny", f"{'answers':<32}yes"]
    assert f"{'tool calls':<32}yes" in lines
    assert f"{'usage':<32}yes" in lines
    assert lines[-1] == "protocol: OpenAI's chat completions"
    done = chat("--probe", "--endpoint", "litellm", "--model", "tiny", LITELLM_PROXY_API_BASE="http://127.0.0.1:1")
    assert done.code == 6
    assert "change: start the server: litellm --config config.yaml" in done.out
    with completing(["yes."] * 9, Manners(usage=False)) as server:
        done = chat("--probe", "--endpoint", server.url)
    assert "change: use a model that can call tools" in done.out
    assert "change: pass --context-window N" in done.out


def test_a_server_with_the_messages_api_is_used_by_it(chat: Chat) -> None:
    with scripted(["Hello."]) as api:
        done = chat("-p", "hi", "--endpoint", api.url, "--model", "claude-opus-5-5", UNSPOOL_API_KEY="any")
    assert (done.out, api.failures) == ("Hello.\n", [])
