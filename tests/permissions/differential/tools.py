"""The programs that the differential fuzz needs, installed where a package manager has them.

`python -m tests.permissions.differential.tools` is what `make test` runs first where `CI` is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {"strace": "strace", "zsh": "zsh", "bwrap": "bubblewrap", "rg": "ripgrep", "tree": "tree", "jq": "jq"}
"""Programs, and the packages of Debian that have them. Without the last three only their own tables are not tried."""


def main() -> int:
    """Install what is missing; say in one line what could not be."""
    missing = [package for name, package in PACKAGES.items() if shutil.which(name) is None]
    if not missing or os.environ.get("CI") != "true":
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(
            f"The fuzz of the permission judge lacks {', '.join(missing)}; only root can install them, with apt-get.",
            file=sys.stderr,
        )
        return 0
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", *arguments], env=quiet, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
