"""The session a person means on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unspool.cli import output, store_access
from unspool.errors import NotFound
from unspool.files.open import open_regular
from unspool.home import Home, Session
from unspool.paths import absolute, existing
from unspool.read.scan import Kind, Tree, scan
from unspool.store.access import Opened


@contextmanager
def found(name: str, how: store_access.How) -> Iterator[Session]:
    """Find the session of a file, or the one in the config folder with this id, agent or title, there still or not."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        yield _by_file(existing(path))
        return
    with around(name, how) as opened:
        if is_path(name) and not _was_there(opened.home, path):
            raise _no_such_file(name)
        yield opened.home.session(str(absolute(path)) if is_path(name) else name)


@contextmanager
def around(name: str, how: store_access.How) -> Iterator[Opened]:
    """Open the folder in which a session is looked for. Of a path that leads nowhere, the path is the news."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.opened(how))
        except NotFound:
            if is_path(name):
                raise _no_such_file(name) from None
            raise
        yield opened


def every(home: Home) -> Iterator[Session]:
    """Yield the sessions of a folder one at a time, so that none is held longer than needed."""
    with output.progress(sum(source.size for source in home.tree.of(Kind.SESSION)), "reading") as advance:
        for session in home.sessions():
            yield session
            advance(session.source.size)


def is_path(name: str) -> bool:
    """Tell a path from an id or a title."""
    return name.endswith(".jsonl") or (os.sep in name and " " not in name)


def _no_such_file(name: str) -> NotFound:
    return NotFound(f"no such file: `{name}`", hint="a session can also be named by its id or title")


def _was_there(home: Home, path: Path) -> bool:
    return any(source.path == absolute(path) for source in home.tree.of(Kind.SESSION))


def _by_file(path: Path) -> Session:
    """Return the session of a file; its agents are those in the folder of its name, and those beside it."""
    with open_regular(path):
        pass
    inside, beside = path.with_suffix(""), sorted(path.parent.glob("agent-*.jsonl"))
    trees = [scan(path), *map(scan, beside), *([scan(inside)] if inside.is_dir() else [])]
    sources = {source.path: source for tree in trees for source in tree.sources}
    return Session(sources[path], Home(Tree(path, tuple(sources.values()))))
