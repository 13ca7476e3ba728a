"""The browser that the tests drive: found where it is, else installed where a package manager has it.

`python -m tests.browser.chromium` is what `make test` runs first. It says in one line when there is none.

Rules
  1. `$UNSPOOL_CHROMIUM` wins. Then come the names under which systems have it, and where macOS puts applications.
  2. It is installed only as root, or where `sudo` asks for no password. Nothing is ever downloaded but by the
     system's own package manager.
  3. Where `CI` is `true` a missing browser is a failure, of this step and of every test that needs one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Program(NamedTuple):
    """A browser: how it is called, what names another one, and under which names systems and their packages have it."""

    title: str
    variable: str
    names: tuple[str, ...]
    applications: tuple[str, ...]
    packages: Mapping[str, str]
    """By package manager."""


CHROMIUM = Program(
    "Chromium",
    "UNSPOOL_CHROMIUM",
    ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    (
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ),
    {"apt-get": "chromium", "dnf": "chromium", "pacman": "chromium"},
)
MANAGERS = {
    "apt-get": (("update", "-qq"), ("install", "-y", "-qq")),
    "dnf": (("install", "-y", "-q"),),
    "pacman": (("-Sy", "--noconfirm"),),
}
"""Package managers, and what each is asked; the last question ends with the name of the package."""

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*, EXCLUDE localhost",
)
"""No name but those of this machine resolves: a page that asks elsewhere gets nothing."""


def find(environment: Mapping[str, str] = os.environ, program: Program = CHROMIUM) -> Path | None:
    """Return where the browser is."""
    if named := environment.get(program.variable):
        return Path(named) if os.access(named, os.X_OK) else None
    found = (shutil.which(name, path=environment.get("PATH", "")) for name in program.names)
    there = (name for name in program.applications if os.access(name, os.X_OK))
    first = next((name for name in (*found, *there) if name), None)
    return Path(first) if first else None


def flags() -> list[str]:
    """Return what to start it with; root has no sandbox."""
    return [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else [*FLAGS]


def install(environment: Mapping[str, str], *, root: bool, program: Program = CHROMIUM) -> str:
    """Have the system install it; return what went wrong, in a few words."""
    path = environment.get("PATH", "")
    manager = next((name for name in MANAGERS if shutil.which(name, path=path)), None)
    if manager is None:
        return "no package manager here is known to have one"
    before = [] if root else ["sudo", "-n"]
    if before and (not shutil.which("sudo", path=path) or _run([*before, "true"], environment)):
        return f"`{manager}` needs root to install one"
    *first, last = MANAGERS[manager]
    problem = ""
    for arguments in (*first, (*last, program.packages[manager])):
        problem = _run([*before, manager, *arguments], environment)
    return f"`{manager}` could not install one: {problem}" if problem else ""


def ensure(program: Program) -> int:
    """Find a browser or install it; return an exit code."""
    if find(program=program):
        return 0
    named = os.environ.get(program.variable)
    if named:
        problem = f"`{named}` cannot be run"
    else:
        print(f"Installing {program.title} for the tests ...", file=sys.stderr)
        problem = install(os.environ, root=os.geteuid() == 0, program=program)
        if not problem and find(program=program):
            return 0
    required = is_required()
    outcome = "and `CI` is set, so this is a failure" if required else "the tests that need one are skipped"
    reason = problem or "what was installed is not where it should be"
    print(f"No {program.title}: {reason}; {outcome}.", file=sys.stderr)
    return int(required)


def main() -> int:
    """Find Chromium or install it; return an exit code."""
    return ensure(CHROMIUM)


def is_required(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether doing without is a failure."""
    return environment.get("CI") == "true"


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """Run a command; return its last words if it failed."""
    quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, env=quiet, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=900
        )
    except subprocess.TimeoutExpired:
        return "it took more than 15 minutes"
    except OSError as error:
        return str(error)
    words = done.stderr.split("\n")
    return next((line.strip() for line in reversed(words) if line.strip()), "failed") if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
