"""The TaskOutput and TaskStop tools: read or end what runs in the background.

Older versions of Claude Code call them `BashOutput`, `AgentOutputTool` and `KillShell`, with other names for the id;
all of them are understood.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

import msgspec

from unspool.client.background_tasks import AGENT_TASK, COMMAND_TASK, BackgroundTask
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolOutcome
from unspool.client.tools.base import ArgumentsT, BuiltInTool, ToolArguments

_MAX_WAIT_MS = 600_000
_DEFAULT_WAIT_MS = 30_000
_FORMER_NAMES = {"bash_id": "task_id", "agentId": "task_id", "shell_id": "task_id", "wait_up_to": "timeout"}


class TaskOutputArguments(ToolArguments, frozen=True):
    """A task, and how long to wait for its end."""

    task_id: Annotated[str, msgspec.Meta(description="Its id")]
    block: Annotated[bool | None, msgspec.Meta(description="Wait until it ends; true if absent")] = None
    timeout: Annotated[float | None, msgspec.Meta(description="Milliseconds to wait; 30000 if absent")] = None


class TaskStopArguments(ToolArguments, frozen=True):
    """A task."""

    task_id: str


class _TaskTool(BuiltInTool[ArgumentsT]):
    """A tool that takes the id of a task, under its former names as well."""

    ignored_fields = frozenset({"filter"})

    def adapt(self, input: Any) -> Any:
        """Return an input with the field names of today."""
        input = super().adapt(input)
        if not isinstance(input, dict):
            return input
        return {_FORMER_NAMES.get(name, name): value for name, value in input.items()}


class TaskOutputTool(_TaskTool[TaskOutputArguments]):
    """Read the output of a task."""

    name = "TaskOutput"
    description = "Read what a background command or agent has said so far, or wait for its end."
    is_concurrent = True
    arguments = TaskOutputArguments
    target_fields = ("task_id", *_FORMER_NAMES)

    async def execute(self, arguments: TaskOutputArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Wait for the task if that is wanted, and return its status and output."""
        task = _find_task(arguments.task_id, context)
        waits = arguments.block is not False
        if waits and not task.ended.is_set():
            waiting = {"type": "waiting_for_task", "taskDescription": task.description, "taskType": task.kind}
            context.report_progress(call_id, waiting)
            milliseconds = _DEFAULT_WAIT_MS if arguments.timeout is None else arguments.timeout
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task.ended.wait(), min(max(milliseconds, 0), _MAX_WAIT_MS) / 1000)
        if task.ended.is_set():
            context.tasks.mark_reported(task)
        status = "success" if task.ended.is_set() else "timeout" if waits else "not_ready"
        described = _describe(task)
        return ToolOutcome(
            content=_format_task(status, described), result={"retrieval_status": status, "task": described}
        )


class TaskStopTool(_TaskTool[TaskStopArguments]):
    """End a task."""

    name = "TaskStop"
    description = "End a background command or agent."
    arguments = TaskStopArguments
    target_fields = ("task_id", "shell_id")

    async def execute(self, arguments: TaskStopArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """End the task, and wait until it has ended."""
        task = _find_task(arguments.task_id, context)
        if task.ended.is_set():
            raise InvalidToolCall(f"Task {task.id} is not running (status: {task.status})")
        await task.stop()
        if not task.ended.is_set():
            context.tasks.end(task, "killed", report=False)
        what = task.command if task.kind == COMMAND_TASK else task.description
        result = {
            "message": f"Successfully stopped task: {task.id} ({what})",
            "task_id": task.id,
            "task_type": task.kind,
            "command": what,
        }
        return ToolOutcome(content=msgspec.json.encode(result).decode(), result=result)


def _find_task(id: str, context: ToolContext) -> BackgroundTask:
    task = context.tasks.get(id)
    if task is None:
        raise InvalidToolCall(f"No task found with ID: {id}")
    return task


def _describe(task: BackgroundTask) -> Json:
    described: Json = {
        "task_id": task.id,
        "task_type": task.kind,
        "status": task.status,
        "description": task.description,
        "output": task.current_output(),
    }
    if task.kind == COMMAND_TASK:
        described["exitCode"] = task.exit_code
    if task.kind == AGENT_TASK:
        described |= {"prompt": task.prompt, "result": task.output}
    return {**described, "error": task.error} if task.error else described


def _format_task(status: str, task: Json) -> str:
    parts = [("retrieval_status", status)]
    parts += [(name, task[name]) for name in ("task_id", "task_type", "status")]
    if task.get("exitCode") is not None:
        parts.append(("exit_code", task["exitCode"]))
    if output := task["output"].rstrip():
        parts.append(("output", f"\n{output}\n"))
    if task.get("error"):
        parts.append(("error", task["error"]))
    return "\n\n".join(f"<{name}>{value}</{name}>" for name, value in parts)
