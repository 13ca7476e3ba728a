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
from unspool.store.sync import combine_reports, is_archive_sound, salvage_archive, set_aside


@click.command()
@click.option(
    "--deep", is_flag=True, help="Compare every byte with the archive, to find files that were rewritten in the middle"
)
@click.option("--rebuild", is_flag=True, help="Rebuild the store from the archive and the files")
@click.option("--in-background", is_flag=True, hidden=True)
@options.output_options
def sync(deep: bool, rebuild: bool, in_background: bool, as_json: bool, config_dirs: tuple[str | None, ...]) -> None:
    """Update the store from a config folder.

    Every reading command does this automatically and reads only what changed. The store is in `$UNSPOOL_HOME`, or else
    in the user's data folder. Sessions that Claude Code deletes stay in the store, and in the archive if it is on.
    """
    if deep and rebuild:
        raise UsageError(
            "--deep and --rebuild cannot be used together", hint="remove --deep; a rebuilt store needs no comparison"
        )
    if in_background:
        os.nice(10)  # whatever the user does meanwhile goes first
    folder = data_folder(os.environ)
    settings = preferences.read_preferences(folder)
    roots = options.find_config_folders(config_dirs)
    for root in roots:
        if not is_encodable(root):
            raise Refused(f"the name of `{root}` is not valid UTF-8", hint="read it without the store: `--no-store`")
    with translate_errors(folder):
        if rebuild:
            discard_store(folder)
        database = open_store(folder)
        try:
            # What the sync has just read is handed to the index, which need not read the files a second time.
            fresh: store_access.FreshTexts = {}
            report = combine_reports(
                [store_access.sync_store(database, root, folder, settings, deep=deep, fresh=fresh) for root in roots]
            )
            passages = store_access.update_text_index(database, roots, folder, fresh) if settings.indexing else 0
        finally:
            database.close()
    if as_json:
        left_out = output.skipped_as_json(report.failed)
        data = {**report._asdict(), "passages_added": passages, "failed": left_out}
        output.write_document("sync", data, report.failed)
        output.warn_skipped(report.failed)
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
            output.warn(f"the archive was damaged: recovered {saved:,} files completely and {lost:,} partly")
        moved = set_aside(folder, STORE)
    if moved:
        click.echo(f"kept the old store as `{moved}`; delete it when the new one works", err=True)
