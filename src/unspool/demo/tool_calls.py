"""Simulates tool calls and sub-agents of the demo sessions.

The results of Read, Grep, Glob, Edit and Write are computed from the files of the `ToolSimulator`, which the sessions
of a project change one after the other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.demo.session_builder import Json, text, tool_use
from unspool.paths import project_key

if TYPE_CHECKING:
    from unspool.demo.program import SimulatedAgent, SimulatedProgram


_UPDATED = "The file {} has been updated successfully."


class SimulatedCall(msgspec.Struct, frozen=True):
    """A tool call with its result."""

    use: Json
    result: str | list[Json]
    structured: Any = None
    error: bool = False
    touches: str | None = None
    """The file that it changes."""
    before: str | None = None
    """That file as it was."""
    seconds: float = 0.4
    fields: Json = msgspec.field(default_factory=dict)
    """Further fields of the result's line."""


class ToolSimulator:
    """The files that the sessions of a project read and change, by their path in it."""

    def __init__(
        self, cwd: str, files: Mapping[str, str], *, arrows: bool = False, shift: timedelta = timedelta()
    ) -> None:
        self.cwd = cwd
        self.shift = shift
        """How much later the sessions of the project happen than their stories say."""
        self.files = dict(files)
        # Read separates line numbers by an arrow in files of old versions (1.0.128, 2.0.5), by a tab in newer ones.
        self._mark = "→" if arrows else "\t"

    def path(self, name: str) -> str:
        """Return the whole path of a file; one outside the project is given whole."""
        return name if name.startswith("/") else f"{self.cwd}/{name}"

    def read(self, name: str, start: int = 1, limit: int | None = None) -> SimulatedCall:
        """Read a text file, or some lines of it."""
        lines = self.files[name].split("\n")
        shown = lines[start - 1 : start - 1 + limit] if limit else lines[start - 1 :]
        width = 6 if self._mark == "→" else 0
        text = "\n".join(f"{number:>{width}}{self._mark}{line}" for number, line in enumerate(shown, start))
        file = {
            "filePath": self.path(name),
            "content": "\n".join(shown),
            "numLines": len(shown),
            "startLine": start,
            "totalLines": len(lines),
        }
        part: Json = {"offset": start, "limit": limit} if limit else {}
        return SimulatedCall(tool_use("Read", file_path=self.path(name), **part), text, {"type": "text", "file": file})

    def missing(self, name: str) -> SimulatedCall:
        """Read a file that does not exist."""
        words = f"File does not exist. Note: your current working directory is {self.cwd}."
        return SimulatedCall(tool_use("Read", file_path=self.path(name)), words, f"Error: {words}", error=True)

    def edit(self, name: str, old: str, new: str) -> SimulatedCall:
        """Replace a piece of a file."""
        before = self.files[name]
        # As the real tool: an edit of a text that is not unique fails.
        assert before.count(old) == 1, f"{before.count(old)} times in {name}: {old}"
        after = self.files[name] = before.replace(old, new)
        path = self.path(name)
        structured = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": before,
            "structuredPatch": hunks(before, after),
            "userModified": False,
            "replaceAll": False,
        }
        use = tool_use("Edit", replace_all=False, file_path=path, old_string=old, new_string=new)
        return SimulatedCall(use, _UPDATED.format(path), structured, touches=name, before=before)

    def write(self, name: str, text: str) -> SimulatedCall:
        """Write a whole file."""
        before, path = self.files.get(name), self.path(name)
        self.files[name] = text
        structured = {
            "type": "create" if before is None else "update",
            "filePath": path,
            "content": text,
            "structuredPatch": [] if before is None else hunks(before, text),
            "originalFile": before,
            "userModified": False,
        }
        done = f"File created successfully at: {path}" if before is None else _UPDATED.format(path)
        use = tool_use("Write", file_path=path, content=text)
        return SimulatedCall(use, done, structured, touches=name, before=before)

    def grep(self, pattern: str) -> SimulatedCall:
        """Search the files for lines."""
        matches = [
            f"{name}:{number}:{line}"
            for name, text in sorted(self.files.items())
            for number, line in enumerate(text.split("\n"), 1)
            if re.search(pattern, line) and not name.startswith("/")
        ]
        content = "\n".join(matches)
        found = {"mode": "content", "numFiles": 0, "filenames": [], "content": content, "numLines": len(matches)}
        return SimulatedCall(tool_use("Grep", pattern=pattern, output_mode="content"), content, found)

    def glob(self, pattern: str) -> SimulatedCall:
        """Search for files."""
        names = sorted(name for name in self.files if fnmatch(name, pattern.removeprefix("**/")))
        structured = {"filenames": names, "durationMs": 11, "numFiles": len(names), "truncated": False}
        return SimulatedCall(tool_use("Glob", pattern=pattern), "\n".join(names) or "No files found", structured)


