"""The databases that tests of `lake sink` start, installed where a package manager has them.

`python -m tests.collect.sinks.tools` is what `make test` runs first where `CI` is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.collect.sinks.databases import find_postgres

PACKAGES = ("postgresql", "clickhouse-server")
"""Of Debian. Both are started by the tests, as a user of no rights, not by the system."""


def main() -> int:
    """Install what is missing; say in one line what could not be."""
    is_there = (find_postgres() is not None, shutil.which("clickhouse-server") is not None)
    missing = [package for package, found in zip(PACKAGES, is_there, strict=True) if not found]
    if not missing or os.environ.get("CI") != "true":
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(
            f"The tests of sinks lack {', '.join(missing)}; only root can install them, with apt-get.", file=sys.stderr
        )
        return 0
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # One by one: another distribution may have one of them only.
    for arguments in (
        ["update", "-qq"],
        *(["install", "-y", "-qq", "--no-install-recommends", one] for one in missing),
    ):
        subprocess.run(["apt-get", *arguments], env=quiet, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
