"""Opens config folders for reading commands: brings the store up to date, or falls back to the files.

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

from unspool.display import clean_line
from unspool.errors import NotFound, Unwritable
from unspool.paths import absolute_path, config_folder, data_folder, is_encodable, resolve_existing
from unspool.store import StoreAccess, is_locked, locked, open_archive, open_store, preferences, translate_errors
from unspool.store.sync import (
    FolderChanges,
    compare_with_disk,
    count_unindexed_bytes,
    find_home,
    is_filled,
    is_synced,
    read_homes,
)

if TYPE_CHECKING:
    from unspool.store import Preferences
    from unspool.store.sync import SyncOptions, SyncReport

FreshTexts: TypeAlias = dict[str, tuple[int, bytes]]
"""Bytes that a sync has just read, by path, with the offset they begin at."""
F = TypeVar("F", bound=Callable[..., Any])

LARGE_BYTES = 16 * 1024 * 1024
"""A first sync of more than this takes longer than a person likes to wait."""


class AccessOptions(NamedTuple):
    """Which folder a command reads, and whether it may use and update the store."""

    config_dir: str | None
    no_sync: bool = False
    no_store: bool = False
    wait: bool = False
    """Whether a large folder that was never read is synced first, however long that takes."""


def store_options(command: F) -> F:
    """Add `--no-sync` and `--no-store`."""
    no_store = click.option("--no-store", is_flag=True, help="Answer from the files; leave the store alone.")
    no_sync = click.option("--no-sync", is_flag=True, help="Answer from the store as it is.")
    return no_sync(no_store(command))


@contextmanager
def open_folder(how: AccessOptions) -> Iterator[StoreAccess]:
    """Open the folder, with its store up to date if it may be used."""
    folder = data_folder(os.environ)
    chosen = preferences.read_preferences(folder)
    if how.wait:
        chosen = chosen._replace(background=False)
    with ExitStack() as after, translate_errors(folder):
        database = None if how.no_store else _database(folder)
        root = _root(how.config_dir, database)
        if database is not None:
            after.callback(database.close)
        if database is not None and not is_encodable(root):
            warn(f"the name of `{root}` is not text, the store cannot keep it; answering from the files")
            database = None
        if database is not None and not how.no_sync and not _is_current(database, root, folder, chosen, after):
            database = None
        yield StoreAccess(root, folder, chosen, database)


@contextmanager
def open_folders(config_dirs: Iterable[str | None], how: AccessOptions) -> Iterator[list[StoreAccess]]:
    """Open several folders. One that is named twice, or lies in another one, is opened once."""
    with ExitStack() as stack:
        found = {
            one.root: one for one in (stack.enter_context(open_folder(how._replace(config_dir=d))) for d in config_dirs)
        }
        yield [one for root, one in found.items() if not any(above in found for above in root.parents)]


def _root(config_dir: str | None, database: sqlite3.Connection | None) -> Path:
    """Return the folder. One that was deleted may still be known to the store."""
    named = config_folder(config_dir, os.environ)
    try:
        return resolve_existing(named)
    except NotFound:
        path = absolute_path(named)
        if database is not None and find_home(read_homes(database), str(path)):
            return path
        raise


def _database(folder: Path) -> sqlite3.Connection | None:
    try:
        return open_store(folder)
    except Unwritable as error:
        warn(f"{error.message}; answering from the files")
        return None


def _is_current(database: sqlite3.Connection, root: Path, folder: Path, chosen: Preferences, after: ExitStack) -> bool:
    """Bring the store up to date; return whether it can be used."""
    freshness = compare_with_disk(database, root)
    if freshness.is_fresh and _is_priced(database, chosen) and is_synced(database, root):
        return True
    is_large = sum(source.size for source in freshness.look.changed) > LARGE_BYTES
    if is_large and chosen.background and not is_synced(database, root):
        after.callback(_sync_in_background, root, folder)
        return False
    try:
        sync_store(database, root, folder, chosen, freshness)
    except Unwritable as error:
        warn(f"{error.message}; answering from the files")
        return False
    return True


def sync_store(
    database: sqlite3.Connection,
    root: Path,
    folder: Path,
    chosen: Preferences,
    freshness: FolderChanges | None = None,
    *,
    deep: bool = False,
    fresh: FreshTexts | None = None,
) -> SyncReport:
    """Bring the store up to date, with a progress bar if it takes long. `fresh` receives short texts that were read."""
    from unspool.store.archive import Archive
    from unspool.store.sync import fill_from_archive, sync_folder

    with ExitStack() as stack:
        stack.enter_context(translate_errors(folder))
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        if sys.stderr.isatty() and is_locked(folder):
            warn("another unspool is bringing the store up to date; waiting for it")
        stack.enter_context(locked(folder))
        options = _sync_options(chosen, stack, deep=deep)._replace(texts=fresh)
        if not is_filled(database):
            freshness = None
            for failed in fill_from_archive(database, archive, options, folder):
                warn(f"not all of `{failed.path}` could be taken from the archive: {failed.reason}")
        return sync_folder(database, archive, root, options, freshness)


def update_text_index(database: sqlite3.Connection, root: Path, folder: Path, fresh: FreshTexts | None = None) -> int:
    """Bring the text index up to date, with a progress bar if it takes long; return how many passages were added.

    What a sync has just read (`fresh`) is not read again.
    """
    from unspool.cli import output
    from unspool.cli.main import on_step
    from unspool.store.archive import Archive
    from unspool.store.search import find_unindexed, update_index

    if not find_unindexed(database, root):
        return 0
    with ExitStack() as stack:
        stack.enter_context(translate_errors(folder))
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        stack.enter_context(locked(folder))
        files = find_unindexed(database, root)
        total = sum(file.end - file.start for file in files)
        advance = stack.enter_context(output.progress_bar(total if total > LARGE_BYTES else 0, "indexing"))
        return update_index(database, lambda: archive, files, advance=advance, at=on_step(), fresh=fresh or {})


def update_text_index_if_quick(opened: StoreAccess) -> None:
    """Bring the text index up to date if that is quick and no other process does it; else leave it for later."""
    assert opened.database is not None
    if not opened.preferences.indexing:
        return
    behind = count_unindexed_bytes(opened.database, opened.root)
    if behind > LARGE_BYTES and opened.preferences.background:
        _sync_in_background(opened.root, opened.folder)
    elif behind and not is_locked(opened.folder):
        try:
            update_text_index(opened.database, opened.root, opened.folder)
        except Unwritable as error:
            warn(f"{error.message}; searching without the index")


def _sync_options(chosen: Preferences, stack: ExitStack, *, deep: bool) -> SyncOptions:
    from unspool.cli import output
    from unspool.cli.main import on_step
    from unspool.store.sync import SyncOptions

    bar: list[Callable[[int], None]] = []

    def begin(total: int) -> None:
        bar.append(stack.enter_context(output.progress_bar(total if total > LARGE_BYTES else 0, "syncing")))

    def advance(done: int) -> None:
        bar[0](done)

    return SyncOptions(
        archive=chosen.archive,
        prices=chosen.prices,
        price_edition=preferences.price_edition(chosen),
        deep=deep,
        on_start=begin,
        on_progress=advance,
        on_step=on_step(),
    )


def _is_priced(database: sqlite3.Connection, chosen: Preferences) -> bool:
    row = database.execute("SELECT value FROM made_with WHERE name = 'prices'").fetchone()
    return row is not None and row[0] == preferences.price_edition(chosen)


def _sync_in_background(root: Path, folder: Path) -> None:
    """Start a sync in another process and do not wait for it, unless one is running."""
    if is_locked(folder):
        return
    import subprocess

    command = [sys.executable, "-m", "unspool", "sync", "--in-background", "--config-dir", str(root)]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def warn(message: str) -> None:
    """Print a message to stderr."""
    click.echo(f"unspool: {clean_line(message)}", err=True)
