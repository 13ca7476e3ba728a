"""The Bash tool: runs a shell command and returns its output, or starts it in the background and returns an id.

Rules
  1. A command that runs out of time, or that the user moves (Ctrl-B), goes on in the background, as in Claude Code
     2.1.326: the model gets its output so far and its id, and is told of its end. A `sleep` that runs out of time is
     ended with all it started. After ten minutes in the background, so is any command that had run out of time.
  2. Output longer than `MAX_SHOWN` goes to a file beside the session, and the model sees how it begins.
  3. The folder a command ends in is where the next one begins, if that is in the workspace; else it is the project's.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from base64 import b64decode
from pathlib import Path
from typing import Annotated

import msgspec

from unspool.client.background_tasks import COMMAND_TASK, BackgroundTask
from unspool.client.command_sandbox import SandboxLevel, explain_failure
from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.media import format_size, make_image_block
from unspool.client.tools.shell.process import MAX_FILE_BYTES, CommandProcess, OutputCapture, make_environment

MAX_SHOWN = 30_000
_MAX_SHOWN_OF_FAILURE = 10_000
_MAX_PREVIEW = 2000
_DEFAULT_TIMEOUT_MS = 120_000
_MAX_TIMEOUT_MS = 600_000
_MAX_MOVED_SECONDS = 600.0
"""How long a command that ran out of time may go on in the background."""
_FIRST_PROGRESS_SECONDS = 2.0
_PROGRESS_SECONDS = 1.0
_MAX_SHOWN_IN_PROGRESS = 4000
_SAFE_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_IMAGE_URL = re.compile(r"data:image/[a-z0-9.+_-]+;base64,", re.IGNORECASE)
_SIZE_UNITS = ("KB", "MB")
_MEANINGS_OF_EXIT_CODE_1 = {
    "grep": "No matches found",
    "egrep": "No matches found",
    "fgrep": "No matches found",
    "rg": "No matches found",
    "diff": "Files differ",
    "find": "Some directories were inaccessible",
    "test": "Condition is false",
    "[": "Condition is false",
}
"""Programs for which exit code 1 is no failure."""


class BashArguments(ToolArguments, frozen=True):
    """A command, and how long it may take."""

    command: Annotated[str, msgspec.Meta(description="The command")]
    timeout: Annotated[float | None, msgspec.Meta(description="Milliseconds; 120000 if absent, at most 600000")] = None
    description: Annotated[str | None, msgspec.Meta(description="What it does, in 5 to 10 words")] = None
    run_in_background: Annotated[bool | None, msgspec.Meta(description="Do not wait for it")] = None


class BashTool(BuiltInTool[BashArguments]):
    """Run a command."""

    name = "Bash"
    description = (
        "Run a shell command. The working directory is kept between calls, variables are not. There is no input to "
        "read. Read, search and edit files with the tools made for it. Output over 30000 characters is saved to a "
        "file. A command run in the background is read with TaskOutput and ended with TaskStop."
    )
    arguments = BashArguments
    target_fields = ("command",)
    # Models know them from Claude Code. The permission check looks at the first: who wants to leave the sandbox asks.
    ignored_fields = frozenset({"dangerouslyDisableSandbox", "_simulatedSedEdit"})

    async def execute(self, arguments: BashArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Run a command to its end, or start it in the background."""
        if not context.cwd.is_dir():
            context.cwd = context.workspace.root
        if arguments.run_in_background:
            return await _start_in_background(arguments, context, context.sandbox_levels.pop(call_id, None))
        capture = OutputCapture(_output_file(context, call_id))
        level = context.sandbox_levels.pop(call_id, None)
        process = await _start(arguments.command, context, capture, level)
        limit = _timeout_seconds(arguments, context)
        is_moved = False
        try:
            with context.tasks.foreground(call_id, of_subagent=context.is_subagent) as moved:
                code = await _wait_with_progress(process, limit, context, call_id, moved)
            if code is None and (moved.is_set() or _can_move(arguments.command, context)):
                is_moved = True
                return await _move_to_background(process, arguments, context, None if moved.is_set() else limit)
            if code is None:
                await process.end()
                return _failure(143, capture, f"Command timed out after {_format_duration(limit)}\n")
            meaning = _MEANINGS_OF_EXIT_CODE_1.get(_last_program(arguments.command)) if code == 1 else None
            if code and not meaning:
                note = explain_failure(level, capture.last_text(_MAX_SHOWN_OF_FAILURE)) if level is not None else ""
                return _failure(code, capture, note=note)
            return _success(capture, _follow_folder(context, process.final_folder()), meaning)
        except asyncio.CancelledError:
            await process.end()
            raise
        finally:
            if not is_moved:
                _release(process, context)


