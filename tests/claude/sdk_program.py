"""One program of the Agent SDK, run with the real Claude Code and with `unspool chat`: hooks, permissions, a tool
inside the program, partial messages, an interrupt, structured output. It returns the messages as they came."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.claude.program import Place, Program, environment
from unspool.testing.api import scripted

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def use(name: str, **given: object) -> Json:
    return {"type": "tool_use", "name": name, "input": given}


def script(work: Path) -> Json:
    """Return what the API says."""
    touches = [use("Bash", command=f"touch {name}", description="Make") for name in ("denied", "good")]
    return {
        "cues": {
            "first": [
                {"content": ["I look.", use("Read", file_path=str(work / "notes.md"))], "chunk": 4},
                {"content": [touches[0]]},
                {"content": [touches[1]]},
                {"content": [use("mcp__voice__shout", word="hello")]},
                "All done.",
            ],
            "wait": [{"content": ["I wait.", use("Bash", command="tail -f notes.md", description="Follow")]}],
            "again": ["Back."],
            "give": [{"content": [use("StructuredOutput", a="x")]}, "Not asked for."],
        },
        "default": "Fine.",
    }


def run(place: Place, program: Program | None) -> list[Json]:
    """Run the program with Claude Code, or with chat, and return its messages; `{"type": "turn"}` stands between."""
    place.config.mkdir(parents=True)
    place.work.mkdir(parents=True, exist_ok=True)
    (place.work / "notes.md").write_text("Remember the milk.\n")
    command = program.command[-1] if program else str(_make_starter(place))
    with scripted(script(place.work), strict=False) as api, _without_own_variables():
        return asyncio.run(asyncio.wait_for(_talk(place, command, api.url), 100))


def _make_starter(place: Place) -> Path:
    starter = place.root / "claude"
    starter.write_text(f'#!/bin/sh\nexec {sys.executable} -m unspool chat "$@"\n')
    starter.chmod(0o755)
    return starter


@contextmanager
def _without_own_variables() -> Any:
    """Take the variables of Claude Code out of this process: the SDK passes on what it has."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith(("CLAUDE", "ANTHROPIC")):
                patch.delenv(name)
        yield


async def _talk(place: Place, command: str, url: str) -> list[Json]:
    import claude_agent_sdk as sdk
    from claude_agent_sdk._internal.query import Query

    told: list[Json] = []
    receive = Query.receive_messages

    async def listen(self: Any) -> AsyncIterator[Json]:
        async for message in receive(self):
            told.append(message)
            yield message

    async def judge(input: Any, call_id: Any, context: Any) -> Any:
        if "denied" not in input["tool_input"].get("command", ""):
            return {}
        fields = {"permissionDecision": "deny", "permissionDecisionReason": "not here"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}

    async def may(tool: str, input: Any, context: Any) -> Any:
        return sdk.PermissionResultAllow()

    async def shout(arguments: Any) -> Any:
        return {"content": [{"type": "text", "text": arguments["word"].upper()}]}

    loud = sdk.tool("shout", "Says it loud.", {"word": str})(shout)
    variables = {"UNSPOOL_HOME": str(place.root / "unspool"), "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1"}
    options: Any = {
        "cli_path": command,
        "cwd": place.work,
        "env": {**environment(place, url), **variables},
        "model": "claude-sonnet-5-5",
        "setting_sources": [],
        "hooks": {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[judge])]},
        "can_use_tool": may,
        "mcp_servers": {"voice": sdk.create_sdk_mcp_server("voice", tools=[loud])},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Query, "receive_messages", listen)
        async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(include_partial_messages=True, **options)) as client:
            for prompt in ("first", "wait", "again"):
                told.append({"type": "turn", "prompt": prompt})
                await client.query(prompt)
                async for message in client.receive_response():
                    blocks = message.content if isinstance(message, sdk.AssistantMessage) else []
                    if prompt == "wait" and blocks and isinstance(blocks[0], sdk.ToolUseBlock):
                        await client.interrupt()
        output = {"type": "json_schema", "schema": SCHEMA}
        async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(output_format=output, **options)) as client:
            told.append({"type": "turn", "prompt": "give"})
            await client.query("give")
            async for _ in client.receive_response():
                pass
    return told
