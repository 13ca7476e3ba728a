"""Finds the session that a command-line argument names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unspool.cli import options, output, store_access
from unspool.display import amount
from unspool.errors import NotFound, NothingFound, UsageError
from unspool.files import open_regular
from unspool.home import Home, Session
from unspool.paths import absolute_path, resolve_existing
from unspool.read import Kind, Tree, scan
from unspool.store import StoreAccess


@contextmanager
def open_session(name: str, access: options.AccessOptions) -> Iterator[Session]:
    """Find the session of a file, or the one in the config folder with this id, agent or title, deleted or not."""
    path = Path(name).expanduser()
    # A file goes first: it may lie outside of any config folder, and no store is needed to read it.
    if os.path.lexists(path):
        yield _session_of_file(resolve_existing(path))
        return
    with open_folder_of_session(name, access) as opened:
        if not is_path(name):
            yield opened.home.session(name)
            return
        # The file of a session that Claude Code has deleted is still known to the store.
        deleted = absolute_path(path)
        if all(source.path != deleted for source in opened.home.tree.of(Kind.SESSION)):
            raise _no_such_file(name)
        yield opened.home.session(str(deleted))


@contextmanager
def open_folder_of_session(name: str, access: options.AccessOptions) -> Iterator[StoreAccess]:
    """Open the config folder to look for a session in.

    If there is no such folder and the argument is a path, the error names the path.
    """
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(store_access.open_folder(access))
        except NotFound:
            if is_path(name):
                raise _no_such_file(name) from None
            raise
        yield opened


def parse_turns(session: Session, text: str, option: str) -> range:
    """Return the turns that an option names; `option` is `turn` or `turns`."""
    from unspool.export import parse_turn_range  # start-up: most commands take no turns

    count = len(session.turns)
    numbers = parse_turn_range(text, count)
    if numbers is None:
        hint = f"as in `--{option} 3`, `--{option} -1` or `--{option} 2..5`"
        raise UsageError(f"not {'a turn' if option == 'turn' else 'turns'}: `{text}`", hint=hint)
    if not numbers:
        raise NothingFound(f"no such {option}: `{text}`", hint=f"the session has {amount(count, 'turn')}")
    return numbers


def sessions_newest_first(home: Home) -> Iterator[Session]:
    """Yield the sessions of a folder one at a time, so that none is held in memory longer than needed."""
    with output.progress_bar(sum(source.size for source in home.tree.of(Kind.SESSION)), "reading") as advance:
        for session in home.sessions():
            yield session
            advance(session.source.size)


def is_path(name: str) -> bool:
    """Tell whether an argument is a path rather than an id or a title."""
    # A title may have a slash in it, and then it has spaces as well.
    return name.endswith(".jsonl") or (os.sep in name and " " not in name)


def _no_such_file(name: str) -> NotFound:
    return NotFound(f"no such file: `{name}`", hint="a session can also be named by its id or title")


def _session_of_file(path: Path) -> Session:
    """Return the session of a file; its agents are those in the folder of its name, and those beside it."""
    # Refuses a FIFO or device before anything reads it, which would block.
    with open_regular(path):
        pass
    inside, beside = path.with_suffix(""), sorted(path.parent.glob("agent-*.jsonl"))
    trees = [scan(path), *map(scan, beside), *([scan(inside)] if inside.is_dir() else [])]
    sources = {source.path: source for tree in trees for source in tree.sources}
    return Session(sources[path], Home(Tree(path, tuple(sources.values()))))