def shell(command: str, output: str, *, about: str, seconds: float = 1.2, **more: Any) -> SimulatedCall:
    """Return a command that succeeded; `more` goes into the structured result."""
    structured = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False, **more}
    use = tool_use("Bash", command=command, description=about)
    return SimulatedCall(use, output or "(Bash completed with no output)", structured, seconds=seconds)


def failing_shell(command: str, output: str, *, about: str) -> SimulatedCall:
    """Return a command that failed."""
    words = f"Exit code 1\n{output}"
    use = tool_use("Bash", command=command, description=about)
    return SimulatedCall(use, words, f"Error: {words}", error=True, seconds=2.4)


def rejected(use: Json) -> SimulatedCall:
    """Return a call that the user has rejected."""
    words = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    fields = {"toolDenialKind": "user-rejected"}
    return SimulatedCall(use, words, "User rejected tool use", error=True, seconds=6, fields=fields)


def search(query: str, pages: Mapping[str, str], summary: str) -> SimulatedCall:
    """Return a web search with its pages by title and their summary."""
    links = [{"title": title, "url": url} for title, url in pages.items()]
    text = f'Web search results for query: "{query}"\n\nLinks: {links}\n\n{summary}'
    results = [{"tool_use_id": "srvtoolu_01demo", "content": links}, summary]
    structured = {"query": query, "results": results, "durationSeconds": 3.25, "searchCount": 1}
    return SimulatedCall(tool_use("WebSearch", query=query), text, structured, seconds=3.25)


def question(words: str, header: str, options: Mapping[str, str], chosen: str) -> SimulatedCall:
    """Return a question to the user with the chosen answer."""
    offered = [{"label": label, "description": about} for label, about in options.items()]
    questions = [{"question": words, "header": header, "options": offered, "multiSelect": False}]
    result = f'User has answered your questions: "{words}"="{chosen}". You can now continue with the answers in mind.'
    structured = {"questions": questions, "answers": {words: chosen}}
    return SimulatedCall(tool_use("AskUserQuestion", questions=questions), result, structured, seconds=19)


def new_task(number: int, subject: str, description: str, active: str) -> SimulatedCall:
    """Return a call that adds a task to the task list."""
    use = tool_use("TaskCreate", subject=subject, description=description, activeForm=active)
    task = {"id": str(number), "subject": subject, "description": description}
    return SimulatedCall(use, f"Task #{number} created successfully: {subject}", {"task": task}, seconds=0.1)


def task_status(number: int, before: str, after: str) -> SimulatedCall:
    """Return a call that changes the status of a task."""
    change = {"from": before, "to": after}
    structured = {"success": True, "taskId": str(number), "updatedFields": ["status"], "statusChange": change}
    use = tool_use("TaskUpdate", taskId=str(number), status=after)
    return SimulatedCall(use, f"Updated task #{number} status", structured, seconds=0.1)


def todos(before: list[Json], after: list[Json]) -> SimulatedCall:
    """Return a call that writes the todo list (until 2.1.69)."""
    structured = {"oldTodos": before, "newTodos": after}
    return SimulatedCall(tool_use("TodoWrite", todos=after), "Todos have been modified.", structured, seconds=0.1)


def hunks(before: str, after: str) -> list[Json]:
    """Return the difference of two texts as a structured patch with three lines around each change."""
    old, new = before.splitlines(), after.splitlines()
    patches = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, a1, a2, b1, b2 in group:
            lines += [f"{' ' if tag == 'equal' else '-'}{line}" for line in old[a1:a2]]
            lines += [f"+{line}" for line in new[b1:b2] if tag != "equal"]
        first, last = group[0], group[-1]
        patches.append(
            {"oldStart": first[1] + 1, "oldLines": last[2] - first[1],
             "newStart": first[3] + 1, "newLines": last[4] - first[3], "lines": lines}
        )  # fmt: skip
    return patches


