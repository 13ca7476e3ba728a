"""Hooks that ask a model, and hooks that send the event to a server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.client.conftest import Chat, Place
from tests.client.hooks.test_settings_hooks import ALLOW, TOUCH, result, write_hooks
from unspool.api.scripted.model import ScriptedModel
from unspool.api.scripted.script import convert_script
from unspool.client.hooks.answers import HookCall, HookReply
from unspool.client.hooks.http_hook import HttpHook
from unspool.client.hooks.prompt_hook import PromptHook
from unspool.client.hooks.settings import HookServices, HookSource, load_hooks

JUDGE = {"type": "prompt", "prompt": "Is this safe? $ARGUMENTS"}
OK, NO = '{"ok": true, "reason": "fine"}', '{"ok": false, "reason": "not today"}'


def judged(answer: Any, event: str = "PreToolUse", **more: Any) -> tuple[HookReply, ScriptedModel]:
    """Return what a question to a model gives, and the model that was asked."""
    model = ScriptedModel(convert_script([answer]))
    hook = PromptHook("Is this safe?", 30.0, model, "claude-haiku-4-5", **more)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": [{"type": "text", "text": "Built."}]},
    ]
    return asyncio.run(hook.call(HookCall(event, {"tool_name": "Bash"}, None, messages))), model


def test_a_model_allows_or_refuses_and_its_usage_counts() -> None:
    allowed, model = judged(OK)
    assert (allowed.failure, allowed.blocked, allowed.stops) == (None, None, None)
    assert allowed.usages[0][0] == "claude-haiku-4-5"
    (request,) = model.requests
    assert request["messages"][0]["content"][0]["text"] == 'Is this safe?\n\nARGUMENTS: {"tool_name":"Bash"}'
    refused, _ = judged(f"```json\n{NO}\n```")
    assert (refused.blocked, refused.stops) == ("not today", "not today")
    assert judged(NO, keeps_turn=True)[0].stops is None


def test_at_the_end_of_a_turn_the_model_reads_the_conversation_and_the_turn_goes_on() -> None:
    refused, model = judged(NO, "Stop")
    assert (refused.blocked, refused.stops) == ("not today", None)
    text = model.requests[0]["messages"][0]["content"][0]["text"]
    assert "Build it." in text
    assert "Built." in text
    assert text.index("Built.") < text.index("Is this safe?")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Sure, fine.", "the model did not answer with JSON: Sure, fine."),
        ('{"ok": "yes"}', "the model did not answer with JSON"),
        ('[{"ok": true}]', "the model did not answer with JSON"),
        ("[" * 5000, "the model did not answer with JSON"),
        ("```" + "\n" * 20_000 + "x```", "the model did not answer with JSON"),
        ({"error": {"status": 400}}, "the model did not answer: "),
        ({"content": OK, "break": {"how": "cut", "after": 4}}, "the answer of the model broke off"),
    ],
)
def test_what_is_no_judgement_is_no_answer(answer: Any, words: str) -> None:
    reply, _ = judged(answer)
    assert words in (reply.failure or "")


def test_a_call_that_a_model_refuses_is_not_made_and_ends_the_turn(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", JUDGE, matcher="Bash")
    script = {"cues": {"go": [{"content": [TOUCH]}, "Done."], "Is this safe?": [NO]}}
    done = chat("-p", "go", *ALLOW, "--output-format", "json", script=script)
    assert (done.code, done.object["num_turns"], done.object["result"]) == (0, 1, "not today")
    assert not (place.work / "made").exists()
    assert result(place) == "PreToolUse:Bash hook error: [Is this safe? $ARGUMENTS]: not today"


@pytest.mark.parametrize(("answer", "made"), [(OK, True), ("Yes!", False)])
def test_a_call_is_made_only_if_the_model_says_so(chat: Chat, place: Place, answer: str, made: bool) -> None:
    write_hooks(place.config, "PreToolUse", JUDGE)
    script = {"cues": {"go": [{"content": [TOUCH]}, "Done."], "Is this safe?": [answer]}}
    assert chat("-p", "go", *ALLOW, script=script)[:2] == (0, "Done.\n")
    assert (place.work / "made").exists() == made


def test_models_are_not_asked_about_events_that_have_no_conversation(tmp_path: Path) -> None:
    settings = {"hooks": {"SessionStart": [{"hooks": [JUDGE, {"type": "http", "url": "http://127.0.0.1:9/"}]}]}}
    loaded = load_hooks([HookSource("user", settings)], HookServices({}, tmp_path, ScriptedModel(convert_script([]))))
    assert [problem.partition(": ")[2] for problem in loaded.problems] == [
        "hooks of the type `prompt` are not possible for `SessionStart`",
        "a hook for the start of a session has to be a command",
    ]


class Site(NamedTuple):
    """A server that answers each path in its own way, and what it was sent."""

    url: str
    sent: list[tuple[str, dict[str, str], Any]]


DENY = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "No."}}
ANSWERS: dict[str, tuple[int, str]] = {
    "/deny": (200, json.dumps(DENY)),
    "/nothing": (204, ""),
    "/empty": (200, ""),
    "/text": (200, "plain words"),
    "/other": (200, '{"decision": 5}'),
    "/error": (500, "{}"),
    "/moved": (302, "{}"),
    "/long": (200, "[" + "1," * 600_000 + "1]"),
}  # fmt: skip


@pytest.fixture
def site() -> Iterator[Site]:
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append((self.path, dict(self.headers), json.loads(body)))
            if self.path == "/silent":
                stopped.wait(30)
                return
            status, text = ANSWERS[self.path]
            self.send_response(status)
            self.send_header("location", "/deny")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    stopped = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield Site(f"http://127.0.0.1:{server.server_port}", sent)
        stopped.set()
        server.shutdown()
        serving.join()


def send(url: str, timeout: float = 30.0, **more: Any) -> HookReply:
    hook = HttpHook(url, timeout, more.pop("headers", {}), more.pop("environment", {}), **more)
    return asyncio.run(hook.call(HookCall("PreToolUse", {"tool_name": "Bash"})))


def test_a_server_denies_a_call_and_gets_the_event_with_the_headers_that_it_may_have(
    chat: Chat, place: Place, site: Site
) -> None:
    headers = {
        "X-Token": "Bearer $TOKEN ${OTHER} $ANTHROPIC_API_KEY",
        "Content-Length": "5",
        "bad header": "x",
        "X-Line": "a\nb",
    }
    hook = {
        "type": "http",
        "url": f"{site.url}/deny",
        "headers": headers,
        "allowedEnvVars": ["TOKEN", "ANTHROPIC_API_KEY"],
    }
    write_hooks(place.config, "PreToolUse", hook)
    variables = {"TOKEN": "abc", "OTHER": "def", "ANTHROPIC_API_KEY": "secret"}
    script = [{"content": [TOUCH]}, "Done."]
    assert chat("-p", "go", *ALLOW, script=script, **variables)[:2] == (0, "Done.\n")
    assert not (place.work / "made").exists()
    assert result(place) == "PreToolUse:Bash hook error: No."
    ((path, got, event),) = site.sent
    got = {name.lower(): value for name, value in got.items()}
    assert (path, got["content-type"], got["x-token"], got["x-line"]) == (
        "/deny",
        "application/json",
        "Bearer abc",
        "ab",
    )
    assert (event["hook_event_name"], event["tool_input"]) == ("PreToolUse", {"command": "touch made"})


@pytest.mark.parametrize("path", ["/empty", "/nothing"])
def test_a_server_that_has_nothing_to_say_decides_nothing(site: Site, path: str) -> None:
    reply = send(site.url + path)
    assert (reply.failure, reply.answer.decision, reply.blocked) == (None, None, None)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/text", "its answer is not valid JSON: plain words"),
        ("/other", "its answer is not what a hook answers"),
        ("/error", "it answered with HTTP status 500"),
        ("/moved", "it answered with HTTP status 302"),
        ("/long", "its answer is longer than a mebibyte"),
    ],
)
def test_what_a_server_may_not_answer_is_no_answer(site: Site, path: str, words: str) -> None:
    assert words in (send(site.url + path).failure or "")
    assert len(site.sent) == 1


def test_a_server_that_does_not_answer_in_time_gives_no_answer(site: Site) -> None:
    reply = send(f"{site.url}/silent", 0.2)
    assert (reply.timed_out, reply.failure) == (True, "it did not answer within 0.2 s")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest", "`169.254.169.254` is not a public address"),
        ("http://10.0.0.1/", "`10.0.0.1` is not a public address"),
        ("http://127.0.0.1:9/", "cannot reach `127.0.0.1`"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("http://user:word@127.0.0.1/", "the URL contains a user name or password"),
        ("nonsense", "not an http or https URL"),
    ],
)
def test_addresses_that_are_not_asked_give_no_answer(url: str, words: str) -> None:
    assert words in (send(url).failure or "")


@pytest.mark.parametrize(
    ("patterns", "sent"),
    [(None, 1), (["http://127.0.0.1:*/deny"], 1), (["https://hooks.example.com/*"], 0), ([], 0), ("http://*", 0)],
)
def test_settings_limit_the_addresses(tmp_path: Path, site: Site, patterns: Any, sent: int) -> None:
    document = {"hooks": {"PreToolUse": [{"hooks": [{"type": "http", "url": f"{site.url}/deny"}]}]}}
    document |= {} if patterns is None else {"allowedHttpHookUrls": patterns}
    (hook,) = load_hooks([HookSource("user", document)], HookServices({}, tmp_path)).hooks
    reply = asyncio.run(hook.hook.call(HookCall("PreToolUse", {})))
    assert len(site.sent) == sent
    assert reply.failure == (None if sent else "its address matches no pattern of `allowedHttpHookUrls`")


def test_a_command_with_arguments_is_read_by_no_shell(chat: Chat, place: Place) -> None:
    hook = {"type": "command", "command": "touch", "args": ["$(touch no); a b"]}
    write_hooks(place.config, "SessionStart", hook)
    assert chat("-p", "go", script=["Hi."]).code == 0
    assert [path.name for path in place.work.iterdir()] == ["$(touch no); a b"]


def test_events_that_never_happen_are_named_with_the_reason(tmp_path: Path) -> None:
    loaded = load_hooks(
        [HookSource("user", {"hooks": {"WorktreeCreate": [], "Nonsense": []}})], HookServices({}, tmp_path)
    )
    assert [problem.partition("do not act: ")[2] for problem in loaded.problems] == [
        "chat makes no worktrees", "there is no such event"
    ]  # fmt: skip
