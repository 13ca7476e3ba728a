"""What a sandboxed command may do: which folders it may write, what it must not read, whether it has a network.

Rules
  1. A command that only reads writes nothing but its own temporary folder. One that edits writes the project and the
     folders that were added to it, too.
  2. Keys and credentials are not read, whatever else may be: those of ssh, clouds and package registries, and the
     settings of Claude Code and unspool.
  3. The environment is a short list of variables. No key is in it.
  4. A policy is made anew for each command: what is there to hide may have changed. It takes about 0.1 ms.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/unspool", ".claude", ".claude.json",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
    ".gradle/gradle.properties", ".password-store",
    ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", ".terraform.d",
    ".pgpass", ".my.cnf", ".vault-token", ".boto", ".s3cfg", ".databrickscfg", ".huggingface/token",
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", "Library/Keychains",
)  # fmt: skip
"""Files and folders in the home folder that hold keys, or what somebody typed."""
_PASSED_VARIABLE = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLORTERM|COLUMNS|LINES|NO_COLOR|CLICOLOR|"
    r"CLAUDECODE|GIT_EDITOR|SYSTEMROOT|UNSPOOL_COMMAND"
)


class SandboxPolicy(NamedTuple):
    """What one sandboxed command may do."""

    writable: tuple[str, ...] = ()
    """Folders, without links in them."""
    hidden: tuple[str, ...] = ()
    """Files and folders that are not read, without links in them."""
    shown: tuple[str, ...] = ()
    """Folders that are read though they lie in a hidden one."""
    network: bool = False
    edits: bool = False
    """Whether it is one that edits: it also changes the times of files, and connects to itself where that is safe."""


def make_policy(
    *, home: str | None, own: Iterable[Path], results: Path, temporary: Path, project: Iterable[Path], edits: bool
) -> SandboxPolicy:
    """Return the policy of a command.

    `own` are the config folder and unspool's data folder, `results` the folder in it with long results of the session,
    `project` the folders worked in; `edits` says whether those may be written.
    """
    folders = [os.path.realpath(folder) for folder in project]
    places = (*_find_secrets(home), *map(str, own))
    found = {os.path.realpath(path) for path in places if os.path.exists(path)}  # noqa: PTH110
    # A project inside of a hidden folder is still worked in; one that contains it does not show it.
    hidden = sorted(path for path in found if not any(f"{folder}/".startswith(f"{path}/") for folder in folders))
    writable = (os.path.realpath(temporary), *(folders if edits else ()))
    return SandboxPolicy(writable, tuple(hidden), (os.path.realpath(results),), edits=edits)


def _find_secrets(home: str | None) -> Iterator[str]:
    """Yield the paths in a home folder that may hold keys."""
    if not home:
        return
    try:
        # Most of them are not there, and asking for each would take longer than the rest.
        names: set[str] | None = {*os.listdir(home)}  # noqa: PTH208 - this runs before each command
    except OSError:
        names = None
    for secret in _SECRETS:
        if names is None or secret.partition("/")[0] in names:
            yield f"{home}/{secret}"


def make_sandbox_environment(environment: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """Return the variables that a sandboxed command sees."""
    passed = {name: value for name, value in environment.items() if _PASSED_VARIABLE.fullmatch(name)}
    return {**passed, "TMPDIR": str(temporary), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
