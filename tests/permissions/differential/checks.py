"""Judge commands, run those that are allowed, and compare what they did with what the judge said.

Rules
  1. A command may read what the judge named: files, names in folders, and files below the folders that it searches.
     Besides, every program reads libraries, locales and the like, and a few read more of the system (`ps`: /proc).
  2. It may write what the judge named: in `default` nothing but `/dev/null` and its own output.
  3. It may execute the programs that the judge named, as `PATH` finds them outside of the project, and what those are
     known to run. It opens no connection, leaves no process behind and prints no secret.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.permissions.differential.planted_project import PlantedProject
from tests.permissions.differential.recorder import Event, Record, Run, record_runs
from tests.permissions.differential.shell_driver import SHELLS
from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.tool_context import ToolContext, Workspace
from unspool.permissions import CallCheck, RuleDecision, RuleSet, decide_call
from unspool.permissions.call_check import CommandAccess

_SYSTEM_FILES = re.compile(
    r"/(usr/)?lib(32|64|x32)?/.*|/usr/share/.*|/usr/local/(lib|share)/.*|/etc/ld\.so\..*|/etc/(locale\.alias|localtime|"
    r"nsswitch\.conf|zsh/zshenv|magic|ssl/openssl\.cnf|java.*|python3.*|perl.*|services)|/dev/(null|tty|urandom)|"
    r"/proc/(filesystems|cpuinfo|meminfo|stat|uptime|loadavg|version|mounts|sys/.*)|"
    r"/proc/\d+/(maps|mountinfo|mounts|cgroup|loginuid|status|stat|coredump_filter|task/\d+/comm)|/sys/(devices/system|fs/cgroup|kernel/mm)/?.*|"
    r"pipe:.*|/memfd:.*|/dev/pts/.*|anon_inode:.*"
)
"""What every program may read: libraries, locales, numbers about the system."""
_USERS = re.compile(r"/etc/(passwd|group|hosts|host\.conf|resolv\.conf|gai\.conf|hostname)")
_MORE_SYSTEM_FILES = {
    **dict.fromkeys(("ls", "dir", "vdir", "stat", "find", "id", "whoami", "groups", "logname", "git", "tree", "rg",
                     "bash", "zsh", "dash", "hostname", "df", "file", "java", "node", "curl", "pip", "pip3",
                     "python3"), _USERS),
    "ps": re.compile(r"/etc/(passwd|group)|/proc|/proc/\d+/(stat|status|cmdline|wchan|environ)|/proc/tty/.*|/dev/?.*"),
    **dict.fromkeys(("free", "uptime", "nproc"), re.compile(r"/proc/.*|/(var/)?run/utmp|/(var/)?run/systemd/.*")),
    **dict.fromkeys(("tty", "who", "logname"), re.compile(r"/dev/?.*|/(var/)?run/utmp|/proc/\d+/loginuid")),
    "locale": re.compile(r"/etc/.*"),
    "which": re.compile(r"/usr/bin/which.*|/usr/(local/)?bin/.*"),
}  # fmt: skip
_HELPERS = {
    "egrep": ("grep",), "fgrep": ("grep",), "which": ("sh", "dash"), "pip": ("python3",), "pip3": ("python3",),
    "shasum": ("perl",), "node": (), "python": ("python3",), "psql": ("perl",),
}  # fmt: skip
"""Programs that are scripts, and what those run."""
_LOOKING = frozenset({"test", "[", "find", "readlink", "realpath", "du", "date", "which", "type", "command"})
_IGNORE_FILES = re.compile(r".*/\.(gitignore|ignore|rgignore)|.*/\.git/info/exclude")
_OWN_OUTPUT = re.compile(
    r"/memfd:.*|pipe:.*|/dev/(null|tty|stdout|stderr|fd/[12])|/proc/self/fd/[12]|/proc/\d+/task/\d+/comm"
)
_NAME_SERVICE = re.compile(r'.*\bAF_UNIX, SOCK_STREAM.*|.*sun_path="/(var/)?run/(nscd|systemd/userdb)/.*')


class Violation(NamedTuple):
    """Something that a command did and the judge did not say."""

    command: str
    shell: str
    what: str


class RunOutcome(NamedTuple):
    """What came of running commands."""

    violations: list[Violation]
    runs: int
    stopped: int
    """How many runs took too long."""


class Judged(NamedTuple):
    """A command that is allowed, and what it may do."""

    command: str
    access: CommandAccess
    planted: PlantedProject


@functools.lru_cache(maxsize=64)
def _make_context(planted: PlantedProject) -> ToolContext:
    config = planted.place / "config"
    return ToolContext(Workspace(config, config / "projects" / "p", "s", planted.root), planted.environment)


def judge(planted: PlantedProject, command: str, mode: str = "default") -> RuleDecision:
    """Return what is decided about a command in a planted project, without any rule."""
    check = CallCheck(RuleSet(), PathsOnDisk(_make_context(planted)), mode=mode, trusted=planted.trusted)
    return decide_call(check, "Bash", {"command": command})[0]


def judge_allowed(planted: PlantedProject, command: str, mode: str = "default") -> Judged | None:
    """Return what an allowed command may do; None if it is not allowed."""
    decision = judge(planted, command, mode)
    if decision.behaviour != "allow":
        return None
    return Judged(command, decision.access or CommandAccess(), planted)


def run_allowed(judged: Sequence[Judged], shells: Sequence[str] = tuple(SHELLS)) -> RunOutcome:
    """Run commands in each shell, and compare what they did with what they may."""
    unfit = [each for each in judged if not can_be_given(each.command)]
    found = [Violation(each.command, "any", "no shell can be given this text") for each in unfit]
    fit = [each for each in judged if can_be_given(each.command)]
    stopped = 0
    for looks in (False, True):
        runs = [(each, shell) for each in fit if looks == _needs_looks(each) for shell in shells]
        if not runs:
            continue
        records = record_runs([Run(each.command, shell, each.planted) for each, shell in runs], looks=looks)
        for (each, shell), record in zip(runs, records, strict=True):
            found += [Violation(each.command, shell, what) for what in find_violations(each, shell, record)]
            stopped += record.was_stopped
    return RunOutcome(found, len(fit) * len(shells), stopped)


def _needs_looks(judged: Judged) -> bool:
    """Return whether a command has programs that ask for the status of files without opening them."""
    return not _LOOKING.isdisjoint(judged.access.programs)


def can_be_given(command: str) -> bool:
    """Return whether a shell can be given a command: not with a null or with half a character in it."""
    try:
        return b"\0" not in command.encode()
    except UnicodeEncodeError:
        return False


def find_violations(judged: Judged, shell: str, record: Record) -> list[str]:
    """Return what a run did and may not, in words."""
    found = ["a process ran on"] if record.left_process else []
    found += ["a secret was printed"] if record.leaked else []
    programs = _may_execute(judged, shell)
    for event in record.events:
        if not _is_allowed(event, judged, programs):
            path = re.sub(r"^/proc/\d+/", "/proc/PID/", event.path)
            found.append(f"{event.kind} {path} by {event.program or shell}")
    return list(dict.fromkeys(found))


def _is_allowed(event: Event, judged: Judged, programs: frozenset[str]) -> bool:
    match event.kind:
        case "read":
            return _may_read(event, judged, programs)
        case "write":
            return _may_write(event, judged)
        case "look":
            if event.path == judged.planted.environment["OLDPWD"] and Path(event.program).name == "bash":
                return True  # bash looks whether it is a folder when it starts
            if Path(event.program).name in ("ls", "dir", "vdir") and event.path in _list_link_targets(judged.planted):
                return True  # `ls -F` tells what a link leads to: whether it is a folder, no more
            secrets = judged.planted.secrets
            is_secret = any(_is_below(event.path, secret) for secret in secrets)
            return not is_secret or any(_is_below(event.path, path) for path in judged.access.reads)
        case "execute":
            return os.path.realpath(event.path) in programs
        case "connect":
            is_netlink = "AF_NETLINK" in event.path
            return is_netlink or _NAME_SERVICE.match(event.path) is not None
        case _:
            return False


@functools.lru_cache(maxsize=64)
def _list_link_targets(planted: PlantedProject) -> frozenset[str]:
    return frozenset(str(path.readlink()) for path in planted.root.rglob("*") if path.is_symlink())


def _may_read(event: Event, judged: Judged, programs: frozenset[str]) -> bool:
    path, access = event.path, judged.access
    if path in access.reads or path in programs or _SYSTEM_FILES.fullmatch(path):
        return True
    name = Path(event.program).name
    more = _MORE_SYSTEM_FILES.get(re.sub(r"[\d.]+$", "", name), _MORE_SYSTEM_FILES.get(name))
    if (more is not None and more.fullmatch(path)) or (not name and _USERS.fullmatch(path)):
        return True
    if any(_is_below(path, tree) for tree in access.trees):
        return True
    if name in ("rg", "tree") and _IGNORE_FILES.fullmatch(path):
        return True  # they go up to the root for those
    # A shell lists a folder to expand a pattern in it, zsh those above it for `pwd -P`, `find` the one that it is in.
    if name in (*SHELLS, "") and _is_below(str(judged.planted.root), path):
        return True
    is_inside = _is_below(path, str(judged.planted.root))
    return is_inside and os.path.isdir(path)  # noqa: PTH112


def _may_write(event: Event, judged: Judged) -> bool:
    path, access = event.path, judged.access
    if _OWN_OUTPUT.fullmatch(path) or (path.startswith("/dev/pts/") and "tty" in event.detail):
        return True
    if path.startswith(judged.planted.environment["TMPDIR"]):
        return True  # `tac` and `sort` keep there what does not fit; in the sandbox the folder is a private one
    if event.detail.endswith("EISDIR (Is a directory)"):
        return True  # `shasum` tries to open its files for writing, and does not write
    # git refreshes its index when it looks at files; the sandbox makes that a no-op.
    index = str(judged.planted.root / ".git" / "index")
    if Path(event.program).name == "git" and path in (index, f"{index}.lock"):
        return True
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
    return path in access.writes or real in access.writes or any(_is_below(write, real) for write in access.writes)


def _may_execute(judged: Judged, shell: str) -> frozenset[str]:
    """Return the programs that a command may execute, and the scripts that these are."""
    names = {shell}
    for program in judged.access.programs:
        name = program.rpartition("/")[2]
        names |= {program, *_HELPERS.get(name, ())}
    return frozenset(path for name in names if (path := _find_program(name, judged.planted)) is not None)


def _find_program(name: str, planted: PlantedProject) -> str | None:
    search = ":".join(
        entry for entry in planted.environment["PATH"].split(":") if not _is_below(entry, str(planted.place))
    )
    found = shutil.which(name, path=search)
    return os.path.realpath(found) if found is not None else None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