class AgentCall(msgspec.Struct, frozen=True):
    """What an agent is to do, and the call that starts it."""

    agent: str
    kind: str
    about: str
    prompt: str
    call: str | None = None
    """The id of the call that starts it; the program's own forks have none."""
    tool: str = "Agent"

    @property
    def source(self) -> str:
        """The `querySource` of its requests."""
        return f"agent:builtin:{self.kind}"

    @property
    def use(self) -> Json:
        """The tool call that starts it."""
        return tool_use(self.tool, id=self.call, description=self.about, prompt=self.prompt, subagent_type=self.kind)


def new_agent_task(run: SimulatedProgram, kind: str, about: str, prompt: str) -> AgentCall:
    """Return the task of an agent; the length of its id depends on the version."""
    call, number = run.writer.ids.tool(), run.writer.ids.uuid().replace("-", "")
    # Ids of agents: eight digits, from 2.0.60 `a` and six, from 2.1.70 `a` and sixteen.
    agent = f"a{number[:16]}" if run.is_at_least(2, 1, 70) else f"a{number[:6]}"
    if not run.is_at_least(2, 0, 60):
        agent = number[:8]
    return AgentCall(agent, kind, about, prompt, call, "Agent" if run.is_at_least(2, 1, 63) else "Task")


def agent_result(agent: SimulatedAgent, words: str) -> SimulatedCall:
    """Return the result of an agent that has finished."""
    task, usage = agent.task, agent.usage
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    structured = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": task.agent,
        "content": [text(words)],
        "totalDurationMs": agent.duration_ms,
        "totalTokens": sum(usage[part] for part in parts),
        "totalToolUseCount": len(agent.tool_calls),
        "usage": usage,
    }
    if agent.is_at_least(2, 1, 98):
        stats = _tool_stats(agent.tool_calls)
        structured |= {"agentType": task.kind, "resolvedModel": agent.setting.model, "toolStats": stats}
    resume = f"agentId: {task.agent} (for resuming to continue this agent's work if needed)"
    return SimulatedCall(task.use, [text(words), text(resume)], structured)


def launched_agent(agent: SimulatedAgent) -> SimulatedCall:
    """Return the result of starting an agent in the background."""
    task = agent.task
    words = f"The agent was started in the background.\nagentId: {task.agent}"
    structured = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": task.agent,
        "description": task.about,
        "resolvedModel": agent.setting.model,
        "prompt": task.prompt,
        "outputFile": _output_file(agent),
        "canReadOutputFile": True,
        "canContinueAgent": True,
    }
    return SimulatedCall(task.use, [text(words)], structured, seconds=0.1)


def notify_of_agent(agent: SimulatedAgent, words: str) -> None:
    """Write the notification of a finished background agent, which the model gets as a user line."""
    run, task = agent.spawner, agent.task
    run.catch_up(agent)
    content = (
        f"<task-notification>\n<task-id>{task.agent}</task-id>\n<tool-use-id>{task.call}</tool-use-id>\n"
        f"<output-file>{_output_file(agent)}</output-file>\n<status>completed</status>\n"
        f'<summary>Agent "{task.about}" finished</summary>\n<result>{words}</result>\n'
        f"<usage><total_tokens>{agent.meter.context}</total_tokens></usage>\n</task-notification>"
    )
    run.note_queue("enqueue", content=content)
    run.note_queue("dequeue")
    run.prompt_id = run.writer.ids.uuid()
    origin = {"kind": "task-notification", "producer": "session-task", "runId": f"0demo-{task.agent[-8:]}"}
    marks = {"promptSource": "system", "turnOrigin": "task_notification", "queueSkipAttachments": True}
    run.inject_user_line(content, permissionMode=run.setting.mode, origin=origin, **marks)


def _output_file(agent: SimulatedAgent) -> str:
    return f"/tmp/claude-1000/{project_key(agent.tools.cwd)}/{agent.id}/tasks/{agent.task.agent}.output"


def _tool_stats(called: list[str]) -> Json:
    kinds = {"readCount": "Read", "searchCount": "Grep Glob", "bashCount": "Bash", "editFileCount": "Edit"}
    counts = {name: sum(tool in tools.split() for tool in called) for name, tools in kinds.items()}
    return {**counts, "linesAdded": 0, "linesRemoved": 0, "otherToolCount": len(called) - sum(counts.values())}
