"""Simulates Claude Code: writes the lines that it would write for prompts, answers and tool calls.

The texts are ours, and short: the program's own system prompt is not in here.

A request names the one it extends and the messages that came since, by their hash. Only what cannot be read
from the conversation's own lines is kept as a blob.

Rules
  1. The shape is that of the version in the `Setting`; what that version did not write is left out.
  2. Time comes from the clock, ids from names: nothing is looked up, the same story gives the same bytes.
  3. Paths inside the lines are those of the demo's user, wherever the folder really is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from unspool.demo.backups import Backups
from unspool.demo.session_builder import (
    Clock,
    Ids,
    Json,
    Writer,
    assistant,
    compaction,
    rewind,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)
from unspool.demo.tool_calls import AgentOrder, SimulatedCall, ToolSimulator
from unspool.demo.usage import OPUS, SimulatedUsage, UsageSimulator
from unspool.format import encode_json

SYSTEM = (
    "You are the assistant of a demonstration. Nothing you are told here ever happened.",
    "Help with the code in the working folder. Say what you found, then what you changed.",
)
_TOOLS = {
    "Agent": ("Start an agent with a task of its own.", ("description", "prompt", "subagent_type")),
    "Bash": ("Run a shell command.", ("command", "description", "timeout")),
    "Edit": ("Replace a piece of a file.", ("file_path", "old_string", "new_string")),
    "Glob": ("Find files by name.", ("pattern", "path")),
    "Grep": ("Find lines in files.", ("pattern", "path", "output_mode")),
    "Read": ("Read a file.", ("file_path", "offset", "limit")),
    "Skill": ("Follow a written procedure.", ("skill", "args")),
    "TaskCreate": ("Put something on the task list.", ("subject", "description", "activeForm")),
    "TaskUpdate": ("Move a task on.", ("taskId", "status")),
    "WebSearch": ("Search the web.", ("query",)),
    "Write": ("Write a file.", ("file_path", "content")),
}
TOOLS: list[Json] = [
    {
        "name": name,
        "description": about,
        "input_schema": {
            "type": "object",
            "properties": {field: {"type": "string"} for field in fields},
            "required": [fields[0]],
        },
    }
    for name, (about, fields) in _TOOLS.items()
]

_DEFERRED = ("EnterWorktree", "ExitWorktree", "Monitor", "NotebookEdit", "WebFetch")
_AGENTS = {"Explore": "Looks around and changes nothing.", "general-purpose": "Does whatever is asked."}
_SKILLS = {"release-notes": "Write release notes from the commits.", "tide-check": "Compare a table with a gauge."}
_NAMES = {"claude-opus-5-5": "Opus 5.5", "claude-sonnet-5-5": "Sonnet 5.5", "claude-haiku-5-5": "Haiku 5.5"}


class DemoAttachment(NamedTuple):
    """An attachment, how it is worded for the model and in whose name."""

    kind: str
    data: Json
    words: str | None = None
    role: str = "system"


def listings() -> list[DemoAttachment]:
    """The agents and skills there are: all that versions before 2.1.290 said."""
    agents = [f"- {name}: {about}" for name, about in _AGENTS.items()]
    skills = "\n".join(f"- {name}: {about}" for name, about in _SKILLS.items())
    listing = {"addedTypes": list(_AGENTS), "addedLines": agents, "removedTypes": [], "isInitial": True}
    names = {"skillCount": len(_SKILLS), "isInitial": True, "names": list(_SKILLS)}
    digests = [hashlib.sha256(about.encode()).hexdigest()[:16] for about in _SKILLS.values()]
    return [
        DemoAttachment("agent_listing_delta", listing, "Agents you can start:\n" + "\n".join(agents)),
        DemoAttachment(
            "skill_listing", {"content": skills, **names, "digests": digests}, f"Skills you can use:\n{skills}"
        ),
    ]


def surroundings(cwd: str, branch: str, model: str, date: str) -> list[DemoAttachment]:
    """All that 2.1.325 says at the start."""
    name = _NAMES[model]
    place = {
        "workingDirectory": cwd,
        "isWorktree": False,
        "isGitRepo": True,
        "additionalWorkingDirectories": [],
        "platform": "linux",
        "shell": "bash",
        "osVersion": "Linux 6.12.0",
    }
    powered = f"You are {name}, known as {model}."
    identity = {"modelId": model, "marketingName": name, "knowledgeCutoff": "June 2026"}
    deferred = {
        "addedNames": list(_DEFERRED),
        "addedLines": list(_DEFERRED),
        "removedNames": [],
        "wireHiddenNames": [],
        "readdedNames": [],
        "pendingMcpServers": [],
        "failedMcpServers": [],
    }
    git = f"Current branch: {branch}\n\nStatus:\n(clean)"
    signed = {
        "url": None,
        "commit": f"Co-Authored-By: Claude {name} <noreply@example.com>",
        "pr": "Made in a demo",
    }
    flags = {"sendUserFileHint": False, "managedCommit": False, "managedPr": False}
    snapshot = {"systemPrompt": list(SYSTEM), "reminderFold": False, "contextRendering": "announced"}
    return [
        DemoAttachment("environment", {"snapshot": place}, f"You work in {cwd} on linux."),
        DemoAttachment("model", {"identity": identity, "text": powered}, powered),
        DemoAttachment("deferred_tools_delta", deferred, "More tools, to be searched for: " + ", ".join(_DEFERRED)),
        *listings(),
        DemoAttachment("session_context", {"context": {"gitStatus": git}}, git, "user"),
        DemoAttachment("date", {"date": date}, f"Today is {date}."),
        DemoAttachment("remote_session_change", {**signed, **flags}, "Sign commits as shown.", "user"),
        DemoAttachment("prompt_snapshot", {**snapshot, "tools": TOOLS}),
    ]


_BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27"]


class _New(NamedTuple):
    """A message that no request has held yet."""

    role: str
    content: list[Json]
    blob: bool


class Requests:
    """The requests of one conversation."""

    def __init__(self, writer: Writer, source: str) -> None:
        self._writer = writer
        self._source = source
        self._base: str | None = None
        self._kept = 0
        self._new: list[_New] = []
        self._shape: str | None = None

    def hear(self, role: str, content: list[Json], *, blob: bool = False) -> None:
        """Take in a message of the next request; what follows in the same role becomes part of it."""
        if self._new and self._new[-1].role == role == "user" and not blob:
            self._new[-1].content.extend(content)
        else:
            self._new.append(_New(role, list(content), blob))

    def forget(self) -> None:
        """Begin again, as after a compaction."""
        self._base, self._kept, self._new, self._shape = None, 0, [], None

    def send(self, model: str, effort: str) -> str:
        """Note a request; return its id."""
        if self._shape is None:
            self._shape = self._note_shape()
        messages = [{"role": new.role, "content": new.content} for new in self._new]
        tail = [digest(message) for message in messages]
        for new, message, name in zip(self._new, messages, tail, strict=True):
            if new.blob:
                self._note("api-request-blob", hash=name, message=message)
        id = self._writer.ids.uuid()
        self._note(
            "api-request",
            id=id,
            timestamp=self._writer.clock.now,
            version=self._writer.envelope["version"],
            querySource=self._source,
            shapeHash=self._shape,
            params=_params(model, effort),
            **({"base": self._base} if self._base else {}),
            keep=self._kept,
            tail=tail,
            cacheControl=[{"path": ["system", 0], "value": {"type": "ephemeral"}}],
            requestDigest=digest([id, *tail]),
        )
        self._base, self._kept, self._new = id, self._kept + len(tail), []
        return id

    def _note_shape(self) -> str:
        shape = {"system": [{"type": "text", "text": text} for text in SYSTEM], "tools": TOOLS}
        name = digest(shape)
        version = self._writer.envelope["version"]
        self._note("api-request-shape", shapeHash=name, timestamp=self._writer.clock.now, version=version, shape=shape)
        return name

    def _note(self, kind: str, **fields: Any) -> None:
        envelope = self._writer.envelope
        who: Json = {key: envelope[key] for key in ("sessionId", "agentId") if key in envelope}
        self._writer.note(kind, {**who, **fields})


def digest(value: object) -> str:
    """Return the name under which something is kept."""
    return hashlib.sha256(encode_json(value)).hexdigest()


def _params(model: str, effort: str) -> Json:
    return {
        "model": model,
        "betas": _BETAS,
        "max_tokens": 128_000,
        "thinking": {"type": "adaptive", "display": "updates"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": effort},
    }


class ProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a session was started."""

    version: str = "2.1.325"
    branch: str = "main"
    model: str = OPUS
    entrypoint: str = "cli"
    """`cli` for the terminal, `sdk-cli` for a script."""
    mode: str = "default"
    cache: str = "5m"
    effort: str = "medium"
    slug: str | None = None
    pace: float = 0.93
    """Seconds between two lines."""


