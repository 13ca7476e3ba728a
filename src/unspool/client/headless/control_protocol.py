"""Reads and writes Claude Code's control protocol: JSON lines on stdin and stdout between a program and a headless run.

    {"type": "user", "message": {"role": "user", "content": "Hello"}}
    {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}

Rules
  1. A line that is neither is reported on stderr; the chat continues.
  2. A request is answered once: with `success`, or with `error` and the reason.
  3. A program that may allow a tool call may not change it: a changed input is a refusal, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.tool_result import Json
from unspool.permissions import RuleDecision


class UserMessage(NamedTuple):
    """A prompt from the program."""

    content: str | list[Json]
    uuid: str | None


class ControlRequest(NamedTuple):
    """A request to change or describe the chat."""

    id: str
    subtype: str
    request: Json


class ControlResponse(NamedTuple):
    """The answer to a request of ours."""

    id: str
    response: Json
    error: str | None


class InvalidInput(NamedTuple):
    """A line that is no message of the protocol."""

    reason: str


InputMessage: TypeAlias = UserMessage | ControlRequest | ControlResponse | InvalidInput


def parse_line(line: bytes) -> InputMessage | None:
    """Return the message in a line; None if it is blank, or of a kind that needs no action."""
    if not line.strip():
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return InvalidInput(f"not JSON: {error}")
    match value:
        case {"type": "user", "message": {"content": str() | list() as content}}:
            return _parse_prompt(content, value)
        case {"type": "control_request", "request_id": str(id), "request": {"subtype": str(subtype)} as request}:
            return ControlRequest(id, subtype, request)
        case {"type": "control_response", "response": {"request_id": str(id)} as response}:
            inner = response.get("response")
            failed = None if response.get("subtype") == "success" else str(response.get("error") or "refused")
            return ControlResponse(id, inner if isinstance(inner, dict) else {}, failed)
        case {"type": "keep_alive" | "control_cancel_request" | "update_environment_variables"}:
            return None
        case {"type": str(kind)}:
            return InvalidInput(f"a `{kind}` that is not one, or is not known here")
        case _:
            return InvalidInput("an object with a `type` was expected")


def _parse_prompt(content: str | list[Any], value: Json) -> UserMessage | InvalidInput:
    if isinstance(content, list) and not all(isinstance(block, dict) and "type" in block for block in content):
        return InvalidInput("the content of a message is a text or a list of blocks")
    if not content or (isinstance(content, str) and not content.strip()):
        return InvalidInput("a message that says nothing")
    uuid = value.get("uuid")
    return UserMessage(content, uuid if isinstance(uuid, str) else None)


def success_response(id: str, response: Json | None = None) -> Json:
    """Return the response to a request that succeeded."""
    outcome: Json = {"subtype": "success", "request_id": id}
    return {"type": "control_response", "response": outcome if response is None else {**outcome, "response": response}}


def error_response(id: str, reason: str) -> Json:
    """Return the response to a request that failed."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": reason}}


class RemoteUser:
    """The user interface of a program at the other end, which is asked by `can_use_tool` requests."""

    def __init__(self, write: Callable[[Json], None], new_id: Callable[[], str]) -> None:
        self._write = write
        self._new_id = new_id
        self._pending: dict[str, asyncio.Future[ControlResponse]] = {}

    def resolve(self, answer: ControlResponse) -> None:
        """Deliver an answer to the request that waits for it."""
        waiting = self._pending.pop(answer.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def close(self) -> None:
        """End all open requests, as refused: the program is gone."""
        for id in list(self._pending):
            self.resolve(ControlResponse(id, {}, "nobody is there any more"))

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Ask the program whether a tool call may run."""
        answer = await self._ask(
            request.tool,
            request.input,
            tool_use_id=request.call_id,
            permission_suggestions=[_suggestion(rule) for rule in decision.suggestions],
            decision_reason=decision.why,
            **({"agent_id": request.agent} if request.agent else {}),
        )
        if answer.error is not None or answer.response.get("behavior") != "allow":
            return PermissionAnswer(allowed=False, words=str(answer.response.get("message") or answer.error or ""))
        # The rules have judged the input of the model; another one would run without having been judged.
        if answer.response.get("updatedInput", request.input) not in (request.input, None):
            return PermissionAnswer(
                allowed=False, words="the input was changed by who allowed it, which is not supported here"
            )
        return _kept_rule(answer.response.get("updatedPermissions"), decision)

    async def ask_questions(self, questions: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        """Ask the program for the answers to questions."""
        listed = [
            {
                "question": question.question,
                "header": question.header,
                "options": [{"label": label, "description": description} for label, description in question.options],
                "multiSelect": question.several,
            }
            for question in questions
        ]
        answer = await self._ask("AskUserQuestion", {"questions": listed})
        match answer.response:
            case {"behavior": "allow", "updatedInput": {"answers": dict(answers)}}:
                return {str(question): str(answered) for question, answered in answers.items()}
            case _:
                return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        """Ask the program whether a plan is approved."""
        answer = await self._ask("ExitPlanMode", {"plan": plan})
        allowed = answer.error is None and answer.response.get("behavior") == "allow"
        return PermissionAnswer(allowed=allowed, words="" if allowed else str(answer.response.get("message") or ""))

    async def _ask(self, tool: str, input: Json, **fields: object) -> ControlResponse:
        request = {"subtype": "can_use_tool", "tool_name": tool, "input": input, **fields}
        id = self._new_id()
        waiting: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        self._pending[id] = waiting
        self._write({"type": "control_request", "request_id": id, "request": request})
        try:
            return await waiting
        except asyncio.CancelledError:
            self._pending.pop(id, None)
            # The program can take its own question away: nobody waits for the answer any more.
            self._write({"type": "control_cancel_request", "request_id": id})
            raise


def _kept_rule(updates: object, decision: RuleDecision) -> PermissionAnswer:
    """Return the answer with the first of our suggested rules that the program wants to keep, and where."""
    # Only a rule that we suggested is kept: the program cannot add another one in this way.
    for update in updates if isinstance(updates, list) else []:
        for rule in decision.suggestions:
            if isinstance(update, dict) and update.get("rules") == _suggestion(rule)["rules"]:
                is_lasting = update.get("destination") == "localSettings"
                return PermissionAnswer(allowed=True, rule=rule, keep="local" if is_lasting else "session")
    return PermissionAnswer(allowed=True)


def _suggestion(rule: str) -> Json:
    tool, bracket, content = rule.partition("(")
    named = {"toolName": tool, **({"ruleContent": content.removesuffix(")")} if bracket else {})}
    return {"type": "addRules", "rules": [named], "behavior": "allow", "destination": "localSettings"}
