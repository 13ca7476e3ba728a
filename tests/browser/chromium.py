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

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
MANAGERS = {
    "apt-get": (("update", "-qq"), ("install", "-y", "-qq", "chromium")),
    "dnf": (("install", "-y", "-q", "chromium"),),
    "pacman": (("-Sy", "--noconfirm", "chromium"),),
}
"""Package managers, and what each is asked for."""

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


def find(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the browser is."""
    if named := environment.get("UNSPOOL_CHROMIUM"):
        return Path(named) if os.access(named, os.X_OK) else None
    found = (shutil.which(name, path=environment.get("PATH", "")) for name in NAMES)
    there = (name for name in APPLICATIONS if os.access(name, os.X_OK))
    first = next((name for name in (*found, *there) if name), None)
    return Path(first) if first else None


def flags() -> list[str]:
    """Return what to start it with; root has no sandbox."""
    return [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else [*FLAGS]


def install(environment: Mapping[str, str], *, root: bool) -> str:
    """Have the system install it; return what went wrong, in a few words."""
    path = environment.get("PATH", "")
    manager = next((name for name in MANAGERS if shutil.which(name, path=path)), None)
    if manager is None:
        return "no package manager here is known to have one"
    before = [] if root else ["sudo", "-n"]
    if before and (not shutil.which("sudo", path=path) or _run([*before, "true"], environment)):
        return f"`{manager}` needs root to install one"
    problem = ""
    for arguments in MANAGERS[manager]:
        problem = _run([*before, manager, *arguments], environment)
    return f"`{manager}` could not install one: {problem}" if problem else ""


def main() -> int:
    """Find it or install it; return an exit code."""
    if find():
        return 0
    named = os.environ.get("UNSPOOL_CHROMIUM")
    if named:
        problem = f"`{named}` cannot be run"
    else:
        print("Installing Chromium for the tests ...", file=sys.stderr)
        problem = install(os.environ, root=os.geteuid() == 0)
        if not problem and find():
            return 0
    required = is_required()
    outcome = "and `CI` is set, so this is a failure" if required else "the tests that need one are skipped"
    print(f"No Chromium: {problem or 'what was installed is not where it should be'}; {outcome}.", file=sys.stderr)
    return int(required)


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
