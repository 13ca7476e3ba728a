"""`unspool sync --rebuild`: the store made again from the archive, before the files are read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from unspool.cli import reading
from unspool.store.archive import Archive
from unspool.store.database import locked, open_archive, open_store
from unspool.store.rebuild import is_sound, rebuild, salvage, set_store_aside
from unspool.store.settings import Settings
from unspool.store.sync import Wishes


def rebuilt(folder: Path, chosen: Settings) -> None:
    """Move the store aside and fill a new one from the archive."""
    with locked(folder):
        moved = set_store_aside(folder)
    if moved:
        click.echo(f"the store that was there is now `{moved}`; delete it when all is well", err=True)
    if not is_sound(folder):
        saved, lost = salvage(folder)
        reading.warn(f"the archive was damaged: {saved:,} files were saved whole, {lost:,} in part")
    with ExitStack() as stack:
        database = open_store(folder)
        stack.callback(database.close)
        archive = Archive(open_archive(folder))
        stack.callback(archive.database.close)
        stack.enter_context(locked(folder))
        wishes = Wishes(archive=chosen.archive, prices=chosen.prices, edition=reading.edition(chosen))
        for failed in rebuild(database, archive, wishes, folder):
            reading.warn(f"left out `{failed.path}`: {failed.reason}")
