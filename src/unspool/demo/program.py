"""Simulates Claude Code: writes the lines that it would write for prompts, answers and tool calls.

The texts are invented and short: Claude Code's own system prompt is not in here.

A request names the one it extends and the messages since then by their hash. Only messages that cannot be read from
the conversation's own lines are written as a blob.

Rules
  1. The lines have the shape of the version in `ProgramSettings`; what that version did not write is left out.
  2. Times come from the simulated clock and ids from names: the same story gives the same bytes.
  3. Paths inside the lines are those of the demo's user, wherever the folder really is.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

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
from unspool.demo.tool_calls import AgentCall, SimulatedCall, ToolSimulator, agent_result
from unspool.demo.usage import OPUS, SimulatedUsage, UsageSimulator
from unspool.format import encode_json, format_timestamp

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


def _tool(name: str, about: str, fields: tuple[str, ...]) -> Json:
    schema = {"type": "object", "properties": {field: {"type": "string"} for field in fields}, "required": [fields[0]]}
    return {"name": name, "description": about, "input_schema": schema}


TOOLS = [_tool(name, about, fields) for name, (about, fields) in _TOOLS.items()]
_DEFERRED = ("EnterWorktree", "ExitWorktree", "Monitor", "NotebookEdit", "WebFetch")
_AGENTS = {"Explore": "Looks around and changes nothing.", "general-purpose": "Does whatever is asked."}
_SKILLS = {"release-notes": "Write release notes from the commits.", "tide-check": "Compare a table with a gauge."}
_NAMES = {"claude-opus-5-5": "Opus 5.5", "claude-sonnet-5-5": "Sonnet 5.5", "claude-haiku-5-5": "Haiku 5.5"}


def attach_listings(run: SimulatedProgram) -> None:
    """Write the listings of agents and skills, the only attachments that versions before 2.1.290 started with."""
    agents = [f"- {name}: {about}" for name, about in _AGENTS.items()]
    skills = "\n".join(f"- {name}: {about}" for name, about in _SKILLS.items())
    listing: Json = {"addedTypes": list(_AGENTS), "addedLines": agents, "removedTypes": [], "isInitial": True}
    names: Json = {"skillCount": len(_SKILLS), "isInitial": True, "names": list(_SKILLS)}
    digests = [hashlib.sha256(about.encode()).hexdigest()[:16] for about in _SKILLS.values()]
    run.attach("agent_listing_delta", "Agents you can start:\n" + "\n".join(agents), **listing)
    run.attach("skill_listing", f"Skills you can use:\n{skills}", content=skills, **names, digests=digests)


def attach_surroundings(run: SimulatedProgram) -> None:
    """Write the attachments that 2.1.325 starts a session with."""
    cwd, model, date = run.tools.cwd, run.setting.model, run.now[:10]
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
    run.attach("environment", f"You work in {cwd} on linux.", snapshot=place)
    powered = f"You are {name}, known as {model}."
    identity = {"modelId": model, "marketingName": name, "knowledgeCutoff": "June 2026"}
    run.attach("model", powered, identity=identity, text=powered)
    deferred: Json = {"addedNames": list(_DEFERRED), "addedLines": list(_DEFERRED)}
    others = ("removedNames", "wireHiddenNames", "readdedNames", "pendingMcpServers", "failedMcpServers")
    deferred |= {kind: [] for kind in others}
    run.attach("deferred_tools_delta", "More tools, to be searched for: " + ", ".join(_DEFERRED), **deferred)
    attach_listings(run)
    git = f"Current branch: {run.setting.branch}\n\nStatus:\n(clean)"
    run.attach("session_context", git, role="user", context={"gitStatus": git})
    run.attach("date", f"Today is {date}.", date=date)
    commit = f"Co-Authored-By: Claude {name} <noreply@example.com>"
    signed: Json = {"url": None, "commit": commit, "pr": "Made in a demo"}
    flags = dict.fromkeys(("sendUserFileHint", "managedCommit", "managedPr"), False)
    run.attach("remote_session_change", "Sign commits as shown.", role="user", **signed, **flags)
    snapshot: Json = {"systemPrompt": list(SYSTEM), "reminderFold": False, "contextRendering": "announced"}
    run.attach("prompt_snapshot", **snapshot, tools=TOOLS)


_BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27"]


class Requests:
    """Writes the request lines of one conversation."""

    def __init__(self, writer: Writer, source: str) -> None:
        self._writer = writer
        self._source = source
        self._base: str | None = None
        self._sent = 0
        self._unsent: list[Json] = []
        """Messages that no request has held yet."""
        self._blobs: list[Json] = []
        """Those of them that cannot be read from the conversation's own lines."""
        self._shape: str | None = None

    def add_message(self, role: str, content: list[Json], *, blob: bool = False) -> None:
        """Add a message to the next request."""
        # User messages that follow each other become one message of the request.
        if self._unsent and self._unsent[-1]["role"] == role == "user" and not blob:
            self._unsent[-1]["content"].extend(content)
            return
        self._unsent.append({"role": role, "content": list(content)})
        if blob:
            self._blobs.append(self._unsent[-1])

    def reset(self) -> None:
        """Start a new chain of requests, as after a compaction."""
        self._base, self._sent, self._unsent, self._blobs, self._shape = None, 0, [], [], None

    def send(self, model: str, effort: str) -> str:
        """Write the line of a request; return its id."""
        if self._shape is None:
            self._shape = self._note_shape()
        for message in self._blobs:
            self._note("api-request-blob", hash=digest(message), message=message)
        tail = list(map(digest, self._unsent))
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
            keep=self._sent,
            tail=tail,
            cacheControl=[{"path": ["system", 0], "value": {"type": "ephemeral"}}],
            requestDigest=digest([id, *tail]),
        )
        self._base, self._sent, self._unsent, self._blobs = id, self._sent + len(tail), [], []
        return id

    def _note_shape(self) -> str:
        shape = {"system": list(map(text, SYSTEM)), "tools": TOOLS}
        name = digest(shape)
        version = self._writer.envelope["version"]
        self._note("api-request-shape", shapeHash=name, timestamp=self._writer.clock.now, version=version, shape=shape)
        return name

    def _note(self, kind: str, **fields: Any) -> None:
        envelope = self._writer.envelope
        who: Json = {key: envelope[key] for key in ("sessionId", "agentId") if key in envelope}
        self._writer.note(kind, {**who, **fields})


