"""`/tasks`: lists what runs in the background of a chat, shows its output and stops it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from unspool.client.background_tasks import COMMAND_TASK, BackgroundTask
from unspool.client.ui.choice import ChoiceOption, ChoicePrompt
from unspool.display import units
from unspool.errors import NotFound, NothingFound, UsageError

if TYPE_CHECKING:
    from unspool.client.ui.terminal import Terminal

_MAX_SHOWN_LINES = 200
"""Lines of an output that are shown: its end. The file has all of it."""


async def run_tasks_command(terminal: Terminal, arguments: str) -> None:
    """Let the user choose a task, and show its output or stop it; `/tasks ID` and `/tasks stop ID` do so at once."""
    words = arguments.split()
    if words[:1] == ["stop"] and len(words) == 2:
        await _stop(terminal, _find_task(terminal, words[1]))
    elif len(words) == 1 and words != ["stop"]:
        _show_output(terminal, _find_task(terminal, words[0]))
    elif words:
        raise UsageError(f"invalid argument `{arguments}`", hint="use `/tasks`, `/tasks ID` or `/tasks stop ID`")
    else:
        await _choose_task(terminal)


def describe_end(task: BackgroundTask) -> str:
    """Return in one line how a task has ended."""
    what = "command" if task.kind == COMMAND_TASK else "agent"
    code = f", exit code {task.exit_code}" if task.exit_code else ""
    return f"background {what} {task.status}{code}: {first_words(task)} (`/tasks {task.id}` shows its output)"


def first_words(task: BackgroundTask) -> str:
    """Return the first line of what a task does."""
    return task.description.strip().split("\n")[0][:60]


async def _choose_task(terminal: Terminal) -> None:
    tasks = terminal.chat.context.tasks.all()
    if not tasks:
        hint = "Ctrl-B moves a running command to the background"
        raise NothingFound("nothing has run in the background of this chat", hint=hint)
    tasks.reverse()  # the newest first
    tasks.sort(key=lambda task: task.status != "running")
    options = [ChoiceOption(first_words(task), _describe_state(task)) for task in tasks]
    picked = await terminal.surface.choose(ChoicePrompt("Which background task?", options, filters=True))
    if picked is None:
        return
    task = tasks[picked.first]
    actions = [ChoiceOption("Show its output", key="o")]
    if not task.ended.is_set():
        actions.append(ChoiceOption("Stop it", key="s"))
    title = f"{first_words(task)}: {_describe_state(task)}"
    chosen = await terminal.surface.choose(ChoicePrompt(title, actions))
    if chosen is not None:
        if chosen.first == 0:
            _show_output(terminal, task)
        else:
            await _stop(terminal, task)


def _describe_state(task: BackgroundTask) -> str:
    code = f", exit code {task.exit_code}" if task.exit_code is not None else ""
    return f"{task.status} ({units.duration(timedelta(seconds=round(task.seconds)))}{code}) · {task.id}"


def _find_task(terminal: Terminal, id: str) -> BackgroundTask:
    task = terminal.chat.context.tasks.get(id)
    if task is None:
        raise NotFound(f"no background task matches `{id}`", hint="list them with `/tasks`")
    return task


def _show_output(terminal: Terminal, task: BackgroundTask) -> None:
    renderer = terminal.renderer()
    lines = task.current_output().rstrip("\n").split("\n")
    left = len(lines) - _MAX_SHOWN_LINES
    where = f" in {task.path}" if task.path else ""
    above = renderer.notice(f"… {units.amount(left, 'more line')} above; all of it is{where}") if left > 0 else ""
    text = "\n".join(lines[-_MAX_SHOWN_LINES:])
    head = renderer.text(f"{first_words(task)}: {_describe_state(task)}", "bold")
    terminal.surface.show(head + above + renderer.indented(text or "(no output)") + "\n")


async def _stop(terminal: Terminal, task: BackgroundTask) -> None:
    if task.ended.is_set():
        raise NothingFound(f"the task `{task.id}` has already ended: {task.status}")
    await task.stop()
    if not task.ended.is_set():
        terminal.chat.context.tasks.end(task, "killed", report=False)
    # The model did not stop it, so it has to be told.
    terminal.chat.context.tasks.report(task)
    terminal.surface.show(terminal.renderer().notice(f"stopped: {first_words(task)} ({task.id})") + "\n")
