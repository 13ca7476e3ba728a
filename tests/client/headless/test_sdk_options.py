"""Every option of the Agent SDK: a row says whether it acts here, or is refused with its name. None is dropped."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Place
from tests.client.headless.test_sdk import options as options  # noqa: PLC0414 - a fixture

sdk = pytest.importorskip("claude_agent_sdk")

HONOURED = {
    "tools", "allowed_tools", "system_prompt", "mcp_servers", "strict_mcp_config", "permission_mode",
    "continue_conversation", "resume", "session_id", "max_turns", "max_budget_usd", "disallowed_tools", "model",
    "fallback_model", "betas", "permission_prompt_tool_name", "settings", "add_dirs", "can_use_tool", "hooks",
    "include_partial_messages", "forward_subagent_text", "verbatim_prompts", "fork_session", "resume_session_at",
    "agents", "setting_sources", "skills", "sandbox", "plugins", "max_thinking_tokens", "thinking", "effort",
    "output_format", "enable_file_checkpointing", "include_hook_events",
}  # fmt: skip
REFUSED: dict[str, tuple[Any, str]] = {
    "resume_drops_turn": ("x", "--resume-drops-turn"),
    "task_budget": ({"total": 5}, "--task-budget"),
}
PARTLY_REFUSED: dict[str, tuple[Any, str]] = {
    "thinking": ({"type": "adaptive", "display": "omitted"}, "--thinking-display"),
    "permission_mode": ("auto", "--permission-mode"),
    "permission_prompt_tool_name": ("mcp__me__ask", "mcp__me__ask"),
    "sandbox": ({"enabled": True, "excludedCommands": ["git"]}, "sandbox.excludedCommands"),
    "settings": ('{"spinnerTipsEnabled": true}', "spinnerTipsEnabled"),
    "setting_sources": (["team"], "team"),
    "tools": (["Fly"], "Fly"),
}
"""Values that cannot be honoured, of options that can."""
NEEDS_STORE = {"session_store", "session_store_flush", "load_timeout_ms"}
"""A session store is refused as a whole (`--session-mirror`)."""
OF_THE_SDK = {"cwd", "cli_path", "env", "extra_args", "max_buffer_size", "debug_stderr", "stderr", "user", "client_app"}
"""What the SDK does itself: where and as whom the program is started, and what becomes of its output."""


def query(made: Any, prompt: str = "go") -> list[Any]:
    async def talk() -> list[Any]:
        return [one async for one in sdk.query(prompt=prompt, options=made)]

    return asyncio.run(talk())


def test_every_option_of_the_sdk_has_a_row() -> None:
    known = {field.name for field in dataclasses.fields(sdk.ClaudeAgentOptions)}
    assert known == HONOURED | {*REFUSED} | NEEDS_STORE | OF_THE_SDK


@pytest.mark.parametrize(("name", "row"), [*REFUSED.items(), *PARTLY_REFUSED.items()])
def test_what_cannot_be_honoured_is_refused_by_name(options: Any, name: str, row: tuple[Any, str]) -> None:
    said: list[str] = []
    with pytest.raises(sdk.ClaudeSDKError):
        query(options(["Hi."], stderr=said.append, **{name: row[0]}))
    assert row[1] in " ".join(said)


READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "notes.md"}}
BUSY = [{"content": [READ]}] * 5
ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tools": (["Read"], {"tools": ["Read"]}),
    "system_prompt": ("Be a parrot.", {"system": ["Be a parrot."]}),
    "max_thinking_tokens": (2000, {"body": {"thinking": {"type": "enabled", "budget_tokens": 2000}}}),
    "thinking": ({"type": "disabled"}, {"body": {"thinking": None}}),
    "effort": ("low", {"body": {"output_config": {"effort": "low"}}}),
    "add_dirs": (["/usr"], {"system": ["Also: /usr"]}),
    "verbatim_prompts": (True, {"text": "go"}),
    "settings": ('{"outputStyle": "Learning"}', {"system": ["# Output Style: Learning"]}),
}


@pytest.mark.parametrize(("name", "row"), ROWS.items())
def test_an_option_reaches_the_request(options: Any, name: str, row: tuple[Any, dict[str, Any]]) -> None:
    made = options([{"content": "Hi.", "expect": row[1]}], **{name: row[0]})
    assert query(made)[-1].result == "Hi."


def test_limits_end_a_turn(options: Any) -> None:
    with pytest.raises(sdk.ClaudeSDKError, match="maximum number of turns"):
        query(options(BUSY, max_turns=2))
    with pytest.raises(sdk.ClaudeSDKError, match="maximum cost"):
        query(options(BUSY, max_budget_usd=0.0))


def test_a_session_is_named_continued_resumed_and_forked(options: Any) -> None:
    id = "3f0f7a52-5a0f-4c8e-9b0e-0a6d1f6f2a11"
    assert query(options(["One."], session_id=id))[-1].session_id == id
    assert query(options([{"content": "Two.", "expect": {"anywhere": ["One."]}}], resume=id))[-1].session_id == id
    assert query(options(["Three."], continue_conversation=True))[-1].session_id == id
    assert query(options(["Four."], resume=id, fork_session=True))[-1].session_id != id


def test_a_prompt_that_is_sent_as_it_is_runs_no_command(options: Any, place: Place) -> None:
    commands = place.root / "config" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("Greet everybody.\n")
    for verbatim, text in ((True, "/greet"), (False, "Greet everybody.")):
        script = [{"content": "Hi.", "expect": {"anywhere": [text]}}]
        told = query(options(script, verbatim_prompts=verbatim, setting_sources=["user"]), "/greet")
        assert told[-1].result == "Hi."


def test_skills_and_plugins_of_a_program_act(options: Any, place: Place, tmp_path: Path) -> None:
    skill = "---\ndescription: counts\n---\nCount.\n"
    for name in ("count", "other"):
        folder = place.root / "config" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(skill)
    plugin = tmp_path / "plug"
    (plugin / "commands").mkdir(parents=True)
    (plugin / "commands" / "hi.md").write_text("Hi.\n")
    told = query(options(["Hi."], skills=["count"], plugins=[{"type": "local", "path": str(plugin)}]))
    assert told[0].data["skills"] == ["count"]
    assert told[0].data["plugins"] == [{"name": "plug", "path": str(plugin)}]
    assert "plug:hi" in told[0].data["slash_commands"]
    assert query(options(["Hi."], skills="all"))[0].data["skills"] == ["count", "other"]


def test_files_are_rewound_to_before_a_prompt(options: Any, place: Place) -> None:
    notes = place.work / "notes.md"
    notes.write_text("one\n")
    edit = {
        "type": "tool_use",
        "name": "Edit",
        "input": {"file_path": str(notes), "old_string": "one", "new_string": "two"},
    }
    read = {"type": "tool_use", "name": "Read", "input": {"file_path": str(notes)}}
    made = options(
        [{"content": [read]}, {"content": [edit]}, "Done."],
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )

    async def talk() -> str:
        async with sdk.ClaudeSDKClient(made) as client:
            await client.query("change it")
            told = [one async for one in client.receive_response()]
            (prompt,) = [one.uuid for one in told if isinstance(one, sdk.UserMessage) and isinstance(one.content, str)]
            changed = notes.read_text()
            await client.rewind_files(prompt)
            return str(changed)

    assert asyncio.run(talk()) == "two\n"
    assert notes.read_text() == "one\n"


def test_the_calls_of_hooks_are_told_of_all_or_at_the_start_only(options: Any, place: Place) -> None:
    commands = {"SessionStart": "echo hello", "PreToolUse": "echo no >&2; exit 2", "Stop": "true", "SessionEnd": "true"}
    hooks = {event: [{"hooks": [{"type": "command", "command": text}]}] for event, text in commands.items()}
    given = json.dumps({"hooks": hooks})
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "touch made", "description": "Make"}}

    def tell(**more: Any) -> list[dict[str, Any]]:
        told = query(options([{"content": [call]}, "Done."], settings=given, **more))
        return [one.data for one in told if isinstance(one, sdk.SystemMessage) and one.subtype.startswith("hook_")]

    started, ended = tell()
    assert started["hook_id"] == ended["hook_id"]
    assert (started["subtype"], ended["subtype"]) == ("hook_started", "hook_response")
    fields = {"output": "hello\n", "stdout": "hello\n", "stderr": "", "exit_code": 0, "outcome": "success"}
    named = {"hook_name": "SessionStart:startup", "hook_event": "SessionStart"}
    assert {name: ended[name] for name in (*named, *fields)} == {**named, **fields}
    ends = [one for one in tell(include_hook_events=True) if one["subtype"] == "hook_response"]
    assert [(one["hook_name"], one["exit_code"], one["outcome"]) for one in ends] == [
        ("SessionStart:startup", 0, "success"), ("PreToolUse:Bash", 2, "error"), ("Stop", 0, "success")
    ]  # fmt: skip


def test_a_background_task_is_stopped_by_the_program(options: Any) -> None:
    call = {
        "type": "tool_use", "name": "Bash",
        "input": {"command": "sleep 60", "description": "Wait", "run_in_background": True},
    }  # fmt: skip

    async def talk() -> None:
        made = options([{"content": [call]}, "Started."], permission_mode="bypassPermissions")
        async with sdk.ClaudeSDKClient(made) as client:
            await client.query("go")
            told = [one async for one in client.receive_response()]
            (result,) = [one.tool_use_result for one in told if isinstance(one, sdk.UserMessage)]
            await client.stop_task(result["backgroundTaskId"])
            with pytest.raises(Exception, match="no running task"):
                await client.stop_task(result["backgroundTaskId"])

    asyncio.run(talk())