def find_pull_request(command: str, output: str) -> tuple[int, str, str] | None:
    """Return number, address and repository of the pull request that a command has made, if it has."""
    if not re.search(r"\bgh\s+pr\s+create\b", command):
        return None
    links = [*re.finditer(r"https://[\w.-]+/([\w.-]+/[\w.-]+)/pull/(\d+)", output)]
    return (int(links[-1][2]), links[-1][0], links[-1][1]) if links else None


def _output_file(context: ToolContext, id: str) -> Path:
    """Return the file for the long output of a call, or of a task."""
    # A server may name its calls as it likes: a name with `../` must not lead out of the folder.
    name = id if _SAFE_FILE_NAME.fullmatch(id) else f"call-{abs(hash(id)):x}"
    return context.workspace.side_folder / "tool-results" / f"{name}.txt"


async def _start(
    command: str, context: ToolContext, capture: OutputCapture, level: SandboxLevel | None
) -> CommandProcess:
    """Start a command, in a sandbox if it has a level."""
    environment = make_environment(context.environment)
    try:
        sandboxed = None
        if level is not None and context.sandbox is not None:
            sandboxed = context.sandbox.prepare(level, context.workspace, context.cwd, environment)
        return await CommandProcess.start(
            command, capture, cwd=context.cwd, environment=environment, sandboxed=sandboxed
        )
    except (OSError, ValueError) as error:  # the command is too long; a NUL in it
        capture.close()
        words = error.strerror or "it cannot be started" if isinstance(error, OSError) else str(error)
        raise ToolFailed(f"The command could not be started: {words}") from None


