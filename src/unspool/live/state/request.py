"""What a session asks its user, whole: questions with their options, or the tool call that waits for permission.

Rules
  1. Inputs are whatever a model wrote: what is not understood is shown as its JSON, and nothing raises.
  2. A text that was cut when it was read (`status.py`) says so.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from unspool.live.state.model import PLAN_TOOLS, QUESTION_TOOLS, PendingCall

CUT_MARK: Final = "…"
_MAIN_FIELDS: Final = ("command", "plan", "file_path", "notebook_path", "url", "query", "pattern", "path", "prompt")
"""Fields of an input that say most of what a call would do, the first that is there."""


class AskedOption(msgspec.Struct, frozen=True):
    """An answer that a question offers."""

    label: str
    description: str = ""


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question with the answers that it offers."""

    question: str
    header: str = ""
    options: tuple[AskedOption, ...] = ()
    allows_several: bool = False


class UserRequest(msgspec.Struct, frozen=True):
    """What a session waits for: answers to questions, or a yes to a tool call."""

    tool: str
    questions: tuple[AskedQuestion, ...] = ()
    main: str = ""
    """The command, the plan, the file: what matters most, whole."""
    fields: tuple[tuple[str, str], ...] = ()
    """The other fields of the input."""
    is_cut: bool = False
    """Whether a text was too long to be kept."""


def describe_request(call: PendingCall) -> UserRequest:
    """Return what a call asks."""
    value = call.input
    if call.name in QUESTION_TOOLS and (questions := _questions(value)):
        return UserRequest(call.name, questions, is_cut=_is_cut(value))
    if not isinstance(value, dict):
        return UserRequest(
            call.name, main=call.target or ("" if value is None else _text(value)), is_cut=_is_cut(value)
        )
    main = next((name for name in _MAIN_FIELDS if isinstance(value.get(name), str) and value[name]), None)
    fields = tuple((str(name), _text(item)) for name, item in value.items() if name != main)
    if call.name in PLAN_TOOLS:
        fields = ()
    return UserRequest(call.name, (), value[main] if main else "", fields, _is_cut(value))


def _questions(value: Any) -> tuple[AskedQuestion, ...]:
    match value:
        case {"questions": list(items)}:
            found = [_question(item) for item in items]
        case {"question": _}:
            found = [_question(value)]
        case _:
            return ()
    return tuple(one for one in found if one is not None)


def _question(value: Any) -> AskedQuestion | None:
    if not isinstance(value, dict) or not isinstance(value.get("question"), str):
        return None
    options, header = value.get("options"), value.get("header")
    return AskedQuestion(
        value["question"],
        header if isinstance(header, str) else "",
        tuple(map(_option, options if isinstance(options, list) else ())),
        value.get("multiSelect") is True,
    )


def _option(value: Any) -> AskedOption:
    match value:
        case {"label": str(label), "description": str(description)}:
            return AskedOption(label, description)
        case {"label": str(label)} | str(label):
            return AskedOption(label)
        case _:
            return AskedOption(_text(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_cut(value: Any) -> bool:
    match value:
        case str():
            return value.endswith(CUT_MARK) and len(value) > 1000
        case dict():
            return any(map(_is_cut, value.values()))
        case list():
            return any(map(_is_cut, value))
        case _:
            return False
