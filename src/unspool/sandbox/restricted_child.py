"""Starts a process from a thread that has given up its rights: the process never had them.

Rules
  1. Landlock and the filter of system calls hold for a thread and what it starts. So a thread of its own gives up its
     rights, starts the process with `vfork` and waits for its end. A `preexec_fn` would need `fork`, which took 1.3 ms
     in a chat of 60 MB, and the pages that were written afterwards were copied.
  2. The thread ends with the process. It runs nothing else: it could not open what the rest of the program can.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path


class RestrictedChild:
    """A process that a restricted thread has started."""

    def __init__(self, pid: int, ended: asyncio.Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        """Its exit code, less than 0 if a signal ended it; None as long as it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""
        return await asyncio.shield(self._ended)


def start_restricted(
    words: Sequence[str], restrict: Callable[[], None], *, cwd: Path, environment: Mapping[str, str], output: int
) -> RestrictedChild:
    """Start a process with the rights that `restrict` leaves a thread, in a session of its own and without input."""
    loop = asyncio.get_running_loop()
    started: Future[int] = Future()
    ended: asyncio.Future[int] = loop.create_future()

    def run() -> None:
        try:
            restrict()
            child = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            started.set_result(child.pid)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # raised again where it is waited for
            started.set_exception(error)
            return
        finally:
            started.cancel()  # does nothing once there is a result; without one nobody waits for ever
        code = child.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set_result, code)

    threading.Thread(target=run, name="unspool-sandboxed", daemon=True).start()
    return RestrictedChild(started.result(), ended)
