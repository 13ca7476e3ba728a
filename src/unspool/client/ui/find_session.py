"""Finds the session to resume by its id, title or file, or as the newest of the working folder.

Rules
  1. Sessions of the working folder come first; an id or a title in another folder is found too.
  2. The newest session is the one whose file changed last, of those that have at least one turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unspool import home
from unspool.errors import NotFound
from unspool.home import Home, Session
from unspool.paths import SESSION_ID, absolute_path, project_key
from unspool.read import scan


def find_session_file(name: str, config: Path, cwd: Path) -> Path:
    """Return the session file that a path, an id or a title names."""
    path = Path(name).expanduser()
    if name.endswith(".jsonl") and path.is_file():
        return absolute_path(path)
    if SESSION_ID.fullmatch(name):
        local = _project_folder(config, cwd) / f"{name.lower()}.jsonl"
        if local.is_file():
            return local
    if not config.is_dir():
        raise NotFound(f"no session matches `{name}`", hint=f"the config folder `{config}` does not exist")
    # The same title may exist in several folders: that of the working folder is meant.
    if _project_folder(config, cwd).is_dir():
        try:
            return Home(scan(_project_folder(config, cwd))).session(name).path
        except NotFound:
            pass
    return home.open(config).session(name).path


def find_newest_session(config: Path, cwd: Path) -> Path:
    """Return the file of the newest session of a working folder."""
    for session in list_sessions(config, cwd):
        return session.path
    raise NotFound(f"no session to continue in `{cwd}`", hint="start a new session without `--continue`")


def list_sessions(config: Path, cwd: Path) -> Iterator[Session]:
    """Yield the sessions of a working folder that have at least one turn, the newest first."""
    folder = _project_folder(config, cwd)
    if folder.is_dir():
        for session in Home(scan(folder)).sessions():
            if SESSION_ID.fullmatch(session.path.stem) and session.turns:
                yield session


def read_session(path: Path) -> Session:
    """Read a session file."""
    return next(Home(scan(path)).sessions())


def _project_folder(config: Path, cwd: Path) -> Path:
    return config / "projects" / project_key(str(cwd.resolve()))
