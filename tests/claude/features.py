"""What Claude Code can do beside plain turns: scenarios of one feature each, and the versions that have it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias
from uuid import uuid4

from tests.claude.program import Place, Program, Said
from tests.claude.scenarios import DOT, IMAGE, QUESTION, RESULT, furnish, shell, typed
from tests.claude.server import Json, Script, Server, calls, says, thinks
from tests.claude.terminal import Interface, trust
from unspool.format import format_timestamp

SERVER = Path(__file__).with_name("mcp_server.py")
TOOLS = (
    "Bash", "Read", "Write", "Edit", "Glob", "Grep", "Task", "Agent", "Skill", "SlashCommand", "TodoWrite",
    "TaskOutput", "BashOutput", "TaskStop", "KillShell", "ToolSearch", "Workflow", "mcp__things",
)  # fmt: skip
OPUS, SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
ANY: tuple[int, ...] = ()


class Stage(NamedTuple):
    """Where a scenario is played: the place, and what its API is asked."""

    place: Place
    server: Server
    interface: Interface

    def say(self, text: str) -> None:
        """Type a prompt, and wait until it was asked."""
        before = len(self.server.requests)
        self.interface.say(text, lambda: text in str(self.server.requests[before:]))


Driver: TypeAlias = Callable[[Stage], None]


class Leg(NamedTuple):
    """One start of Claude Code: a prompt, lines that are said while it runs, or keys that are pressed."""

    prompt: str = ""
    flags: tuple[str, ...] = ()
    talk: tuple[Said, ...] = ()
    keys: Driver | None = None
    by: str = ""
    """Another version than the one whose turn it is: `newest`, or by its number."""
    before: Callable[[Place, str], None] | None = None
    """What is done to the config folder and the session, by its id, before this start."""
    variables: Mapping[str, str] = {}


class Feature(NamedTuple):
    """Starts of Claude Code in one session, and words that its file must then hold."""

    name: str
    legs: tuple[Leg, ...]
    leaves: tuple[str, ...]
    since: tuple[int, ...] = ANY
    until: tuple[int, ...] = (9,)
    why: str = ""
    """Why other versions than those between `since` and `until` cannot do it."""
    files: Mapping[str, bytes] = {}
    resume: tuple[str, ...] = ()
    """What the session is resumed with, so that the same tools are there."""

    def suits(self, version: str) -> bool:
        """Tell whether a version can do it."""
        return self.since <= numbers(version) < self.until


def hook(command: str, matcher: str = "*") -> list[Json]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]


def echo(event: str, **output: object) -> str:
    """Return a command that prints what a hook has to say for an event."""
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **output}})}'"


def with_settings(**settings: object) -> tuple[str, ...]:
    return ("--settings", json.dumps(settings))


def allow(printed: str, **answers: object) -> str:
    """Return the line that allows the call that Claude Code has asked about."""
    asked = json.loads(printed)
    response = {"behavior": "allow", "updatedInput": {**asked["request"]["input"], **answers}}
    return json.dumps(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": asked["request_id"], "response": response},
        }
    )


def deny(printed: str) -> str:
    asked = json.loads(printed)
    response = {"behavior": "deny", "message": "Make it shorter."}
    return json.dumps(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": asked["request_id"], "response": response},
        }
    )


def control(id: str, **request: object) -> str:
    return json.dumps({"type": "control_request", "request_id": id, "request": request})


def pause(place: Place, id: str) -> None:
    """Let two hours pass for a session, and let Claude Code cut old results after such a pause.

    A remote flag tells it to; it is kept in this file, and read from there where nothing may be asked of the network.
    """
    (path,) = place.config.glob(f"projects/*/{id}.jsonl")
    path.write_text(TIMES.sub(lambda found: found[1] + _hours_before(found[2]), path.read_text()))
    path = place.config / ".claude.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    flags = {"tengu_jiggly_blossom": "on", "tengu_wise_pearl": {"write_records": True}, "tengu_silly_glacier": True}
    path.write_text(json.dumps({**known, "cachedGrowthBookFeatures": flags, "cachedFeatureFlags": flags}))


def _hours_before(time: str) -> str:
    return format_timestamp(datetime.fromisoformat(time) - timedelta(hours=2))


TIMES = re.compile(r'("timestamp":")([0-9T:.-]{23}Z)')
MCP = ("--mcp-config", json.dumps({"mcpServers": {"things": {"command": sys.executable, "args": [str(SERVER)]}}}))
ASK = ("--permission-prompt-tool", "stdio")
ASKED = '"subtype":"can_use_tool"'
CONTEXT_HOOKS = {
    event: hook(echo(event, additionalContext=f"{event} has more to say."))
    for event in (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "SubagentStart",
    )
}
BLOCKING_HOOKS = {
    "PreToolUse": hook(echo("PreToolUse", permissionDecision="deny", permissionDecisionReason="No shell."), "Bash"),
    "PostToolUse": hook("""echo '{"decision": "block", "reason": "Read it again."}'""", "Read"),
    "Stop": hook("""test -e stopped || { touch stopped; echo '{"decision": "block", "reason": "Not yet."}'; }"""),
}
CHANGING_HOOKS = {
    "PreToolUse": hook(
        echo("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo changed"}), "Bash"
    ),
    "UserPromptSubmit": hook("""echo '{"systemMessage": "Noted.", "suppressOutput": true}'"""),
    "SessionEnd": hook("touch ended"),
    "Notification": hook("true"),
}
STOPPING_HOOKS = {"PostToolUse": hook("""echo '{"continue": false, "stopReason": "Enough."}'""")}
DECIDING_HOOKS = {"PermissionRequest": hook(echo("PermissionRequest", decision={"behavior": "allow"}), "NotebookEdit")}
REFUSING_HOOKS = {"UserPromptSubmit": hook("echo not today >&2; exit 2")}
FAILING_HOOKS = {"PreToolUse": hook("echo broken >&2; exit 1"), "Stop": hook("echo broken too >&2; exit 1")}
COMPACT_HOOKS = {
    "PreCompact": hook("echo remember the colour"),
    "SessionStart": hook(echo("SessionStart", additionalContext="The session goes on."), "compact"),
}
COMMANDS = {
    ".claude/commands/say.md": (
        b"---\nargument-hint: [first] [second]\n---\nSay $1 and $2 and $ARGUMENTS[0], in all: $ARGUMENTS.\n"
    ),
    ".claude/commands/look.md": b"---\nallowed-tools: Bash(echo:*)\n---\nWe have !`echo a shell` and @notes.md now.\n",
    ".claude/commands/deep/under.md": b"Dig deep, please.\n",
}
SKILLS = {
    ".claude/skills/count/SKILL.md": (
        b"---\nname: count\ndescription: counts things\n---\nCount from one to $ARGUMENTS.\n"
    ),
    ".claude/skills/apart/SKILL.md": (
        b"---\nname: apart\ndescription: counts apart\ncontext: fork\n---\nReport on the notes.\n"
    ),
}
STYLE = {
    ".claude/output-styles/pirate.md": (
        b"---\nname: pirate\ndescription: talks as pirates do\n---\nTalk like a pirate.\n"
    )
}
WORKFLOW = """export const meta = { name: 'look', description: 'Look at the notes twice', phases: [{ title: 'Look' }] }
phase('Look')
const found = await parallel([() => agent('Report on the notes.', { label: 'one' }), () => agent('Report on the dot.')])
return { found }
"""
CELLS = {
    "cells.ipynb": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "id": "head", "metadata": {}, "source": ["# Milk\n", "and bread"]},
                {
                    "cell_type": "code",
                    "id": "sum",
                    "execution_count": 1,
                    "metadata": {},
                    "source": "1 + 1",
                    "outputs": [
                        {
                            "output_type": "execute_result",
                            "execution_count": 1,
                            "metadata": {},
                            "data": {"text/plain": "2", "image/png": DOT},
                        },
                        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
                        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["at line 1"]},
                    ],
                },
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ).encode()
}
WAIT = "touch going; while test -e going; do sleep 0.1; done"
NUMBERS = {f"long{number}.txt": b"a line of a long file\n" * 1000 for number in range(12)}

FEATURES = (
    Feature(
        "MCP results with pictures",
        (Leg("Draw it.", MCP), Leg("Say hello.")),
        ("A drawing.", '"type":"image"', "Drawn.", "Hello to you."),
        resume=MCP,
    ),
    Feature(
        "MCP results of other kinds",
        (Leg("Describe it.", MCP), Leg("Say hello.", MCP)),
        ("Remember the milk.", "No drawing today.", "Described."),
        resume=MCP,
    ),
    Feature(
        "hooks that add context",
        (
            Leg("Read and fail.", with_settings(hooks=CONTEXT_HOOKS)),
            Leg("Say hello.", with_settings(hooks=CONTEXT_HOOKS)),
        ),
        ("Both done.",),
    ),
    Feature(
        "hooks that block",
        (Leg("Run and read.", with_settings(hooks=BLOCKING_HOOKS)), Leg("Say hello.")),
        ("No shell.", "Run and read it is."),
    ),
    Feature(
        "hooks that change the input",
        (Leg("Run it.", with_settings(hooks=CHANGING_HOOKS)), Leg("Say hello.")),
        ("It ran.",),
    ),
    Feature(
        "hooks that stop",
        (Leg("Run it.", with_settings(hooks=STOPPING_HOOKS)), Leg("Say hello.")),
        ("Hello to you.",),
    ),
    Feature(
        "hooks that refuse a prompt",
        (Leg("Say hello."), Leg("Run it.", with_settings(hooks=REFUSING_HOOKS)), Leg("Read the notes.")),
        ("Hello to you.", "About milk."),
    ),
    Feature("hooks that fail", (Leg("Run it.", with_settings(hooks=FAILING_HOOKS)), Leg("Say hello.")), ("It ran.",)),
    Feature(
        "hooks of compaction",
        (
            Leg("Read the notes.", with_settings(hooks=COMPACT_HOOKS)),
            Leg("/compact keep the milk", with_settings(hooks=COMPACT_HOOKS)),
            Leg("Say hello.", with_settings(hooks=COMPACT_HOOKS)),
        ),
        ('"isCompactSummary":true', "Hello to you."),
    ),
    Feature(
        "skills",
        (Leg("Use the skill."), Leg("/count four"), Leg("Say hello.")),
        ("Launching skill: count", "Count from one", "Counted."),
        files=SKILLS,
    ),
    Feature(
        "a skill of its own context",
        (Leg("Use the other skill."), Leg("Say hello.")),
        ("Counted apart.",),
        files=SKILLS,
    ),
    Feature(
        "custom commands with arguments",
        (Leg('/say "one more" two three'), Leg("/look"), Leg("/deep:under"), Leg("/nothere at all"), Leg("Say hello.")),
        ("<command-name>/say", "Said.", "a shell", "Hello to you."),
        files=COMMANDS,
    ),
    Feature(
        "output style",
        (
            Leg("Say hello.", with_settings(outputStyle="pirate")),
            Leg("Read the notes.", with_settings(outputStyle="pirate")),
            Leg("Say hello."),
        ),
        ("Hello to you.", "About milk."),
        files=STYLE,
    ),
    Feature(
        "plan approval",
        (
            Leg(
                flags=(*ASK, "--permission-mode", "plan"),
                talk=(("", typed(says("Plan it."))), (ASKED, deny), (ASKED, allow)),
            ),
            Leg("Say hello."),
        ),
        ("Make it shorter.", "User has approved", "Planned.", "Hello to you."),
    ),
    Feature(
        "a question answered",
        (
            Leg(
                flags=ASK,
                talk=(
                    ("", typed(says("Ask me."))),
                    (ASKED, lambda printed: allow(printed, answers={"Which colour?": "Blue"})),
                ),
            ),
            Leg("Say hello."),
        ),
        ("Which colour?", "Asked.", "Hello to you."),
    ),
    Feature(
        "background commands",
        (
            Leg(
                talk=(
                    ("", typed(says("Run it behind."))),
                    (RESULT, typed(says("Stop it."))),
                ),
            ),
            Leg("Say hello."),
        ),
        ("backgroundTaskId", "It runs.", "It stopped.", "Hello to you."),
    ),
    Feature(
        "background agents",
        (Leg(talk=(("", typed(says("Send an agent behind."))), (RESULT, typed(says("Be slow."))))), Leg("Say hello.")),
        ("It is sent.", "That was slow.", "Hello to you."),
    ),
    Feature(
        "compacted twice",
        (
            Leg("Read the notes."),
            Leg("/compact keep the milk"),
            Leg("Do three things."),
            Leg("/compact keep the shell"),
            Leg("Say hello."),
        ),
        ('"isCompactSummary":true', "Hello to you."),
    ),
    Feature(
        "errors in the middle",
        (
            Leg("Fail after a call."),
            Leg("Say hello."),
            Leg("Be overloaded."),
            Leg("Talk long."),
            Leg("Be cut."),
            Leg("Be refused."),
            Leg("Read the notes."),
        ),
        ('"isApiErrorMessage":true', "Hello to you.", "At last.", "About milk."),
    ),
    Feature(
        "model switch with thinking",
        (
            Leg("Read the notes.", ("--model", OPUS)),
            Leg("Do three things.", ("--model", SONNET)),
            Leg(
                flags=("--model", OPUS),
                talk=(
                    ("", typed(says("Read the notes."))),
                    (RESULT, control("switch", subtype="set_model", model=SONNET)),
                    ("control_response", typed(says("Think aloud."))),
                ),
            ),
        ),
        (OPUS, SONNET, "Notes first.", "Aloud."),
    ),
    Feature(
        "resumed by several versions",
        (
            Leg("Read the notes."),
            Leg("Do three things.", by="newest"),
            Leg("Say hello.", by="2.1.29"),
            Leg("Send an agent.", by="newest"),
            Leg("Read the notes."),
        ),
        ("About milk.", "Done.", "Hello to you."),
    ),
    Feature(
        "workflow",
        (
            Leg(talk=(("", typed(says("Run the workflow."))), ("task_notification", typed(says("Say hello."))))),
            Leg("Read the notes."),
        ),
        ("It is under way.", "About milk."),
        since=(2, 1, 290),
        why="no version before has the tool Workflow",
    ),
    Feature(
        "mentions",
        (
            Leg("Look at @notes.md and @dot.png and @.claude."),
            Leg(talk=(("", typed(says("Look at this."), IMAGE)),)),
            Leg("Say hello."),
        ),
        ("Seen.", "I see a dot."),
    ),
    Feature(
        "notebooks",
        (
            Leg("Look at @cells.ipynb."),
            Leg("Change a cell.", with_settings(hooks=DECIDING_HOOKS)),
            Leg("Say hello."),
        ),
        ("Seen.", "Changed.", "Hello to you."),
        files=CELLS,
    ),
    Feature(
        "a mention of what was read",
        (
            Leg(talk=(("", typed(says("Read the notes."))), (RESULT, typed(says("Look at @notes.md."))))),
            Leg("Say hello."),
        ),
        ("About milk.", "Seen.", "Hello to you."),
    ),
    Feature(
        "results cut after a pause",
        (
            Leg("Count much."),
            Leg("Say hello.", before=pause, variables={"CLAUDE_CODE_GB_DISK_CACHE_WHEN_TELEMETRY_OFF": "1"}),
            Leg("Read the notes."),
        ),
        ('"type":"tool_results_cut"', "About milk."),
        since=(2, 1, 325),
        why="no version before writes it",
    ),
    Feature(
        "tools that come later",
        (Leg("Grow.", MCP), Leg("Say hello.", MCP)),
        ("There is one more now.", "Grown up."),
        resume=MCP,
    ),
)


def script(work: Path, agent_tool: str) -> Script:
    """Return what the API says to each prompt."""
    read = calls("Read", file_path=str(work / "notes.md"))

    def told(*content: Json | str, **more: object) -> Json:
        return {"content": list(content), **more}

    def load(*names: str) -> Json:
        return told(calls("ToolSearch", query="select:" + ",".join(names)))

    def agent(prompt: str, **more: object) -> Json:
        return calls(agent_tool, description="Read", prompt=prompt, subagent_type="general-purpose", **more)

    summary = "<analysis>Short.</analysis><summary>Notes were read.</summary>"
    long: list[Json | str] = [*(calls("Read", file_path=str(work / name)) for name in NUMBERS), "That was a lot."]
    lot = [told(content, usage={"input_tokens": 150_000, "output_tokens": 20}) for content in long]
    return {
        "What have we done so far?": ["Much."],
        "Say hello.": ["Hello to you."],
        "Read the notes.": [told(thinks("Notes first."), "I look.", read), told(thinks("Milk."), "About milk.")],
        "Do three things.": [told("All at once.", read, shell("echo and one more"), shell("ls")), "Done."],
        "Think aloud.": [told(thinks("Hm."), "Aloud.")],
        "Write it.": [told(calls("Write", file_path=str(work / "new.txt"), content="one\n")), "Written."],
        "Never end.": [told(shell("touch endless; while test -e endless; do sleep 0.1; done")), "It ended."],
        "Be slow and long.": [told("Slowly.", shell("touch slow; sleep 3; echo slept")), "That was slow."],
        "Run it.": [told("I run.", shell("echo as it was")), "It ran."],
        "Draw it.": [load("mcp__things__draw"), told("I draw.", calls("mcp__things__draw", what="a dot")), "Drawn."],
        "Describe it.": [
            load(*(f"mcp__things__{name}" for name in ("describe", "measure", "refuse", "nothing"))),
            told(calls("mcp__things__describe"), calls("mcp__things__measure"), calls("mcp__things__nothing")),
            told(calls("mcp__things__refuse")),
            "Described.",
        ],
        "Read and fail.": [
            told(thinks("Both."), read, calls("Read", file_path=str(work / "missing.md"))),
            told(agent("Report on the notes.")),
            "Both done.",
        ],
        "Run and read.": [told(shell("echo run")), told(read), "Run and read it is.", "And now it is over."],
        "Use the skill.": [told(calls("Skill", skill="count", args="three")), "Counted."],
        "Use the other skill.": [told(calls("Skill", skill="apart")), "Counted apart."],
        "Count from one": ["Counted."],
        "in all:": ["Said."],
        "We have": ["Seen."],
        "Dig deep": ["Dug."],
        "Plan it.": [
            load("ExitPlanMode"),
            told(calls("ExitPlanMode", plan="1. Look long.\n2. Leap.")),
            told("Shorter.", calls("ExitPlanMode", plan="1. Leap.")),
            "Planned.",
        ],
        "Ask me.": [load("AskUserQuestion"), told(calls("AskUserQuestion", **QUESTION)), "Asked."],
        "Run it behind.": [
            told(calls("Bash", command=WAIT, description="Wait", run_in_background=True)),
            "It runs.",
        ],
        "Stop it.": [
            load("TaskOutput", "TaskStop"),
            told(calls("TaskStop", task_id="none"), calls("KillShell", shell_id="none")),
            told(calls("TaskOutput", task_id="none"), calls("BashOutput", bash_id="none")),
            told(shell("rm going")),
            "It stopped.",
        ],
        "Send an agent behind.": [told(agent("Report on the notes.", run_in_background=True)), "It is sent."],
        "Send an agent.": [told(agent("Report on the notes.")), "The agent is back."],
        "Send an agent to wait.": [told(agent("Wait long.", run_in_background=True)), "It is sent."],
        "Wait long.": [told("Over.", until=str(work / "over"))],
        "Schedule it.": [
            load("CronCreate"),
            told(calls("CronCreate", cron="* * * * *", prompt="Dig deep", recurring=False)),
            "Scheduled.",
        ],
        "Count much.": [told(*(shell(f"seq {first} {first + 1500}") for first in range(1000, 1030))), "That was much."],
        "Count far.": [told(shell("seq 1 300")), "That was far."],
        "Report on the notes.": [told(read), "It is about milk."],
        "Report on the dot.": ["It is about a dot."],
        "Be slow.": [told("Slowly.", shell("sleep 1; echo slept")), "That was slow."],
        "Fail after a call.": [told("I run.", shell("echo once")), {"error": {"status": 400}}],
        "Be overloaded.": [{"content": "At last.", "error": {"status": 529, "times": 2, "retry_after": 0}}],
        "Talk long.": [{"content": "It is long", "stop_reason": "max_tokens"}, " and then it ends."],
        "Be cut.": [{"content": "This is said, and more is not.", "break": {"how": "cut", "after": 4, "times": 1}}],
        "Be refused.": [{"content": "I can", "stop_reason": "refusal"}],
        "Read a lot.": lot,
        "Run the workflow.": [told(calls("Workflow", script=WORKFLOW)), "It is under way."],
        "Look at @": ["Seen."],
        "Change a cell.": [
            told(calls("Read", file_path=str(work / "cells.ipynb"))),
            told(calls("NotebookEdit", notebook_path=str(work / "cells.ipynb"), cell_id="sum", new_source="2 + 2")),
            "Changed.",
        ],
        "Grow.": [
            load("mcp__things__grow"),
            told("I grow.", calls("mcp__things__grow")),
            told(shell("echo and wait")),
            told(calls("mcp__things__grown")),
            "Grown up.",
        ],
        "Look at this.": ["I see a dot."],
        "create a detailed summary": [summary],
    }  # fmt: skip


def play(feature: Feature, version: str, programs: Mapping[str, Program], place: Place) -> str:
    """Play a scenario with a version; return the id of the session it wrote."""
    furnish(place, feature.files)
    id = str(uuid4())
    for number, leg in enumerate(feature.legs):
        program = programs[leg.by or version]
        replies = script(place.work, agent_tool(program.version))
        name = ("--resume" if number else "--session-id", id)
        if leg.before:
            leg.before(place, id)
        here = place._replace(variables=leg.variables)
        flags = (*name, *leg.flags, "--allowedTools", *TOOLS)
        with Server(replies) as server:
            if leg.keys:
                trust(place, program.version)
                with Interface(program, here, server.url, "--permission-mode", "default", *flags) as interface:
                    interface.see("? for shortcuts")
                    leg.keys(Stage(place, server, interface))
            elif leg.talk:
                program.talk(here, server.url, leg.talk, *flags)
            else:
                program.run(here, server.url, *flags, "--", leg.prompt)
    (path,) = place.config.glob(f"projects/*/{id}.jsonl")
    text = path.read_text()
    lacking = [words for words in feature.leaves if words not in text]
    assert not lacking, f"{feature.name}, {version}: {lacking} not in\n{text}"
    return id


def agent_tool(version: str) -> str:
    return "Agent" if numbers(version) >= (2, 1, 63) else "Task"


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
