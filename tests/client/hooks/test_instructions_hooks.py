"""Hooks that are told which files of instructions were loaded, and why."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.client.talk import Json, fitted, opened, place
from unspool.client.hooks.registry import HookRegistry
from unspool.client.hooks.settings import HookServices, HookSource, load_hooks
from unspool.client.prompt.instructions import InstructionScope
from unspool.client.prompt.system_prompt import SystemPrompt
from unspool.client.prompt.text.system_prompt_text import PromptEnvironment
from unspool.client.tools.files.read import ReadTool


def calls_of_hooks(folder: Path, matcher: str) -> list[Json]:
    """Read a file in a folder with instructions of its own, in two turns; return what the hooks got."""
    there = place(folder)
    below = there.work / "below"
    below.mkdir()
    there.config.mkdir()
    (there.config / "CLAUDE.md").write_text("Be kind.")
    (there.work / "CLAUDE.md").write_text("Be brief. @more.md")
    (there.work / "more.md").write_text("Be exact.")
    (below / "CLAUDE.md").write_text("Be careful.")
    (below / "file.txt").write_text("text")
    log = folder / "log"
    hook = {"type": "command", "command": f"cat >> {log}; echo >> {log}"}
    document = {"hooks": {"InstructionsLoaded": [{"matcher": matcher, "hooks": [hook]}]}}
    loaded = load_hooks([HookSource("user", document)], HookServices({}, folder))
    assert loaded.problems == ()
    environment = PromptEnvironment(str(there.work), "claude-opus-5-5", "linux", "2026-01-31")
    prompt = SystemPrompt(InstructionScope(there.work, there.config), environment)
    services = fitted((ReadTool(),))._replace(
        hooks=HookRegistry(loaded.hooks, lambda: "id"),
        system_prompt=prompt.blocks,
        take_instructions=prompt.take_loaded,
    )
    read = {"type": "tool_use", "name": "Read", "input": {"file_path": str(below / "file.txt")}}
    script = {"cues": {"one": [{"content": [read]}, "Done."], "two": ["Second."]}}

    async def play() -> None:
        session = await opened(there, script, fittings=services)
        await session.say("one")
        await session.say("two")
        await session.chat.close()

    asyncio.run(play())
    return [json.loads(line) for line in log.read_text().splitlines() if line]


def test_each_file_is_told_once_with_its_kind_and_why_it_was_loaded(tmp_path: Path) -> None:
    calls = calls_of_hooks(tmp_path, "")
    work, config = tmp_path / "work", tmp_path / "config"
    common = {"session_id", "transcript_path", "cwd", "hook_event_name"}
    assert all(common <= call.keys() for call in calls)
    assert [{key: value for key, value in call.items() if key not in common} for call in calls] == [
        {"file_path": str(config / "CLAUDE.md"), "memory_type": "User", "load_reason": "session_start"},
        {"file_path": str(work / "CLAUDE.md"), "memory_type": "Project", "load_reason": "session_start"},
        {
            "file_path": str(work / "more.md"),
            "memory_type": "Project",
            "load_reason": "include",
            "parent_file_path": str(work / "CLAUDE.md"),
        },
        {
            "file_path": str(work / "below" / "CLAUDE.md"),
            "memory_type": "Project",
            "load_reason": "nested_traversal",
            "trigger_file_path": str(work / "below" / "file.txt"),
        },
    ]


def test_the_matcher_of_such_a_hook_is_the_reason_of_the_load(tmp_path: Path) -> None:
    calls = calls_of_hooks(tmp_path, "include|nested_traversal")
    assert [call["load_reason"] for call in calls] == ["include", "nested_traversal"]