async def _wait_with_progress(
    process: CommandProcess, limit: float, context: ToolContext, call_id: str, moved: asyncio.Event
) -> int | None:
    """Wait for a command and report its progress; return its exit code, None if it takes too long or is moved."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    waiting = asyncio.ensure_future(process.wait())
    moving = asyncio.ensure_future(moved.wait())
    pause, reported = _FIRST_PROGRESS_SECONDS, -1
    try:
        while True:
            left = began + limit - loop.time()
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait([waiting, moving], timeout=min(pause, max(left, 0)), return_when=first)
            if waiting.done():
                return waiting.result()
            if moving.done() or loop.time() >= began + limit:
                return None
            if process.capture.size != reported:  # a command without new output is reported once
                context.report_progress(call_id, _progress(process.capture, loop.time() - began, limit))
            pause, reported = _PROGRESS_SECONDS, process.capture.size
    finally:
        waiting.cancel()
        moving.cancel()


def _progress(capture: OutputCapture, seconds: float, limit: float) -> Json:
    output = capture.last_text(_MAX_SHOWN_IN_PROGRESS).strip("\n")
    return {
        "type": "bash_progress",
        "output": "\n".join(output.splitlines()[-5:]),
        "fullOutput": output,
        "elapsedTimeSeconds": round(seconds),
        "totalLines": output.count("\n") + bool(output),
        "totalBytes": capture.size,
        "timeoutMs": round(limit * 1000),
    }


async def _start_in_background(
    arguments: BashArguments, context: ToolContext, level: SandboxLevel | None
) -> ToolOutcome:
    id = context.tasks.new_id()
    capture = OutputCapture(_output_file(context, id), at_once=True)
    process = await _start(arguments.command, context, capture, level)
    await _add_task(id, process, arguments, context)
    where = f" Output is being written to: {capture.path}" if not capture.problem else ""
    result = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "backgroundTaskId": id}
    return ToolOutcome(content=f"Command running in background with ID: {id}.{where}", result=result)


def _can_move(command: str, context: ToolContext) -> bool:
    """Tell whether a command that ran out of time goes on in the background: not a mere `sleep`."""
    if context.environment.get("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") not in (None, "", "0", "false"):
        return False
    return command.split(maxsplit=1)[:1] != ["sleep"]


async def _move_to_background(
    process: CommandProcess, arguments: BashArguments, context: ToolContext, limit: float | None
) -> ToolOutcome:
    """Let a running command go on in the background, because the user wants it or it has reached its time limit."""
    id, capture = context.tasks.new_id(), process.capture
    output = capture.last_text(MAX_SHOWN).strip("\n")
    capture.save()
    await _add_task(id, process, arguments, context, None if limit is None else _MAX_MOVED_SECONDS)
    result: Json = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
        "backgroundTaskId": id,
    }
    # The words and the fields are those of Claude Code 2.1.326.
    if limit is None:
        notice = f"Command was manually backgrounded by user with ID: {id}."
        after = ""
        result["backgroundedByUser"] = True
    else:
        notice = (
            f"Command did not complete within its {_format_duration(limit)} timeout and was moved to the background "
            f"(ID: {id})."
        )
        after = (
            " You will be notified when it completes, if you are still working then. If it is still running after "
            f"{_MAX_MOVED_SECONDS / 60:.0f}m in the background, it will be stopped. It is running now: do not start a "
            "second copy while it runs. If it is no longer needed, stop it with TaskStop."
        )
        result["timedOutAfterMs"] = round(limit * 1000)
    where = f" Output is being written to: {capture.path}." if not capture.problem else ""
    check = f" To check interim output, use TaskOutput with the ID{'' if capture.problem else ' or Read on that file'}."
    content = "\n".join(part for part in (output, f"{notice}{where}{after}{check}") if part)
    return ToolOutcome(content=content, result=result)


async def _add_task(
    id: str,
    process: CommandProcess,
    arguments: BashArguments,
    context: ToolContext,
    limit: float | None = None,
) -> None:
    """Register a running command as a background task that is followed to its end."""
    capture = process.capture
    task = BackgroundTask(
        id,
        COMMAND_TASK,
        arguments.description or arguments.command,
        command=arguments.command,
        path=capture.path,
        read_output=lambda: _background_output(capture),
    )
    context.tasks.add(task)
    await task.start(_follow(process, task, context, limit))


async def _follow(process: CommandProcess, task: BackgroundTask, context: ToolContext, limit: float | None) -> None:
    """Wait for the end of a command in the background; end it after some seconds if it has a limit."""
    try:
        async with asyncio.timeout(limit):
            task.exit_code = await process.wait()
    except TimeoutError:
        await process.end()
        context.tasks.end(task, "killed")
        return
    except asyncio.CancelledError:
        await process.end()
        context.tasks.end(task, "killed", report=False)
        raise
    finally:
        _release(process, context)
    context.tasks.end(task, "failed" if task.exit_code else "completed")


def _release(process: CommandProcess, context: ToolContext) -> None:
    """Release a command that has ended, but keep track of what it left running."""
    process.capture.close()
    if process.lingers():
        context.tasks.add_leftover(process)
    else:
        process.close()


def _background_output(capture: OutputCapture) -> str:
    text = capture.whole_text()
    if text is not None and len(text) <= MAX_SHOWN:
        return text
    return f"[Truncated. Full output: {capture.path}]\n\n{capture.last_text(MAX_SHOWN // 2)}"


def _success(capture: OutputCapture, note: str, meaning: str | None) -> ToolOutcome:
    output = _trim(capture.whole_text())
    result: Json = {"stdout": output, "stderr": note, "interrupted": False, "isImage": False}
    if meaning:
        result["returnCodeInterpretation"] = meaning
    if output is not None and (block := _image_block(output)):
        return ToolOutcome(content=[block], result={**result, "isImage": True})
    if output is None or len(output) > MAX_SHOWN:
        result["stdout"] = _trim(capture.first_text(MAX_SHOWN))
        if capture.save():
            # Versions of Claude Code that write the path write `noOutputExpected`, too.
            result |= {"noOutputExpected": False, "persistedOutputPath": str(capture.path)}
            result["persistedOutputSize"] = capture.size
        output = _preview(capture)
    content = "\n".join(part for part in (output, note) if part)
    return ToolOutcome(content=content or "(Bash completed with no output)", result=result)


def _failure(code: int, capture: OutputCapture, words: str = "", note: str = "") -> ToolOutcome:
    """Return the error of a command: its exit code, and both ends of its output."""
    output = _trim(capture.whole_text())
    if output is None or len(output) > _MAX_SHOWN_OF_FAILURE:
        half = _MAX_SHOWN_OF_FAILURE // 2
        start, end = capture.first_text(half).lstrip("\n"), capture.last_text(half).rstrip()
        missing = (len(output) if output is not None else capture.size) - len(start) - len(end)
        output = f"{start}\n\n... [{missing} characters truncated] ...\n\n{end}"
        if capture.save():
            output += f"\n\nFull output saved to: {capture.path}"
    content = f"Exit code {code}\n{words}{output}".rstrip() + note
    return ToolOutcome(content=content, result=f"Error: {content}", is_error=True)


def _preview(capture: OutputCapture) -> str:
    """Return what the model sees of an output that is too long, in Claude Code's words."""
    start = capture.first_text(_MAX_PREVIEW)
    start = start[: start.rfind("\n") + 1] or f"{start}\n"
    size = format_size(capture.size, _SIZE_UNITS)
    if not capture.save():
        head = f"Output too large ({size}), and it could not be saved: {capture.problem}"
    elif capture.is_saved_whole:
        head = f"Output too large ({size}). Full output saved to: {capture.path}"
    elif capture.problem is None:
        limit = format_size(MAX_FILE_BYTES, _SIZE_UNITS)
        head = f"Output exceeded the {limit} persist limit; only the first part was saved to: {capture.path}"
    else:
        head = f"Output too large ({size}). Only a part could be saved ({capture.problem}): {capture.path}"
    return f"<persisted-output>\n{head}\n\nPreview (first 2KB):\n{start}...\n</persisted-output>"


