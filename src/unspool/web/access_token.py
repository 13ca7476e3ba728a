"""Reads the token that scripts send to the server: from a file that only the user can read, or from the environment.

It never stands in the arguments of a process, which every user of the machine can list.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from unspool.errors import Refused, UsageError
from unspool.files import create_atomically, open_with_status, raise_unwritable

TOKEN_VARIABLE: Final = "UNSPOOL_TOKEN"
MIN_TOKEN_LENGTH: Final = 32
"""Characters that a token of the user's own must have."""
_MAX_TOKEN_LENGTH: Final = 1024


def take_token(file: str | None, environment: MutableMapping[str, str]) -> str | None:
    """Return the token of a file, made if there is none, else that of the environment, which is removed from it."""
    # Removed: child processes, the browser among them, would inherit it.
    inherited = environment.pop(TOKEN_VARIABLE, None)
    if file is not None:
        return check_token(_read_token(Path(file)), f"`{file}`")
    return check_token(inherited, TOKEN_VARIABLE) if inherited else None


def check_token(token: str, source: str) -> str:
    """Return a token that is long enough and can be sent in a header; raise `UsageError` for any other."""
    if not MIN_TOKEN_LENGTH <= len(token) <= _MAX_TOKEN_LENGTH:
        raise UsageError(
            f"the token in {source} must have at least {MIN_TOKEN_LENGTH} characters",
            hint="create one with `--token-file NEWFILE`",
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise UsageError(f"the token in {source} must be one word of ASCII characters")
    return token


def _read_token(path: Path) -> str:
    if not os.path.lexists(path):
        token = secrets.token_urlsafe(32)
        with raise_unwritable(f"cannot write `{path}`"):
            create_atomically(path, [f"{token}\n".encode()])
        return token
    descriptor, status = open_with_status(path)
    try:
        if status.st_mode & 0o077:
            raise Refused(f"other users can read the token in `{path}`", hint=f"run `chmod 600 {path}`")
        data = os.read(descriptor, _MAX_TOKEN_LENGTH + 2)
    finally:
        os.close(descriptor)
    return data.decode("utf-8", "replace").strip()
