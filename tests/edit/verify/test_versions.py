"""`edit/verify/versions.py`: what versions send of a session that was left in the middle."""

from __future__ import annotations

import pytest

from unspool.edit.verify.versions import predict_messages
from unspool.testing.build import assistant, session, text, tool_use, user

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
