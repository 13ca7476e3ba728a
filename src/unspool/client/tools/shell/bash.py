"""Bash: a command in, what it said and how it ended out; in the background, an id to ask by.

Rules
  1. A command that ran out of time is ended with all it started, and what it said is told.
  2. What is longer than `SHOWN` is in a file beside the session, and the model sees how it begins.
  3. The folder a command ends in is where the next one begins, if that is one it may work in; else it is the project's.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Annotated

import msgspec

from unspool.client.loop.background_tasks import COMMAND, Task
from unspool.client.tool_context import Desk, Place
from unspool.client.tools.base import Asked, Json, Outcome, ToolFailed, aim, parse, schema
from unspool.client.tools.shell.process import ON_DISK, Capture, Command, Process
from unspool.format.image_header import picture

SHOWN = 30_000
FAILED_SHOWN = 10_000
PREVIEW = 2000
_DEFAULT_MS = 120_000
_LONGEST_MS = 600_000
_FIRST_PROGRESS = 2.0
_PROGRESS = 1.0
_PROGRESS_SHOWN = 4000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_PICTURE = re.compile(r"data:image/[a-z0-9.+_-]+;base64,", re.IGNORECASE)
_LARGEST_PICTURE = 5 << 20
_MEANINGS = {
    "grep": "No matches found",
    "egrep": "No matches found",
    "fgrep": "No matches found",
    "rg": "No matches found",
    "diff": "Files differ",
    "find": "Some directories were inaccessible",
    "test": "Condition is false",
    "[": "Condition is false",
}
"""What exit code 1 means where it is not a failure."""


class BashInput(Asked, frozen=True):
    """The input of a call."""

    command: Annotated[str, msgspec.Meta(description="The command")]
    timeout: Annotated[float | None, msgspec.Meta(description="Milliseconds; 120000 if absent, at most 600000")] = None
    description: Annotated[str | None, msgspec.Meta(description="What it does, in 5 to 10 words")] = None
    run_in_background: Annotated[bool | None, msgspec.Meta(description="Do not wait for it")] = None


_UNUSED = frozenset({"dangerouslyDisableSandbox", "_simulatedSedEdit"})
"""What models give that know the program; there is no sandbox to leave."""


class Bash:
    """Run a command."""

    name = "Bash"
    description = (
        "Run a shell command. The working directory is kept between calls, variables are not. There is no input to "
        "read. Read, search and edit files with the tools made for it. Output over 30000 characters is saved to a "
        "file. A command run in the background is read with TaskOutput and ended with TaskStop."
    )
    input_schema = schema(BashInput)
    is_concurrent = False

    def target(self, input: Json) -> str:
        """Return the command."""
        return aim(input, "command")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Run a command to its end, or start it in the background."""
        if isinstance(input, dict):
            input = {name: value for name, value in input.items() if name not in _UNUSED}
        given = parse(self.name, input, BashInput)
        if not desk.cwd.is_dir():
            desk.cwd = desk.place.root
        if given.run_in_background:
            return await _in_background(given, desk)
        capture = Capture(saved_at(desk.place, call_id))
        process = await _started(given.command, desk, capture)
        try:
            code = await _ended(process, given, desk, call_id)
            if code is None:
                await process.end()
                return _failed(143, capture, f"Command timed out after {_duration(_seconds(given, desk))}\n")
            meaning = _MEANINGS.get(_last_program(given.command)) if code == 1 else None
            if code and not meaning:
                return _failed(code, capture)
            return _done(capture, _moved(desk, process.folder()), meaning)
        except asyncio.CancelledError:
            await process.end()
            raise
        finally:
            _parted(process, desk)


def saved_at(place: Place, id: str) -> Path:
    """Return the file for the long output of a call, or of a task."""
    name = id if _NAME.fullmatch(id) else f"call-{abs(hash(id)):x}"  # a server may name its calls as it likes
    return place.side / "tool-results" / f"{name}.txt"


def pull_request(command: str, output: str) -> tuple[int, str, str] | None:
    """Return number, address and repository of the pull request that a command has made, if it has."""
    if not re.search(r"\bgh\s+pr\s+create\b", command):
        return None
    made = [*re.finditer(r"https://[\w.-]+/([\w.-]+/[\w.-]+)/pull/(\d+)", output)]
    return (int(made[-1][2]), made[-1][0], made[-1][1]) if made else None


