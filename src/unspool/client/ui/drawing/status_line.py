"""Runs the command of the status line, and keeps what it prints for the footer.

The contract is that of Claude Code 2.1.326: the command gets a JSON object about the session on stdin, and the first
line that it prints is shown.

Rules
  1. It runs when a chat is opened, when a turn has ended, and when mode or model have changed; one at a time.
  2. What takes longer than `MAX_SECONDS` is killed with its process group. What fails leaves no line; `/statusline`
     says why.
  3. The command does not see our keys. What it prints is made safe for the terminal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from unspool.client.tool_result import Json
from unspool.client.tools.shell.process import make_environment
from unspool.display import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from unspool.client.chat import Chat

MAX_SECONDS: Final = 5.0
_LARGE_CONTEXT: Final = 200_000


class StatusLine:
    """The status line of one terminal."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._job: asyncio.Future[None] | None = None
        self._began = time.monotonic()
        self.text = ""
        """What was printed last."""
        self.problem: str | None = None
        """Why there is no text; None: the command ran."""

    def refresh(self, command: str | None, chat: Chat, vim_mode: str | None) -> None:
        """Run the command in the background, instead of one that still runs."""
        self.stop()
        if command is None:
            self.text = ""
        else:
            self._job = asyncio.ensure_future(self._run(command, chat, vim_mode))

    async def settle(self) -> None:
        """Wait for the command that runs."""
        if self._job is not None:
            await asyncio.wait([self._job])

    def stop(self) -> None:
        """Stop the command that runs."""
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _run(self, command: str, chat: Chat, vim_mode: str | None) -> None:
        from unspool import __version__

        seconds = time.monotonic() - self._began
        input = describe_session(chat, version=__version__, milliseconds=round(seconds * 1000), vim_mode=vim_mode)
        environment = {**make_environment(chat.runtime.environment), "CLAUDE_PROJECT_DIR": str(chat.workspace.root)}
        try:
            child = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                cwd=chat.context.cwd,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._finish("", f"it cannot be started: {str(error).lower()}")
            return
        try:
            async with asyncio.timeout(MAX_SECONDS):
                printed, _ = await child.communicate(msgspec.json.encode(input))
        except TimeoutError:
            self._finish("", f"it took longer than {MAX_SECONDS:g} s")
        else:
            lines = printed.decode(errors="replace").strip("\n").split("\n")
            failed = f"it ended with exit code {child.returncode}" if child.returncode else None
            self._finish("" if failed else clean_line(lines[0]), failed)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)

    def _finish(self, text: str, problem: str | None) -> None:
        self.text, self.problem = text, problem
        self._on_change()


def describe_session(chat: Chat, *, version: str, milliseconds: int, vim_mode: str | None) -> Json:
    """Return what the command gets, with the names of Claude Code; what is not counted here is left out."""
    used, size = chat.window_state
    usage, root = chat.totals.usage, str(chat.workspace.root)
    percent = round(100 * used / size) if size else None
    described: Json = {
        "hook_event_name": "Status",
        "session_id": chat.session_id,
        "transcript_path": str(chat.path),
        "cwd": str(chat.context.cwd),
        "model": {"id": chat.model, "display_name": chat.model},
        "workspace": {
            "current_dir": str(chat.context.cwd),
            "project_dir": root,
            "added_dirs": [str(folder) for folder in chat.workspace.added],
        },
        "version": version,
        "output_style": {"name": "default"},
        "cost": {"total_cost_usd": chat.totals.cost_micros / 1_000_000, "total_duration_ms": milliseconds},
        "context_window": {
            "total_input_tokens": usage["input_tokens"],
            "total_output_tokens": usage["output_tokens"],
            "context_window_size": size,
            "used_percentage": percent,
            "remaining_percentage": None if percent is None else max(0, 100 - percent),
            # All of it as plain input: how the last request was cached is not kept.
            "current_usage": {
                "input_tokens": used,
                "output_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        },
        "exceeds_200k_tokens": used > _LARGE_CONTEXT,
    }
    return {**described, "vim": {"mode": vim_mode}} if vim_mode else described
