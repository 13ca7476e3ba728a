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


def test_a_program_changes_the_input_of_a_call_and_rules_that_deny_still_hold(options: Any, place: Place) -> None:
    other = {"touch a": "touch b", "touch c": "touch denied", "touch d": 7}

    async def may(tool: str, input: Any, context: Any) -> Any:
        return sdk.PermissionResultAllow(updated_input={"command": other[input["command"]]})

    calls = [{"type": "tool_use", "name": "Bash", "input": {"command": command}} for command in other]
    settings = json.dumps({"permissions": {"deny": ["Bash(touch denied)"]}})

    async def talk() -> list[Any]:
        given = options([{"content": calls}, "Done."], can_use_tool=may, settings=settings)
        async with sdk.ClaudeSDKClient(given) as client:
            await client.query("go")
            return [one async for one in client.receive_response()]

    assert asyncio.run(talk())[-1].result == "Done."
    assert [path.name for path in place.work.iterdir()] == ["b"]


def test_a_program_that_refuses_can_stop_the_turn(options: Any, place: Place) -> None:
    async def may(tool: str, input: Any, context: Any) -> Any:
        return sdk.PermissionResultDeny(message="not here", interrupt=True)

    calls = [{"type": "tool_use", "name": "Bash", "input": {"command": "touch a"}}]

    async def talk() -> list[Any]:
        async with sdk.ClaudeSDKClient(options([{"content": calls}, "Never said."], can_use_tool=may)) as client:
            await client.query("go")
            return [one async for one in client.receive_response()]

    told = asyncio.run(talk())
    assert told[-1].subtype == "error_during_execution"
    assert "Never said." not in str(told)
    assert any("not here" in path.read_text() for path in place.root.rglob("projects/*/*.jsonl"))
    assert not (place.work / "a").exists()


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


