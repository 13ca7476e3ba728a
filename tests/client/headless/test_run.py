from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import Chat, Place
from unspool.testing.api import scripted

READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "notes.md"}}
FIELDS = {
    "type", "subtype", "result", "session_id", "num_turns", "duration_ms", "duration_api_ms", "is_error", "usage",
    "total_cost_usd", "total_cost_micros", "permission_denials",
}  # fmt: skip


def bash(command: str) -> dict[str, object]:
    return {"type": "tool_use", "name": "Bash", "input": {"command": command}}


def said(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}})


def test_the_last_words_are_the_answer(chat: Chat) -> None:
    assert chat("-p", "hi", script=["Hello."]) == (0, "Hello.\n", "")


def test_what_is_piped_in_comes_before_the_prompt(chat: Chat) -> None:
    expect = {"text": "line one\nline two\nWhat is this?"}
    done = chat("-p", "What is this?", script=[{"content": "Lines.", "expect": expect}], input="line one\nline two\n")
    assert done == (0, "Lines.\n", "")
    assert chat("-p", script=["Only piped."], input="all of it").out == "Only piped.\n"


def test_nothing_asked_is_wrong_use(chat: Chat) -> None:
    done = chat("-p", script=["Hello."])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("unspool: missing argument PROMPT\nhint: ")


def test_one_object_says_what_came_of_it(chat: Chat, place: Place) -> None:
    (place.work / "notes.md").write_text("Remember the milk\n")
    steps = [
        {"content": [READ, bash("touch /tmp/never-made")]},
        {"content": "Milk.", "expect": {"result": ["Remember the milk", "touch"]}},
    ]
    told = chat("-p", "Read", "--output-format", "json", script=steps).object
    assert set(told) >= FIELDS
    assert (told["type"], told["subtype"], told["is_error"], told["result"]) == ("result", "success", False, "Milk.")
    assert told["num_turns"] == 2
    assert told["session_id"] == place.sessions()[0].stem
    assert [denied["tool_input"] for denied in told["permission_denials"]] == [{"command": "touch /tmp/never-made"}]
    assert told["total_cost_usd"] * 1_000_000 == pytest.approx(told["total_cost_micros"])
    assert not Path("/tmp/never-made").exists()


def test_a_stream_begins_with_init_and_ends_with_the_result(chat: Chat, place: Place) -> None:
    (place.work / "notes.md").write_text("Remember the milk\n")
    steps = [{"content": ["I look.", READ]}, "Milk."]
    told = chat("-p", "Read", "--output-format", "stream-json", "--verbose", script=steps).objects
    assert [(one["type"], one.get("subtype")) for one in told] == [
        ("system", "init"),
        ("assistant", None),
        ("assistant", None),
        ("user", None),
        ("assistant", None),
        ("result", "success"),
    ]
    init = told[0]
    assert init["cwd"] == str(place.work)
    assert init["permissionMode"] == "default"
    assert {"Read", "Edit", "Bash"} <= set(init["tools"])
    assert "compact" in init["slash_commands"]
    assert {one["session_id"] for one in told} == {place.sessions()[0].stem}
    lines = [json.loads(line) for line in place.sessions()[0].read_text().splitlines()]
    written = {line["uuid"] for line in lines if line.get("type") in ("assistant", "user")}
    assert {one["uuid"] for one in told[1:5]} <= written


def test_words_can_be_told_as_they_come(chat: Chat) -> None:
    flags = ("--output-format", "stream-json", "--include-partial-messages")
    told = chat("-p", "hi", *flags, script=[{"content": "Hello you.", "chunk": 5}]).objects
    deltas = [one["event"]["delta"] for one in told if one["type"] == "stream_event" and "delta" in one["event"]]
    assert [delta["text"] for delta in deltas if delta.get("type") == "text_delta"] == ["Hello", " you."]


def test_several_messages_are_several_turns_of_one_session(chat: Chat, place: Place) -> None:
    flags = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--replay-user-messages")
    script = {"cues": {"first": ["One."], "second": [{"content": "Two.", "expect": {"anywhere": "One."}}]}}
    done = chat(*flags, script=script, input=f"{said('first')}\n\nnot json\n{said('second')}\n")
    results = [one for one in done.objects if one["type"] == "result"]
    assert (done.code, [one["result"] for one in results]) == (0, ["One.", "Two."])
    assert [one["message"]["content"] for one in done.objects if one.get("isReplay")] == ["first", "second"]
    assert len(place.sessions()) == 1
    assert "skipped a line of the input: not JSON" in done.err


