"""Reads credentials from the file that `--env-file` names."""

from __future__ import annotations

import os
from pathlib import Path

from unspool.errors import Unreadable
from unspool.files import read_private


def load_credentials(path: Path | None) -> None:
    """Add the variables of a file to the environment of this process; those that are set already stay."""
    if path is None:
        return
    data = read_private(path, 1024 * 1024, "credentials")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.replace("_", "").isalnum():
            raise Unreadable(f"line {number} of `{path}` is not NAME=VALUE")
        os.environ.setdefault(name, value.strip("\"'"))
