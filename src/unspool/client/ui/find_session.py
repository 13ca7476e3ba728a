"""Which session a person means: a name, an id, a title or a file in, its file out.

Rules
  1. Sessions of the folder one works in come first; an id or a title of another folder is found too.
  2. The newest session is the one whose file changed last, of those that have a conversation in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool import home
from unspool.errors import NotFound
from unspool.home import Home, Session
from unspool.paths import SESSION_ID, absolute, project_key
from unspool.read.scan import scan


class Listed(NamedTuple):
    """A session to choose."""

    path: Path
    id: str
    title: str
    modified: int
    """In nanoseconds since 1970."""
    turns: int


def named(name: str, config: Path, cwd: Path) -> Path:
    """Return the file of the session that is meant."""
    given = Path(name).expanduser()
    if name.endswith(".jsonl") and given.is_file():
        return absolute(given)
    if SESSION_ID.fullmatch(name):
        near = _project(config, cwd) / f"{name.lower()}.jsonl"
        if near.is_file():
            return near
    if not config.is_dir():
        raise NotFound(f"no such session: `{name}`", hint=f"there is no config folder: `{config}`")
    if _project(config, cwd).is_dir():
        try:
            return Home(scan(_project(config, cwd))).session(name).path
        except NotFound:
            pass
    return home.open(config).session(name).path


def newest(config: Path, cwd: Path) -> Path:
    """Return the file of the session of a folder that was worked in last."""
    for session in _sessions(config, cwd):
        if session.turns:
            return session.path
    raise NotFound(f"there is no session to continue in `{cwd}`", hint="without `--continue` a new one begins")


def listed(config: Path, cwd: Path, limit: int = 50) -> list[Listed]:
    """Return the sessions of a folder, the newest first."""
    found = []
    for session in _sessions(config, cwd):
        if session.turns:
            title = session.title or session.id
            found.append(Listed(session.path, session.id, title, session.source.modified, len(session.turns)))
        if len(found) == limit:
            break
    return found


def read(path: Path) -> Session:
    """Return the session of a file."""
    return next(Home(scan(path)).sessions())


def _sessions(config: Path, cwd: Path) -> Iterator[Session]:
    folder = _project(config, cwd)
    if folder.is_dir():
        yield from (one for one in Home(scan(folder)).sessions() if SESSION_ID.fullmatch(one.path.stem))


def _project(config: Path, cwd: Path) -> Path:
    return config / "projects" / project_key(str(cwd.resolve()))
