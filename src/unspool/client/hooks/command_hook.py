"""Runs a hook that is a shell command: JSON on its stdin, an exit code and text or JSON as its answer.

Rules
  1. A command runs as `/bin/sh -c` in the session's folder, in a process group of its own, without our keys. With a
     list `args` it is a program, which gets them as they are: no shell reads them.
  2. It is killed with its group when its time is up, and when the turn is interrupted. What it leaves in the background
     goes on, and is not waited for.
  3. Of each output stream the first mebibyte is read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final

from unspool.client.hooks.answers import HookCall, HookReply, parse_exit
from unspool.client.tools.shell.process import make_environment

_MAX_OUTPUT = 1 << 20


class CommandHook:
    """One command of the settings."""

    def __init__(
        self,
        command: str,
        timeout: float,
        environment: Mapping[str, str],
        root: Path,
        arguments: Sequence[str] | None = None,
    ) -> None:
        self.label: Final = command if arguments is None else " ".join([command, *arguments])
        self._argv = ("/bin/sh", "-c", command) if arguments is None else (command, *arguments)
        self.timeout: Final = timeout
        self._environment = {**make_environment(environment), "CLAUDE_PROJECT_DIR": str(root)}

    async def call(self, call: HookCall) -> HookReply:
        """Run the command, and return how it ended."""
        import tempfile  # loads `random` and `shutil`, which a chat without hooks does not need

        began = time.monotonic()
        # Files and no pipes: a process that the hook leaves behind would hold a pipe open, and asyncio waits for it.
        with ExitStack() as stack:
            try:
                stdin, stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
                stdin.write(call.encode_input() + b"\n")
                stdin.seek(0)
                child = await asyncio.create_subprocess_exec(
                    *self._argv,
                    cwd=str(call.input.get("cwd") or "/"),
                    env=self._environment,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # ValueError: a NUL in the command
                return HookReply(failure=f"it cannot be started: {str(error).lower()}", exit_code=126)
            try:
                async with asyncio.timeout(self.timeout):
                    code = await child.wait()
            except TimeoutError:
                reply = HookReply(failure=f"it did not answer within {self.timeout:g} s", timed_out=True)
            else:
                reply = parse_exit(call.event, code, _read_start(stdout), _read_start(stderr))
            finally:
                if child.returncode is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
                    await asyncio.shield(child.wait())
        return reply._replace(milliseconds=round((time.monotonic() - began) * 1000))


def _read_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT).decode(errors="replace")
