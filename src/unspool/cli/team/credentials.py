"""Reads credentials from the file that `--env-file` names, again when it has changed."""

from __future__ import annotations

import os
from pathlib import Path

from unspool.cli import output
from unspool.errors import Unreadable, UnspoolError
from unspool.files import read_private


class CredentialsFile:
    """The variables of a file in the environment of this process. Those that were set before stay as they are."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._names: set[str] = set()
        """Variables that come from the file."""
        self._seen: tuple[int, ...] = ()

    def load(self) -> None:
        """Read the file, and replace what an earlier version of it has set."""
        if self._path is None:
            return
        self._seen = self._look()
        found = _read_variables(self._path)
        for name in self._names - found.keys():
            del os.environ[name]
        self._names = {name for name in found if name in self._names or name not in os.environ}
        os.environ.update({name: found[name] for name in self._names})

    def has_changed(self) -> bool:
        """Tell whether the file is another one than was read."""
        return self._path is not None and self._look() != self._seen

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether there is something new. A bad file changes nothing."""
        if not self.has_changed():
            return False
        try:
            self.load()
        except UnspoolError as error:
            output.warn(f"{error.message}; the credentials from before stay")
            return False
        return True

    def _look(self) -> tuple[int, ...]:
        assert self._path is not None
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)


def load_credentials(path: Path | None) -> None:
    """Add the variables of a file to the environment of this process; those that are set already stay."""
    CredentialsFile(path).load()


def _read_variables(path: Path) -> dict[str, str]:
    data = read_private(path, 1024 * 1024, "credentials")
    found = dict[str, str]()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.replace("_", "").isalnum():
            raise Unreadable(f"line {number} of `{path}` is not NAME=VALUE")
        found.setdefault(name, value.strip("\"'"))
    return found
