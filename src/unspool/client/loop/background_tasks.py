"""What runs in the background: shell commands and agents, by their ids.

Rules
  1. A task has a job; who cancels the job ends the task, and all that belongs to it.
  2. The end of a task is news once: in the next prompt of the main conversation, or as the answer to who waited for it.
  3. Nothing is left running when the conversation is closed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]
COMMAND = "local_bash"
AGENT = "local_agent"


class Task:
    """One thing in the background."""

    def __init__(self, id: str, kind: str, description: str) -> None:
        self.id = id
        self.kind = kind
        """`local_bash` or `local_agent`."""
        self.description = description
        self.command = ""
        self.prompt = ""
        self.status = "running"
        """Then `completed`, `failed` or `killed`."""
        self.output = ""
        """What an agent has answered."""
        self.look: Callable[[], str] | None = None
        """How to see what was said so far, if `output` does not have it."""
        self.path: Path | None = None
        """The file with all that was said."""
        self.exit_code: int | None = None
        self.error: str | None = None
        self.result: Json = {}
        self.ended = asyncio.Event()
        self.job: asyncio.Task[None] | None = None
        """What looks after it. It must have begun (`await asyncio.sleep(0)`): else nothing hears a cancellation."""

    def said(self) -> str:
        """Return what it has said so far."""
        return self.look() if self.look is not None else self.output

    async def stop(self) -> None:
        """End it, and wait until it has ended."""
        if self.job is not None:
            self.job.cancel()
            await asyncio.wait([self.job])


class Lingering(Protocol):
    """What a command left running that was not itself in the background."""

    def lingers(self) -> bool:
        """Tell whether it still runs."""

    def end_now(self) -> None:
        """End it."""

    def close(self) -> None:
        """Let go of it."""


class Tasks:
    """All of them."""

    def __init__(self, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._chance = chance
        self._tasks: dict[str, Task] = {}
        self._untold: list[Task] = []
        self._lingering: list[Lingering] = []

    def new_id(self, letter: str = "b") -> str:
        """Return an id that no task has: `b1f09ac`."""
        while (id := letter + self._chance(3).hex()) in self._tasks:
            continue
        return id

    def add(self, task: Task) -> None:
        """Keep a task that has begun."""
        self._tasks[task.id] = task

    def get(self, id: str) -> Task | None:
        """Return a task."""
        return self._tasks.get(id)

    def all(self) -> list[Task]:
        """Return them in the order they began."""
        return [*self._tasks.values()]

    def running(self) -> list[Task]:
        """Return those that have not ended."""
        return [task for task in self.all() if not task.ended.is_set()]

    def end(self, task: Task, status: str, *, tell: bool = True) -> None:
        """Note that a task has ended; the main conversation is told at its next step, unless it knows."""
        task.status = status
        task.ended.set()
        if tell:
            self._untold.append(task)

    def news(self) -> list[Task]:
        """Return the tasks that ended since this was last asked. For the main conversation alone."""
        told, self._untold = self._untold, []
        return told

    def told(self, task: Task) -> None:
        """Note that the model knows how a task has ended."""
        self._untold = [one for one in self._untold if one is not task]

    def leave(self, process: Lingering) -> None:
        """Keep what a command left running, to end it with the conversation."""
        running = []
        for one in self._lingering:
            if one.lingers():
                running.append(one)
            else:
                one.close()
        self._lingering = [*running, process]

    async def stop(self) -> None:
        """End all that runs."""
        jobs = [task.job for task in self.all() if task.job is not None and not task.job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        for process in self._lingering:
            process.end_now()
        self._lingering = []


def notification(task: Task) -> str:
    """Return what the model is told of a task that has ended, in the program's words (2.1.29)."""
    output = f"<output-file>{task.path}</output-file>\n" if task.kind == COMMAND and task.path else ""
    answer = f"\n<result>{task.output}</result>" if task.kind == AGENT and task.output else ""
    where = {COMMAND: "Read the output file to retrieve the result", AGENT: "Full transcript available at"}
    after = f"\n{where[task.kind]}: {task.path}" if task.path and task.kind in where else ""
    return (
        f"<task-notification>\n<task-id>{task.id}</task-id>\n{output}<status>{task.status}</status>\n"
        f"<summary>{_summary(task)}</summary>{answer}\n</task-notification>{after}"
    )


def _summary(task: Task) -> str:
    name = f'{"Background command" if task.kind == COMMAND else "Agent"} "{task.description}"'
    match task.status, task.kind:
        case "completed", "local_bash":
            return f"{name} completed (exit code {task.exit_code})"
        case "failed", "local_bash" if task.exit_code is not None:
            return f"{name} failed with exit code {task.exit_code}"
        case "failed", _:
            return f"{name} failed: {task.error or 'no reason is known'}"
        case "killed", _:
            return f"{name} was stopped"
        case status, _:
            return f"{name} {status}"