async def _started(command: str, desk: Desk, capture: Capture) -> Process:
    try:
        return await Process.start(Command(command, desk.cwd, desk.environment), capture)
    except (OSError, ValueError) as error:  # the argument is too long; a NUL in it
        capture.close()
        words = error.strerror or "it cannot be started" if isinstance(error, OSError) else str(error)
        raise ToolFailed(f"The command could not be started: {words}") from None


async def _ended(process: Process, given: BashInput, desk: Desk, call_id: str) -> int | None:
    """Wait, and tell how it goes; None if it takes too long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    limit = _seconds(given, desk)
    waiting = asyncio.ensure_future(process.wait())
    pause, told = _FIRST_PROGRESS, -1
    try:
        while True:
            left = began + limit - loop.time()
            done, _ = await asyncio.wait([waiting], timeout=min(pause, max(left, 0)))
            if done:
                return waiting.result()
            if loop.time() >= began + limit:
                return None
            if process.capture.size != told:  # a command that is quiet is told of once
                desk.progress(call_id, _progress(process.capture, loop.time() - began, limit))
            pause, told = _PROGRESS, process.capture.size
    finally:
        waiting.cancel()


def _progress(capture: Capture, seconds: float, limit: float) -> Json:
    said = capture.end(_PROGRESS_SHOWN).strip("\n")
    return {
        "type": "bash_progress",
        "output": "\n".join(said.splitlines()[-5:]),
        "fullOutput": said,
        "elapsedTimeSeconds": round(seconds),
        "totalLines": said.count("\n") + bool(said),
        "totalBytes": capture.size,
        "timeoutMs": round(limit * 1000),
    }


async def _in_background(given: BashInput, desk: Desk) -> Outcome:
    id = desk.tasks.new_id()
    capture = Capture(saved_at(desk.place, id), at_once=True)
    process = await _started(given.command, desk, capture)
    task = Task(id, COMMAND, given.description or given.command)
    task.command = given.command
    task.look = lambda: _whole(capture)
    task.path = capture.path
    task.job = asyncio.create_task(_followed(process, task, desk))
    desk.tasks.add(task)
    await asyncio.sleep(0)  # a job that is cancelled before it has begun would end nothing
    where = f" Output is being written to: {capture.path}" if not capture.problem else ""
    result = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "backgroundTaskId": id}
    return Outcome(content=f"Command running in background with ID: {id}.{where}", result=result)


async def _followed(process: Process, task: Task, desk: Desk) -> None:
    """Wait for the end of a command in the background."""
    try:
        task.exit_code = await process.wait()
    except asyncio.CancelledError:
        await process.end()
        desk.tasks.end(task, "killed", tell=False)
        raise
    finally:
        _parted(process, desk)
    desk.tasks.end(task, "failed" if task.exit_code else "completed")


def _parted(process: Process, desk: Desk) -> None:
    """Let go of a command that has ended, but not of what it left running."""
    process.capture.close()
    if process.lingers():
        desk.tasks.leave(process)
    else:
        process.close()


def _whole(capture: Capture) -> str:
    text = capture.text()
    if text is not None and len(text) <= SHOWN:
        return text
    return f"[Truncated. Full output: {capture.path}]\n\n{capture.end(SHOWN // 2)}"


def _done(capture: Capture, note: str, meaning: str | None) -> Outcome:
    text = capture.text()
    said = _trimmed(text) if text is not None else None
    result: Json = {"stdout": said, "stderr": note, "interrupted": False, "isImage": False}
    if meaning:
        result["returnCodeInterpretation"] = meaning
    if said is not None and (block := _picture(said)):
        return Outcome(content=[block], result={**result, "isImage": True})
    if said is None or len(said) > SHOWN:
        result["stdout"] = _trimmed(capture.start(SHOWN))
        if capture.save():
            # versions that tell where it is tell this, too
            result |= {"noOutputExpected": False, "persistedOutputPath": str(capture.path)}
            result["persistedOutputSize"] = capture.size
        said = _preview(capture)
    shown = "\n".join(part for part in (said, note) if part)
    return Outcome(content=shown or "(Bash completed with no output)", result=result)


def _failed(code: int, capture: Capture, words: str = "") -> Outcome:
    """Return the error of a command: how it ended, and the two ends of what it said."""
    text = capture.text()
    said = _trimmed(text) if text is not None else None
    if said is None or len(said) > FAILED_SHOWN:
        start, end = capture.start(FAILED_SHOWN // 2).lstrip("\n"), capture.end(FAILED_SHOWN // 2).rstrip()
        missing = (len(said) if said is not None else capture.size) - len(start) - len(end)
        said = f"{start}\n\n... [{missing} characters truncated] ...\n\n{end}"
        if capture.save():
            said += f"\n\nFull output saved to: {capture.path}"
    shown = f"Exit code {code}\n{words}{said}".rstrip()
    return Outcome(content=shown, result=f"Error: {shown}", is_error=True)


def _preview(capture: Capture) -> str:
    """Return what the model sees of an output that is too long, in the program's words."""
    start = capture.start(PREVIEW)
    start = start[: start.rfind("\n") + 1] or f"{start}\n"
    size = _size(capture.size)
    if not capture.save():
        head = f"Output too large ({size}), and it could not be saved: {capture.problem}"
    elif capture.is_whole:
        head = f"Output too large ({size}). Full output saved to: {capture.path}"
    else:
        head = (
            f"Output exceeded the {_size(ON_DISK)} persist limit; only the first part was saved to: {capture.path}"
            if capture.problem is None
            else f"Output too large ({size}). Only a part could be saved ({capture.problem}): {capture.path}"
        )
    return f"<persisted-output>\n{head}\n\nPreview (first 2KB):\n{start}...\n</persisted-output>"


