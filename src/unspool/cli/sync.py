"""`unspool sync`: brings the store up to date, or rebuilds it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from unspool.cli import options, output, store_access
from unspool.display import units
from unspool.errors import Refused, UsageError
from unspool.paths import data_folder, is_encodable
from unspool.store import STORE, locked, open_store, preferences, translate_errors
from unspool.store.sync import is_archive_sound, salvage_archive, set_aside


@click.command()
@click.option(
    "--deep", is_flag=True, help="Compare every byte with what was read: finds files rewritten in the middle."
)
@click.option("--rebuild", is_flag=True, help="Make the store again from the archive and the files.")
@click.option("--in-background", is_flag=True, hidden=True)
@options.output_options
def sync(deep: bool, rebuild: bool, in_background: bool, as_json: bool, config_dir: str | None) -> None:
    """Bring the store up to date with a config folder.

    Every reading command does this by itself; only what has changed is read. The store is in `$UNSPOOL_HOME`, else in
    the user's data folder. A session that Claude Code has deleted stays in it, and in the archive if that is on.
    """
    if deep and rebuild:
        raise UsageError("`--deep` does not go with `--rebuild`", hint="a store that was made again needs no comparing")
    if in_background:
        os.nice(10)  # whatever the user does meanwhile goes first
    folder = data_folder(os.environ)
    settings = preferences.read_preferences(folder)
    root = options.find_config_folder(config_dir)
    if not is_encodable(root):
        raise Refused(f"the name of `{root}` is not text", hint="the store cannot name it; `--no-store` reads it")
    with translate_errors(folder):
        if rebuild:
            discard_store(folder)
        database = open_store(folder)
        try:
            # What the sync has just read is handed to the index, which need not read the files a second time.
            fresh: store_access.FreshTexts = {}
            report = store_access.sync_store(database, root, folder, settings, deep=deep, fresh=fresh)
            passages = store_access.update_text_index(database, root, folder, fresh) if settings.indexing else 0
        finally:
            database.close()
    if as_json:
        data = report._asdict() | {"passages_added": passages}
        data["failed"] = [{"path": str(failed.path), "reason": failed.reason} for failed in report.failed]
        output.write_json(data)
        return
    output.print_pairs(
        [
            ("files", f"{report.files_seen:,} ({report.files_changed:,} changed, {report.gone:,} gone)"),
            ("read", f"{units.size(report.bytes_read)}, {units.amount(report.lines_parsed, 'line')}"),
            ("rows", f"{report.rows_added:,}"),
            ("passages indexed", f"{passages:,}"),
            ("new generations", f"{report.generations:,}"),
            ("took", f"{report.seconds:.2f} s, {report.cpu_seconds:.2f} s of CPU"),
        ],
        indent=0,
    )
    for failed in report.failed:
        output.warn_left_out(failed.path, failed.reason)


def discard_store(folder: Path) -> None:
    """Move the store aside, so that the next sync makes a new one; salvage the archive if it is damaged."""
    with locked(folder):
        # First: the new store is filled from the archive.
        if not is_archive_sound(folder):
            saved, lost = salvage_archive(folder)
            output.warn(f"the archive was damaged: {saved:,} files were saved whole, {lost:,} in part")
        moved = set_aside(folder, STORE)
    if moved:
        click.echo(f"the store that was there is now `{moved}`; delete it when all is well", err=True)
