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
from typing import TYPE_CHECKING, TypeAlias

from unspool.cli import options, output
from unspool.cli.main import on_step
from unspool.errors import NotFound, UnspoolError, Unwritable
from unspool.paths import absolute_path, config_folder, data_folder, drop_nested, is_encodable, resolve_existing
from unspool.store import Roots, StoreAccess, is_locked, locked, open_archive, open_store, preferences, translate_errors

if TYPE_CHECKING:
    from unspool.read import Skipped
    from unspool.store import Preferences
    from unspool.store.sync import FolderChanges, SyncOptions, SyncReport

FreshTexts: TypeAlias = dict[str, tuple[int, bytes]]
"""Bytes that a sync has just read, by path, with the offset of the first."""

LARGE_BYTES = 16 * 1024 * 1024
"""Work on more bytes than this shows a progress bar; a first sync of more runs in the background."""


class EndingEarly(UnspoolError):
    """The store was not brought up to date, because the process is ending."""


def _never() -> bool:
    return False


@contextmanager
def open_folders(
    access: options.AccessOptions, *, is_quiet: bool = False, is_ending: Callable[[], bool] = _never
) -> Iterator[StoreAccess]:
    """Open the folders that a command reads, with their store up to date if it may be used.

    At the end, what could not be read is named on stderr, in one line, unless the caller does that (`is_quiet`).
    `EndingEarly` as soon as `is_ending` returns true while the store is written.
    """
    folder = data_folder(os.environ)
    settings = preferences.read_preferences(folder)
    if access.temporary_store is not None:
        # Nothing of it is kept, and no other process would find it.
        folder, settings = access.temporary_store, settings._replace(archive=False, background=False)
    with ExitStack() as cleanup, translate_errors(folder):
        # Before the folders: one that was deleted may still be known to the store.
        database = None if access.no_store else _open_database(folder)
        if database is not None:
            cleanup.callback(database.close)
        folders = [_resolve_root(each, database) for each in access.config_dirs]
        roots = drop_nested(root for root, _ in folders)
        # A folder that is read in the background is answered from its files. Beside another one that would leave out
        # what only the store knows of the other.
        if access.wait or len(roots) > 1:
            settings = settings._replace(background=False)
        opened = StoreAccess(roots, folder, settings, database)
        for _, skipped in folders:
            opened.skip(*skipped)
        for root in roots:
            if opened.database is not None and not is_encodable(root):
                output.warn(
                    f"the name of `{root}` is not valid UTF-8, so the store cannot hold it; reading the files instead"
                )
                opened.database = None
        may_sync = opened.database is not None and not access.no_sync
        if may_sync and not all(_refresh(opened, root, cleanup, is_ending) for root in roots):
            opened.database = None
        if opened.database is None:
            opened.skip_unreadable()
        try:
            yield opened
        finally:  # also if nothing was found: what was left out may be the reason
            if not is_quiet:
                output.warn_skipped(opened.skipped)


def _resolve_root(config_dir: str | None, database: sqlite3.Connection | None) -> tuple[Path, list[Skipped]]:
    """Return the absolute path of the folder, which exists or is known to the store, and what is not read of it.

    For another agent's folder it is the one that its sessions are translated to.
    """
    named = config_folder(config_dir, os.environ)
    try:
        root = resolve_existing(named)
    except NotFound:
        from unspool.store.sync import find_home, read_homes  # only for a folder that has gone

        path = absolute_path(named)
        if database is not None and find_home(read_homes(database), str(path)):
            return path, []
        raise
    return options.translate_folder(root)


def _open_database(folder: Path) -> sqlite3.Connection | None:
    try:
        return open_store(folder)
    except Unwritable as error:
        output.warn(f"{error.message}; reading the files instead")
        return None


def _refresh(opened: StoreAccess, root: Path, cleanup: ExitStack, is_ending: Callable[[], bool]) -> bool:
    """Bring the store up to date with one folder; return whether it can be used."""
    from unspool.store.sync import compare_with_disk, has_prices, is_synced  # start-up: edits read no store

    database, folder, settings = opened.database, opened.folder, opened.preferences
    assert database is not None
    changes = compare_with_disk(database, root)
    opened.skip(*changes.look.skipped)
    if changes.is_fresh and has_prices(database, preferences.price_edition(settings)) and is_synced(database, root):
        return True
    is_large = sum(source.size for source in changes.look.changed) > LARGE_BYTES
    if is_large and settings.background and not is_synced(database, root):
        # Started when the command closes the folder: it answers from the files first.
        cleanup.callback(_sync_in_background, [root], folder)
        return False
    try:
        opened.skip(*sync_store(database, root, folder, settings, changes, is_ending=is_ending).failed)
    except Unwritable as error:
        output.warn(f"{error.message}; reading the files instead")
        return False
    return True


def make_temporary_store(*, no_store: bool) -> Path | None:
    """Return a new folder for the store of a server, if it may or can use none; None if the data folder has its store.

    The server removes it when it ends.
    """
    folder = data_folder(os.environ)
    if not no_store:
        try:
            with translate_errors(folder):
                open_store(folder).close()
        except Unwritable as error:
            output.warn(f"{error.message}; using a temporary store")
        else:
            return None
    import tempfile

    return Path(tempfile.mkdtemp(prefix="unspool-"))


