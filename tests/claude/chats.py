"""What `unspool chat` is made to do before Claude Code goes on with it: prompts, and what the API says to each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.claude.features import BLOCKING_HOOKS, COMPACT_HOOKS, CONTEXT_HOOKS, FAILING_HOOKS, with_settings
from tests.claude.program import Place, Program
from tests.claude.scenarios import (
    IMAGE,
    INTERRUPT,
    QUESTION,
    RESULT,
    SKILL,
    Run,
    Scenario,
    furnish,
    play_script,
    shell,
    typed,
)
from tests.claude.server import Json, Script, calls, says, thinks

CHAT = Program("chat", (sys.executable, "-m", "unspool", "chat", "--trust", "--permission-mode", "acceptEdits"))
"""Our own client, which is started as the program is."""
TOOLS = (
    "Bash",
    "Read",
    "Write",
    "Edit",
    "NotebookEdit",
    "Glob",
    "Grep",
    "Task",
    "Skill",
    "TodoWrite",
    "TaskOutput",
    "KillShell",
    "mcp__things",
)
SERVER = Path(__file__).with_name("mcp_server.py")
MCP = ("--mcp-config", json.dumps({"mcpServers": {"things": {"command": sys.executable, "args": [str(SERVER)]}}}))
NOTEBOOK = {
    "cells": [{"cell_type": "code", "id": "one", "metadata": {}, "source": ["1 + 1"], "outputs": []}],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip
SUMMARIZE = "</conversation>"
FLOOD = 12
"""How many prompts flood a small window."""

SCENARIOS = (
    Scenario("text", (Run("Say hello."),), ("Hello to you.",)),
    Scenario(
        "calls",
        (Run("Read the notes."), Run("Do three things."), Run("Fail twice."), Run("Look at the dot.")),
        ("Notes first.", "Remember the milk", "and one more", '"is_error":true', '"type":"image"', "A dot."),
    ),
    Scenario(
        "every tool",
        (Run("Use every tool."),),
        ("oldTodos", "structuredPatch", "backgroundTaskId", "EnterPlanMode", "ExitPlanMode", "All were used."),
        makes=("made.txt",),
    ),
    Scenario("fork", (Run("Read the notes."), Run("Say hello.", ("--fork-session",))), ("About milk.",), forks=True),
    Scenario(
        "slash command", (Run("/greet the world"), Run("Say hello.")), ("<command-name>/greet", "Greet the world")
    ),
    Scenario(
        "skill",
        (Run("Use the skill."), Run("/count four"), Run("Say hello.")),
        ("Launching skill: count", "Count from one", "sourceToolUseID", "Counted to four."),
    ),
    Scenario(
        "compaction",
        (Run("Read the notes."), Run("/compact keep it short"), Run("Say hello.")),
        ('"isCompactSummary":true', "Notes were read", "Hello to you."),
    ),
    Scenario(
        "automatic compaction",
        tuple(Run(f"Flood me, {number}.", ("--context-window", "9000")) for number in range(FLOOD)),
        ('"trigger":"auto"', '"isCompactSummary":true', "Flood me, 0."),
    ),
    Scenario("agents", (Run("Send two agents."), Run("Say hello.")), ("It is about milk.", "Both are back.")),
    Scenario("nested agents", (Run("Send an agent that sends one."),), ("One sent another.",)),
    Scenario(
        "results of MCP servers",
        (Run("Draw it.", MCP), Run("Say hello.")),
        ("A drawing.", '"type":"image"', "Remember the milk.", "No drawing today.", '"mcpMeta"', "Drawn."),
    ),
    Scenario(
        "hooks that add context",
        (Run("Fail twice.", with_settings(hooks=CONTEXT_HOOKS)), Run("Say hello.", with_settings(hooks=CONTEXT_HOOKS))),
        ("UserPromptSubmit has more to say.", "PostToolUseFailure has more to say.", "Both failed.", "Hello to you."),
    ),
    Scenario(
        "hooks that block",
        (Run("Do three things.", with_settings(hooks=BLOCKING_HOOKS)), Run("Say hello.")),
        ("No shell.", "Read it again.", "Not yet.", "Hello to you."),
        makes=("stopped",),
    ),
    Scenario(
        "hooks that fail",
        (Run("Do three things.", with_settings(hooks=FAILING_HOOKS)), Run("Say hello.")),
        ("hook_non_blocking_error", "Done.", "Hello to you."),
    ),
    Scenario(
        "hooks of compaction",
        (
            Run("Read the notes.", with_settings(hooks=COMPACT_HOOKS)),
            Run("/compact keep the milk", with_settings(hooks=COMPACT_HOOKS)),
            Run("Say hello.", with_settings(hooks=COMPACT_HOOKS)),
        ),
        ('"isCompactSummary":true', "The session goes on.", "Hello to you."),
    ),
    Scenario("API error", (Run("Say hello."), Run("Break.")), ('"isApiErrorMessage":true',)),
    Scenario("nothing but an API error", (Run("Break."),), ('"isApiErrorMessage":true',)),
    Scenario("broken off", (Run("Say hello."), Run("Cut it."), Run("Say hello.")), ("Hello to you.",)),
    Scenario("cut by its length", (Run("Talk long."), Run("Say hello.")), ("It is long",)),
    Scenario(
        "queued prompt",
        (Run(talk=(("", typed(says("Be slow."))), ("Slowly.", typed(says("Say hello."))))),),
        ("slept", "Hello to you."),
    ),
    Scenario("image in a prompt", (Run(talk=(("", typed(says("Look at this."), IMAGE)),)),), ('"type":"image"',)),
    Scenario(
        "interrupt",
        (Run(talk=(("", typed(says("Never end."))), ("tail -f", INTERRUPT), (RESULT, typed(says("Say hello."))))),),
        ("[Request interrupted by user", "Hello to you."),
    ),
)


def script(work: Path) -> Script:
    """Return what the API says to each prompt."""
    read = calls("Read", file_path=str(work / "notes.md"))
    return {
        "Say hello.": ["Hello to you."],
        "Use the skill.": [_says(calls("Skill", skill="count", args="three")), "Counted."],
        "Count from one": ["Counted to four."],
        "Read the notes.": [_says(thinks("Notes first."), "I look.", read), _says(thinks("Milk."), "About milk.")],
        "Do three things.": [_says("All at once.", read, shell("echo and one more"), shell("ls")), "Done."],
        "Fail twice.": [
            _says(calls("Read", file_path=str(work / "missing.md"))),
            _says(shell("echo no; exit 3")),
            "Both failed.",
        ],
        "Look at the dot.": [_says(calls("Read", file_path=str(work / "dot.png"))), "A dot."],
        "Use every tool.": _every_tool(str(work / "made.txt"), str(work / "book.ipynb")),
        "Draw it.": [
            _says("I draw.", calls("mcp__things__draw", what="a dot"), calls("mcp__things__describe")),
            _says(calls("mcp__things__measure"), calls("mcp__things__refuse"), calls("mcp__things__nothing")),
            "Drawn.",
        ],
        "Greet the world": ["Greeted."],
        "Flood me": [_says(shell("seq 1 900")), "A flood. " * 500],
        "Send two agents.": [_says(_agent("Report on the notes."), _agent("Report on the dot.")), "Both are back."],
        "Report on the notes.": [_says(read), "It is about milk."],
        "Report on the dot.": ["It is about a dot."],
        "Send an agent that sends one.": [_says(_agent("Send one more.")), "One sent another."],
        "Send one more.": [_says(_agent("Report on the dot.")), "It says: a dot."],
        "Break.": [{"error": {"status": 400}}],
        "Cut it.": [{"content": "This is said, and more is not.", "break": {"how": "cut", "after": 4}}],
        "Talk long.": [{"content": "It is long", "stop_reason": "max_tokens"}, " and then it ends."],
        "Be slow.": [_says("Slowly.", shell("sleep 1; echo slept")), "That was slow."],
        "Look at this.": ["I see a dot."],
        "Never end.": [_says("Endless.", shell("tail -f notes.md")), "It ended."],
        SUMMARIZE: ["<summary>Notes were read.</summary>"],
    }


def _every_tool(made: str, book: str) -> list[Json | str]:
    todo = {"content": "Use tools", "status": "in_progress", "activeForm": "Using tools"}
    return [
        _says(thinks("First a file."), calls("Write", file_path=made, content="one\ntwo\n")),
        _says(calls("Edit", file_path=made, old_string="two", new_string="three")),
        _says(calls("Read", file_path=made), calls("Glob", pattern="*.txt"), calls("Grep", pattern="three")),
        _says(calls("TodoWrite", todos=[todo])),
        _says(calls("Read", file_path=book)),
        _says(calls("NotebookEdit", notebook_path=book, cell_id="one", new_source="1 + 2", edit_mode="replace")),
        _says(calls("Bash", command="echo later", description="Later", run_in_background=True)),
        _says(calls("TaskOutput", task_id="nobody"), calls("KillShell", shell_id="nobody")),
        _says(calls("AskUserQuestion", **QUESTION)),
        _says(calls("Read", offset="far"), calls("Unheard", of="it")),
        _says(calls("WebFetch", url="http://127.0.0.1:9/", prompt="What is it?"), calls("WebSearch", query="nothing")),
        _says(calls("EnterPlanMode")),
        _says(calls("ExitPlanMode", plan="1. Look.\n2. Leap.")),
        "All were used.",
    ]


def _says(*content: Json | str) -> Json:
    return {"content": list(content)}


def _agent(prompt: str) -> Json:
    return calls("Task", description="Report", prompt=prompt, subagent_type="general-purpose")


def play(scenario: Scenario, place: Place) -> list[str]:
    """Make the project that is worked in, run a scenario there, and return the ids of the sessions it wrote."""
    furnish(place, {**SKILL, "book.ipynb": json.dumps(NOTEBOOK).encode()})
    return play_script(scenario, CHAT, place, script(place.work), TOOLS)
