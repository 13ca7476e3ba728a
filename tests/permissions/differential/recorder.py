"""Run commands in real shells and record which files they open and change, what they execute and connect to.

The record is made by `strace -f --seccomp-bpf`: the kernel stops a process only at the system calls that are asked
for, and one strace runs hundreds of commands: 11 ms of processor time a run, with the shell and its programs. A library
that is preloaded would miss static programs and direct system calls; fanotify tells no attempts that failed.

Rules
  1. A run is one command in one shell. The driver opens a path that marks where a run begins, and waits for every
     process of it before the next, so what follows a mark belongs to that run.
  2. All of it runs in a sandbox of its own (`bwrap`), which does not hide what is tried: it keeps the machine whole.
  3. A path that was opened is recorded as the kernel resolved it (`strace -y`). One that could not be opened counts
     only if it was to be written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from tests.permissions.differential.planted_project import SECRET, PlantedProject
from tests.permissions.differential.shell_driver import MARK, SHELLS

EventKind: TypeAlias = Literal["read", "write", "look", "execute", "connect", "other"]
_OPEN = ("open", "openat", "openat2", "creat")
_EXECUTE = ("execve", "execveat")
_STATUS = ("stat", "lstat", "newfstatat")
"""Called for every library, too, which makes a run half as slow again: recorded where it tells something."""
_LOOK = (*_STATUS, "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat")
_CHANGE = (
    "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink",
    "symlinkat", "mknod", "mknodat", "chmod", "fchmodat", "chown", "lchown", "fchownat", "truncate", "utime", "utimes",
    "utimensat", "futimesat", "setxattr", "lsetxattr", "removexattr", "lremovexattr",
)  # fmt: skip
_FORK = ("clone", "clone3", "fork", "vfork")
_CHANGE_FOLDER = ("chdir", "fchdir")
_CONNECT = ("socket", "connect", "bind")
_OTHER = (
    "clock_settime", "settimeofday", "sethostname", "setdomainname", "mount", "umount2", "chroot", "unshare", "setns",
    "ptrace", "bpf", "init_module", "finit_module", "reboot", "io_uring_setup",
)  # fmt: skip
_TRACED = (*_FORK, *_CHANGE_FOLDER, *_OPEN, *_EXECUTE, *_LOOK, *_CHANGE, *_CONNECT, *_OTHER)
_LINE = re.compile(r"(\d+) +(.*)")
_UNFINISHED = re.compile(r"(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*)>)?(?: (\w+).*)?$")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


_CONFINED = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-uts",
             "--unshare-ipc", "--unshare-net", "--cap-drop", "ALL", "--die-with-parent")  # fmt: skip
"""Commands that a mutant of the judge allows are really run: nothing but the planted project is writable for them."""


class Run(NamedTuple):
    """A command to run in a shell."""

    command: str
    shell: str
    planted: PlantedProject


class Event(NamedTuple):
    """Something that a process did."""

    kind: EventKind
    path: str
    program: str
    """The file that the process was executing."""
    detail: str
    """The system call."""


class Record(NamedTuple):
    """What one run did."""

    events: tuple[Event, ...]
    was_stopped: bool
    """Whether it ran for too long."""
    left_process: bool
    """Whether a process of it ran on after the shell."""
    leaked: bool
    """Whether a secret is in its output."""


def find_missing_tools() -> list[str]:
    """Return which of strace and the shells are not here."""
    missing = [name for name in ("strace", "bwrap", *SHELLS) if shutil.which(name) is None]
    return missing or ([] if _can_confine() else ["a bwrap that works"])


def _can_confine() -> bool:
    command = [*_CONFINED, "strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def record_runs(runs: Sequence[Run], *, looks: bool = True, timeout: float = 5.0) -> list[Record]:
    """Run commands one after the other; return what each did. With `looks`, also of which files it asked the status."""
    names = _TRACED if looks else [name for name in _TRACED if name not in _STATUS]
    shells = {name: str(shutil.which(name)) for name in SHELLS}
    jobs = [
        {
            "command": run.command,
            "shell": run.shell,
            "path": shells[run.shell],
            "folder": str(run.planted.root),
            "environment": run.planted.environment,
            "secret": SECRET,
            "timeout": timeout,
        }
        for run in runs
    ]
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        listed, log = Path(folder, "jobs.json"), Path(folder, "log")
        listed.write_text(json.dumps(jobs))
        driver = Path(__file__).with_name("shell_driver.py")
        traced = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "0", "-e", "signal=none",
                  "-e", f"trace={','.join('?' + name for name in names)}", "-o", str(log)]  # fmt: skip
        writable = {str(run.planted.place) for run in runs} | {folder}
        confined = [*_CONFINED, *(word for path in sorted(writable) for word in ("--bind", path, path))]
        done = subprocess.run(
            [*confined, *traced, sys.executable, "-I", "-S", str(driver), str(listed)],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the driver failed: {done.stderr.decode(errors='replace')[-2000:]}")
        outcomes = json.loads(done.stdout)
        with log.open(encoding="utf-8", errors="surrogateescape") as lines:
            events = _group_events(_join_lines(lines), [str(run.planted.root) for run in runs])
    return [
        Record(tuple(found), outcome["stopped"], outcome["left"], outcome["leaked"])
        for found, outcome in zip(events, outcomes, strict=True)
    ]


def _join_lines(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Return the process and the call of each line, with calls that were interrupted put together."""
    begun: dict[str, str] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        process, call = match[1], match[2]
        if unfinished := _UNFINISHED.match(call):
            begun[process] = unfinished[1]
        elif resumed := _RESUMED.match(call):
            yield process, begun.pop(process, "") + resumed[1]
        else:
            yield process, call


