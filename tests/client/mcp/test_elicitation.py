"""Servers that ask their user something: in a terminal, in a script, and more than they may."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.conftest import Chat, Place
from tests.client.mcp.asking_server import FIELDS, QUESTIONS, form
from tests.client.mcp.conftest import HERE, config, results, use
from tests.client.ui.rig import Typed
from unspool.client.mcp.elicitation import (
    ElicitationRequests,
    FormAnswer,
    FormField,
    FormUser,
    InvalidForm,
    ServerAddress,
    ServerForm,
    parse_answer,
    parse_question,
)

pytest.importorskip("mcp")
ALLOW = ("--allowedTools", "mcp__asking")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
KEYS = ("type", "title", "description", "default", "enum", "enumNames", "oneOf", "items", "minLength", "minimum")
FIELD = st.dictionaries(
    st.sampled_from(KEYS), VALUES | st.sampled_from(["string", "integer", "boolean", "array"]), max_size=5
)


def asking(*ways: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(HERE / "asking_server.py"), *ways]}


def answers(place: Place) -> dict[str, Any]:
    """Return what the server says that it was answered."""
    for line in place.sessions()[0].read_text().splitlines():
        content = json.loads(line).get("message", {}).get("content")
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_result":
                found: dict[str, Any] = json.loads(block["content"][0]["text"])
                return found
    raise AssertionError("no result")


@contextmanager
def ask_in_terminal(place: Place, *ways: str) -> Iterator[Typed]:
    script = place.script([{"content": [use("mcp__asking__ask")]}, "Done."])
    given = ("--mcp-config", config(asking=asking(*ways)))
    command = ("-m", "unspool", "chat", "--trust", "--model", script, *ALLOW, *given)
    with Typed(*command, cwd=place.work, environment=place.environment, size=(100, 40)) as typed:
        typed.see("/help")
        typed.say("go")
        yield typed


@pytest.mark.slow
def test_a_form_is_filled_field_by_field_and_sent_when_it_was_confirmed(place: Place) -> None:
    with ask_in_terminal(place, "fields") as terminal:
        terminal.answer("y", "Answer the MCP server asking?")
        terminal.answer_in_words("t", "asking asks (1 of 6): Your name", "Your name?", "A")
        terminal.see("Your name: it must be at least 2 characters long")
        terminal.answer_in_words("t", "asking asks (1 of 6): Your name", "Your name?", "Ann")
        terminal.answer_in_words("t", "asking asks (2 of 6): age", "age?", "forty")
        terminal.see("age: it must be a whole number")
        terminal.answer_in_words("t", "asking asks (2 of 6): age", "age?", "40")
        terminal.answer("d", "asking asks (3 of 6): size")
        terminal.answer("n", "asking asks (4 of 6): fresh")
        terminal.answer("2", "asking asks (5 of 6): colour")
        terminal.answer("l", "asking asks (6 of 6): note")
        terminal.answer("y", "Send this to the MCP server asking?")
        terminal.see("● Done.")
        terminal.leave()
    content = {"name": "Ann", "age": 40, "size": 1.5, "fresh": False, "colour": "g"}
    assert answers(place)["fields"] == {"action": "accept", "content": content}


def test_a_form_can_be_declined_or_cancelled_and_so_can_all_that_follow(place: Place) -> None:
    with ask_in_terminal(place, "sure", "address", "password", "sure", "fields") as terminal:
        terminal.answer("y", "Answer the MCP server asking?")
        terminal.see("https://example.org/pay?id=1")
        terminal.answer("y", "Do you open the address for the MCP server asking?")
        terminal.see("It seems to ask for a secret.")
        terminal.answer("\x1b", "Answer the MCP server asking?")
        terminal.answer("d", "Answer the MCP server asking?")
        terminal.see("● Done.")
        terminal.leave()
    given = answers(place)
    assert given["address"] == {"action": "accept"}
    assert given["password"] == {"action": "cancel"}
    assert (given["sure"], given["fields"]) == ({"action": "decline"}, {"action": "decline"})


def test_what_a_server_asks_reaches_the_terminal_without_escapes_and_in_bounds(place: Place) -> None:
    with ask_in_terminal(place, "huge", "nested", "escapes") as terminal:
        terminal.see("it has 5,000 fields, more than 20")
        terminal.see("the field `place` is of a type that forms cannot")
        terminal.answer("y", "Answer the MCP server asking?")
        terminal.answer_in_words("t", "asking asks (1 of 1)", "?", "hello")
        terminal.answer("y", "Send this to the MCP server asking?")
        terminal.see("● Done.")
        terminal.leave()
        assert terminal.title == ""
        for forbidden in (b"\x1b]0;", b"\x1b[2J", "\u202e".encode()):
            assert forbidden not in terminal.sent
    given = answers(place)
    assert [given[way]["action"] for way in ("huge", "nested", "escapes")] == ["decline", "decline", "accept"]


def test_an_interrupted_call_takes_its_question_along(place: Place) -> None:
    with ask_in_terminal(place, "fields") as terminal:
        terminal.ask_key("\x03", "Answer the MCP server asking?")
        terminal.until(lambda: "Answer the MCP server" not in terminal.seen, "the question is still there")
        terminal.say("next")
        terminal.see("● Done.")
        terminal.leave()


def test_a_script_declines_refuses_sampling_and_names_its_folder(chat: Chat, place: Place) -> None:
    flags = ("-p", "go", "--output-format", "stream-json", *ALLOW)
    server = ("--mcp-config", config(asking=asking("fields", "address", "sampling", "roots")))
    ran = chat(*flags, *server, script=[{"content": [use("mcp__asking__ask")]}, "Done."])
    assert (ran.code, ran.err) == (0, "")
    given = json.loads(results(ran.objects)[0][0]["text"])
    assert given["offers"] == ["elicitation", "roots"]
    assert given["fields"] == given["address"] == {"action": "decline"}
    assert given["sampling"]["message"] == "Sampling not supported"
    assert [root["uri"] for root in given["roots"]["roots"]] == [place.work.as_uri()]


def test_a_server_that_asks_without_end_is_disconnected(chat: Chat) -> None:
    flags = ("-p", "go", "--output-format", "stream-json", *ALLOW, "--mcp-config", config(asking=asking("endless")))
    ran = chat(*flags, script=[{"content": [use("mcp__asking__ask")]}, "Done."])
    assert ran.objects[-1]["result"] == "Done."
    assert "it asked the user again and again" in results(ran.objects)[0]


def test_a_user_is_asked_ten_times_in_a_call_and_never_outside_of_one() -> None:
    asked: list[ServerForm | ServerAddress] = []
    told: list[str] = []

    async def ask(request: ServerForm | ServerAddress) -> FormAnswer:
        asked.append(request)
        return FormAnswer("accept", {})

    async def talk() -> None:
        requests = ElicitationRequests("things", FormUser(ask, told.append))
        assert await requests.answer(QUESTIONS["sure"]) == FormAnswer("decline")
        for _ in range(2):
            with requests.during_call():
                actions = [(await requests.answer(QUESTIONS["sure"])).action for _ in range(20)]
                assert actions == ["accept"] * 10 + ["decline"] * 10
                assert not requests.is_flooding

    asyncio.run(talk())
    assert len(asked) == 20
    assert len(told) == 2
    assert "asks more than 10 times" in told[0]


def test_a_question_ends_with_the_call() -> None:
    async def talk() -> None:
        is_open, was_cancelled = asyncio.Event(), asyncio.Event()

        async def ask(request: ServerForm | ServerAddress) -> FormAnswer:
            is_open.set()
            try:
                await asyncio.Event().wait()
            finally:
                was_cancelled.set()
            raise AssertionError

        requests = ElicitationRequests("things", FormUser(ask, lambda line: None))
        with requests.during_call():
            job = asyncio.ensure_future(requests.answer(QUESTIONS["sure"]))
            await is_open.wait()
        assert await job == FormAnswer("cancel")
        assert was_cancelled.is_set()

    asyncio.run(asyncio.wait_for(talk(), 30))


@pytest.mark.parametrize(
    ("kind", "more", "text", "value", "problem"),
    [
        ("text", {"format": "email"}, "a@b", "a@b", ""),
        ("text", {"format": "email"}, "ab", None, "it must be an email address"),
        ("text", {"format": "uri"}, "http://[", None, "it must be an address such as https://example.org"),
        ("text", {"format": "date"}, "2026-02-30", None, "it must be a date such as 2026-01-31"),
        ("text", {"format": "date-time"}, "noon", None, "it must be a time such as 2026-01-31T12:00:00Z"),
        ("text", {"most": 3}, "four", None, "it must be at most 3 characters long"),
        ("text", {}, "x" * 10_001, None, "it may have 10,000 characters"),
        ("text", {}, "", None, "it needs an answer"),
        ("integer", {}, "1.5", None, "it must be a whole number"),
        ("integer", {}, "9" * 5_000, None, "it must be a whole number"),
        ("integer", {"least": 2}, "1", None, "it must be at least 2"),
        ("number", {}, "nan", None, "it must be a number"),
        ("number", {"most": 10**400}, "2.5", 2.5, ""),
    ],
)
def test_an_answer_is_checked_against_its_field(
    kind: Any, more: dict[str, Any], text: str, value: object, problem: str
) -> None:
    assert parse_answer(FormField("a", "a", kind, **more), text) == (value, problem)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a/",
        "https://user@a/",
        "https://\u0430.org/",
        "http://[",
        "https://a/ b",
        None,
        "javascript:x",
        "https://",
    ],
)
def test_only_a_plain_address_is_shown(address: object) -> None:
    with pytest.raises(InvalidForm, match="not a plain http or https address"):
        parse_question("things", {"mode": "url", "message": "m", "url": address})


def test_choices_have_titles_and_several_may_be_allowed() -> None:
    titled = [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Pear"}]
    several = {"type": "array", "items": {"anyOf": titled}, "minItems": 1, "default": ["b"]}
    parsed = parse_question("things", form("m", {"one": {"type": "string", "oneOf": titled}, "more": several}))
    assert isinstance(parsed, ServerForm)
    assert [field.options for field in parsed.fields] == [(("a", "Apple"), ("b", "Pear"))] * 2
    assert [(field.kind, field.default, field.least) for field in parsed.fields] == [
        ("choice", None, None),
        ("choices", ["b"], 1),
    ]


@given(st.dictionaries(st.text(max_size=10), FIELD | VALUES, max_size=3), VALUES, VALUES)
def test_any_schema_becomes_a_form_or_is_refused_in_words(properties: Any, required: Any, message: Any) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    try:
        parsed = parse_question("things", {"message": message, "requestedSchema": schema})
    except InvalidForm:
        return
    assert isinstance(parsed, ServerForm)
    assert [field.name for field in parsed.fields] == [*properties]


def test_the_fields_of_the_protocol_are_understood() -> None:
    parsed = parse_question("things", form("m", FIELDS, ["name"]))
    assert isinstance(parsed, ServerForm)
    kinds = ["text", "integer", "number", "boolean", "choice", "text"]
    assert [field.kind for field in parsed.fields] == kinds
    assert [field.is_required for field in parsed.fields] == [True, *[False] * 5]
    assert not parsed.wants_secret