def digest(value: object) -> str:
    """Return the hash under which a request line refers to a value."""
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
    """Simulates one session of Claude Code, or one agent of it."""

    def __init__(
        self,
        name: str,
        tools: ToolSimulator,
        start: str,
        setting: ProgramSettings | None = None,
        *,
        spawner: SimulatedProgram | None = None,
        task: AgentCall | None = None,
    ) -> None:
        # An agent starts at the time of its session, which is shifted already.
        start = start if spawner else shift_time(start, tools.shift)
        self.setting = setting or ProgramSettings()
        self.tools, self.spawner, self.task = tools, spawner, task
        self.id: str = spawner.id if spawner else new_id(name)
        ids = Ids(f"{self.id}/{task.agent if task else ''}")
        self.writer = Writer(self._envelope(), ids, Clock(start, self.setting.pace))
        self.total_usage: SimulatedUsage = spawner.total_usage if spawner else SimulatedUsage()
        self.meter = UsageSimulator(cache=self.setting.cache, base=8_900 if spawner else 17_300)
        self.requests = Requests(self.writer, task.source if task else "repl_main_thread")
        self.backups = Backups(self.writer, tools, enabled=spawner is None and self.setting.entrypoint == "cli")
        self.agents: list[SimulatedAgent] = []
        self.history: list[tuple[str, str]] = []
        """The typed prompts with their times."""
        self.outputs: dict[str, str] = {}
        """Outputs of commands that have a file of their own, by file name."""
        self.tasks: list[Json] = []
        self.titles: Json = {}
        self.start, self.prompted_at, self.turn = start, start, 0
        self.prompt_id, self.last_prompt, self.last_call = "", "", ""
        self.tool_calls: list[str] = []
        """The name of the tool of every call."""
        self.lines_changed: Counter[str] = Counter()
        """Lines of all patches by their sign."""
        self.usage: Json = {}
        """Of the last response."""
        if spawner is None and self.setting.entrypoint == "cli":
            self.write_state(leaf=False)

    def is_at_least(self, *version: int) -> bool:
        """Return whether the simulated Claude Code has this version or a newer one."""
        return self.writer.version >= version

    @property
    def now(self) -> str:
        """The time of the simulated clock."""
        return self.writer.clock.now

    @property
    def duration_ms(self) -> int:
        """Milliseconds since the start."""
        return milliseconds(self.now) - milliseconds(self.start)

    def wait(self, seconds: float) -> None:
        """Let time pass; a cache may expire meanwhile."""
        self.writer.clock.wait(seconds)
        self.meter.pause(seconds)

    def prompt(
        self, *content: str | Json, pause: float = 0.0, shown: str | None = None, human: bool = True, **fields: Any
    ) -> None:
        """Write a prompt; `human` is false for a command."""
        self.wait(pause)
        uuid, first = self.writer.ids.uuid(), not self.writer.prompts
        self.turn += 1
        self.last_prompt = " ".join(block if isinstance(block, str) else block.get("text", "") for block in content)
        # The snapshot line comes before the prompt that it names, so the uuid is drawn first.
        self.backups.at_prompt(uuid)
        self.prompted_at = self.now
        user(*content, **{"uuid": uuid, **self._prompt_fields(human), **fields}).write(self.writer)
        self.send_to_model([block if isinstance(block, dict) else text(block) for block in content], blob=first)
        if self.setting.entrypoint == "cli" and not self.spawner:
            self.history.append((shown or self.last_prompt, self.now))
        if first and self.is_at_least(2, 1, 290):
            attach_surroundings(self)
        elif first and self.is_at_least(2, 1, 200):
            attach_listings(self)

    def answer(
        self,
        *content: str | Json | SimulatedCall,
        ready: Iterable[int] | None = None,
        queued: str | None = None,
        searches: int = 0,
        **fields: Any,
    ) -> None:
        """Write an answer of the model and the results of its calls, in the order in which they are `ready`."""
        blocks = [item.use if isinstance(item, SimulatedCall) else item for item in content]
        thinking_tokens = sum(len(str(block)) // 5 for block in blocks if _is_block(block, "thinking"))
        characters = sum(len(str(block)) for block in blocks)
        usage = self.meter.reply(characters, thinking_tokens=thinking_tokens, searches=searches)
        seconds = usage["output_tokens"] / 75
        # Before the clock moves on: the request line has the time at which the request was sent.
        request = self._request()
        self._note_tools(blocks)
        self.writer.clock.wait(seconds)
        self.total_usage.add(self.setting.model, usage, seconds)
        before = set(self.writer.open_calls)
        fields = {"model": self.setting.model, **request, **self._attribution(), **fields}
        self.usage = usage if self.is_at_least(2, 1, 100) else _plain(usage)
        assistant(*blocks, usage=self.usage, **fields).write(self.writer)
        self.requests.add_message("assistant", [text(str(block)) for block in blocks])
        opened = [id for id in self.writer.open_calls if id not in before]
        uses = [item for item in content if isinstance(item, SimulatedCall) or _is_block(item, "tool_use")]
        # Bare tool calls get their result later, from the caller: those of agents, for example.
        finished = [(item, id) for item, id in zip(uses, opened, strict=True) if isinstance(item, SimulatedCall)]
        queued_prompt = self._enqueue(queued) if queued else None
        for index in ready or range(len(finished)):
            self.result(*finished[index])
        if queued_prompt:
            self._deliver_queued(*queued_prompt)

    def result(self, call: SimulatedCall, id: str | None = None) -> None:
        """Write the result of a tool call."""
        used = self.last_call = id or call.use["id"]
        if call.touches is not None:
            source, prompt = self.writer.open_calls[used], self.writer.prompts[-1][1]
            self.backups.before_change(call.touches, call.before, source, prompt)
            patch = call.structured["structuredPatch"]
            self.lines_changed.update(line[0] for hunk in patch for line in hunk["lines"])
        self.writer.clock.wait(call.seconds)
        decided = {"decision": "accept", "source": "config", "reasonType": "rule", "ruleSource": "projectSettings"}
        more: Json = {"promptId": self.prompt_id} if self.is_at_least(2, 1, 77) else {}
        if self.is_at_least(2, 1, 325) and not call.error:
            more["permissionDecision"] = decided
        # From 2.1 on the files of agents have no structured results, only what the model was sent.
        structured = None if self.spawner and self.is_at_least(2, 1) else call.structured
        more |= call.fields
        tool_result(call.result, id=used, error=call.error, structured=structured, **more).write(self.writer)
        self.send_to_model([{"type": "tool_result", "tool_use_id": used, "content": call.result}])

    def attach(self, kind: str, words: str | None = None, *, role: str = "system", **data: Any) -> None:
        """Write an attachment; `words` is its text for the model."""
        # The rendered text is in the line since 2.1.325.
        line: Json = {"attachment": {"type": kind, **data}}
        if words is not None and self.is_at_least(2, 1, 325):
            rendered = f"<system-reminder>\n{words}\n</system-reminder>"
            line |= {"rendered": [{"content": rendered}], "renderedRole": role}
        self.writer.node("attachment", line)
        self.meter.add_input(words or "")

    def inject_user_line(self, content: str | list[Json], **fields: Any) -> None:
        """Write a user line that the user did not type, such as the output of a command."""
        blocks = content if isinstance(content, list) else [text(content)]
        if self.is_at_least(2, 1, 77):
            fields = {"promptId": self.prompt_id, **fields}
        self.writer.node("user", {"message": {"role": "user", "content": content}, **fields})
        self.send_to_model(blocks)

    def system(self, subtype: str | None, content: str | None = None, **fields: Any) -> None:
        """Write a system line."""
        head = {"subtype": subtype} if subtype else {}
        body = {} if content is None else {"content": content}
        self.writer.node("system", {**head, **body, **fields})

    def note(self, kind: str, **fields: Any) -> None:
        """Write a line outside the conversation graph."""
        self.writer.note(kind, fields)

    def note_queue(self, operation: str, **fields: Any) -> None:
        """Write a line about the queue of prompts."""
        self.note("queue-operation", operation=operation, timestamp=self.now, **fields)

    def end_turn(self, *, hook: str | None = None, title: str | None = None) -> None:
        """Write the lines at the end of a turn, optionally those of a stop hook; the session may get a title."""
        if title:
            self.titles["ai-title"] = {"aiTitle": title}
        if hook:
            hooked: Json = {"hookCount": 1, "hookInfos": [{"command": hook, "durationMs": 38}], "hookErrors": []}
            went: Json = {"preventedContinuation": False, "stopReason": "", "hasOutput": False}
            id = self.writer.ids.uuid()
            self.system("stop_hook_summary", **hooked, **went, level="suggestion", toolUseID=id)
        took = milliseconds(self.now) - milliseconds(self.prompted_at)
        self.system("turn_duration", durationMs=took, messageCount=len(self.writer.written), isMeta=False)
        self.write_state()

    def write_state(self, *, leaf: bool = True) -> None:
        """Write the titles and modes of the session again."""
        # Claude Code repeats these lines in a file; the last ones count.
        if leaf and self.is_at_least(2, 1, 77):
            self.note("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.writer.parent)
        for kind, fields in self.titles.items():
            self.note(kind, **fields)
        if self.is_at_least(2, 1, 157):
            self.note("mode", mode="normal")
        if self.is_at_least(2, 1, 92) and self.setting.entrypoint == "cli":
            self.note("permission-mode", permissionMode=self.setting.mode)
        if self.is_at_least(2, 1, 250):
            self.note("atis-latch", atis="")

    def compact(self, summary: str, *, keep: int = 0, trigger: str = "auto") -> None:
        """Write a compaction: the conversation continues from a summary."""
        before, after = self.meter.context, len(summary) // 4 + 2_400
        more: Json = {}
        if self.is_at_least(2, 1, 170):
            more = {"postTokens": after, "cumulativeDroppedTokens": before - after, "durationMs": 48_210}
        self.wait(48.21)
        compaction(summary, keep=keep, trigger=trigger, before=before, **more).write(self.writer)
        self.meter.reset()
        self.requests.reset()
        self.send_to_model([text(summary)], blob=True)

    def close(self) -> None:
        """Write the lines at the end of a session, with its cost."""
        self.write_state()
        if self.is_at_least(2, 1, 290):
            changed = {"totalLinesAdded": self.lines_changed["+"], "totalLinesRemoved": self.lines_changed["-"]}
            times = {"totalToolDuration": self.duration_ms // 9, "totalDuration": self.duration_ms}
            times["startTime"] = milliseconds(self.start)
            self.note("cost-state", sessionId=self.id, **{**self.total_usage.state(), **changed, **times})

    def send_to_model(self, blocks: list[Json], *, blob: bool = False) -> None:
        """Add blocks to the next request."""
        self.meter.add_input(blocks)
        self.requests.add_message("user", blocks, blob=blob)

    def start_agent(self, task: AgentCall, *, model: str | None = None) -> SimulatedAgent:
        """Start an agent at the current time and write its prompt."""
        setting = msgspec.structs.replace(self.setting, model=model or self.setting.model, cache="5m")
        agent = SimulatedAgent("", self.tools, self.now, setting, spawner=self, task=task)
        agent.prompt_id = self.prompt_id
        self.agents.append(agent)
        if task.call is not None:  # the program's own forks are not prompted
            agent.prompt(task.prompt)
        return agent

    def run_agent(self, task: AgentCall, *answers: str | SimulatedCall, model: str | None = None) -> None:
        """Start an agent, let it answer and write its last answer as the result of the call that started it."""
        agent = self.start_agent(task, model=model)
        for answer in answers:
            agent.answer(answer)
        self.finish_agent(agent, str(answers[-1]))

    def finish_agent(self, agent: SimulatedAgent, words: str) -> None:
        """Write the result of an agent that has finished."""
        self.catch_up(agent)
        self.result(agent_result(agent, words))

    def catch_up(self, other: SimulatedProgram) -> None:
        """Set the clock forward to that of another session or agent."""
        behind = milliseconds(other.now) - milliseconds(self.now)
        self.writer.clock.wait(max(0, behind) / 1000)

    def _envelope(self) -> Json:
        setting = self.setting
        version = tuple(map(int, setting.version.split(".")))
        who: Json = {"isSidechain": self.spawner is not None, "userType": "external"}
        if version >= (2, 1, 78):
            who["entrypoint"] = setting.entrypoint
        who |= {"cwd": self.tools.cwd, "sessionId": self.id}
        who |= {"version": setting.version, "gitBranch": setting.branch}
        if self.task:
            who["agentId"] = self.task.agent
        return {**who, "slug": setting.slug} if setting.slug else who

    def _prompt_fields(self, human: bool) -> Json:
        """Return the fields that a prompt has in the simulated version."""
        if self.spawner:
            return {"promptId": self.prompt_id} if self.is_at_least(2, 1, 77) else {}
        self.prompt_id = self.writer.ids.uuid()
        typed = self.setting.entrypoint == "cli"
        fields: Json = {"permissionMode": self.setting.mode} if human and self.is_at_least(2, 1, 29) else {}
        if self.is_at_least(2, 0, 76) and not self.is_at_least(2, 1, 100):
            budget = {"maxThinkingTokens": 31_999} if self.is_at_least(2, 1) else {"level": "high", "triggers": []}
            fields |= {"thinkingMetadata": budget, "todos": []}
        if self.is_at_least(2, 1, 77):
            fields["promptId"] = self.prompt_id
        if human and self.is_at_least(2, 1, 173):
            fields |= {"origin": {"kind": "human"}} if typed else {}
            fields["promptSource"] = "typed" if typed else "sdk"
        if self.is_at_least(2, 1, 290):
            count = {"promptIndex": self.turn if typed else 0, "turnIndex": self.turn}
            fields |= {"turnOrigin": "human" if typed else "sdk", "turnPosition": count}
        return fields

    def _request(self) -> Json:
        """Write the request line and return the fields of the answer that refer to it; none before 2.1.325."""
        if not self.is_at_least(2, 1, 325):
            return {}
        fields: Json = {"requestRef": self.requests.send(self.setting.model, self.setting.effort)}
        fields |= {"requestedModel": self.setting.model, "promptCacheRequested": self.setting.cache}
        return {**fields, "effort": self.setting.effort, "perTurnEffort": self.setting.effort, "madeBy": "model"}

    def _attribution(self) -> Json:
        return {"attributionAgent": self.task.kind} if self.task and self.is_at_least(2, 1, 290) else {}

    def _note_tools(self, blocks: Iterable[str | Json]) -> None:
        used = [block["name"] for block in blocks if isinstance(block, dict) and block["type"] == "tool_use"]
        is_known = set(used).issubset(self.tool_calls)
        self.tool_calls += used
        if not is_known and self.is_at_least(2, 1, 325) and not self.spawner:
            self.note("tools-used", tools=list(dict.fromkeys(self.tool_calls)))

    def _enqueue(self, prompt: str) -> tuple[str, Json]:
        """Write the queue line of a prompt that is typed while the model works."""
        self.history.append((prompt, self.now))
        self.note_queue("enqueue", content=prompt)
        ids = {"source_uuid": self.writer.ids.uuid(), "delivery_id": self.writer.ids.uuid()}
        return prompt, {**ids, "timestamp": self.now}

    def _deliver_queued(self, prompt: str, data: Json) -> None:
        """Write the lines that deliver a queued prompt in mid-turn."""
        removal: Json = {}
        if self.is_at_least(2, 1, 290):
            ids = {"commandUuid": data["source_uuid"], "deliveryId": data["delivery_id"]}
            removal = {"content": prompt, "reason": "absorbed_mid_turn", **ids}
        self.note_queue("remove", **removal)
        # Before 2.1.92 no line of the conversation has the prompt: only the queue knows it.
        if self.is_at_least(2, 1, 92):
            words = f"Meanwhile the user wrote:\n{prompt}"
            data |= {"commandMode": "prompt", "origin": {"kind": "human"}, "humanTurn": True}
            self.attach("queued_command", words, prompt=prompt, **data)


class SimulatedAgent(SimulatedProgram):
    """Simulates an agent of a session, or of another agent."""

    spawner: SimulatedProgram
    task: AgentCall


def new_id(name: str) -> str:
    """Return the id of the session of this name."""
    return Ids(f"demo/{name}").uuid()


def shift_time(time: str, shift: timedelta) -> str:
    """Return a time as Claude Code writes it, later by `shift`."""
    return format_timestamp(datetime.fromisoformat(time) + shift)


def milliseconds(time: str) -> int:
    """Return a time as milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def silent() -> Json:
    """Return a thinking block without its text: only the signature is written."""
    return thinking("", "c2lnbmVkIGJ1dCBub3Qgc2hvd24=")


def _is_block(item: object, kind: str) -> bool:
    return isinstance(item, dict) and item["type"] == kind


def _plain(usage: Json) -> Json:
    """Return the usage with the fields that versions before 2.1.100 wrote."""
    later_fields = {"output_tokens_details", "server_tool_use", "inference_geo", "iterations", "speed"}
    return {name: value for name, value in usage.items() if name not in later_fields}


_CAVEAT = "<local-command-caveat>The user ran the command below; nobody asked you anything.</local-command-caveat>"


def slash(run: SimulatedProgram, name: str, args: str, output: str) -> None:
    """Write a built-in command and its output: user lines until 2.1.99, system lines since."""
    run.wait(20)
    run.history.append((f"/{name} {args}".rstrip(), run.now))
    command, answer = command_line(name, args), f"<local-command-stdout>{output}</local-command-stdout>"
    if run.is_at_least(2, 1, 100):
        fields = {"commandRun": {"command": name, "args": args}} if run.is_at_least(2, 1, 290) else {}
        run.system("local_command", command, level="info", isMeta=False)
        run.system("local_command", answer, level="info", isMeta=False, **fields)
        return
    run.inject_user_line(_CAVEAT, isMeta=True)
    run.inject_user_line(command)
    run.inject_user_line(answer)


def command_line(name: str, args: str) -> str:
    """Return the text of a line for a command."""
    space = "\n            "
    tags = {"command-name": f"/{name}", "command-message": name, "command-args": args}
    return space.join(f"<{tag}>{words}</{tag}>" for tag, words in tags.items())


def shell_line(run: SimulatedProgram, command: str, output: str) -> None:
    """Write a `!command` of the user with its output, which the model is sent."""
    run.wait(30)
    run.history.append((f"!{command}", run.now))
    uuid = run.writer.ids.uuid()
    run.backups.at_prompt(uuid)
    if not run.is_at_least(2, 1, 200):
        run.inject_user_line(_CAVEAT, isMeta=True)
    run.inject_user_line(f"<bash-input>{command}</bash-input>", uuid=uuid)
    run.inject_user_line(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")


def own_command(run: SimulatedProgram, name: str, args: str, expansion: str) -> None:
    """Write a command that the user has defined: the model is sent its text."""
    words = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    invocation = f"{words}\n<command-args>{args}</command-args>"
    run.prompt(invocation, shown=f"/{name} {args}".rstrip(), human=False)
    run.inject_user_line([text(expansion)], isMeta=True)
    run.attach("command_permissions", allowedTools=["Bash(git log:*)"])


def skill(run: SimulatedProgram, name: str, args: str, body: str, *, folder: str) -> None:
    """Write the call of a skill: its text becomes a user line."""
    call = run.writer.ids.tool()
    use = tool_use("Skill", id=call, skill=name, args=args)
    run.answer(SimulatedCall(use, f"Launching skill: {name}", {"success": True, "commandName": name}))
    words = f"Base directory for this skill: {folder}\n\n{body}\n\nARGUMENTS: {args}"
    run.inject_user_line([text(words)], isMeta=True, sourceToolUseID=call)


def rename(run: SimulatedProgram, title: str) -> None:
    """Write the lines of `/rename`."""
    run.titles |= {"custom-title": {"customTitle": title}, "agent-name": {"agentName": title}}
    run.note("custom-title", customTitle=title)
    run.note("agent-name", agentName=title)
    slash(run, "rename", title, f"Session renamed to: {title}")
    run.write_state()


def compact(run: SimulatedProgram, words: str, summary: str, *, keep: int = 0) -> None:
    """Write the lines of `/compact` with instructions."""
    run.history.append((f"/compact {words}".rstrip(), run.now))
    run.compact(summary, keep=keep, trigger="manual")
    run.inject_user_line(_CAVEAT, isMeta=True)
    run.inject_user_line(command_line("compact", words))
    run.inject_user_line("<local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>")


def interrupt(run: SimulatedProgram, *, tool: bool = False) -> None:
    """Write the line of an interruption by Esc."""
    words = "[Request interrupted by user for tool use]" if tool else "[Request interrupted by user]"
    run.inject_user_line([text(words)])


def go_back(run: SimulatedProgram) -> None:
    """Rewind to before the last prompt, as Esc Esc does; what follows is another branch."""
    rewind().write(run.writer)
    run.turn -= 1
    run.note("last-prompt", leafUuid=str(UUID(int=0)), explicit=True)
