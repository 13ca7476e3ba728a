"""The program's own SDK, with `unspool chat` where it expects the program."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.client.conftest import Place
from unspool.sandbox import find_mechanism

sdk = pytest.importorskip("claude_agent_sdk")


@pytest.fixture
def options(place: Place) -> Any:
    """Return what makes options for a script."""
    program = place.root / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m unspool chat "$@"\n')
    program.chmod(0o755)

    def made(script: object, **more: Any) -> Any:
        environment = {**place.environment, "CLAUDE_CONFIG_DIR": str(place.root / "config")}
        skip = {"CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1"}
        return sdk.ClaudeAgentOptions(
            cli_path=program, cwd=place.work, model=place.script(script), env={**environment, **skip}, **more
        )

    return made


def test_a_prompt_is_answered(options: Any) -> None:
    async def talk() -> list[Any]:
        return [one async for one in sdk.query(prompt="hi", options=options(["Hello."]))]

    told = asyncio.run(talk())
    assert [type(one).__name__ for one in told] == ["SystemMessage", "AssistantMessage", "ResultMessage"]
    assert told[1].content == [sdk.TextBlock(text="Hello.")]
    assert (told[2].result, told[2].is_error, told[2].num_turns) == ("Hello.", False, 1)


def test_whoever_uses_it_is_asked_for_permission(options: Any, place: Place) -> None:
    asked: list[tuple[str, Any]] = []

    async def may(tool: str, input: Any, context: Any) -> Any:
        asked.append((tool, input))
        if "good" in input["command"]:
            return sdk.PermissionResultAllow()
        return sdk.PermissionResultDeny(message="not this one")

    use = [{"type": "tool_use", "name": "Bash", "input": {"command": f"touch {name}"}} for name in ("good", "bad")]
    script = [{"content": use}, {"content": "Done.", "expect": {"result": "not this one"}}]

    async def talk() -> list[Any]:
        async with sdk.ClaudeSDKClient(options(script, can_use_tool=may)) as client:
            await client.query("go")
            return [one async for one in client.receive_response()]

    told = asyncio.run(talk())
    assert told[-1].result == "Done."
    assert [input["command"] for _, input in asked] == ["touch good", "touch bad"]
    assert [path.name for path in sorted(place.work.iterdir())] == ["good"]


def test_whoever_is_asked_sees_the_change_and_may_keep_a_rule_for_the_sandbox(options: Any, place: Place) -> None:
    asked: dict[str, Any] = {}

    async def may(tool: str, input: Any, context: Any) -> Any:
        asked[tool] = context
        boxed = [update for update in context.suggestions if update.destination == "userSettings"]
        return sdk.PermissionResultAllow(updated_permissions=boxed)

    calls = [
        {"type": "tool_use", "name": "Write", "input": {"file_path": str(place.work / "new"), "content": "one\n"}},
        {"type": "tool_use", "name": "Bash", "input": {"command": "touch made"}},
        {"type": "tool_use", "name": "Bash", "input": {"command": "touch again"}},
    ]

    async def talk() -> list[Any]:
        async with sdk.ClaudeSDKClient(options([{"content": calls}, "Done."], can_use_tool=may)) as client:
            await client.query("go")
            return [one async for one in client.receive_response()]

    assert asyncio.run(talk())[-1].result == "Done."
    assert "@@ -1,0 +1,1 @@\n+one" in asked["Write"].description
    assert sorted(path.name for path in place.work.iterdir()) == ["again", "made", "new"]
    if find_mechanism() is not None:
        kept = json.loads((place.root / "unspool" / "rules.json").read_text())
        assert kept == {"folders": {str(place.work): {"allow": [], "sandboxed": ["Bash(touch:*)"]}}}


def test_a_conversation_is_interrupted_and_goes_on(options: Any) -> None:
    use = {"type": "tool_use", "name": "Bash", "input": {"command": "sleep 60"}}
    script = {"cues": {"wait": [{"content": ["I wait.", use]}], "again": ["Back."]}}

    async def talk() -> list[Any]:
        found = []
        async with sdk.ClaudeSDKClient(options(script, permission_mode="bypassPermissions")) as client:
            await client.query("wait")
            async for one in client.receive_response():
                found.append(one)
                if isinstance(one, sdk.AssistantMessage) and isinstance(one.content[0], sdk.ToolUseBlock):
                    await client.interrupt()
            await client.query("again")
            return [*found, *[one async for one in client.receive_response()]]

    told = asyncio.run(talk())
    results = [one for one in told if isinstance(one, sdk.ResultMessage)]
    assert [one.subtype for one in results] == ["error_during_execution", "success"]
    assert results[-1].result == "Back."