def _picture(said: str) -> Json | None:
    """Return a picture that a command printed as a `data:` address."""
    import base64
    import binascii

    head = _PICTURE.match(said)
    if head is None:
        return None
    try:
        data = base64.b64decode(said[head.end() :].strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    found = picture(data)
    if found is None or len(data) > _LARGEST_PICTURE:
        return None
    encoded = base64.b64encode(data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": found.media_type, "data": encoded}}


def _moved(desk: Desk, folder: Path | None) -> str:
    """Go where a command ended, or back to the project; return what is to be said of it."""
    if folder is None:
        return ""
    allowed = [place.resolve() for place in (desk.place.root, *desk.place.added)]
    if any(folder == place or place in folder.parents for place in allowed):
        desk.cwd = folder
        return ""
    desk.cwd = desk.place.root
    return f"Shell cwd was reset to {desk.place.root}"


def _last_program(command: str) -> str:
    """Return the program whose exit code a command has, where that is easy to see."""
    words = shlex.shlex(command, posix=True, punctuation_chars="|&;\n()<>")
    words.whitespace = " \t\r"
    words.commenters = ""
    program = ""
    begins = True
    try:
        for word in words:
            if word and not word.strip("|&;\n()"):
                begins = True
            elif begins and not re.match(r"\w+=", word):
                program, begins = word, False
    except ValueError:
        return ""
    return program.rpartition("/")[2]


def _seconds(given: BashInput, desk: Desk) -> float:
    """Return how long a command may take: the program's own variables may say so, too."""
    longest = _number(desk, "BASH_MAX_TIMEOUT_MS", _LONGEST_MS)
    usual = min(_number(desk, "BASH_DEFAULT_TIMEOUT_MS", _DEFAULT_MS), longest)
    wished = given.timeout if given.timeout and given.timeout > 0 else usual
    return min(wished, longest) / 1000


def _number(desk: Desk, name: str, usual: int) -> int:
    value = desk.environment.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and int(value) > 0 else usual


def _trimmed(text: str) -> str:
    """Return a text without blank lines before it and blanks after it."""
    return re.sub(r"\A(?:[ \t\r]*\n)+", "", text).rstrip()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m {rest:g}s" if minutes else f"{rest:g}s"


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    size, unit = (count / 1024, "KB") if count < 1 << 20 else (count / (1 << 20), "MB")
    return f"{size:.1f}".removesuffix(".0") + unit
