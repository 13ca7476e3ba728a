"""TaskStop: the id of something in the background in; ended when it is told. `KillShell` was its name before."""

from __future__ import annotations

import msgspec

from unspool.client.desk import Desk
from unspool.client.tasks import COMMAND
from unspool.client.tools.inputs import Asked, aim, parse, schema
from unspool.client.tools.output import renamed
from unspool.client.tools.tool import BadCall, Json, Outcome


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
