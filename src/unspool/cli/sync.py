"""`unspool sync`: the store brought up to date, or made again.

[merged: rebuilding.py] `unspool sync --rebuild`: the store given up, so that the sync that follows fills a new one from the archive.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from unspool.cli import output
from unspool.cli import store_access as reading
from unspool.errors import Refused, Usage
from unspool.paths import config_folder, data_folder, existing, is_text
from unspool.store import preferences as settings
from unspool.store.database import locked, open_store, telling
from unspool.store.sync.rebuild import is_sound, salvage, set_store_aside


@click.command()
@click.option(
    "--deep", is_flag=True, help="Compare every byte with what was read: finds files rewritten in the middle."
)
@click.option("--rebuild", is_flag=True, help="Make the store again from the archive and the files.")
@click.option("--in-background", is_flag=True, hidden=True)
@output.options
def sync(deep: bool, rebuild: bool, in_background: bool, as_json: bool, config_dir: str | None) -> None:
    """Bring the store up to date with a config folder.

    Every reading command does this by itself; only what has changed is read. The store is in `$UNSPOOL_HOME`, else in
    the user's data folder. A session that Claude Code has deleted stays in it, and in the archive if that is on.
    """
    if deep and rebuild:
        raise Usage("`--deep` does not go with `--rebuild`", hint="a store that was made again needs no comparing")
    if in_background:
        os.nice(10)
    folder = data_folder(os.environ)
    chosen = settings.read(folder)
    root = existing(config_folder(config_dir, os.environ))
    if not is_text(root):
        raise Refused(f"the name of `{root}` is not text", hint="the store cannot name it; `--no-store` reads it")
    with telling(folder):
        if rebuild:
            pass

            given_up(folder)
        database = open_store(folder)
        try:
            fresh: reading.Fresh = {}
            report = reading.synced(database, root, folder, chosen, deep=deep, fresh=fresh)
            passages = reading.indexed(database, root, folder, fresh) if chosen.indexing else 0
        finally:
            database.close()
    if as_json:
        data = report._asdict() | {"passages_added": passages}
        data["failed"] = [{"path": str(one.path), "reason": one.reason} for one in report.failed]
        output.write_json(data)
        return
    output.rows(
        [
            ("files", f"{report.files_seen:,} ({report.files_changed:,} changed, {report.gone:,} gone)"),
            ("read", f"{output.size(report.bytes_read)}, {output.amount(report.lines_parsed, 'line')}"),
            ("rows", f"{report.rows_added:,}"),
            ("passages indexed", f"{passages:,}"),
            ("new generations", f"{report.generations:,}"),
            ("took", f"{report.seconds:.2f} s, {report.cpu_seconds:.2f} s of CPU"),
        ],
        indent=0,
    )
    for failed in report.failed:
        reading.warn(f"left out `{failed.path}`: {failed.reason}")


def given_up(folder: Path) -> None:
    """Move the store aside, and see to it that the archive can be read."""
    with locked(folder):
        if not is_sound(folder):
            saved, lost = salvage(folder)
            reading.warn(f"the archive was damaged: {saved:,} files were saved whole, {lost:,} in part")
        moved = set_store_aside(folder)
    if moved:
        click.echo(f"the store that was there is now `{moved}`; delete it when all is well", err=True)