def _group_events(calls: Iterator[tuple[str, str]], folders: list[str]) -> list[list[Event]]:
    """Return the events of each run; `folders` is where each begins."""
    runs: list[list[tuple[str, re.Match[str]]]] = [[] for _ in folders]
    current: list[tuple[str, re.Match[str]]] | None = None
    driver = ""
    for process, text in calls:
        driver = driver or process
        call = _CALL.match(text)
        if call is None:
            continue
        if process != driver and current is not None:
            current.append((process, call))
        elif mark := re.search(rf'"{MARK}(\d+)"', text):
            current = runs[int(mark[1])]
    return [list(_read_run(run, folder)) for run, folder in zip(runs, folders, strict=True)]


def _read_run(calls: list[tuple[str, re.Match[str]]], folder: str) -> Iterator[Event]:
    """Return the events of one run, each with the program of its process; `folder` is where it began."""
    parents = {call[3]: process for process, call in calls if call[1] in _FORK}
    programs: dict[str, str] = {}
    folders: dict[str, str] = {}
    for process, call in calls:
        if process not in programs:  # what the process that forked it executes, and where
            programs[process] = programs.get(parents.get(process, ""), "")
            folders[process] = folders.get(parents.get(process, ""), folder)
        if call[1] in _CHANGE_FOLDER and call[3] == "0":
            given = re.match(r"\d+<(.*)>", call[2])
            path = _unescape(given[1]) if given is not None else _first_path(call[2])
            folders[process] = os.path.realpath(os.path.join(folders[process], path))  # noqa: PTH118
        for event in _read_call(call, programs[process]):
            is_path = event.kind in ("write", "look", "execute") and not event.path.startswith(
                ("/", "pipe:", "socket:")
            )
            # A relative path of a call that names no folder.
            path = os.path.normpath(os.path.join(folders[process], event.path)) if is_path else event.path  # noqa: PTH118
            yield event._replace(path=path)
            if event.kind == "execute":
                programs[process] = path


def _read_call(call: re.Match[str], program: str) -> Iterator[Event]:
    """Return the events of a system call: none if it did nothing that counts."""
    name, arguments, result, opened = call[1], call[2], call[3], call[4]
    if name in _OPEN:
        is_write = name == "creat" or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)", arguments) is not None
        if is_write:
            yield Event("write", _unescape(opened) if opened else _first_path(arguments), program, call[0])
        elif opened is not None:
            yield Event("read", _unescape(opened), program, call[0])
    elif name in _EXECUTE:
        if result == "0":
            yield Event("execute", _first_path(arguments), program, call[0])
    elif name in _LOOK:
        if call[5] not in ("ENOENT", "ENOTDIR", "ELOOP"):  # `EINVAL`: it is there, and no link
            yield Event("look", _first_path(arguments), program, call[0])
    elif name in _CHANGE:
        for match in _PATH.finditer(arguments):
            yield Event("write", _join(match), program, call[0])
        if _PATH.search(arguments) is None and (fd := re.match(r"\d+<(.*?)>, NULL", arguments)):
            yield Event("write", _unescape(fd[1]), program, call[0])
    elif name in _CONNECT:
        yield Event("connect", arguments, program, call[0])
    elif name in _OTHER:
        yield Event("other", arguments, program, call[0])


def _first_path(arguments: str) -> str:
    match = _PATH.search(arguments)
    return _join(match) if match is not None else arguments


def _join(match: re.Match[str]) -> str:
    return os.path.normpath(os.path.join(_unescape(match[1] or ""), _unescape(match[2])))  # noqa: PTH118


def _unescape(text: str) -> str:
    """Return a text without the escapes of strace."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(lambda match: _decode(match[1]), text)
    return raw.encode("latin-1", errors="replace").decode("utf-8", errors="surrogateescape")


def _decode(escape: str) -> str:
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape[0] == "x" and len(escape) == 3:
        return chr(int(escape[1:], 16))
    return _LETTERS.get(escape, escape)
