"""Names to paths: the config folder, project keys, session files.

Rules
  1. A name that came out of a file becomes part of a path only through `inside`: one component, no separator, no
     NUL, not `.` or `..`.
  2. A folder's name is never decoded back into a path: the key is not reversible.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from unspool.errors import NotFound, Refused

SESSION_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""`a4c7249`, `a73dda21296a5887d`, `acompact-1f2e3d`, `aprompt_suggestion-d883a2`, …"""

_KEY_LIMIT = 200


def config_folder(given: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder to read: the one given, else `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    named = given or environment.get("CLAUDE_CONFIG_DIR")
    if named:
        return Path(named).expanduser()
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / ".claude"


def existing(path: Path) -> Path:
    """Return a path a person named with its links resolved; it must exist."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise NotFound(f"no such file or folder: `{path}`", hint=_hint(path)) from None


def absolute(path: Path | str) -> Path:
    """Return a path with its folder, and without `..`. It need not be there: nothing on the way is looked at."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`, `Path.resolve` follows links


def is_text(path: Path | str) -> bool:
    """Tell whether a path can be written down as text: on Linux it may be any bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def project_key(cwd: str) -> str:
    """Return the name of the folder in `projects/` for a working folder, as the program makes it.

    >>> project_key("/home/me/a_project.v2")
    '-home-me-a-project-v2'
    """
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    key = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(key) <= _KEY_LIMIT:
        return key
    number = 0
    for code in codes:  # Java's string hash, as 32-bit integers do it (seen in 2.1.325)
        number = (number * 31 + code + 2**31) % 2**32 - 2**31
    return f"{key[:_KEY_LIMIT]}-{_base36(abs(number))}"


@lru_cache(256)  # a folder's name is asked for with every response in it
def project_name(cwd: str | None, key: str | None) -> str | None:
    """Return a project's name: the last part of the folder it works in, else the key of its place.

    >>> project_name("/home/me/shop/", None)
    'shop'
    """
    return (cwd or "").replace("\\", "/").rstrip("/").rpartition("/")[2] or key


def session_file(config: Path, key: str, session_id: str) -> Path:
    """Return where a session of a project lies."""
    if not SESSION_ID.fullmatch(session_id):
        raise Refused(f"not a session id: `{session_id}`", hint="a session id is a UUID")
    return inside(config / "projects", key, f"{session_id}.jsonl")


def agent_file(config: Path, key: str, session_id: str, agent_id: str) -> Path:
    """Return where a sub-agent of a session lies (from 2.1.2 on)."""
    if not AGENT_ID.fullmatch(agent_id):
        raise Refused(f"not an agent id: `{agent_id}`")
    folder = session_file(config, key, session_id).with_suffix("")
    return inside(folder, "subagents", f"agent-{agent_id}.jsonl")


def inside(folder: Path, *names: str) -> Path:
    """Return `folder/name/…` for names that came out of a file; each must be a plain name."""
    for name in names:
        if not name or name in {".", ".."} or any(mark in name for mark in "/\\\0"):
            raise Refused(f"not a plain file name: `{name}`")
    return folder.joinpath(*names)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _hint(path: Path) -> str:
    if path.name == ".claude":
        return "`--config-dir PATH` reads another folder; `unspool demo DIR` writes one to try with"
    return "any folder or file will do; `unspool demo DIR` writes one to try with"


def data_folder(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where unspool keeps what is its own: `$UNSPOOL_HOME`, else where the system has such things."""
    if named := environment.get("UNSPOOL_HOME"):
        return Path(named).expanduser()
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    if platform == "darwin":
        return home / "Library" / "Application Support" / "unspool"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "unspool"
    shared = Path(environment.get("XDG_DATA_HOME") or "")
    return (shared if shared.is_absolute() else home / ".local" / "share") / "unspool"
