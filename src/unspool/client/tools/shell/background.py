"""TaskOutput: the id of something in the background in, how it stands and what it has said out.

`BashOutput` and `AgentOutputTool` were its names before, with other names for the id; all of them are understood.

[merged: kill.py] TaskStop: the id of something in the background in; ended when it is told. `KillShell` was its name before.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import msgspec

from unspool.client.loop.background_tasks import AGENT, COMMAND, Task
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Json, Outcome, aim, parse, schema

LONGEST_MS = 600_000
_DEFAULT_MS = 30_000
_OLD_NAMES = {"bash_id": "task_id", "agentId": "task_id", "shell_id": "task_id", "wait_up_to": "timeout"}


class TaskOutputInput(Asked, frozen=True):
    """The input of a call."""

    task_id: Annotated[str, msgspec.Meta(description="Its id")]
    block: Annotated[bool | None, msgspec.Meta(description="Wait until it ends; true if absent")] = None
    timeout: Annotated[float | None, msgspec.Meta(description="Milliseconds to wait; 30000 if absent")] = None


class TaskOutput:
    """Look at something in the background."""

    description = "Read what a background command or agent has said so far, or wait for its end."
    input_schema = schema(TaskOutputInput)
    is_concurrent = True

    def __init__(self, name: str = "TaskOutput") -> None:
        self.name = name

    def target(self, input: Json) -> str:
        """Return the id."""
        return aim(input, "task_id", *_OLD_NAMES)

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Wait if that is wished, and tell how it stands."""
        given = parse(self.name, renamed(input), TaskOutputInput)
        task = desk.tasks.get(given.task_id)
        if task is None:
            raise BadCall(f"No task found with ID: {given.task_id}")
        waits = given.block is not False
        if waits and not task.ended.is_set():
            desk.progress(call_id, _waiting(task))
            milliseconds = _DEFAULT_MS if given.timeout is None else given.timeout
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task.ended.wait(), min(max(milliseconds, 0), LONGEST_MS) / 1000)
        if task.ended.is_set():
            desk.tasks.told(task)
        status = "success" if task.ended.is_set() else "timeout" if waits else "not_ready"
        found = _described(task)
        return Outcome(content=_text(status, found), result={"retrieval_status": status, "task": found})


def renamed(input: object) -> object:
    """Return an input with the names of today."""
    if not isinstance(input, dict):
        return input
    return {_OLD_NAMES.get(name, name): value for name, value in input.items() if name != "filter"}


def _waiting(task: Task) -> Json:
    return {"type": "waiting_for_task", "taskDescription": task.description, "taskType": task.kind}


def _described(task: Task) -> Json:
    found: Json = {
        "task_id": task.id,
        "task_type": task.kind,
        "status": task.status,
        "description": task.description,
        "output": task.said(),
    }
    if task.kind == COMMAND:
        found["exitCode"] = task.exit_code
    if task.kind == AGENT:
        found |= {"prompt": task.prompt, "result": task.output}
    return {**found, "error": task.error} if task.error else found


def _text(status: str, task: Json) -> str:
    parts = [("retrieval_status", status)]
    parts += [(name, task[name]) for name in ("task_id", "task_type", "status")]
    if task.get("exitCode") is not None:
        parts.append(("exit_code", task["exitCode"]))
    if output := task["output"].rstrip():
        parts.append(("output", f"\n{output}\n"))
    if task.get("error"):
        parts.append(("error", task["error"]))
    return "\n\n".join(f"<{name}>{value}</{name}>" for name, value in parts)


class TaskStopInput(Asked, frozen=True):
    """The input of a call."""

    task_id: str


class TaskStop:
    """Stop something in the background."""

    description = "End a background command or agent."
    input_schema = schema(TaskStopInput)
    is_concurrent = False

    def __init__(self, name: str = "TaskStop") -> None:
        self.name = name

    def target(self, input: Json) -> str:
        """Return the id."""
        return aim(input, "task_id", "shell_id")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """End it."""
        given = parse(self.name, renamed(input), TaskStopInput)
        task = desk.tasks.get(given.task_id)
        if task is None:
            raise BadCall(f"No task found with ID: {given.task_id}")
        if task.ended.is_set():
            raise BadCall(f"Task {task.id} is not running (status: {task.status})")
        await task.stop()
        if not task.ended.is_set():
            desk.tasks.end(task, "killed", tell=False)
        what = task.command if task.kind == COMMAND else task.description
        result = {
            "message": f"Successfully stopped task: {task.id} ({what})",
            "task_id": task.id,
            "task_type": task.kind,
            "command": what,
        }
        return Outcome(content=msgspec.json.encode(result).decode(), result=result)
