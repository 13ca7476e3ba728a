"""How reading commands come to their data: the store brought up to date, or the files themselves.

Rules
  1. A command brings the store up to date before it answers, unless it is told not to. A large folder that was never
     read is answered from its files, and read in the background by a process of its own.
  2. A store that cannot be written is named on stderr, and the files answer. One that is damaged or newer is an error:
     the files alone may not be all there is.
  3. Nothing heavy is imported until there is work for it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import click

from unspool.display.safe import clean_line
from unspool.errors import NotFound, Unwritable
from unspool.paths import absolute, config_folder, data_folder, existing, is_text
from unspool.store import preferences
from unspool.store.access import Opened
from unspool.store.database import is_locked, locked, open_archive, open_store, telling
from unspool.store.sync.changes import Freshness, compare, home_around, homes, is_filled, is_synced, unindexed

if TYPE_CHECKING:
    from unspool.store.preferences import Settings
    from unspool.store.sync.sync import Report, Wishes

Fresh: TypeAlias = dict[str, tuple[int, bytes]]
"""What was just read of files, by path, and where it begins."""
F = TypeVar("F", bound=Callable[..., Any])

LARGE = 16 * 1024 * 1024
"""Bytes that take longer to read for the first time than a person likes to wait."""


class How(NamedTuple):
    """How a command is to come to its data."""

    config_dir: str | None
    no_sync: bool = False
    no_store: bool = False
    wait: bool = False
    """Whether a large folder that was never read is read first, however long that takes."""


def options(command: F) -> F:
    """Add `--no-sync` and `--no-store`."""
    no_store = click.option("--no-store", is_flag=True, help="Answer from the files; leave the store alone.")
    no_sync = click.option("--no-sync", is_flag=True, help="Answer from the store as it is.")
    return no_sync(no_store(command))


@contextmanager
def opened(how: How) -> Iterator[Opened]:
    """Open the folder that is asked for, with its store up to date."""
    folder = data_folder(os.environ)
    chosen = preferences.read(folder)
    if how.wait:
        chosen = chosen._replace(background=False)
    with ExitStack() as after, telling(folder):
        database = None if how.no_store else _database(folder)
        root = _root(how.config_dir, database)
        if database is not None:
            after.callback(database.close)
        if database is not None and not is_text(root):
            warn(f"the name of `{root}` is not text, the store cannot keep it; answering from the files")
            database = None
        if database is not None and not how.no_sync and not _is_current(database, root, folder, chosen, after):
            database = None
        yield Opened(root, folder, chosen, database)


@contextmanager
def opened_each(config_dirs: Iterable[str | None], how: How) -> Iterator[list[Opened]]:
    """Open several folders; one that is named twice, or lies in another, is opened once."""
    with ExitStack() as stack:
        found = {
            one.root: one for one in (stack.enter_context(opened(how._replace(config_dir=d))) for d in config_dirs)
        }
        yield [one for root, one in found.items() if not any(above in found for above in root.parents)]


def _root(config_dir: str | None, database: sqlite3.Connection | None) -> Path:
    """Return the folder; one that has gone is known to the store still."""
    named = config_folder(config_dir, os.environ)
    try:
        return existing(named)
    except NotFound:
        path = absolute(named)
        if database is not None and home_around(homes(database), str(path)):
            return path
        raise


def _database(folder: Path) -> sqlite3.Connection | None:
    try:
        return open_store(folder)
    except Unwritable as error:
        warn(f"{error.message}; answering from the files")
        return None


def _is_current(database: sqlite3.Connection, root: Path, folder: Path, chosen: Settings, after: ExitStack) -> bool:
    """Bring the store up to date; tell whether it can answer."""
    freshness = compare(database, root)
    if freshness.is_fresh and _is_priced(database, chosen) and is_synced(database, root):
        return True
    much = sum(source.size for source in freshness.look.changed) > LARGE
    if much and chosen.background and not is_synced(database, root):
        after.callback(_go_on_in_background, root, folder)
        return False
    try:
        synced(database, root, folder, chosen, freshness)
    except Unwritable as error:
        warn(f"{error.message}; answering from the files")
        return False
    return True


def synced(
    database: sqlite3.Connection,
    root: Path,
    folder: Path,
    chosen: Settings,
    freshness: Freshness | None = None,
    *,
    deep: bool = False,
    fresh: Fresh | None = None,
) -> Report:
    """Bring the store up to date, with a progress bar if it takes long; `fresh` takes what was read if it is little."""
    from unspool.store.archive.archive import Archive
    from unspool.store.sync.sync import sync

    with ExitStack() as stack:
        stack.enter_context(telling(folder))
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        if sys.stderr.isatty() and is_locked(folder):
            warn("another unspool is bringing the store up to date; waiting for it")
        stack.enter_context(locked(folder))
        wishes = _wishes(chosen, stack, deep=deep)._replace(fresh=fresh)
        if not is_filled(database):
            from unspool.store.sync.rebuild import rebuild

            freshness = None
            for failed in rebuild(database, archive, wishes, folder):
                warn(f"not all of `{failed.path}` could be taken from the archive: {failed.reason}")
        return sync(database, archive, root, wishes, freshness)


def indexed(database: sqlite3.Connection, root: Path, folder: Path, fresh: Fresh | None = None) -> int:
    """Bring the text index up to date, with a progress bar if it takes long; return how many passages were added.

    What a sync has just read (`fresh`) is not read again.
    """
    from unspool.cli import output
    from unspool.store.archive.archive import Archive
    from unspool.store.search.index import Indexing, behind, index
    from unspool.testing.faults import fault

    if not behind(database, root):
        return 0
    with ExitStack() as stack:
        stack.enter_context(telling(folder))
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        stack.enter_context(locked(folder))
        files = behind(database, root)
        total = sum(file.end - file.start for file in files)
        advance = stack.enter_context(output.progress(total if total > LARGE else 0, "indexing"))
        return index(database, lambda: archive, files, Indexing(advance, fault(os.environ), fresh or {}))


def index_or_go_on(opened: Opened) -> None:
    """Bring the text index up to date if that does not take long and nobody else is at it; else leave it for later."""
    assert opened.database is not None
    if not opened.settings.indexing:
        return
    behind = unindexed(opened.database, opened.root)
    if behind > LARGE and opened.settings.background:
        _go_on_in_background(opened.root, opened.folder)
    elif behind and not is_locked(opened.folder):
        try:
            indexed(opened.database, opened.root, opened.folder)
        except Unwritable as error:
            warn(f"{error.message}; searching without the index")


def _wishes(chosen: Settings, stack: ExitStack, *, deep: bool) -> Wishes:
    from unspool.cli import output
    from unspool.store.sync.sync import Wishes
    from unspool.testing.faults import fault

    bar: list[Callable[[int], None]] = []

    def begin(total: int) -> None:
        bar.append(stack.enter_context(output.progress(total if total > LARGE else 0, "syncing")))

    def advance(done: int) -> None:
        bar[0](done)

    return Wishes(
        archive=chosen.archive,
        prices=chosen.prices,
        edition=edition(chosen),
        deep=deep,
        begin=begin,
        advance=advance,
        at=fault(os.environ),
    )


edition = preferences.edition


def _is_priced(database: sqlite3.Connection, chosen: Settings) -> bool:
    row = database.execute("SELECT value FROM made_with WHERE name = 'prices'").fetchone()
    return row is not None and row[0] == edition(chosen)


def _go_on_in_background(root: Path, folder: Path) -> None:
    """Read the folder in a process of its own, which nobody waits for; unless one is at it already."""
    if is_locked(folder):
        return
    import subprocess

    command = [sys.executable, "-m", "unspool", "sync", "--in-background", "--config-dir", str(root)]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def warn(words: str) -> None:
    """Say something beside the answer."""
    click.echo(f"unspool: {clean_line(words)}", err=True)
