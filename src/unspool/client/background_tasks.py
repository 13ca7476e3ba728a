"""Keeps track of what runs in the background of a session: shell commands and subagents, by their ids.

Rules
  1. A task has a job; cancelling the job ends the task and all that belongs to it.
  2. The end of a task is reported to the model once: before the next request of the session's own agent, or as the
     result of the tool call that waited for it.
  3. Nothing is left running when the session is closed.
  4. A front end that listens is told of the end of a task at once.
  5. A command or a subagent in the foreground can be moved here while it runs (`move_to_background`). What a subagent
     itself runs moves with it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

COMMAND_TASK = "local_bash"
AGENT_TASK = "local_agent"


class BackgroundTask:
    """A shell command or a subagent that runs in the background."""

    def __init__(
        self,
        id: str,
        kind: str,
        description: str,
        *,
        command: str = "",
        prompt: str = "",
        path: Path | None = None,
        read_output: Callable[[], str] | None = None,
    ) -> None:
        self.id = id
        self.kind = kind
        """`local_bash` or `local_agent`."""
        self.description = description
        self.command = command
        self.prompt = prompt
        self.path = path
        """The file with its whole output."""
        self._read_output = read_output
        self.status = "running"
        """Then `completed`, `failed` or `killed`."""
        self.output = ""
        """The answer of a subagent."""
        self.exit_code: int | None = None
        self.error: str | None = None
        self.ended = asyncio.Event()
        self.began_at = time.monotonic()
        self.ended_at: float | None = None
        self.job: asyncio.Task[None] | None = None

    async def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the job, and return when it has begun."""
        self.job = asyncio.ensure_future(work)
        # A job that is cancelled before its first step never runs its `finally`: the task would not end.
        await asyncio.sleep(0)

    @property
    def seconds(self) -> float:
        """How long it has run, or has run in all."""
        return (time.monotonic() if self.ended_at is None else self.ended_at) - self.began_at

    def current_output(self) -> str:
        """Return the output so far."""
        return self._read_output() if self._read_output is not None else self.output

    async def stop(self) -> None:
        """Cancel the job, and wait until it has ended."""
        if self.job is not None:
            self.job.cancel()
            await asyncio.wait([self.job])


class LeftoverProcess(Protocol):
    """A process that a foreground command left running."""

    def lingers(self) -> bool:
        """Tell whether it still runs."""

    def end_now(self) -> None:
        """Kill it."""

    def close(self) -> None:
        """Release it without killing it."""


class BackgroundTasks:
    """All background tasks of one session."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._tasks: dict[str, BackgroundTask] = {}
        self._unreported: list[BackgroundTask] = []
        self._leftovers: list[LeftoverProcess] = []
        self._foreground: dict[str, asyncio.Event] = {}
        """For each call in the foreground that can move to the background, by its id, what is set to move it."""
        self._listeners: list[Callable[[BackgroundTask], None]] = []

    def listen(self, listener: Callable[[BackgroundTask], None]) -> None:
        """Call a function whenever a task has ended by itself."""
        self._listeners.append(listener)

    @contextmanager
    def foreground(self, call_id: str, *, of_subagent: bool) -> Iterator[asyncio.Event]:
        """Register a call that runs in the foreground; the event is set if it is to move to the background."""
        moved = asyncio.Event()
        if not of_subagent:
            self._foreground[call_id] = moved
        try:
            yield moved
        finally:
            self._foreground.pop(call_id, None)

    @property
    def has_foreground(self) -> bool:
        """Whether a command or a subagent runs in the foreground."""
        return bool(self._foreground)

    @property
    def has_unreported(self) -> bool:
        """Whether a task has ended and the model was not told."""
        return bool(self._unreported)

    def move_to_background(self) -> int:
        """Move all commands and subagents of the foreground to the background; return how many there are."""
        for moved in self._foreground.values():
            moved.set()
        return len(self._foreground)

    def new_id(self, letter: str = "b") -> str:
        """Return an id that no task has: `b1f09ac`."""
        while (id := letter + self._random_bytes(3).hex()) in self._tasks:
            continue
        return id

    def add(self, task: BackgroundTask) -> None:
        """Register a task."""
        self._tasks[task.id] = task

    def get(self, id: str) -> BackgroundTask | None:
        """Return a task."""
        return self._tasks.get(id)

    def all(self) -> list[BackgroundTask]:
        """Return the tasks in the order in which they began."""
        return [*self._tasks.values()]

    def end(self, task: BackgroundTask, status: str, *, report: bool = True) -> None:
        """Mark a task as ended; the model is told before its next request, unless it knows already."""
        task.status = status
        task.ended_at = time.monotonic()
        task.ended.set()
        if report:
            self._unreported.append(task)
            for listener in self._listeners:
                listener(task)

    def take_ended(self) -> list[BackgroundTask]:
        """Return the tasks that ended since the last call. Only the session's own agent calls this."""
        ended, self._unreported = self._unreported, []
        return ended

    def report(self, task: BackgroundTask) -> None:
        """Tell the model of the end of a task that the user has stopped, before its next request."""
        if task not in self._unreported:
            self._unreported.append(task)

    def mark_reported(self, task: BackgroundTask) -> None:
        """Note that the model knows how a task has ended."""
        self._unreported = [other for other in self._unreported if other is not task]

    def add_leftover(self, process: LeftoverProcess) -> None:
        """Keep a process that a command left running, to kill it when the session is closed."""
        running = []
        for other in self._leftovers:
            if other.lingers():
                running.append(other)
            else:
                other.close()
        self._leftovers = [*running, process]

    async def stop(self) -> None:
        """End everything that runs."""
        jobs = [task.job for task in self.all() if task.job is not None and not task.job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        for process in self._leftovers:
            process.end_now()
        self._leftovers = []


def format_task_notification(task: BackgroundTask) -> str:
    """Return the text that tells the model of the end of a task, in the words of Claude Code 2.1.29."""
    output = f"<output-file>{task.path}</output-file>\n" if task.kind == COMMAND_TASK and task.path else ""
    answer = f"\n<result>{task.output}</result>" if task.kind == AGENT_TASK and task.output else ""
    where = {COMMAND_TASK: "Read the output file to retrieve the result", AGENT_TASK: "Full transcript available at"}
    after = f"\n{where[task.kind]}: {task.path}" if task.path and task.kind in where else ""
    return (
        f"<task-notification>\n<task-id>{task.id}</task-id>\n{output}<status>{task.status}</status>\n"
        f"<summary>{_summarize(task)}</summary>{answer}\n</task-notification>{after}"
    )


def _summarize(task: BackgroundTask) -> str:
    name = f'{"Background command" if task.kind == COMMAND_TASK else "Agent"} "{task.description}"'
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
