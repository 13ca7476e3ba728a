"""Reads and writes Claude Code's control protocol: JSON lines on stdin and stdout between a program and a headless run.

    {"type": "user", "message": {"role": "user", "content": "Hello"}}
    {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}

Rules
  1. A line that is neither is reported on stderr; the chat continues.
  2. A request is answered once: with `success`, or with `error` and the reason.
  3. A program that may allow a tool call may not change it: a changed input is a refusal, and says so.
  4. A program is asked with all that a person in a terminal sees: the change that an edit would make (`file_change`,
     and in words `description`), and the choices beyond yes and no (`permission_suggestions`). An update that comes
     back in `updatedPermissions` acts only if it was suggested.
  5. A rule whose commands run in the sandbox is suggested for `userSettings`, with `"sandboxed": true`. The SDK for
     Python drops fields that it does not know, so the destination alone has to say it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.tool_result import FileChange, Json
from unspool.format.tools import EDIT_TOOLS
from unspool.permissions import RuleDecision, split_rules

_SANDBOXED = "userSettings"
"""Where a sandboxed rule is suggested for: such rules are in a file of the user's own, and no other rule is."""
_GONE = "the other end has closed the connection"
_MAX_DESCRIBED_LINES = 200
"""Of a change; all of it is in `file_change`."""


class PromptMessage(NamedTuple):
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


InputMessage: TypeAlias = PromptMessage | ControlRequest | ControlResponse | InvalidInput


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
            if failed is None and not isinstance(inner, dict):
                failed = "the response is not an object"  # it may have been meant to deny
            return ControlResponse(id, inner if isinstance(inner, dict) else {}, failed)
        case {"type": "keep_alive" | "control_cancel_request" | "update_environment_variables"}:
            return None
        case {"type": str(kind)}:
            return InvalidInput(f"invalid or unknown `{kind}`")
        case _:
            return InvalidInput("expected an object with a `type`")


def _parse_prompt(content: str | list[Any], value: Json) -> PromptMessage | InvalidInput:
    if isinstance(content, list) and not all(isinstance(block, dict) and "type" in block for block in content):
        return InvalidInput("the content of a message must be a string or a list of blocks")
    if not content or (isinstance(content, str) and not content.strip()):
        return InvalidInput("the message is empty")
    uuid = value.get("uuid")
    if value.get("client_composed") is True and isinstance(content, str):
        content = [{"type": "text", "text": content}]  # to be sent as it is: no command, no `@file`
    return PromptMessage(content, uuid if isinstance(uuid, str) else None)


def success_response(id: str, response: Json | None = None) -> Json:
    """Return the response to a request that succeeded."""
    outcome: Json = {"subtype": "success", "request_id": id}
    return {"type": "control_response", "response": outcome if response is None else {**outcome, "response": response}}


def error_response(id: str, reason: str) -> Json:
    """Return the response to a request that failed."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": reason}}


class ControlChannel:
    """Sends requests to the program at the other end, and waits for its answers."""

    def __init__(self, write: Callable[[Json], None], new_id: Callable[[], str]) -> None:
        self._write = write
        self._new_id = new_id
        self._pending: dict[str, asyncio.Future[ControlResponse]] = {}
        self._is_closed = False

    def resolve(self, answer: ControlResponse) -> None:
        """Deliver an answer to the request that waits for it."""
        waiting = self._pending.pop(answer.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def close(self) -> None:
        """End all open requests, as refused: the program is gone."""
        self._is_closed = True
        for id in list(self._pending):
            self.resolve(ControlResponse(id, {}, _GONE))

    async def send(self, request: Json) -> ControlResponse:
        """Send a request and return its answer; an error where the program is gone."""
        if self._is_closed:
            return ControlResponse("", {}, _GONE)
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

    async def send_or_fail(self, request: Json) -> Json:
        """Send a message to an MCP server of the program and return its response; a `ServerEnded` if there is none."""
        from unspool.client.mcp.connection_end import ServerEnded

        answer = await self.send(request)
        if answer.error is not None:
            raise ServerEnded(answer.error)
        return answer.response


class RemoteUser(ControlChannel):
    """The user interface of a program at the other end, which is asked by `can_use_tool` requests."""

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Ask the program whether a tool call may run."""
        answer = await self._ask(
            request.tool,
            request.input,
            tool_use_id=request.call_id,
            permission_suggestions=_suggest_updates(request, decision),
            decision_reason=decision.why,
            **({"agent_id": request.agent} if request.agent else {}),
            **({"description": described} if (described := _describe(request, decision)) else {}),
            **({"file_change": _change_as_json(request.change)} if request.change is not None else {}),
        )
        if answer.error is not None or answer.response.get("behavior") != "allow":
            words = str(answer.response.get("message") or answer.error or "")
            return PermissionAnswer(allowed=False, words=words, stops=answer.response.get("interrupt") is True)
        answered = _apply_updates(answer.response.get("updatedPermissions"), request, decision)
        match answer.response.get("updatedInput"):
            case None:
                return answered
            case dict(input):
                # Rules that deny judge it once more before it runs.
                return msgspec.structs.replace(answered, input=None if input == request.input else input)
            case _:
                words = "`updatedInput` of the permission response is not an object"
                return PermissionAnswer(allowed=False, words=words)

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
        return await self.send({"subtype": "can_use_tool", "tool_name": tool, "input": input, **fields})


