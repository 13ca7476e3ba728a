"""`unspool sync --rebuild`: the store given up, so that the sync that follows fills a new one from the archive."""

from __future__ import annotations

from pathlib import Path

import click

from unspool.cli import reading
from unspool.store.database import locked
from unspool.store.rebuild import is_sound, salvage, set_store_aside


def given_up(folder: Path) -> None:
    """Move the store aside, and see to it that the archive can be read."""
    with locked(folder):
        if not is_sound(folder):
            saved, lost = salvage(folder)
            reading.warn(f"the archive was damaged: {saved:,} files were saved whole, {lost:,} in part")
        moved = set_store_aside(folder)
    if moved:
        click.echo(f"the store that was there is now `{moved}`; delete it when all is well", err=True)
