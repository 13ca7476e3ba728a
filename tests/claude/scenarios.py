"""What the program is made to do: prompts, the replies the API has for them, and what must be on disk afterwards."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from tests.claude.program import Place, Program, Said
from tests.claude.server import Json, Reply, Script, Server, calls, says, thinks

TOOLS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "Task", "Agent", "Skill", "SlashCommand", "TodoWrite")
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
QUESTION = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "multiSelect": False,
            "options": [{"label": "Red", "description": "like a fire"}, {"label": "Blue", "description": "like a sea"}],
        }
    ]
}
MARKER = "What have we done so far?"
"""The prompt that every session is resumed with."""


class Run(NamedTuple):
    """One start of the program. What is said while it runs goes with the words it waits for."""

    prompt: str = ""
    flags: tuple[str, ...] = ()
    talk: tuple[Said, ...] = ()


class Scenario(NamedTuple):
    """Runs of one session, each but the first a resumption, and words that its file must then hold."""

    name: str
    runs: tuple[Run, ...]
    leaves: tuple[str, ...]
    forks: bool = False
    makes: tuple[str, ...] = ()
    """Files that must be in the project then."""


def _hook(command: str) -> list[Json]:
    return [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]


def typed(*content: Json) -> str:
    message = {"role": "user", "content": list(content)}
    return json.dumps({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})


HOOKS = {
    "SessionStart": _hook("touch began; echo the session began"),
    "UserPromptSubmit": _hook("touch prompted; echo a prompt came"),
    "PostToolUse": _hook("touch used; echo not like this >&2; exit 2"),
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}}
RESULT = '"type":"result"'
INTERRUPT = json.dumps({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})

SCENARIOS = (
    Scenario("text", (Run("Say hello."),), ("Hello to you.",)),
    Scenario("thinking and a call", (Run("Read the notes."),), ("Notes first.", "Remember the milk", "About milk.")),
    Scenario("parallel calls", (Run("Do three things."),), ("Remember the milk", "and one more", "notes.md", "Done.")),
    Scenario("a failing call", (Run("Fail twice."),), ('"is_error":true', "exit 3", "Both failed.")),
    Scenario("an image read", (Run("Look at the dot."),), ('"type":"image"', "A dot.")),
    Scenario("two prompts", (Run("Say hello."), Run("Read the notes.")), ("Hello to you.", "About milk.")),
    Scenario("fork", (Run("Read the notes."), Run("Say hello.", ("--fork-session",))), ("About milk.",), forks=True),
    Scenario("slash command", (Run("/greet the world"),), ("<command-name>/greet", "Greet the world", "Greeted.")),
    Scenario("skill", (Run("Use the skill."),), ("Launching skill: count", "Count from one", "Counted.")),
    Scenario(
        "hooks",
        (Run("Read the notes.", ("--settings", json.dumps({"hooks": HOOKS}))),),
        ("About milk.",),  # what hooks said is written down since about 2.1.60
        makes=("began", "prompted", "used"),
    ),
    Scenario(
        "compaction",
        (Run("Read the notes."), Run("/compact keep it short"), Run("Say hello.")),
        ('"isCompactSummary":true', "Notes were read", "Hello to you."),
    ),
    Scenario("agent", (Run("Send an agent."),), ("It is about milk.", "The agent is back.")),
    Scenario("API error", (Run("Break."),), ('"isApiErrorMessage":true',)),
    Scenario("API error after an answer", (Run("Say hello."), Run("Break.")), ('"isApiErrorMessage":true',)),
    Scenario(
        "queued prompt",
        (Run(talk=(("", typed(says("Be slow."))), ("Slowly.", typed(says("Say hello."))))),),
        ("slept",),  # only new versions write down what was queued
    ),
    Scenario("image in a prompt", (Run(talk=(("", typed(says("Look at this."), IMAGE)),)),), ('"type":"image"',)),
    Scenario(
        "interrupt",
        (
            Run(
                talk=(
                    ("", typed(says("Never end."))),
                    ("tail -f", INTERRUPT),
                    (RESULT, typed(says("Say hello."))),
                )
            ),
        ),
        ("[Request interrupted by user", "Hello to you."),
    ),
)


def script(work: Path, agent_tool: str) -> Script:
    """Return what the API says to each prompt."""
    read = calls("Read", file_path=str(work / "notes.md"))
    told: Mapping[str, tuple[Reply | tuple[Json, ...], ...]] = {
        MARKER: ((says("Much."),),),
        "Say hello.": ((says("Hello to you."),),),
        "Read the notes.": ((thinks("Notes first."), says("I look."), read), (thinks("Milk."), says("About milk."))),
        "Do three things.": (
            (says("All at once."), read, shell("echo and one more"), shell("ls")),
            (says("Done."),),
        ),
        "Fail twice.": (
            (calls("Read", file_path=str(work / "missing.md")),),
            (shell("echo no; exit 3"),),
            (says("Both failed."),),
        ),
        "Count far.": ((says("One by one."), shell("seq 1 3000")), (says("That was far."),)),
        "Look at the dot.": ((calls("Read", file_path=str(work / "dot.png")),), (says("A dot."),)),
        "Greet the world": ((says("Greeted."),),),
        "Use the skill.": ((calls("Skill", skill="count", args="to three"),), (says("Counted."),)),
        "Send an agent.": (
            (calls(agent_tool, description="Read", prompt="Report on the notes.", subagent_type="general-purpose"),),
            (says("The agent is back."),),
        ),
        "Report on the notes.": ((read,), (says("It is about milk."),)),
        "Break.": (Reply(status=400),),
        "Be slow.": (
            (says("Slowly."), shell("sleep 1; echo slept")),
            (says("That was slow."),),
        ),
        "Look at this.": ((says("I see a dot."),),),
        "Never end.": ((says("Endless."), shell("tail -f notes.md")), (says("It ended."),)),
        "create a detailed summary": ((says("<analysis>Short.</analysis><summary>Notes were read.</summary>"),),),
    }
    return {
        cue: [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies] for cue, replies in told.items()
    }


def shell(command: str) -> Json:
    return calls("Bash", command=command, description="Run it")


SKILL = {".claude/skills/count/SKILL.md": b"---\nname: count\ndescription: counts things\n---\nCount from one.\n"}


def furnish(place: Place, more: Mapping[str, bytes] = SKILL) -> None:
    """Make the project that the program works in: a note, an image, a command and more."""
    files = {
        "notes.md": b"# Notes\n\nRemember the milk.\n",
        "dot.png": base64.b64decode(DOT),
        ".claude/commands/greet.md": b"---\ndescription: say hello\n---\nGreet $ARGUMENTS, please.\n",
        **more,
    }
    for name, data in files.items():
        path = place.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    place.config.mkdir(parents=True)


def play(scenario: Scenario, program: Program, place: Place) -> list[str]:
    """Run a scenario of Claude Code and return the ids of the sessions it wrote."""
    return play_script(scenario, program, place, script(place.work, _agent_tool(program.version)), TOOLS)


def play_script(scenario: Scenario, program: Program, place: Place, replies: Script, tools: Sequence[str]) -> list[str]:
    """Run a scenario with an API that says these replies; return the ids of the sessions it wrote."""
    ids = [str(uuid4())]
    for number, run in enumerate(scenario.runs):
        name = ("--resume", ids[-1]) if number else ("--session-id", ids[-1])
        flags = (*name, *run.flags, "--allowedTools", *tools)
        with Server(replies) as server:
            if run.talk:
                program.talk(place, server.url, run.talk, *flags)
            else:
                result = program.run(place, server.url, *flags, "--", run.prompt)
                ids += [_new(result, scenario)] if "--fork-session" in run.flags else []
    for id in ids:
        assert_written(scenario, place, id)
    return ids


def _new(result: Mapping[str, Any], scenario: Scenario) -> str:
    assert scenario.forks
    return str(result["session_id"])


def assert_written(scenario: Scenario, place: Place, id: str) -> None:
    """A scenario that did not happen proves nothing."""
    (path,) = place.config.glob(f"projects/*/{id}.jsonl")
    text = path.read_text()
    lacking = [words for words in scenario.leaves if words not in text]
    lacking += [name for name in scenario.makes if not (place.work / name).exists()]
    assert not lacking, f"{scenario.name}: {lacking} not in\n{text}"


def _agent_tool(version: str) -> str:
    return "Agent" if tuple(map(int, version.split("."))) >= (2, 1, 63) else "Task"
