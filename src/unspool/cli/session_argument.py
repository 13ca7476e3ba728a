"""Finds the session that a command-line argument names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unspool.cli import output, store_access
from unspool.errors import NotFound
from unspool.files import open_regular
from unspool.home import Home, Session
from unspool.paths import absolute_path, resolve_existing
from unspool.read import Kind, Tree, scan
from unspool.store import StoreAccess


@contextmanager
def open_session(name: str, how: store_access.AccessOptions) -> Iterator[Session]:
    """Find the session of a file, or the one in the config folder with this id, agent or title, there still or not."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        yield _by_file(resolve_existing(path))
        return
    with open_folder_of_session(name, how) as opened:
        if is_path(name) and not _was_there(opened.home, path):
            raise _no_such_file(name)
        yield opened.home.session(str(absolute_path(path)) if is_path(name) else name)


@contextmanager
def open_folder_of_session(name: str, how: store_access.AccessOptions) -> Iterator[StoreAccess]:
    """Open the folder in which a session is looked for. Of a path that leads nowhere, the path is the news."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folder(how))
        except NotFound:
            if is_path(name):
                raise _no_such_file(name) from None
            raise
        yield opened


def sessions_newest_first(home: Home) -> Iterator[Session]:
    """Yield the sessions of a folder one at a time, so that none is held longer than needed."""
    with output.progress_bar(sum(source.size for source in home.tree.of(Kind.SESSION)), "reading") as advance:
        for session in home.sessions():
            yield session
            advance(session.source.size)


def is_path(name: str) -> bool:
    """Tell a path from an id or a title."""
    return name.endswith(".jsonl") or (os.sep in name and " " not in name)


def _no_such_file(name: str) -> NotFound:
    return NotFound(f"no such file: `{name}`", hint="a session can also be named by its id or title")


def _was_there(home: Home, path: Path) -> bool:
    return any(source.path == absolute_path(path) for source in home.tree.of(Kind.SESSION))


def _by_file(path: Path) -> Session:
    """Return the session of a file; its agents are those in the folder of its name, and those beside it."""
    with open_regular(path):
        pass
    inside, beside = path.with_suffix(""), sorted(path.parent.glob("agent-*.jsonl"))
    trees = [scan(path), *map(scan, beside), *([scan(inside)] if inside.is_dir() else [])]
    sources = {source.path: source for tree in trees for source in tree.sources}
    return Session(sources[path], Home(Tree(path, tuple(sources.values()))))
