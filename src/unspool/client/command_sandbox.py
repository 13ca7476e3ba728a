"""The sandbox of a chat's commands: which ones run in it, and how each is started.

Rules
  1. A command that the permission check allowed by itself runs in a sandbox: one that only reads may write nothing, one
     that edits may write in the folders worked in. Neither has a network.
  2. A person's yes, or rules that a person wrote for all of a command, are enough without a sandbox, unless the mode is
     `require`. A command of which a rule allows a part and the check the rest runs in a sandbox in which it may edit.
     A rule that a person kept as one for the sandbox allows its commands in the sandbox only.
  3. Where no sandbox works, the check allows no command by itself, unless the mode is `off`: then a person said so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from unspool import sandbox  # its door is lazy: a chat without commands loads no more than that
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.client.tool_context import Workspace
    from unspool.sandbox import Mechanism, PreparedSandbox

SandboxMode = Literal["on", "off", "require"]
SandboxLevel = Literal["read", "edit"]
"""What a sandboxed command may do: only read, or also write in the folders worked in."""

_WALLS = (
    "permission denied", "operation not permitted", "read-only file system", "network is unreachable", "eacces",
    "eperm", "could not resolve host", "name resolution", "getaddrinfo", "enetunreach", "connection refused",
    "econnrefused", "couldn't connect", "failed to connect",
)  # fmt: skip
"""What programs say when the sandbox is why they failed."""


class SandboxedStart(NamedTuple):
    """How one command is started in its sandbox."""

    prepared: PreparedSandbox
    environment: dict[str, str]
    temporary: Path
    """A folder of its own, which the caller removes."""


class CommandSandbox:
    """The sandbox of one chat and its subagents."""

    def __init__(
        self, mode: SandboxMode, environment: Mapping[str, str], config: Path, mechanism: Mechanism | None = None
    ) -> None:
        """Make a sandbox by a mechanism; None: the one that works on this machine."""
        self.mode = mode
        self._environment = environment
        self._config = config
        self._mechanism = mechanism

    def find_mechanism(self) -> Mechanism | None:
        """Return what makes the sandbox; None if nothing can."""
        return self._mechanism or sandbox.find_mechanism()

    @property
    def problem(self) -> str | None:
        """Why a command that nobody approved cannot run; None if it can."""
        if self.mode == "off" or self.find_mechanism() is not None:
            return None
        return "no sandbox works on this machine (bubblewrap, or Linux 6.2 with Landlock)"

    def level_of(self, allowed: SandboxLevel | None) -> SandboxLevel | None:
        """Return the sandbox that a command runs in; None: in none.

        `allowed` is what the permission check allowed by itself; None: a person or a rule approved the command.
        """
        if self.mode == "off":
            return None
        return "edit" if self.mode == "require" and allowed is None else allowed

    def prepare(self, level: SandboxLevel, workspace: Workspace, cwd: Path, given: Mapping[str, str]) -> SandboxedStart:
        """Prepare the sandbox of a command; `given` is the environment that it would have outside."""
        import tempfile  # loads `random` and `shutil`, which a chat without commands does not need

        mechanism = self.find_mechanism()
        if mechanism is None:
            raise OSError(0, self.problem or "no sandbox works on this machine")
        temporary = Path(tempfile.mkdtemp(prefix="unspool-"))
        policy = sandbox.make_policy(
            home=self._environment.get("HOME"),
            own=(self._config, data_folder(self._environment)),
            temporary=temporary,
            project=(workspace.root, *workspace.added),
            results=workspace.side_folder,
            edits=level == "edit",
        )
        prepared = sandbox.prepare_sandbox(mechanism, policy, os.fspath(cwd))
        return SandboxedStart(prepared, sandbox.make_sandbox_environment(given, temporary), temporary)

    def describe(self) -> list[str]:
        """Return in words what holds here."""
        mechanism = self.find_mechanism()
        lines = [f"sandbox: {self.mode}"]
        if mechanism is None:
            return [
                *lines,
                "none works on this machine: unspool asks before every command that no rule allows, also `ls`",
            ]
        lines.append(f"made by: {sandbox.MECHANISM_NAMES[mechanism]}")
        if self.mode == "off":
            return [*lines, "switched off: read-only commands run without it"]
        lines.append("read-only commands: no writing, no network, no keys or credentials, a minimal environment")
        lines.append("commands that `acceptEdits` allows: the same, but they can write in the working folders")
        what = "in the same sandbox" if self.mode == "require" else "without a sandbox"
        lines.append(f"commands that you allow, or rules for each of their parts: {what}")
        return [*lines, "commands that you always allow in the sandbox: they can write in the working folders"]


def explain_failure(level: SandboxLevel, output: str) -> str:
    """Return a note for a command that failed in its sandbox, if that may be the reason; else nothing."""
    if not any(words in output.lower() for words in _WALLS):
        return ""
    could = "could only read" if level == "read" else "could write in the working folders only"
    return (
        f"\n\nThis command ran in a sandbox: it {could}, had no network, and did not see keys and credentials. "
        "If that is why it failed, call Bash again with `dangerouslyDisableSandbox: true`; the user is asked then."
    )
