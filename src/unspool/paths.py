"""Makes paths from names: the config folder, project keys, session files, and unspool's own data folder.

Rules
  1. A name that came out of a file becomes part of a path only through `join_names`: one component, no separator, no
     NUL, not `.` or `..`.
  2. A folder's name is never decoded back into a path: the key is not reversible.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from unspool.errors import NotFound, Refused
from unspool.folders import data_folder_name

SESSION_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""`a4c7249`, `a73dda21296a5887d`, `acompact-1f2e3d`, `aprompt_suggestion-d883a2`, …"""

_KEY_LIMIT = 200


def config_folder(folder: str | None, environment: Mapping[str, str]) -> Path:
    """Return the config folder: the given one, else `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    if named := folder or environment.get("CLAUDE_CONFIG_DIR"):
        return Path(named).expanduser()
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / ".claude"


def resolve_existing(path: Path) -> Path:
    """Resolve the links of a path that the user named; it must exist."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise NotFound(f"file or folder not found: `{path}`", hint=_missing_hint(path)) from None


def is_config_folder(path: Path) -> bool:
    """Tell whether a folder is Claude Code's: it has `projects`. Another agent's folder is translated first."""
    return os.path.isdir(path / "projects")  # noqa: PTH112 - start-up: half as long as `Path.is_dir`


def drop_nested(roots: Iterable[Path]) -> list[Path]:
    """Return folders without those that are named twice or lie in another one, of which they are a part."""
    unique = dict.fromkeys(roots)
    return [root for root in unique if not any(parent in unique for parent in root.parents)]


def absolute_path(path: Path | str) -> Path:
    """Return an absolute path without `..`. It need not exist: nothing is read from disk."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`, `Path.resolve` follows links


def is_encodable(path: Path | str) -> bool:
    """Tell whether a path can be encoded as UTF-8: on Linux it may be any bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def project_key(cwd: str) -> str:
    """Return the name of the folder in `projects/` for a working folder, as Claude Code makes it.

    >>> project_key("/home/me/a_project.v2")
    '-home-me-a-project-v2'
    """
    # By UTF-16 code units, as JavaScript sees the text: a character outside the BMP becomes two dashes.
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    key = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(key) <= _KEY_LIMIT:
        return key
    number = 0
    for code in codes:  # Java's string hash, as 32-bit integers do it (seen in 2.1.325)
        number = (number * 31 + code + 2**31) % 2**32 - 2**31
    return f"{key[:_KEY_LIMIT]}-{_base36(abs(number))}"


@lru_cache(256)  # called with the same folder for every response in it
def project_name(cwd: str | None, key: str | None) -> str | None:
    """Return a project's name: the last part of its working folder, else its key.

    >>> project_name("/home/me/shop/", None)
    'shop'
    """
    return (cwd or "").replace("\\", "/").rstrip("/").rpartition("/")[2] or key


def session_file(config: Path, key: str, session_id: str) -> Path:
    """Return the path of a session file."""
    if not SESSION_ID.fullmatch(session_id):
        raise Refused(f"invalid session id `{session_id}`", hint="a session id is a UUID")
    return join_names(config / "projects", key, f"{session_id}.jsonl")


def agent_file(config: Path, key: str, session_id: str, agent_id: str) -> Path:
    """Return the path of a sub-agent's file (from 2.1.2 on)."""
    if not AGENT_ID.fullmatch(agent_id):
        raise Refused(f"invalid agent id `{agent_id}`")
    folder = session_file(config, key, session_id).with_suffix("")
    return join_names(folder, "subagents", f"agent-{agent_id}.jsonl")


def join_names(folder: Path, *names: str) -> Path:
    """Join names that came out of a file to a folder; each must be a plain name."""
    for name in names:
        if not name or name in {".", ".."} or any(mark in name for mark in "/\\\0"):
            raise Refused(f"invalid file name `{name}`")
    return folder.joinpath(*names)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _missing_hint(path: Path) -> str:
    if path.name == ".claude":
        return "name another folder with `--config-dir PATH`, or create sample data with `unspool demo DIR`"
    return "name an existing folder or file, or create sample data with `unspool demo DIR`"


def data_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return unspool's data folder: `$UNSPOOL_HOME`, else the place for such data on this system."""
    return Path(data_folder_name(environment, platform))
