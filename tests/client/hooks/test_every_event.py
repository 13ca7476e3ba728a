"""Every event of hooks with every outcome, by settings and by a program: what becomes of the conversation."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.client.talk import Allow, Echo, Json, Session, ending, fitted, opened, place, sound
from unspool.client import events
from unspool.client.compaction.token_window import TokenWindow
from unspool.client.headless.control_protocol import ControlResponse, RemoteUser
from unspool.client.headless.initialize_request import parse_initialization
from unspool.client.hooks.event_names import EVENTS
from unspool.client.hooks.registry import HookRegistry, RegisteredHook
from unspool.client.hooks.settings import HookServices, HookSource, load_hooks
from unspool.client.loop.agent_hooks import TypedCommand
from unspool.client.prompt.instructions import InstructionScope
from unspool.client.prompt.system_prompt import SystemPrompt
from unspool.client.prompt.text.system_prompt_text import PromptEnvironment
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.task import TaskTool
from unspool.errors import ApiFailed

OUTCOMES = ("allow", "deny", "change", "add context", "time out", "crash")
WORDS = "these words"
_CALL_EVENTS = ("PreToolUse", "PermissionRequest")
_ADDING = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "UserPromptSubmit", "UserPromptExpansion",
    "SessionStart", "SubagentStart", "PreCompact",
)  # fmt: skip
EFFECTS: dict[tuple[str, str], str] = {
    **{(event, outcome): "not made" for event in _CALL_EVENTS for outcome in ("deny", "time out", "crash")},
    **{(event, "change"): "changed" for event in _CALL_EVENTS},
    **{(event, "add context"): "told" for event in _ADDING},
    **{(event, "deny"): "told" for event in ("PostToolUse", "PostToolUseFailure")},
    **{(event, "deny"): "refused" for event in ("UserPromptSubmit", "UserPromptExpansion")},
    **{(event, "deny"): "sent back" for event in ("Stop", "SubagentStop")},
    ("PostToolBatch", "deny"): "ended",
    ("PreCompact", "deny"): "kept",
}
"""What a hook brings about. Where nothing is said it changes nothing: the event cannot be denied, or has no input."""


class Change(Echo):
    """Changes the folder."""

    name = "Change"
    is_concurrent = False

    async def run(self, input: Json, desk: ToolContext, call_id: str) -> ToolOutcome:
        desk.cwd = desk.cwd / "below"
        return ToolOutcome(content="changed", result={})


def answer_of(event: str, outcome: str) -> Json:
    """Return what a hook answers."""
    specific: Json = {"hookEventName": event}
    match event, outcome:
        case "PreToolUse", "allow" | "deny":
            specific |= {"permissionDecision": outcome, "permissionDecisionReason": WORDS}
        case "PreToolUse", "change":
            specific |= {"permissionDecision": "allow", "updatedInput": {"path": "other", "text": "x"}}
        case "PermissionRequest", "allow" | "deny":
            specific |= {"decision": {"behavior": outcome, "message": WORDS}}
        case "PermissionRequest", "change":
            specific |= {"decision": {"behavior": "allow", "updatedInput": {"path": "other", "text": "x"}}}
        case _, "deny":
            return {"decision": "block", "reason": WORDS}
        case _, "change":
            specific |= {"updatedInput": {"path": "other", "text": "x"}}
        case _, "add context":
            specific |= {"additionalContext": WORDS}
    return {"hookSpecificOutput": specific}


def by_settings(event: str, outcome: str, folder: Path) -> list[RegisteredHook]:
    commands = {"time out": "sleep 60", "crash": "kill -9 $$"}
    # Once only: what sends a model back to work would do so again and again.
    once = f"[ -e {folder}/called ] || {{ touch {folder}/called; echo '{json.dumps(answer_of(event, outcome))}'; }}"
    hook = {"type": "command", "command": commands.get(outcome, once), "timeout": 0.2 if outcome == "time out" else 30}
    loaded = load_hooks([HookSource("user", {"hooks": {event: [{"hooks": [hook]}]}})], HookServices({}, folder))
    assert loaded.problems == ()
    return [*loaded.hooks]


def by_program(event: str, outcome: str, folder: Path) -> list[RegisteredHook]:
    numbers, calls = itertools.count(), itertools.count()

    def answer(message: Json) -> None:
        if message["type"] != "control_request" or outcome == "time out":
            return
        assert message["request"]["subtype"] == "hook_callback"
        said = answer_of(event, outcome) if next(calls) == 0 else {}
        error = "the function raised" if outcome == "crash" else None
        reply = ControlResponse(message["request_id"], {} if error else said, error)
        asyncio.get_running_loop().call_soon(remote.resolve, reply)

    remote = RemoteUser(answer, lambda: str(next(numbers)))
    matcher = {"hookCallbackIds": ["one"], "timeout": 0.1}
    return [*parse_initialization({"subtype": "initialize", "hooks": {event: [matcher]}}, remote).hooks]


def script_of(event: str) -> Any:
    put = {"type": "tool_use", "name": "Put", "input": {"path": "made", "text": "x"}}
    task = {"description": "d", "prompt": "work", "subagent_type": "general-purpose"}
    firsts: dict[str, list[Any]] = {
        "PostToolUseFailure": [{"content": [{"type": "tool_use", "name": "Echo", "input": {}}]}],
        "CwdChanged": [{"content": [{"type": "tool_use", "name": "Change", "input": {}}]}],
        "SubagentStart": [{"content": [{"type": "tool_use", "name": "Task", "input": task}]}],
        "SubagentStop": [{"content": [{"type": "tool_use", "name": "Task", "input": task}]}],
        "StopFailure": [{"error": {"status": 400}}],
    }
    first = firsts.get(event, [{"content": [put]}])
    summary = ["<summary>" + "It went well. " * 40 + "</summary>"] * 2
    cues = {"one": [*first, "Done.", "Done again."], "two": ["Second."], "work": ["Worked.", "Worked again."]}
    return {"cues": {**cues, "</conversation>": summary}}


def load_once(folder: Path) -> SystemPrompt:
    """Return a system prompt with one file of instructions."""
    (folder / "rules").mkdir()
    (folder / "rules" / "CLAUDE.md").write_text("Be brief.")
    scope = InstructionScope(folder / "rules", folder / "no-config")
    return SystemPrompt(scope, PromptEnvironment(str(folder), "claude-opus-5-5", "linux", "2026-01-31"))


async def play(event: str, hooks: Iterable[RegisteredHook], folder: Path) -> tuple[Session, list[Any], str]:
    """Have a conversation in which the event happens; return what happened, and how the compaction ended."""
    judge = Allow("ask" if event in ("PreToolUse", "PermissionRequest", "Notification") else "allow")
    services = fitted((TaskTool(), Change()), judge)._replace(hooks=HookRegistry(hooks, lambda: "id"))
    if event in ("PreCompact", "PostCompact"):
        services = services._replace(make_window=TokenWindow)
    if event == "InstructionsLoaded":
        services = services._replace(take_instructions=load_once(folder).take_loaded)
    session = await opened(place(folder), script_of(event), fittings=services)
    found: list[Any] = []
    compacted = ""
    command = TypedCommand("greet", "you", "user") if event == "UserPromptExpansion" else None
    await session.chat.turn("one", found.append, command=command)
    if event in ("PreCompact", "PostCompact"):
        try:
            await session.chat.compact(found.append)
            compacted = "done"
        except ApiFailed as failed:
            compacted = failed.message
    await session.chat.close()
    return session, found, compacted


@pytest.mark.parametrize("carrier", [by_settings, by_program])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_with_an_outcome_has_its_effect_and_no_other(
    tmp_path: Path, event: str, outcome: str, carrier: Any
) -> None:
    session, found, compacted = asyncio.run(play(event, carrier(event, outcome, tmp_path), tmp_path))
    effect = EFFECTS.get((event, outcome), "none")
    sent = json.dumps(session.model.requests)
    made = {path.name for path in (tmp_path / "work").iterdir()}
    puts = event not in ("PostToolUseFailure", "CwdChanged", "SubagentStart", "SubagentStop", "StopFailure")
    # Where nobody answers for the user, a call that is asked about is not made.
    asks = event == "Notification" or (event in _CALL_EVENTS and outcome != "allow")
    expected = {"made"} if puts and not asks and effect not in ("refused", "not made") else set()
    assert made == ({"other"} if effect == "changed" else expected)
    told = effect in ("told", "sent back") or (effect == "not made" and outcome == "deny")
    assert (WORDS in sent) == told
    ends = {"refused": "hook_stopped", "ended": "hook_stopped"}.get(effect, "end_turn")
    (ended,) = [one for one in found if isinstance(one, events.TurnEnded)]
    assert ended.ending == ("failed" if event == "StopFailure" else ends)
    requests = {"refused": 0, "ended": 1, "sent back": 3, "none": 2}
    if (
        event not in ("SubagentStart", "SubagentStop", "StopFailure", "PreCompact", "PostCompact")
        and effect in requests
    ):
        assert len(session.model.requests) == requests[effect]
    if event in ("PreCompact", "PostCompact"):
        assert compacted == ("a PreCompact hook refused the summary: these words" if effect == "kept" else "done")
    if event == "SubagentStart":
        assert "Worked." in sent
    if event == "SubagentStop":
        assert ("Worked again." in sent) == (effect == "sent back")
    if effect != "refused":
        sound(session.chat)


def test_hooks_that_fail_are_reported_for_events_that_cannot_be_denied(tmp_path: Path) -> None:
    hooks = [hook for event in ("StopFailure",) for hook in by_settings(event, "crash", tmp_path)]
    _, found, _ = asyncio.run(play("StopFailure", hooks, tmp_path))
    notices = [notice for one in found if isinstance(one, events.HookReported) for notice in one.notices]
    assert any("it was killed by signal 9" in notice for notice in notices)
    assert ending(found) == "failed"