BASH = [{"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "touch made"}}]}, "Done."]


def hooked(
    options: Any, output: Any, script: object = BASH, event: str = "PreToolUse", **more: Any
) -> tuple[Any, list[Any]]:
    """Run a script with a hook that answers `output`; return the result and what the hook got."""
    got: list[Any] = []

    async def hook(input: Any, call_id: Any, context: Any) -> Any:
        got.append({**input, "call_id": call_id})
        if isinstance(output, Exception):
            raise output
        if output == "never":
            await asyncio.Event().wait()
        return output

    matcher = {name: more.pop(name) for name in ("matcher", "timeout", "on_failure") if name in more}
    hooks = {event: [sdk.HookMatcher(hooks=[hook], **matcher)]}

    async def talk() -> Any:
        async with sdk.ClaudeSDKClient(options(script, hooks=hooks, **more)) as client:
            await client.query("go")
            return [one async for one in client.receive_response()][-1]

    return asyncio.run(talk()), got


def decision(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


@pytest.mark.parametrize(
    "output",
    [
        decision(permissionDecision="deny", permissionDecisionReason="not here"),
        {"decision": "block", "reason": "not here"},
        {"continue_": False, "stopReason": "not here"},
        ValueError("the hook is broken"),
        None,
        {"decision": "perhaps"},
        decision(permissionDecision="denied"),
    ],
)
def test_a_call_that_a_hook_denies_or_does_not_judge_is_not_made(options: Any, place: Place, output: Any) -> None:
    result, got = hooked(options, output, allowed_tools=["Bash"], matcher="Bash")
    assert [(one["tool_name"], one["tool_input"]) for one in got] == [("Bash", {"command": "touch made"})]
    assert not (place.work / "made").exists()
    assert len(result.permission_denials) == 1


def test_a_hook_that_does_not_answer_in_time_denies_the_call(options: Any, place: Place) -> None:
    result, _ = hooked(options, "never", allowed_tools=["Bash"], timeout=0.2)
    assert (result.result, [*place.work.iterdir()]) == ("Done.", [])


def test_a_hook_that_may_fail_lets_the_call_run(options: Any, place: Place) -> None:
    hooked(options, ValueError("broken"), allowed_tools=["Bash"], on_failure="continue")
    assert (place.work / "made").exists()


def test_a_hook_that_blocks_on_failure_is_accepted(options: Any, place: Place) -> None:
    hooked(options, ValueError("broken"), allowed_tools=["Bash"], on_failure="block")
    assert not (place.work / "made").exists()


def test_a_hook_of_the_sdk_allows_changes_and_adds(options: Any, place: Place) -> None:
    output = decision(
        permissionDecision="allow", updatedInput={"command": "touch other"}, additionalContext="It rains."
    )
    told = {"content": "Done.", "expect": {"anywhere": ["PreToolUse:Bash hook additional context: It rains."]}}
    result, _ = hooked(options, output, [BASH[0], told])
    assert result.result == "Done."
    assert [path.name for path in place.work.iterdir()] == ["other"]


def test_hooks_for_other_tools_are_not_called(options: Any, place: Place) -> None:
    _, got = hooked(options, decision(permissionDecision="deny"), allowed_tools=["Bash"], matcher="Edit|Write")
    assert (got, (place.work / "made").exists()) == ([], True)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop", "PermissionRequest"])
def test_every_event_of_the_sdk_reaches_its_hook(options: Any, event: str) -> None:
    allowed = [] if event == "PermissionRequest" else ["Bash"]
    _, got = hooked(options, {}, event=event, allowed_tools=allowed, extra_args={"sandbox": "off"})
    assert [one["hook_event_name"] for one in got] == [event]


def test_agents_of_the_sdk_are_started(options: Any, place: Place) -> None:
    agent = sdk.AgentDefinition(description="looks", prompt="You look hard.", tools=["Read"], model="haiku")
    task = {
        "type": "tool_use",
        "name": "Task",
        "input": {"description": "d", "prompt": "work", "subagent_type": "looker"},
    }
    sees = {"content": "Seen.", "expect": {"body": {"model": "claude-haiku-5-5"}, "anywhere": ["You look hard."]}}
    script = {"cues": {"go": [{"content": [task]}, "Done."], "work": [sees]}}

    async def talk() -> list[Any]:
        return [one async for one in sdk.query(prompt="go", options=options(script, agents={"looker": agent}))]

    told = asyncio.run(talk())
    assert "looker" in told[0].data["agents"]
    assert told[-1].result == "Done."


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (
            {"agents": {"one": sdk.AgentDefinition(description="d", prompt="p", skills=["x"])}},
            "`skills` of the agent `one`",
        ),
        (
            {"system_prompt": {"type": "preset", "preset": "claude_code", "exclude_dynamic_sections": True}},
            "`excludeDynamicSections` is not supported",
        ),
    ],
)
def test_what_a_program_registers_and_cannot_be_done_is_refused_by_name(options: Any, more: Any, named: str) -> None:
    async def talk() -> None:
        async for _ in sdk.query(prompt="go", options=options(["Hi."], **more)):
            pass

    with pytest.raises(Exception, match=named):
        asyncio.run(talk())


def query(made: Any) -> Any:
    """Return the result of a run with these options."""

    async def talk() -> list[Any]:
        return [one async for one in sdk.query(prompt="go", options=made)]

    return asyncio.run(talk())[-1]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"mcp_servers": {"a": {"command": 5}}}, "MCP server `a`"),
        ({"plugins": [{"type": "local", "path": "x"}]}, "plugin folder not found"),
        ({"sandbox": {"enabled": True, "excludedCommands": ["git"]}}, "sandbox.excludedCommands"),
        ({"settings": '{"spinnerTipsEnabled": true}'}, "spinnerTipsEnabled"),
        ({"task_budget": {"total": 5}}, "--task-budget"),
        ({"setting_sources": ["team"]}, "team"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused_with_its_name(options: Any, more: Any, named: str) -> None:
    said: list[str] = []
    with pytest.raises(sdk.ClaudeSDKError):
        query(options(["Hi."], stderr=said.append, **more))
    assert said[0].startswith("unspool: ")
    assert named in said[0]


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ({"effort": "low"}, {"output_config": {"effort": "low"}}),
        ({"thinking": {"type": "disabled"}}, {"thinking": None}),
        ({"settings": '{"model": "claude-haiku-5-5"}'}, {"model": "claude-haiku-5-5"}),
        ({"setting_sources": []}, {"model": "claude-opus-5-5"}),
        ({"setting_sources": ["user"]}, {"model": "claude-sonnet-5-5"}),
        ({"sandbox": {"enabled": True}}, {"model": "claude-sonnet-5-5"}),
        ({"betas": ["context-1m-2025-08-07"]}, {"model": "claude-sonnet-5-5"}),
        ({"fallback_model": "haiku"}, {"model": "claude-sonnet-5-5"}),
        ({"strict_mcp_config": True}, {"model": "claude-sonnet-5-5"}),
    ],
)
def test_an_option_that_can_be_honoured_reaches_the_request(options: Any, place: Place, more: Any, body: Any) -> None:
    config = place.root / "config"
    config.mkdir()
    (config / "settings.json").write_text('{"model": "claude-sonnet-5-5"}')
    assert query(options([{"content": "Hi.", "expect": {"body": body}}], **more)).result == "Hi."