def _image_block(output: str) -> Json | None:
    """Return an image that a command printed as a `data:` address."""
    prefix = _IMAGE_URL.match(output)
    if prefix is None:
        return None
    try:
        return make_image_block(b64decode(output[prefix.end() :].strip(), validate=True)).block
    except (ValueError, InvalidToolCall):  # not base64, or no image that the API accepts: the model sees the text
        return None


def _follow_folder(context: ToolContext, folder: Path | None) -> str:
    """Move the shell to the folder a command ended in, or back to the project; return a note about the latter."""
    if folder is None:
        return ""
    if PathsOnDisk(context).is_inside(str(folder)):
        context.cwd = folder
        return ""
    context.cwd = context.workspace.root
    return f"Shell cwd was reset to {context.workspace.root}"


def _last_program(command: str) -> str:
    """Return the program whose exit code a command has, where that is easy to see."""
    words = shlex.shlex(command, posix=True, punctuation_chars="|&;\n()<>")
    words.whitespace = " \t\r"
    words.commenters = ""
    program = ""
    is_start = True
    try:
        for word in words:
            if word and not word.strip("|&;\n()"):
                is_start = True
            elif is_start and not re.match(r"\w+=", word):
                program, is_start = word, False
    except ValueError:
        return ""
    return program.rpartition("/")[2]


def _timeout_seconds(arguments: BashArguments, context: ToolContext) -> float:
    """Return how long a command may take: Claude Code's own variables count, too."""
    longest = _positive_number(context, "BASH_MAX_TIMEOUT_MS", _MAX_TIMEOUT_MS)
    default = min(_positive_number(context, "BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_TIMEOUT_MS), longest)
    wanted = arguments.timeout if arguments.timeout and arguments.timeout > 0 else default
    return min(wanted, longest) / 1000


def _positive_number(context: ToolContext, name: str, default: int) -> int:
    value = context.environment.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and int(value) > 0 else default


def _trim(text: str | None) -> str | None:
    """Return a text without blank lines before it and blanks after it."""
    return None if text is None else re.sub(r"\A(?:[ \t\r]*\n)+", "", text).rstrip()


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m {rest:g}s" if minutes else f"{rest:g}s"
