"""What a program says on our input, a line of JSON each, and what it is asked: the program's own control protocol.

    {"type": "user", "message": {"role": "user", "content": "Hello"}}
    {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}

Rules
  1. A line that is none of this is said on stderr and counted; the conversation goes on.
  2. A request is answered once: with `success`, or with `error` and the reason.
  3. Whoever may allow a call may not change it: a changed input is a refusal, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.client.protocols import Choice, Permit, Ruling, Wish

Json: TypeAlias = dict[str, Any]


class Said(NamedTuple):
    """A prompt."""

    content: str | list[Json]
    uuid: str | None


class Control(NamedTuple):
    """Something to be done to the conversation."""

    id: str
    subtype: str
    request: Json


class Replied(NamedTuple):
    """An answer to what we asked."""

    id: str
    response: Json
    error: str | None


class Bad(NamedTuple):
    """A line that says nothing we know."""

    reason: str


Heard: TypeAlias = Said | Control | Replied | Bad


def hear(line: bytes) -> Heard | None:
    """Return what a line says; nothing if it is blank or keeps the line open."""
    if not line.strip():
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Bad(f"not JSON: {error}")
    match value:
        case {"type": "user", "message": {"content": str() | list() as content}}:
            return _said(content, value)
        case {"type": "control_request", "request_id": str(id), "request": {"subtype": str(subtype)} as request}:
            return Control(id, subtype, request)
        case {"type": "control_response", "response": {"request_id": str(id)} as response}:
            inner = response.get("response")
            failed = None if response.get("subtype") == "success" else str(response.get("error") or "refused")
            return Replied(id, inner if isinstance(inner, dict) else {}, failed)
        case {"type": "keep_alive" | "control_cancel_request" | "update_environment_variables"}:
            return None
        case {"type": str(kind)}:
            return Bad(f"a `{kind}` that is not one, or is not known here")
        case _:
            return Bad("an object with a `type` was expected")


def _said(content: str | list[Any], value: Json) -> Said | Bad:
    if isinstance(content, list) and not all(isinstance(block, dict) and "type" in block for block in content):
        return Bad("the content of a message is a text or a list of blocks")
    if not content or (isinstance(content, str) and not content.strip()):
        return Bad("a message that says nothing")
    uuid = value.get("uuid")
    return Said(content, uuid if isinstance(uuid, str) else None)


def success(id: str, response: Json | None = None) -> Json:
    """Return the answer to a request that was done."""
    told: Json = {"subtype": "success", "request_id": id}
    return {"type": "control_response", "response": told if response is None else {**told, "response": response}}


def refusal(id: str, reason: str) -> Json:
    """Return the answer to a request that was not."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": reason}}


class Remote:
    """A `Person` at the other end: whether a call may be made is asked over the wire (`can_use_tool`)."""

    def __init__(self, write: Callable[[Json], None], new_id: Callable[[], str]) -> None:
        self._write = write
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[Replied]] = {}

    def replied(self, answer: Replied) -> None:
        """Take an answer."""
        waiting = self._open.pop(answer.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def gone(self) -> None:
        """Let nobody wait for who has gone: what is not answered is not allowed."""
        for id in list(self._open):
            self.replied(Replied(id, {}, "nobody is there any more"))

    async def permit(self, wish: Wish, ruling: Ruling) -> Permit:
        """Ask whether a call may be made."""
        suggestions = [_suggestion(rule) for rule in ruling.suggestions]
        answer = await self._ask(
            {
                "subtype": "can_use_tool",
                "tool_name": wish.tool,
                "input": wish.input,
                "tool_use_id": wish.call_id,
                "permission_suggestions": suggestions,
                "decision_reason": ruling.why,
                **({"agent_id": wish.agent} if wish.agent else {}),
            }
        )
        if answer.error is not None or answer.response.get("behavior") != "allow":
            return Permit(allowed=False, words=str(answer.response.get("message") or answer.error or ""))
        if answer.response.get("updatedInput", wish.input) not in (wish.input, None):
            return Permit(allowed=False, words="the input was changed by who allowed it, which is not supported here")
        return _kept(answer.response.get("updatedPermissions"), ruling)

    async def choose(self, choices: tuple[Choice, ...]) -> dict[str, str] | None:
        """Ask which answers are meant."""
        questions = [
            {
                "question": choice.question,
                "header": choice.header,
                "options": [{"label": label, "description": words} for label, words in choice.options],
                "multiSelect": choice.several,
            }
            for choice in choices
        ]
        request = {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": questions}}
        answer = await self._ask(request)
        match answer.response:
            case {"behavior": "allow", "updatedInput": {"answers": dict(answers)}}:
                return {str(question): str(said) for question, said in answers.items()}
            case _:
                return None

    async def approve(self, plan: str) -> Permit:
        """Ask whether a plan is good."""
        request = {"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {"plan": plan}}
        answer = await self._ask(request)
        allowed = answer.error is None and answer.response.get("behavior") == "allow"
        return Permit(allowed=allowed, words="" if allowed else str(answer.response.get("message") or ""))

    async def _ask(self, request: Json) -> Replied:
        id = self._new_id()
        waiting: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._open[id] = waiting
        self._write({"type": "control_request", "request_id": id, "request": request})
        try:
            return await waiting
        except asyncio.CancelledError:
            self._open.pop(id, None)
            self._write({"type": "control_cancel_request", "request_id": id})
            raise


def _kept(updates: object, ruling: Ruling) -> Permit:
    """Return the permit with the first of our suggestions that is to be kept, and where."""
    for update in updates if isinstance(updates, list) else []:
        for rule in ruling.suggestions:
            if isinstance(update, dict) and update.get("rules") == _suggestion(rule)["rules"]:
                keeps_long = update.get("destination") == "localSettings"
                return Permit(allowed=True, rule=rule, keep="local" if keeps_long else "session")
    return Permit(allowed=True)


def _suggestion(rule: str) -> Json:
    tool, bracket, content = rule.partition("(")
    named = {"toolName": tool, **({"ruleContent": content.removesuffix(")")} if bracket else {})}
    return {"type": "addRules", "rules": [named], "behavior": "allow", "destination": "localSettings"}