def test_a_program_may_interrupt_and_go_on(place: Place) -> None:
    started = place.root / "started"
    script = {"cues": {"wait": [{"content": [bash(f"touch {started}; sleep 60")]}], "again": ["Back."]}}
    command = ["-m", "unspool", "chat", "--model", place.script(script), "--permission-mode", "bypassPermissions"]
    streams = ["--input-format", "stream-json", "--output-format", "stream-json"]
    with subprocess.Popen(
        [sys.executable, *command, *streams],
        env=place.environment,
        cwd=place.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(said("wait") + "\n")
        process.stdin.flush()
        told = []
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["type"] == "assistant":
                break
        request = {"type": "control_request", "request_id": "7", "request": {"subtype": "interrupt"}}
        process.stdin.write(f"{json.dumps(request)}\n{said('again')}\n")
        process.stdin.close()
        told += [json.loads(line) for line in process.stdout]
        assert process.wait(timeout=30) == 0
    answered = next(one for one in told if one["type"] == "control_response")
    assert answered["response"] == {"subtype": "success", "request_id": "7"}
    endings = [(one["subtype"], one["is_error"]) for one in told if one["type"] == "result"]
    assert endings == [("error_during_execution", True), ("success", False)]  # as Claude Code 2.1.326 says


def test_a_signal_ends_it_while_more_could_be_said(place: Place) -> None:
    command = ["-m", "unspool", "chat", "--model", place.script({"default": "Hello."})]
    with subprocess.Popen(
        [sys.executable, *command, "--input-format", "stream-json", "--output-format", "stream-json"],
        env=place.environment,
        cwd=place.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(said("hi") + "\n")
        process.stdin.flush()
        assert any('"result"' in line for line in process.stdout)
        process.terminate()
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
        assert process.stderr.read() == ""


def test_what_a_program_cannot_do_is_refused_by_name(chat: Chat) -> None:
    flags = ("--input-format", "stream-json", "--output-format", "stream-json")
    asked = {"type": "control_request", "request_id": "1", "request": {"subtype": "fly"}}
    begin = {"type": "control_request", "request_id": "2", "request": {"subtype": "initialize", "hooks": None}}
    done = chat(*flags, script=["x"], input=f"{json.dumps(asked)}\n{json.dumps(begin)}\n")
    refused, begun = done.objects
    assert refused["response"]["error"] == "unknown request: fly"
    assert "compact" in [command["name"] for command in begun["response"]["response"]["commands"]]


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_an_api_error_is_one_line_and_exit_6(chat: Chat, form: str) -> None:
    steps = [{"error": {"status": 400, "type": "invalid_request_error", "message": "no such model"}}]
    done = chat("-p", "hi", "--output-format", form, script=steps)
    assert done.code == 6
    assert done.err.splitlines()[0].startswith("unspool: ")
    assert "no such model" in done.err.splitlines()[0]
    if form == "text":
        assert done.out == ""
    else:
        assert done.objects[-1]["is_error"] is True
        assert "no such model" in done.objects[-1]["result"]


def test_a_missing_key_is_exit_2_with_a_hint(chat: Chat, place: Place) -> None:
    done = chat("-p", "hi")
    assert done.code == 2
    assert done.err == (
        "unspool: no API key for the Messages API\nhint: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN\n"
    )
    assert place.sessions() == []


def test_the_api_is_asked_over_http(chat: Chat) -> None:
    with scripted([{"content": "Hello.", "expect": {"body": {"model": "claude-haiku-5-5"}}}]) as api:
        done = chat("-p", "hi", "--model", "haiku", ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="any")
    assert (done, api.failures) == ((0, "Hello.\n", ""), [])


def test_a_limit_that_is_reached_is_said(chat: Chat) -> None:
    steps = [{"content": [bash("true")]}, {"content": [bash("true")]}, "Never said."]
    done = chat("-p", "go", "--max-turns", "2", "--output-format", "json", script=steps)
    assert done.code == 1
    assert (done.object["subtype"], done.object["is_error"], done.object["num_turns"]) == ("error_max_turns", True, 2)
    assert "maximum number of turns" in done.err


@pytest.mark.parametrize("way", ["id", "title", "file", "continue"])
def test_a_session_is_gone_on_with(chat: Chat, place: Place, way: str) -> None:
    chat("-p", "my first question", script=["First."])
    (path,) = place.sessions()
    flags = {
        "id": ["--resume", path.stem],
        "title": ["--resume", "my first question"],
        "file": ["-r", str(path)],
        "continue": ["--continue"],
    }[way]
    done = chat("-p", "go on", *flags, script=[{"content": "Second.", "expect": {"anywhere": ["First."]}}])
    assert (done, place.sessions()) == ((0, "Second.\n", ""), [path])


def test_a_copy_leaves_the_session_as_it_is(chat: Chat, place: Place) -> None:
    chat("-p", "one", script=["First."])
    (path,) = place.sessions()
    before = path.read_bytes()
    done = chat(
        *("-p", "two", "--continue", "--fork-session", "--output-format", "json"),
        script=[{"content": "Second.", "expect": {"anywhere": ["First."]}}],
    )
    assert path.read_bytes() == before
    assert done.object["session_id"] in {other.stem for other in place.sessions() if other != path}


def test_the_id_of_a_session_can_be_given_once(chat: Chat, place: Place) -> None:
    id = "11111111-2222-4333-8444-555555555555"
    assert chat("-p", "hi", "--session-id", id, script=["Hello."]).code == 0
    assert [path.stem for path in place.sessions()] == [id]
    assert chat("-p", "hi", "--session-id", id, script=["Hello."]).code == 5


def test_a_session_that_is_not_there_is_not_found(chat: Chat) -> None:
    done = chat("-p", "hi", "--resume", "11111111-2222-4333-8444-555555555555", script=["Hello."])
    assert done.code == 3
    assert "no session matches" in done.err
    assert chat("-p", "hi", "--continue", script=["Hello."]).code == 3


@pytest.mark.parametrize(
    "flags",
    [
        ("--allowedTools", "Bash(touch:*),Read"),
        ("--allowedTools", "Read Bash(touch:*)"),
        ("--allowedTools", "Read", "Bash(touch:*)"),
        ("--allowed-tools", "Read", "--allowed-tools", "Bash(touch:*)"),
    ],
)
def test_what_is_allowed_by_a_flag_is_done(chat: Chat, place: Place, flags: tuple[str, ...]) -> None:
    done = chat(*flags, "-p", "go", script=[{"content": [bash("touch made")]}, "Done."])
    assert done == (0, "Done.\n", "")
    assert (place.work / "made").exists()


def test_what_is_disallowed_by_a_flag_is_not_offered(chat: Chat) -> None:
    flags = ("--disallowedTools", "Bash", "--output-format", "stream-json")
    assert "Bash" not in chat("-p", "go", *flags, script=["Done."]).objects[0]["tools"]


def test_a_system_prompt_can_be_given_and_added_to(chat: Chat) -> None:
    expect = {"system": ["You are a parrot.", "Say little."]}
    flags = ("--system-prompt", "You are a parrot.", "--append-system-prompt", "Say little.")
    assert chat("-p", "hi", *flags, script=[{"content": "Hi.", "expect": expect}]).code == 0


def test_escape_sequences_in_an_answer_are_not_printed(chat: Chat) -> None:
    evil = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202ed"
    assert chat("-p", "hi", script=[evil]).out == "abc<U+202E>d\n"
    out = chat("-p", "hi", "--output-format", "json", script=[evil]).out
    assert out.strip().isprintable()
    assert json.loads(out)["result"] == evil


def test_who_stops_reading_leaves_a_whole_session_and_no_trace_of_a_process(place: Place) -> None:
    script = place.script([{"content": "A long story. " * 20, "chunk": 5, "pause": 0.02}])
    command = ["-m", "unspool", "chat", "-p", "tell", "--model", script, "--output-format", "stream-json"]
    process = subprocess.Popen(
        [sys.executable, *command, "--include-partial-messages"],
        env=place.environment,
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=30)
    assert list((place.config / "sessions").iterdir()) == []
    assert "[Request interrupted by user]" in place.sessions()[0].read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_and_the_session_can_be_gone_on_with(chat: Chat, place: Place, number: int) -> None:
    script = [{"content": [bash("sleep 60")]}, "Never said."]
    command = ["-m", "unspool", "chat", "-p", "wait", "--model", place.script(script)]
    process = subprocess.Popen(
        [sys.executable, *command, "--output-format", "stream-json", "--allowedTools", "Bash"],
        env=place.environment,
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout
        assert any(b'"tool_use"' in line for line in process.stdout)
        os.kill(process.pid, number)
        rest = process.stdout.read().decode()
        assert process.wait(timeout=30) == 128 + number
    assert json.loads(rest.splitlines()[-1])["subtype"] == "error_during_execution"
    expect = {"anywhere": "[Request interrupted by user for tool use]"}
    assert chat("-p", "go on", "--continue", script=[{"content": "Yes.", "expect": expect}]).out == "Yes.\n"


@pytest.mark.parametrize(
    "flags",
    [
        ("--resume", "a", "--continue"),
        ("--fork-session",),
        ("--resume",),
        ("--input-format", "stream-json"),
        ("--add-dir", "/no/such/folder"),
        ("--permission-prompt-tool", "mcp__x"),
        ("--tools", "Fly"),
        ("--set", "novalue"),
    ],
)
def test_flags_that_do_not_fit_together_are_wrong_use(chat: Chat, flags: tuple[str, ...]) -> None:
    done = chat("-p", "x", *flags, script=["Hello."])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("unspool: ")


@pytest.mark.parametrize(
    "step",
    [
        {"error": {"status": 529, "retry_after": 0.01, "times": 2}, "content": "At last."},
        {"error": {"status": 429, "retry_after": 0.01, "times": 1}, "content": "At last."},
        {"content": "At last.", "chunk": 3, "break": {"how": "cut", "after": 2, "times": 1}},
        {"content": "At last.", "chunk": 3, "break": {"how": "error", "after": 2, "times": 1}},
    ],
    ids=["overloaded", "too many", "cut", "error in the middle"],
)
def test_what_may_be_better_the_next_time_is_asked_again(chat: Chat, step: dict[str, object]) -> None:
    done = chat("-p", "hi", script=[step])
    assert (done.code, done.out, done.err) == (0, "At last.\n", "")


def test_a_command_that_never_ends_is_ended_by_a_limit(chat: Chat, place: Place) -> None:
    steps = [{"content": [bash("sleep 60")]}, "Never said."]
    done = chat("-p", "go", "--allowedTools", "Bash", "--max-seconds", "1", "--output-format", "json", script=steps)
    assert (done.code, done.object["subtype"]) == (1, "error_max_seconds")
    assert "maximum time" in done.err


@pytest.mark.parametrize("folder", ["/dev/null/claude", "/proc/claude"])
def test_a_folder_that_cannot_be_written_is_exit_4(chat: Chat, folder: str) -> None:
    done = chat("-p", "hi", script=["Hello."], CLAUDE_CONFIG_DIR=folder)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("unspool: cannot write")


def test_commands_of_ours_need_no_model(chat: Chat, place: Place) -> None:
    done = chat("-p", "/cost", "--output-format", "json", script=[])
    assert (done.code, done.object["num_turns"]) == (0, 0)
    assert done.object["result"].startswith("Total cost: $0.00")
    assert place.sessions() == []


def test_settings_act_as_far_as_the_folder_is_trusted(chat: Chat, place: Place) -> None:
    (place.work / ".claude").mkdir()
    (place.work / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash(touch:*)"]}}')
    steps = [{"content": [bash("touch made")]}, "Done."]
    untrusted = chat("-p", "go", script=steps)
    assert (untrusted.code, untrusted.out) == (0, "Done.\n")
    assert "is not trusted" in untrusted.err
    assert not (place.work / "made").exists()
    assert chat("-p", "go", "--trust", script=steps) == (0, "Done.\n", "")
    assert (place.work / "made").exists()


def test_a_persons_own_settings_name_model_and_environment(chat: Chat, place: Place) -> None:
    place.config.mkdir()
    settings = {"model": "haiku", "env": {"GREETING": "from the settings"}, "permissions": {"deny": ["WebFetch"]}}
    (place.config / "settings.json").write_text(json.dumps(settings))
    steps = [
        {"content": [bash("echo $GREETING")], "expect": {"body": {"model": "claude-haiku-5-5"}}},
        {"content": "Heard.", "expect": {"result": "from the settings"}},
    ]
    done = chat("-p", "go", "--allowedTools", "Bash", "--output-format", "stream-json", script=steps)
    assert done.objects[-1]["result"] == "Heard."
    assert "WebFetch" not in done.objects[0]["tools"]
    (place.config / "settings.json").write_text("{")
    assert chat("-p", "go", script=["Never said."]).code == 4


def test_why_a_call_is_allowed_can_be_asked(chat: Chat) -> None:
    done = chat("--explain", "Bash(ls; rm x)", "--disallowedTools", "Bash(rm:*)")
    assert done.code == 0
    assert done.out.startswith("deny: ")
    assert "rule: Bash(rm:*) (flag)" in done.out


def test_what_an_endpoint_can_do_is_found_out(chat: Chat) -> None:
    with scripted({"default": "yes."}) as api:
        done = chat("--probe", ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="any")
    assert done.out.startswith(f"endpoint: {api.url}\nmodel: ")
    told = dict(line.split("  ", 1) for line in done.out.splitlines() if "  " in line)
    assert {feature: words.strip() for feature, words in told.items()}["counting tokens"] == "yes"
    assert done.code == 0


def test_what_is_asked_beside_the_conversation_is_billed_too(chat: Chat) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    search = {"type": "tool_use", "name": "WebSearch", "input": {"query": "tides"}}
    steps = [
        {"content": [search], "usage": usage},
        {"content": "Nothing.", "usage": usage},
        {"content": "So.", "usage": usage},
    ]
    told = chat("-p", "Look.", "--allowedTools", "WebSearch", "--output-format", "json", script=steps).object
    assert (told["result"], told["usage"]["input_tokens"], told["usage"]["output_tokens"]) == ("So.", 300, 30)


@pytest.mark.parametrize("name", ["CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "notes.md"])
def test_endless_instructions_are_left_out_and_one_line_says_so(chat: Chat, place: Place, name: str) -> None:
    (place.work / ".claude").mkdir()
    path = place.work / name
    path.touch()
    os.truncate(path, 100 << 30)  # it takes no room on the disk, but would fill any memory
    if name == "notes.md":
        (place.work / "CLAUDE.md").write_text("See @notes.md\n")
    done = chat("-p", "Hi.", "--trust", script=["Hello."])
    assert (done.code, done.out) == (0, "Hello.\n")
    (line,) = [line for line in done.err.splitlines() if str(path) in line]
    assert "too large" in line


def test_an_endless_image_or_file_that_is_mentioned_is_left_out(chat: Chat, place: Place) -> None:
    for name in ("a.png", "a.txt", "a.pdf"):
        (place.work / name).touch()
        os.truncate(place.work / name, 100 << 30)
    done = chat("-p", "Look at @a.png, @a.txt and @a.pdf.", script=["Hello."])
    assert (done.code, done.out) == (0, "Hello.\n")


def test_an_endpoint_without_streaming_answers_over_http(chat: Chat) -> None:
    refusal = {"error": {"status": 400, "type": "e", "message": "`stream` must be false"}}
    with scripted([refusal, {"content": "Hello.", "expect": {"body": {"stream": False}}}]) as api:
        done = chat("-p", "hi", "--model", "haiku", ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="any")
    assert (done.code, done.out, api.failures) == (0, "Hello.\n", [])


def test_a_retried_answer_is_printed_once_and_begins_a_new_message(chat: Chat) -> None:
    broken = {"content": "A long story about a ship.", "chunk": 6, "break": {"how": "cut", "after": 4}}
    script = {"steps": [broken], "default": "A long story about a ship."}
    assert chat("-p", "go", script=script).out == "A long story about a ship.\n"
    flags = ("--output-format", "stream-json", "--include-partial-messages")
    told = chat("-p", "go", *flags, script=script).objects
    (said_once,) = [one for one in told if one["type"] == "assistant"]
    assert said_once["message"]["content"] == [{"type": "text", "text": "A long story about a ship."}]
    frames = [one["event"] for one in told if one["type"] == "stream_event"]
    starts = [at for at, frame in enumerate(frames) if frame["type"] == "message_start"]
    assert len(starts) == 2
    for at in starts:
        message = frames[at]["message"]
        assert message["id"].startswith("msg_")
        assert message["model"]
        assert message["usage"]["input_tokens"] > 0
    again = frames[starts[1] :]
    texts = [frame["delta"]["text"] for frame in again if frame["type"] == "content_block_delta"]
    assert "".join(texts) == "A long story about a ship."


def test_the_context_of_a_resumed_session_is_not_empty(chat: Chat) -> None:
    chat("-p", "word " * 5000, script=["Many words."])
    shown = chat("-p", "/context", "--continue", script=["x"]).out
    tokens = int(re.search(r"([\d,]+)", shown)[1].replace(",", ""))  # type: ignore[index]
    assert tokens > 5000, shown


@pytest.mark.parametrize("uses_tool", [False, True])
def test_a_server_that_sends_no_message_stop_is_understood(chat: Chat, uses_tool: bool) -> None:
    def cut(content: object, events: int) -> dict[str, object]:
        return {"content": content, "chunk": 1000, "break": {"how": "cut", "after": events}}

    # message_start, four events of the block with a ping, message_delta: the next would be message_stop.
    steps = [cut([bash("true")], 6), cut("Done.", 6)] if uses_tool else [cut("Done.", 6)]
    with scripted({"steps": steps, "default": "Again."}) as api:
        done = chat("-p", "hi", "--model", "haiku", ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="any")
    assert (done, len(api.requests)) == ((0, "Done.\n", ""), len(steps))
