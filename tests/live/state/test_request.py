"""What a session asks its user is told whole, whatever the model wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.strategies import json_values
from unspool.live.state.model import PendingCall
from unspool.live.state.request import AskedOption, AskedQuestion, describe_request

OPTIONS = [{"label": "Half even", "description": "As banks do"}, {"label": "Half up"}, "Never"]


def test_every_question_has_its_options() -> None:
    value = {"questions": [{"question": "How?", "header": "Rounding", "options": OPTIONS, "multiSelect": True}, 3]}
    options = (AskedOption("Half even", "As banks do"), AskedOption("Half up"), AskedOption("Never"))
    assert describe_request(PendingCall("t", "AskUserQuestion", input=value)).questions == (
        AskedQuestion("How?", "Rounding", options, allows_several=True),
    )


def test_a_command_is_told_whole_and_its_other_fields_beside_it() -> None:
    value = {"command": "a\nb", "description": "c", "timeout": 5}
    request = describe_request(PendingCall("t", "Bash", input=value))
    assert (request.main, request.fields) == ("a\nb", (("description", "c"), ("timeout", "5")))
    assert not request.is_cut


def test_a_plan_is_told_alone() -> None:
    assert describe_request(PendingCall("t", "ExitPlanMode", input={"plan": "1. a", "x": 1})).main == "1. a"


def test_a_text_that_was_cut_says_so() -> None:
    assert describe_request(PendingCall("t", "Bash", input={"command": "x" * 20_000 + "…"})).is_cut


@given(json_values)
@pytest.mark.parametrize("name", ["AskUserQuestion", "Bash", "ExitPlanMode"])
def test_no_input_raises(name: str, value: Any) -> None:
    for shape in (value, {"questions": value}, {"questions": [value]}, {"question": "a", "options": value}):
        describe_request(PendingCall("t", name, input=shape))