def test_servers_inside_the_program_are_called_asked_about_and_reported(options: Any) -> None:
    async def shout(arguments: Any) -> Any:
        if arguments["word"] == "bad":
            raise ValueError("not this word")
        return {"content": [{"type": "text", "text": arguments["word"].upper()}]}

    loud = sdk.tool("shout", "Says it loud.", {"word": str})(shout)
    asked: list[str] = []

    async def may(tool: str, input: Any, context: Any) -> Any:
        asked.append(tool)
        return sdk.PermissionResultAllow()

    calls = [{"type": "tool_use", "name": "mcp__voice__shout", "input": {"word": word}} for word in ("hello", "bad")]
    script = {
        "cues": {"go": [{"content": calls}, {"content": "Done.", "expect": {"result": ["HELLO", "not this word"]}}]}
    }
    servers = {"voice": sdk.create_sdk_mcp_server("voice", tools=[loud]), "gone": {"command": "/no/such/program"}}

    async def talk() -> tuple[list[Any], Any, Any]:
        async with sdk.ClaudeSDKClient(options(script, mcp_servers=servers, can_use_tool=may)) as client:
            await client.query("go")
            told = [one async for one in client.receive_response()]
            before = await client.get_mcp_status()
            await client.reconnect_mcp_server("voice")
            await client.toggle_mcp_server("voice", False)
            return told, before, await client.get_mcp_status()

    told, before, after = asyncio.run(talk())
    assert told[-1].result == "Done."
    assert asked == ["mcp__voice__shout"] * 2
    assert told[0].data["mcp_servers"] == [
        {"name": "voice", "status": "connected"},
        {"name": "gone", "status": "failed"},
    ]
    assert [server["status"] for server in before["mcpServers"]] == ["connected", "failed"]
    assert before["mcpServers"][0]["tools"] == [{"name": "shout"}]
    assert after["mcpServers"][0]["status"] == "disabled"


def test_structured_output_follows_its_schema_and_is_asked_for_until_it_comes(options: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    calls = [
        {"type": "tool_use", "name": "StructuredOutput", "input": value} for value in ({"a": 1}, {"b": ""}, {"a": "x"})
    ]
    wrong = {"expect": {"result": "must be string"}, "content": [calls[1]]}
    still = {"expect": {"result": "must have `a`"}, "content": [calls[2]]}
    asked = {"expect": {"anywhere": ["You MUST call the StructuredOutput tool"]}, "content": [calls[0]]}
    made = options(
        ["I am done.", asked, wrong, still, "Not asked for."], output_format={"type": "json_schema", "schema": schema}
    )
    result = query(made)
    # The turn ends with the output, as in Claude Code: no further request is made.
    assert (result.structured_output, result.result) == ({"a": "x"}, '{"a":"x"}')
