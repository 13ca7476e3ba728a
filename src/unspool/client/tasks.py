"""What runs in the background: shell commands and agents, by their ids."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


class Task:
    """One thing in the background."""

    def __init__(self, id: str, kind: str, description: str) -> None:
        self.id = id
        self.kind = kind
        """`local_bash` or `local_agent`."""
        self.description = description
        self.status = "running"
        self.output = ""
        self.exit_code: int | None = None
        self.result: Json = {}
        self.ended = asyncio.Event()
        self.job: asyncio.Task[None] | None = None


class Tasks:
    """All of them."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._untold: list[Task] = []

    def add(self, task: Task) -> None:
        """Keep a task that has begun."""
        self._tasks[task.id] = task

    def get(self, id: str) -> Task | None:
        """Return a task."""
        return self._tasks.get(id)

    def all(self) -> list[Task]:
        """Return them in the order they began."""
        return [*self._tasks.values()]

    def end(self, task: Task, status: str) -> None:
        """Note that a task has ended; the loop tells the model of it at its next step."""
        task.status = status
        task.ended.set()
        self._untold.append(task)

    def news(self) -> list[Task]:
        """Return the tasks that ended since this was last asked."""
        told, self._untold = self._untold, []
        return told

    async def stop(self) -> None:
        """End all that runs."""
        jobs = [task.job for task in self.all() if task.job is not None and not task.job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