def make_refresh(
    config_dirs: tuple[str | None, ...],
    temporary_store: Path | None = None,
    is_ending: Callable[[], bool] = _never,
) -> Callable[[], list[Skipped]]:
    """Return a function that brings the store of a server up to date, and tells the terminal once what is left out.

    It stops early when `is_ending` returns true: the server waits for it. What was written until then is kept.
    """
    named: set[Skipped] = set()

    def refresh() -> list[Skipped]:
        # Opened anew each time: it runs in a thread, and a SQLite connection belongs to the thread that opened it.
        access = options.AccessOptions(config_dirs, temporary_store=temporary_store)
        with open_folders(access, is_quiet=True, is_ending=is_ending) as opened:
            if opened.database is not None:
                update_text_index_if_quick(opened, is_ending=is_ending)
        skipped = opened.skipped
        # The page shows it as long as it lasts; the terminal is told once.
        output.warn_skipped([one for one in skipped if one not in named])
        named.update(skipped)
        return skipped

    return refresh


def sync_store(
    database: sqlite3.Connection,
    root: Path,
    folder: Path,
    settings: Preferences,
    changes: FolderChanges | None = None,
    *,
    deep: bool = False,
    fresh: FreshTexts | None = None,
    is_ending: Callable[[], bool] = _never,
) -> SyncReport:
    """Bring the store up to date, with a progress bar if it takes long. `fresh` receives short texts that were read."""
    # Start-up: a folder that has not changed needs none of what writes the store.
    from unspool.store.sync import update_store

    def warn_lost(lost: Skipped) -> None:
        output.warn(f"some of `{lost.path}` could not be read from the archive: {lost.reason}")

    with ExitStack() as stack, translate_errors(folder):
        if sys.stderr.isatty() and is_locked(folder):
            output.warn("waiting for another unspool process that updates the store")
        options = _sync_options(settings, stack, is_ending, deep=deep)._replace(texts=fresh)
        return update_store(database, root, folder, options, changes, on_lost=warn_lost)


def update_text_index(
    database: sqlite3.Connection,
    roots: Roots,
    folder: Path,
    fresh: FreshTexts | None = None,
    *,
    is_ending: Callable[[], bool] = _never,
) -> int:
    """Bring the text index up to date, with a progress bar if it takes long; return how many passages were added.

    What a sync has just read (`fresh`) is not read again.
    """
    from unspool.store.archive import Archive
    from unspool.store.search import find_unindexed, update_index

    if not find_unindexed(database, roots):
        return 0
    with ExitStack() as stack:
        stack.enter_context(translate_errors(folder))
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        stack.enter_context(locked(folder))
        # Again, now that nobody else writes: another process may have indexed them meanwhile.
        files = find_unindexed(database, roots)
        begin, advance = delayed_progress_bar(stack, "indexing", is_ending)
        begin(sum(file.end - file.start for file in files))
        return update_index(database, lambda: archive, files, advance=advance, at=on_step(), fresh=fresh or {})


def update_text_index_if_quick(opened: StoreAccess, *, is_ending: Callable[[], bool] = _never) -> None:
    """Bring the text index up to date if that is quick and no other process does it, else in the background."""
    assert opened.database is not None
    if not opened.preferences.indexing:
        return
    from unspool.store.sync import count_unindexed_bytes

    behind = count_unindexed_bytes(opened.database, opened.roots)
    if behind > LARGE_BYTES and opened.preferences.background:
        _sync_in_background(opened.roots, opened.folder)
    elif behind and not is_locked(opened.folder):
        try:
            update_text_index(opened.database, opened.roots, opened.folder, is_ending=is_ending)
        except Unwritable as error:
            output.warn(f"{error.message}; searching without the index")


def delayed_progress_bar(
    stack: ExitStack, label: str, is_ending: Callable[[], bool] = _never
) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return `begin`, which takes the total and shows a bar if that is large, and `advance`, which moves the bar.

    Both raise `EndingEarly` if the process is ending.
    """
    bar: list[Callable[[int], None]] = []

    def check() -> None:
        if is_ending():
            raise EndingEarly("the server is ending")

    def begin(total: int) -> None:
        check()
        bar.append(stack.enter_context(output.progress_bar(total if total > LARGE_BYTES else 0, label)))

    def advance(done: int) -> None:
        check()
        bar[0](done)

    return begin, advance


def _sync_options(settings: Preferences, stack: ExitStack, is_ending: Callable[[], bool], *, deep: bool) -> SyncOptions:
    from unspool.store.sync import SyncOptions

    begin, advance = delayed_progress_bar(stack, "syncing", is_ending)
    return SyncOptions(
        archive=settings.archive,
        prices=settings.prices,
        price_edition=preferences.price_edition(settings),
        deep=deep,
        on_start=begin,
        on_progress=advance,
        on_step=on_step(),
    )


def _sync_in_background(roots: Iterable[Path], folder: Path) -> None:
    """Start a sync in another process and do not wait for it, unless one is running."""
    if is_locked(folder):
        return
    import subprocess

    named = [word for root in roots for word in ("--config-dir", str(root))]
    command = [sys.executable, "-m", "unspool", "sync", "--in-background", *named]
    nowhere = subprocess.DEVNULL
    # In a session of its own it survives this command's terminal, and Ctrl-C does not reach it.
    subprocess.Popen(command, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere)