def _suggest_updates(request: PermissionRequest, decision: RuleDecision) -> list[Json]:
    """Return what the program may answer beyond yes and no, as updates of permissions."""
    updates: list[Json] = []
    if request.tool in EDIT_TOOLS:
        updates.append({"type": "setMode", "mode": "acceptEdits", "destination": "session"})
    for rule in decision.suggestions:
        added: Json = {"type": "addRules", "rules": _rules_as_json(rule), "behavior": "allow"}
        if request.rule_file is not None:
            updates.append({**added, "destination": "localSettings"})
        if request.sandboxed_rule_file is not None:
            updates.append({**added, "destination": _SANDBOXED, "sandboxed": True})
        updates.append({**added, "destination": "session"})
    return updates


def _apply_updates(updates: object, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
    """Return the answer with what the program wants from now on: the first rule of ours that it names, and the mode."""
    given = [update for update in updates if isinstance(update, dict)] if isinstance(updates, list) else []
    sets_mode = any(update.get("type") == "setMode" and update.get("mode") == "acceptEdits" for update in given)
    mode = "acceptEdits" if sets_mode and request.tool in EDIT_TOOLS else None
    for update in given:
        # Only a rule that we suggested is kept: the program cannot add another one in this way.
        named = _without_nulls(update.get("rules"))
        rule = next((rule for rule in decision.suggestions if named == _rules_as_json(rule)), None)
        sandboxed = update.get("sandboxed") is True or update.get("destination") == _SANDBOXED
        if rule is None or (sandboxed and request.sandboxed_rule_file is None):
            continue
        is_lasting = update.get("destination") in ("localSettings", _SANDBOXED)
        keep: Literal["local", "session"] = "local" if is_lasting else "session"
        return PermissionAnswer(allowed=True, rule=rule, keep=keep, sandboxed=sandboxed, mode=mode)
    return PermissionAnswer(allowed=True, mode=mode)


def _rules_as_json(suggestion: str) -> list[Json]:
    """Return a suggestion, which may be several rules, as the protocol has rules."""
    rules = []
    for rule in split_rules(suggestion):
        tool, bracket, content = rule.partition("(")
        rules.append({"toolName": tool, **({"ruleContent": content.removesuffix(")")} if bracket else {})})
    return rules


def _without_nulls(rules: object) -> list[object]:
    """Return rules without the fields that are null: the SDK for Python writes them so."""
    listed = rules if isinstance(rules, list) else []
    return [
        {name: value for name, value in rule.items() if value is not None} if isinstance(rule, dict) else rule
        for rule in listed
    ]


def _describe(request: PermissionRequest, decision: RuleDecision) -> str:
    """Return in words what a person should see before the answer."""
    lines = [f"it would fail: {request.problem}"] if request.problem is not None else []
    for rule in decision.suggestions[:1]:
        if request.rule_file is not None:
            lines.append(f"always: {rule} is written to {request.rule_file}")
        if request.sandboxed_rule_file is not None:
            lines.append(f"always, in the sandbox: {rule} is written to {request.sandboxed_rule_file} (`sandboxed`)")
    if request.change is not None:
        changed = [f"{'creates' if request.change.is_new else 'changes'} {request.change.path}"]
        for hunk in request.change.hunks:
            changed.append(f"@@ -{hunk['oldStart']},{hunk['oldLines']} +{hunk['newStart']},{hunk['newLines']} @@")
            changed += hunk["lines"]
        more = len(changed) - _MAX_DESCRIBED_LINES
        lines += [*changed[:_MAX_DESCRIBED_LINES], *([f"… {more} more lines"] if more > 0 else [])]
    return "\n".join(lines)


def _change_as_json(change: FileChange) -> Json:
    return {"file_path": change.path, "is_new": change.is_new, "structured_patch": change.hunks}
