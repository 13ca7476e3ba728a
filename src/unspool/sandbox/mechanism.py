"""Finds the sandbox that this machine has, and prepares it for a command.

Rules
  1. Linux: bubblewrap where it is installed and works, else Landlock with a filter of system calls. macOS:
     `sandbox-exec`, which has not been tried. Elsewhere, and where none of these works, there is none.
  2. Whether bubblewrap works is tried once for each process: in containers it often does not.
  3. Landlock must be of version 3 or newer: before that it does not keep files from being truncated.
  4. Nothing of this runs between fork and exec: Python then uses `vfork`, and starting a command does not take longer
     the more memory the chat has. Landlock and the filter are put in force for a thread, which starts the command;
     limits are set by the shell, before it reads the command; bubblewrap puts the filter in force itself.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

from unspool.sandbox import landlock, seccomp
from unspool.sandbox.policy import SandboxPolicy

Mechanism = Literal["bubblewrap", "landlock", "sandbox-exec"]
MECHANISM_NAMES: dict[str, str] = {
    "bubblewrap": "bubblewrap",
    "landlock": "Landlock and a system call filter",
    "sandbox-exec": "sandbox-exec (not tried by unspool's tests)",
}
"""How each is called for a user."""
_LEAST_LANDLOCK = 3
_MOST_MEMORY = 16 << 30
_MOST_FILE = 1 << 30
_MOST_PROCESSES = 4096
_TRIAL_SECONDS = 5


class PreparedSandbox(NamedTuple):
    """How a command is started in its sandbox."""

    prefix: tuple[str, ...] = ()
    """Words before the command."""
    restrict_thread: Callable[[], None] | None = None
    """Called in the thread that starts the command, and does nothing else (`start_restricted`)."""
    descriptors: tuple[int, ...] = ()
    """Open files that the prefix takes over."""
    close: Callable[[], None] = lambda: None
    """Called once the command has been started."""


@cache
def find_mechanism() -> Mechanism | None:
    """Return the sandbox that works on this machine; None if there is none."""
    if platform.system() == "Darwin":
        return "sandbox-exec" if shutil.which("sandbox-exec", path="/usr/bin") else None
    if platform.system() != "Linux":
        return None
    if (program := find_bubblewrap()) is not None and _works(program):
        return "bubblewrap"
    has_landlock = landlock.abi_version() >= _LEAST_LANDLOCK and seccomp.is_available()
    return "landlock" if has_landlock else None


@cache
def find_bubblewrap() -> str | None:
    """Return where bubblewrap is, in a folder that only the system's administrator writes to."""
    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")


def prepare_sandbox(mechanism: Mechanism, policy: SandboxPolicy, cwd: str) -> PreparedSandbox:
    """Prepare the sandbox of one command."""
    match mechanism:
        case "bubblewrap":
            return _prepare_bubblewrap(policy, cwd)
        case "sandbox-exec":
            return PreparedSandbox(("/usr/bin/sandbox-exec", "-p", _sandbox_exec_profile(policy)))
        case "landlock":
            return _prepare_landlock(policy)


def _prepare_landlock(policy: SandboxPolicy) -> PreparedSandbox:
    sockets: seccomp.Sockets = "all" if policy.network else "none"
    calls = seccomp.make_filter(sockets=sockets, in_namespaces=False, times=policy.edits)
    ruleset = landlock.make_ruleset(policy)

    def restrict() -> None:
        landlock.restrict_self(ruleset)
        landlock.drop_capabilities()
        calls.restrict_self()

    return PreparedSandbox(restrict_thread=restrict, close=lambda: os.close(ruleset))


def _prepare_bubblewrap(policy: SandboxPolicy, cwd: str) -> PreparedSandbox:
    words = _bubblewrap_words(policy)
    if not seccomp.is_available():
        unshared = () if policy.network else ("--unshare-net",)
        return PreparedSandbox((*words, *unshared, "--chdir", cwd, "--"))
    # A network namespace does not keep a command from sockets in the file system (docker, ssh-agent). Where no socket
    # can be opened at all, the namespace is not needed: it costs 1 ms, under load 3. What edits may connect to itself.
    sockets: seccomp.Sockets = "all" if policy.network else "internet" if policy.edits else "none"
    unshared = ("--unshare-net",) if sockets == "internet" else ()
    code = os.memfd_create("unspool-filter")
    os.write(code, seccomp.make_filter(sockets=sockets, in_namespaces=True).code)
    os.lseek(code, 0, os.SEEK_SET)
    end = ("--seccomp", str(code), "--chdir", cwd, "--")
    return PreparedSandbox((*words, *unshared, *end), descriptors=(code,), close=lambda: os.close(code))


def _bubblewrap_words(policy: SandboxPolicy) -> list[str]:
    program = find_bubblewrap() or "bwrap"
    words = [program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in policy.writable:
        words += ["--bind", path, path]
    # After those that may be written: what is hidden may lie in one of them.
    for path in policy.hidden:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - a text
        # On the way to what is shown it can be passed through.
        mode = "0111" if any(shown.startswith(f"{path}/") for shown in policy.shown) else "0000"
        words += ["--perms", mode, "--tmpfs", path] if is_folder else ["--ro-bind", "/dev/null", path]
    for path in policy.shown:
        words += ["--ro-bind-try", path, path]
    return words


def _sandbox_exec_profile(policy: SandboxPolicy) -> str:
    """Return a profile in the language of `sandbox-exec`."""
    writable = " ".join(f"(subpath {_quote(path)})" for path in policy.writable)
    hidden = " ".join(f"(subpath {_quote(path)})" for path in policy.hidden)
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines.append(f'(allow file-write* {writable} (literal "/dev/null") (literal "/dev/tty"))')
    lines += [f"(deny file-read* {hidden})"] if hidden else []
    lines += [f"(allow file-read* (subpath {_quote(path)}))" for path in policy.shown]
    lines += [] if policy.network else ["(deny network*)"]
    return "\n".join(lines)


def _quote(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def make_limits(shell: str) -> str:
    """Return what a shell is to run first: it limits memory, the size of files and the number of processes."""
    is_bash = shell.endswith("bash")
    blocks = 1024 if is_bash else 512  # what `ulimit -f` counts in, also in busybox
    limits = {
        "c": 0,
        "f": _least_limit(resource.RLIMIT_FSIZE, _MOST_FILE) // blocks,
        "u" if is_bash else "p": _least_limit(resource.RLIMIT_NPROC, _MOST_PROCESSES),
    }
    if platform.system() == "Linux":  # macOS refuses a limit below what the system's libraries take
        limits["v"] = _least_limit(resource.RLIMIT_AS, _MOST_MEMORY) // 1024
    return " && ".join(f"ulimit -{option} {value}" for option, value in limits.items()) + " || exit 126; "


def _least_limit(kind: int, most: int) -> int:
    """Return a limit, or the one that holds for this process if that is less."""
    return min((value for value in (*resource.getrlimit(kind), most) if value != resource.RLIM_INFINITY), default=most)


def _works(program: str) -> bool:
    """Return whether bubblewrap can make a sandbox here."""
    words = (
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-pid",
        "--unshare-net",
        "--",
        "/bin/true",
    )
    try:
        run = subprocess.run([program, *words], capture_output=True, timeout=_TRIAL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return run.returncode == 0
