"""The session a person means on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from unspool import home
from unspool.cli import output
from unspool.errors import NotFound
from unspool.paths import existing
from unspool.read.files import open_regular
from unspool.read.scan import Kind, Tree, scan


def find(name: str, config_dir: str | None) -> home.Session:
    """Return the session of a file, or the one in the config folder with this id, agent or title."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        return _by_file(existing(path))
    if is_path(name):
        raise NotFound(f"no such file: `{name}`", hint="a session can also be named by its id or title")
    return home.open(config_dir).session(name)


def every(config_dir: str | None) -> Iterator[home.Session]:
    """Yield the sessions of the config folder one at a time, so that none is held longer than needed."""
    opened = home.open(config_dir)
    with output.progress(sum(source.size for source in opened.tree.of(Kind.SESSION)), "reading") as advance:
        for session in opened.sessions():
            yield session
            advance(session.source.size)


def is_path(name: str) -> bool:
    """Tell a path from an id or a title."""
    return name.endswith(".jsonl") or (os.sep in name and " " not in name)


def _by_file(path: Path) -> home.Session:
    """Return the session of a file; its agents are those in the folder of its name, and those beside it."""
    with open_regular(path):
        pass
    inside, beside = path.with_suffix(""), sorted(path.parent.glob("agent-*.jsonl"))
    trees = [scan(path), *map(scan, beside), *([scan(inside)] if inside.is_dir() else [])]
    sources = {source.path: source for tree in trees for source in tree.sources}
    return home.Session(sources[path], home.Home(Tree(path, tuple(sources.values()))))
