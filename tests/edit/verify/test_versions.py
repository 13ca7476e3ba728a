"""`edit/verify/versions.py`: what versions send of a session that was left in the middle."""

from __future__ import annotations

import pytest

from unspool.edit.verify.versions import predict_messages
from unspool.format.json_edit import patch
from unspool.graph.context.build import NO_RESPONSE
from unspool.testing.build import (
    assistant,
    attachment,
    raw,
    session,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

OLD, NEW = (2, 1, 29), (2, 1, 325)
ASK = [user("One."), assistant(text("I run."), tool_use("Bash", id="toolu_1"))]


@pytest.mark.parametrize(("version", "roles"), [(OLD, "user assistant"), (NEW, "user assistant user assistant")])
def test_a_call_that_was_never_answered(version: tuple[int, ...], roles: str) -> None:
    sent = predict_messages(session(*ASK).entries, version)
    assert " ".join(message["role"] for message in sent) == roles
    assert ("toolu_1" in str(sent)) is (version == NEW)


@pytest.mark.parametrize(("version", "answered"), [(OLD, False), (NEW, True)])
def test_a_session_that_ends_with_an_interrupt(version: tuple[int, ...], answered: bool) -> None:
    story = [user("One."), user(text("[Request interrupted by user]"))]
    sent = predict_messages(session(*story).entries, version)
    assert (sent[-1]["role"] == "assistant") is answered


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_session_that_ends_with_a_prompt(version: tuple[int, ...]) -> None:
    sent = predict_messages(session(user("One."), assistant("Yes."), user("Two.")).entries, version)
    assert "No response requested." in str(sent[-1])


@pytest.mark.parametrize(("version", "kept"), [(OLD, True), ((2, 1, 100), True), ((2, 1, 200), False), (NEW, False)])
def test_thinking_of_another_model(version: tuple[int, ...], kept: bool) -> None:
    story = [user("One."), assistant(thinking("Hm."), text("Yes."), model="claude-opus-4-5"), user("Two.")]
    sent = predict_messages(session(*story, assistant("No.", model="claude-sonnet-4-5")).entries, version)
    assert ("Hm." in str(sent)) is kept


@pytest.mark.parametrize(("version", "first"), [(OLD, "Two."), ((2, 1, 100), "One."), (NEW, "One.")])
def test_a_line_whose_parent_was_never_written(version: tuple[int, ...], first: str) -> None:
    lines = [*session(user("One."), assistant("Yes."), user("Two."), assistant("No.")).lines]
    lines[2] = patch(lines[2], {("parentUuid",): "00000000-0000-4000-8000-00000000dead"})
    sent = predict_messages(session(*map(raw, lines)).entries, version)
    assert sent[0]["content"][0]["text"] == first


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (OLD, ["Task", "KillShell", "BashOutput"]),
        ((2, 1, 100), ["Agent", "TaskStop", "BashOutput"]),
        ((2, 1, 200), ["Agent", "TaskStop", "TaskOutput"]),
        (NEW, ["Agent", "KillShell", "BashOutput"]),
    ],
)
def test_tools_that_have_other_names_now(version: tuple[int, ...], names: list[str]) -> None:
    calls = [tool_use("Task", id="t1"), tool_use("KillShell", id="t2"), tool_use("BashOutput", id="t3")]
    story = [step for call in calls for step in (assistant(call), tool_result("x"))]
    sent = predict_messages(session(user("One."), *story, assistant("Yes.")).entries, version)
    assert [block["name"] for one in sent for block in one["content"] if block["type"] == "tool_use"] == names


@pytest.mark.parametrize(("version", "sent"), [(OLD, False), ((2, 1, 100), False), (NEW, True)])
def test_an_attachment_that_came_later(version: tuple[int, ...], sent: bool) -> None:
    lines = [*session(user("One."), attachment("date", date="today"), assistant("Yes."), version="2.1.325").lines]
    lines[1] = patch(lines[1], {("rendered",): [{"content": "It is today."}]})
    found = predict_messages(session(*map(raw, lines)).entries, version)
    assert ("It is today." in str(found)) is sent


@pytest.mark.parametrize(("version", "roles"), [((2, 1, 150), 0), ((2, 1, 200), 1), ((2, 1, 325), 1)])
def test_no_model_is_sent_system_messages_before_they_were_known(version: tuple[int, ...], roles: int) -> None:
    said = attachment("hook_additional_context", hookName="h", content=["said"])
    story = session(user("One."), said, assistant("Yes.", model="claude-opus-5-5"))
    sent = predict_messages(story.entries, version)
    assert [message["role"] for message in sent].count("system") == roles
    assert "said" in str(sent)


def test_the_model_that_continues_decides_what_is_sent() -> None:
    said = attachment("hook_additional_context", hookName="h", content=["said"])
    story = session(user("One."), said, assistant("Yes.", model="claude-opus-5-5"))
    roles = [message["role"] for message in predict_messages(story.entries, (2, 1, 325), "claude-opus-4-5")]
    assert roles == ["user", "assistant"]


@pytest.mark.parametrize("version", [(2, 1, 100), (2, 1, 200)])
def test_versions_before_2_1_290_ask_to_continue_after_a_result(version: tuple[int, ...]) -> None:
    asked = [user("One."), assistant(tool_use("Read", id="t"))]
    *_, last, answer = predict_messages(session(*asked, tool_result("r", id="t")).entries, version)
    assert last["content"][-1]["text"] == "Continue from where you left off."
    assert answer["content"][0]["text"] == NO_RESPONSE
    assert [message["role"] for message in predict_messages(session(*asked).entries, version)] == ["user", "assistant"]