class SimulatedProgram:
    """One session, or one agent of it."""

    def __init__(
        self,
        name: str,
        tools: ToolSimulator,
        start: str,
        setting: ProgramSettings | None = None,
        *,
        boss: SimulatedProgram | None = None,
        order: AgentOrder | None = None,
    ) -> None:
        self.setting = setting or ProgramSettings()
        self.tools, self.boss, self.order = tools, boss, order
        self.id: str = boss.id if boss else new_id(name)
        ids = Ids(f"{self.id}/{order.agent if order else ''}")
        self.writer = Writer(self._envelope(), ids, Clock(start, self.setting.pace))
        self.bill: SimulatedUsage = boss.bill if boss else SimulatedUsage()
        self.meter = UsageSimulator(cache=self.setting.cache, base=8_900 if boss else 17_300)
        self.requests = Requests(self.writer, order.source if order else "repl_main_thread")
        self.backups = Backups(self.writer, tools, on=boss is None and self.setting.entrypoint == "cli")
        self.agents: list[SimulatedProgram] = []
        self.history: list[tuple[str, str]] = []
        """What was typed, and when."""
        self.outputs: dict[str, str] = {}
        """Overflow of tool results, by file name."""
        self.tasks: list[Json] = []
        self.titles: Json = {}
        self.start, self.asked_at, self.turn = start, start, 0
        self.prompt_id, self.last_prompt, self.last_call = "", "", ""
        self.tools_used: list[str] = []
        self.called: list[str] = []
        """The tools used, and every use of one."""
        self.lines_changed = [0, 0]
        self.usage: Json = {}
        """Of the last answer."""

    def since(self, *version: int) -> bool:
        """Whether this version or a newer one runs."""
        return self.writer.version >= version

    @property
    def now(self) -> str:
        """The time."""
        return self.writer.clock.now

    @property
    def lasted(self) -> int:
        """Milliseconds since the start."""
        return milliseconds(self.now) - milliseconds(self.start)

    def wait(self, seconds: float) -> None:
        """Let time pass; a cache may expire meanwhile."""
        self.writer.clock.wait(seconds)
        self.meter.pause(seconds)

    def open(self) -> None:
        """Note how the session starts."""
        self.state(leaf=False)

    def prompt(
        self, *content: str | Json, pause: float = 0.0, shown: str | None = None, human: bool = True, **fields: Any
    ) -> str:
        """Somebody asks for something; `human` is false for a command. Return the prompt's uuid."""
        self.wait(pause)
        uuid, first = self.writer.ids.uuid(), not self.writer.prompts
        self.turn += 1
        self.last_prompt = " ".join(block if isinstance(block, str) else block.get("text", "") for block in content)
        self.backups.at_prompt(uuid)
        self.asked_at = self.now
        user(*content, **{"uuid": uuid, **self._asked(human), **fields}).write(self.writer)
        self.heard([block if isinstance(block, dict) else text(block) for block in content], blob=first)
        if self.setting.entrypoint == "cli" and not self.boss:
            self.history.append((shown or self.last_prompt, self.now))
        if first:
            self._look_around()
        return uuid

    def answer(
        self,
        *content: str | Json | SimulatedCall,
        ready: Iterable[int] | None = None,
        queued: str | None = None,
        searches: int = 0,
        **fields: Any,
    ) -> None:
        """The model answers; the results of its calls follow, in the order in which they are ready."""
        blocks = [item.use if isinstance(item, SimulatedCall) else item for item in content]
        thought = sum(len(str(block)) // 5 for block in blocks if _thinks(block))
        usage = self.meter.reply(sum(len(str(block)) for block in blocks), thought=thought, searches=searches)
        seconds = usage["output_tokens"] / 75
        request = self._request()
        self._note_tools(blocks)
        self.writer.clock.wait(seconds)
        self.bill.add(self.setting.model, usage, seconds)
        before = set(self.writer.open_calls)
        fields = {"model": self.setting.model, **request, **self._attribution(), **fields}
        self.usage = usage if self.since(2, 1, 100) else _plain(usage)
        assistant(*blocks, usage=self.usage, **fields).write(self.writer)
        self.requests.hear("assistant", [{"type": "text", "text": str(block)} for block in blocks])
        opened = [id for id in self.writer.open_calls if id not in before]
        uses = [item for item in content if isinstance(item, SimulatedCall) or _calls(item)]
        made = [(item, id) for item, id in zip(uses, opened, strict=True) if isinstance(item, SimulatedCall)]
        taken = self._enqueue(queued) if queued else None
        for index in ready or range(len(made)):
            self.result(*made[index])
        if taken:
            self._take_in(*taken)

    def result(self, call: SimulatedCall, id: str | None = None, **fields: Any) -> None:
        """A tool gives its result."""
        used = self.last_call = id or call.use["id"]
        if call.touches is not None:
            source, prompt = self.writer.open_calls[used], self.writer.prompts[-1][1]
            self.backups.before_change(call.touches, call.before, source, prompt)
            lines = [line for hunk in call.structured["structuredPatch"] for line in hunk["lines"]]
            self.lines_changed[0] += sum(line.startswith("+") for line in lines)
            self.lines_changed[1] += sum(line.startswith("-") for line in lines)
        self.writer.clock.wait(call.seconds)
        decided = {"decision": "accept", "source": "config", "reasonType": "rule", "ruleSource": "projectSettings"}
        more: Json = {"promptId": self.prompt_id} if self.since(2, 1, 77) else {}
        if self.since(2, 1, 325) and not call.error:
            more["permissionDecision"] = decided
        # From 2.1 on agents' files hold only what the model was told.
        structured = None if self.boss and self.since(2, 1) else call.structured
        more |= {**call.fields, **fields}
        tool_result(call.result, id=used, error=call.error, structured=structured, **more).write(self.writer)
        self.heard([{"type": "tool_result", "tool_use_id": used, "content": call.result}])

    def attach(self, kind: str, words: str | None = None, *, role: str = "system", **data: Any) -> None:
        """The program puts something beside the conversation, worded so for the model."""
        line: Json = {"attachment": {"type": kind, **data}}
        if words is not None and self.since(2, 1, 325):
            rendered = f"<system-reminder>\n{words}\n</system-reminder>"
            line |= {"rendered": [{"content": rendered}], "renderedRole": role}
        self.writer.node("attachment", line)
        self.meter.hear(words or "")

    def say(self, content: str | list[Json], **fields: Any) -> None:
        """The program says something in the user's name."""
        blocks = content if isinstance(content, list) else [text(content)]
        if self.since(2, 1, 77):
            fields = {"promptId": self.prompt_id, **fields}
        self.writer.node("user", {"message": {"role": "user", "content": content}, **fields})
        self.heard(blocks)

    def system(self, subtype: str | None, content: str | None = None, **fields: Any) -> None:
        """The program notes something in the conversation."""
        head = {"subtype": subtype} if subtype else {}
        body = {} if content is None else {"content": content}
        self.writer.node("system", {**head, **body, **fields})

    def note(self, kind: str, **fields: Any) -> None:
        """The program notes something beside it."""
        self.writer.note(kind, fields)

    def end_turn(self, *, hook: str | None = None) -> None:
        """The model has nothing more to say."""
        if hook:
            hooked: Json = {"hookCount": 1, "hookInfos": [{"command": hook, "durationMs": 38}], "hookErrors": []}
            went: Json = {"preventedContinuation": False, "stopReason": "", "hasOutput": False}
            id = self.writer.ids.uuid()
            self.system("stop_hook_summary", **hooked, **went, level="suggestion", toolUseID=id)
        took = milliseconds(self.now) - milliseconds(self.asked_at)
        self.system("turn_duration", durationMs=took, messageCount=len(self.writer.written), isMeta=False)
        self.state()

    def state(self, *, leaf: bool = True) -> None:
        """Note once more what the session is called and how it stands: the last such lines count."""
        if leaf and self.since(2, 1, 77):
            self.note("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.writer.parent)
        for kind, fields in self.titles.items():
            self.note(kind, **fields)
        if self.since(2, 1, 157):
            self.note("mode", mode="normal")
        if self.since(2, 1, 92) and self.setting.entrypoint == "cli":
            self.note("permission-mode", permissionMode=self.setting.mode)
        if self.since(2, 1, 250):
            self.note("atis-latch", atis="")

    def compact(self, summary: str, *, keep: int = 0, trigger: str = "auto") -> None:
        """The conversation becomes too long and goes on from a summary."""
        before, after = self.meter.context, len(summary) // 4 + 2_400
        more: Json = {}
        if self.since(2, 1, 170):
            more = {"postTokens": after, "cumulativeDroppedTokens": before - after, "durationMs": 48_210}
        self.wait(48.21)
        compaction(summary, keep=keep, trigger=trigger, before=before, **more).write(self.writer)
        self.meter.forget()
        self.requests.forget()
        self.heard([text(summary)], blob=True)

    def close(self) -> None:
        """Note what it cost."""
        self.state()
        if self.since(2, 1, 290):
            added, removed = self.lines_changed
            changed = {"totalLinesAdded": added, "totalLinesRemoved": removed}
            times = {"totalToolDuration": self.lasted // 9, "totalDuration": self.lasted}
            times["startTime"] = milliseconds(self.start)
            self.note("cost-state", sessionId=self.id, **{**self.bill.state(), **changed, **times})

    def heard(self, blocks: list[Json], *, blob: bool = False) -> None:
        """The model will be sent this."""
        self.meter.hear(blocks)
        self.requests.hear("user", blocks, blob=blob)

    def start_agent(self, order: AgentOrder, *, model: str | None = None) -> SimulatedProgram:
        """An agent sets to work, now."""
        setting = msgspec.structs.replace(self.setting, model=model or self.setting.model, cache="5m")
        worker = SimulatedProgram("", self.tools, self.now, setting, boss=self, order=order)
        worker.prompt_id = self.prompt_id
        self.agents.append(worker)
        return worker

    def catch_up(self, other: SimulatedProgram) -> None:
        """Wait until another has come as far."""
        behind = milliseconds(other.now) - milliseconds(self.now)
        self.writer.clock.wait(max(0, behind) / 1000)

    def _envelope(self) -> Json:
        setting = self.setting
        version = tuple(map(int, setting.version.split(".")))
        who: Json = {"isSidechain": self.boss is not None, "userType": "external"}
        if version >= (2, 1, 78):
            who["entrypoint"] = setting.entrypoint
        who |= {"cwd": self.tools.cwd, "sessionId": self.id}
        who |= {"version": setting.version, "gitBranch": setting.branch}
        if self.order:
            who["agentId"] = self.order.agent
        return {**who, "slug": setting.slug} if setting.slug else who

    def _asked(self, human: bool) -> Json:
        """The fields of a prompt."""
        if self.boss:
            return {"promptId": self.prompt_id} if self.since(2, 1, 77) else {}
        self.prompt_id = self.writer.ids.uuid()
        typed = self.setting.entrypoint == "cli"
        fields: Json = {"permissionMode": self.setting.mode} if human and self.since(2, 1, 29) else {}
        if self.since(2, 0, 76) and not self.since(2, 1, 100):
            budget = {"maxThinkingTokens": 31_999} if self.since(2, 1) else {"level": "high", "triggers": []}
            fields |= {"thinkingMetadata": budget, "todos": []}
        if self.since(2, 1, 77):
            fields["promptId"] = self.prompt_id
        if human and self.since(2, 1, 173):
            fields |= {"origin": {"kind": "human"}} if typed else {}
            fields["promptSource"] = "typed" if typed else "sdk"
        if self.since(2, 1, 290):
            count = {"promptIndex": self.turn if typed else 0, "turnIndex": self.turn}
            fields |= {"turnOrigin": "human" if typed else "sdk", "turnPosition": count}
        return fields

    def _look_around(self) -> None:
        """The first thing that happens to a prompt."""
        told: list[DemoAttachment] = listings() if self.since(2, 1, 200) else []
        if self.since(2, 1, 290):
            told = surroundings(self.tools.cwd, self.setting.branch, self.setting.model, self.now[:10])
        for kind, data, words, role in told:
            self.attach(kind, words, role=role, **data)

    def _request(self) -> Json:
        """Note the request and return the fields of its answer that tell of it."""
        if not self.since(2, 1, 325):
            return {}
        fields: Json = {"requestRef": self.requests.send(self.setting.model, self.setting.effort)}
        fields |= {"requestedModel": self.setting.model, "promptCacheRequested": self.setting.cache}
        return {**fields, "effort": self.setting.effort, "perTurnEffort": self.setting.effort, "madeBy": "model"}

    def _attribution(self) -> Json:
        return {"attributionAgent": self.order.kind} if self.order and self.since(2, 1, 290) else {}

    def _note_tools(self, blocks: Iterable[str | Json]) -> None:
        used = [block["name"] for block in blocks if isinstance(block, dict) and _calls(block)]
        self.called += used
        new = [name for name in dict.fromkeys(used) if name not in self.tools_used]
        self.tools_used += new
        if new and self.since(2, 1, 325) and not self.boss:
            self.note("tools-used", tools=list(self.tools_used))

    def _enqueue(self, prompt: str) -> tuple[str, Json]:
        """Somebody types while the model works."""
        self.history.append((prompt, self.now))
        self.note("queue-operation", operation="enqueue", timestamp=self.now, content=prompt)
        ids = {"source_uuid": self.writer.ids.uuid(), "delivery_id": self.writer.ids.uuid()}
        return prompt, {**ids, "timestamp": self.now}

    def _take_in(self, prompt: str, data: Json) -> None:
        """And the model is told in mid-turn; before 2.1.92 no line of the conversation says so."""
        gone: Json = {"operation": "remove", "timestamp": self.now}
        if self.since(2, 1, 290):
            ids = {"commandUuid": data["source_uuid"], "deliveryId": data["delivery_id"]}
            gone |= {"content": prompt, "reason": "absorbed_mid_turn", **ids}
        self.note("queue-operation", **gone)
        if self.since(2, 1, 92):
            words = f"Meanwhile the user wrote:\n{prompt}"
            data |= {"commandMode": "prompt", "origin": {"kind": "human"}, "humanTurn": True}
            self.attach("queued_command", words, prompt=prompt, **data)


def new_id(name: str) -> str:
    """Return the id of the session of this name."""
    return Ids(f"demo/{name}").uuid()


def milliseconds(time: str) -> int:
    """Return a time as milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def silent(signature: str = "c2lnbmVkIGJ1dCBub3Qgc2hvd24=") -> Json:
    """A thought of which only the signature is kept."""
    return thinking("", signature)


def _thinks(block: str | Json) -> bool:
    return isinstance(block, dict) and block["type"] == "thinking"


def _calls(block: str | Json) -> bool:
    return isinstance(block, dict) and block["type"] == "tool_use"


def _plain(usage: Json) -> Json:
    """The usage as older versions keep it."""
    late = {"output_tokens_details", "server_tool_use", "inference_geo", "iterations", "speed"}
    return {name: value for name, value in usage.items() if name not in late}


_CAVEAT = "<local-command-caveat>The user ran the command below; nobody asked you anything.</local-command-caveat>"
NOWHERE = "00000000-0000-0000-0000-000000000000"


def slash(run: SimulatedProgram, name: str, args: str, output: str, *, pause: float = 20) -> None:
    """A command of the program itself: its output is for the user. User lines until 2.1.99, system lines since."""
    run.wait(pause)
    run.history.append((f"/{name} {args}".rstrip(), run.now))
    asked, answered = command_line(name, args), f"<local-command-stdout>{output}</local-command-stdout>"
    if run.since(2, 1, 100):
        done = {"commandRun": {"command": name, "args": args}} if run.since(2, 1, 290) else {}
        run.system("local_command", asked, level="info", isMeta=False)
        run.system("local_command", answered, level="info", isMeta=False, **done)
        return
    run.say(_CAVEAT, isMeta=True)
    run.say(asked)
    run.say(answered)


def command_line(name: str, args: str) -> str:
    """How the program writes that a command was given."""
    space = "\n            "
    tags = {"command-name": f"/{name}", "command-message": name, "command-args": args}
    return space.join(f"<{tag}>{words}</{tag}>" for tag, words in tags.items())


def shell_line(run: SimulatedProgram, command: str, output: str, *, pause: float = 30) -> None:
    """`!command`: the user runs something and the model sees it."""
    run.wait(pause)
    run.history.append((f"!{command}", run.now))
    uuid = run.writer.ids.uuid()
    run.backups.at_prompt(uuid)
    if not run.since(2, 1, 200):
        run.say(_CAVEAT, isMeta=True)
    run.say(f"<bash-input>{command}</bash-input>", uuid=uuid)
    run.say(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")


def own_command(run: SimulatedProgram, name: str, args: str, expansion: str, *, pause: float = 40) -> None:
    """A command the user wrote: the model is sent its text."""
    words = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    given = f"{words}\n<command-args>{args}</command-args>"
    run.prompt(given, pause=pause, shown=f"/{name} {args}".rstrip(), human=False)
    run.say([text(expansion)], isMeta=True)
    run.attach("command_permissions", allowedTools=["Bash(git log:*)"])


def skill(run: SimulatedProgram, name: str, args: str, body: str, *, folder: str) -> None:
    """The model follows a skill: its text comes as something the user is made to say."""
    call = run.writer.ids.tool()
    use = tool_use("Skill", id=call, skill=name, args=args)
    run.answer(SimulatedCall(use, f"Launching skill: {name}", {"success": True, "commandName": name}))
    words = f"Base directory for this skill: {folder}\n\n{body}\n\nARGUMENTS: {args}"
    run.say([text(words)], isMeta=True, sourceToolUseID=call)


def rename(run: SimulatedProgram, title: str) -> None:
    """The user gives the session a name."""
    run.titles |= {"custom-title": {"customTitle": title}, "agent-name": {"agentName": title}}
    run.note("custom-title", customTitle=title)
    run.note("agent-name", agentName=title)
    slash(run, "rename", title, f"Session renamed to: {title}")
    run.state()


def compact(run: SimulatedProgram, words: str, summary: str, *, keep: int = 0) -> None:
    """`/compact`, with what to keep in mind."""
    run.history.append((f"/compact {words}".rstrip(), run.now))
    run.compact(summary, keep=keep, trigger="manual")
    run.say(_CAVEAT, isMeta=True)
    run.say(command_line("compact", words))
    run.say("<local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>")


def interrupt(run: SimulatedProgram, *, tool: bool = False) -> None:
    """Esc."""
    words = "[Request interrupted by user for tool use]" if tool else "[Request interrupted by user]"
    run.say([text(words)])


def go_back(run: SimulatedProgram, prompts: int = 1) -> None:
    """Esc Esc: back to before a prompt; what comes next is another branch."""
    rewind(prompts).write(run.writer)
    run.turn -= prompts
    run.note("last-prompt", leafUuid=NOWHERE, explicit=True)
