"""Run commands one after the other in shells, under strace. Started by `recorder.py`, by itself, without the project.

Reads a JSON list of jobs from the file that is its first argument, and prints a JSON list of outcomes. Before each job
it opens a path that does not exist, which marks the place in the record.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time

SHELLS = {"bash": ["bash", "-c"], "dash": ["dash", "-c"], "zsh": ["zsh", "-f", "-c"]}
MARK = "/no-such-folder/run-"
_PR_SET_CHILD_SUBREAPER = 36
_MAX_OUTPUT = 16_000_000
_GRACE = 0.5
"""Seconds that the other processes of a pipeline may live on after the shell."""


def main() -> None:
    """Run all jobs."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - nothing is imported that is not needed
        jobs = json.load(file)
    # So that processes which a command leaves behind become children of this one.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, _raise_time_is_up)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_OUTPUT, _MAX_OUTPUT))
    output = os.memfd_create("output")
    outcomes = [_run(number, job, output) for number, job in enumerate(jobs)]
    os.write(1, json.dumps(outcomes).encode())


class _TimeIsUpError(Exception):
    """The shell has run for too long."""


def _raise_time_is_up(*_: object) -> None:
    raise _TimeIsUpError


def _run(number: int, job: dict[str, object], output: int) -> dict[str, bool]:
    os.ftruncate(output, 0)
    os.lseek(output, 0, os.SEEK_SET)
    os.chdir(str(job["folder"]))
    with contextlib.suppress(OSError):
        os.close(os.open(f"{MARK}{number}", os.O_RDONLY))
    shell = SHELLS[str(job["shell"])]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    environment = dict(job["environment"])  # type: ignore[call-overload]
    child = os.posix_spawn(str(job["path"]), [*shell, str(job["command"])], environment,
                           file_actions=actions, setpgroup=0)  # fmt: skip
    was_stopped = not _wait(child, float(str(job["timeout"])))
    left = _reap_others(child)
    secret = str(job["secret"]).encode()
    return {"stopped": was_stopped, "left": left and not was_stopped, "leaked": secret in _read(output)}


def _wait(child: int, timeout: float) -> bool:
    """Wait for the shell; kill its group when the time is up, and return False."""
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout)
        os.waitpid(child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeIsUpError:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False
    return True


def _reap_others(group: int) -> bool:
    """Wait for what the shell left behind; return whether it had to be killed."""
    end = time.monotonic() + _GRACE
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not found:
            if time.monotonic() > end:
                break
            time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    try:
        while os.waitpid(-1, 0):
            pass
    except ChildProcessError:
        pass
    return True


def _read(output: int) -> bytes:
    return os.pread(output, _MAX_OUTPUT, 0)


if __name__ == "__main__":
    main()
