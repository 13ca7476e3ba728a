"""`unspool restore`: writes a session that only the archive has back to its place."""

from __future__ import annotations

import os
from pathlib import Path

import click

from unspool.cli import options, output, store_access
from unspool.display import units
from unspool.errors import NothingFound, Refused
from unspool.files import write_new
from unspool.home import Session
from unspool.read import Kind, Source
from unspool.store import StoreAccess


@click.command()
@click.argument("session")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@options.output_options
def restore(session: str, dry_run: bool, as_json: bool, config_dir: str | None) -> None:
    """Put a session back in place, byte for byte, from the archive.

    SESSION is the beginning of its id, or its title. Its sub-agents and what else the archive has of it come back too.
    Files that are there are left as they are. Claude Code can resume it then; to it the files are new, so that it keeps
    them for another `cleanupPeriodDays`.
    """
    with store_access.open_folder(options.AccessOptions(config_dir)) as opened:
        if opened.database is None:
            raise Refused("there is no store to restore from", hint="`unspool sync` makes one")
        restored = opened.home.session(session)
        # lexists: a link that leads nowhere is there too, and nothing that is there is written over.
        missing = [source for source in _archived_files(restored, opened) if not os.path.lexists(source.path)]
        if not missing:
            raise NothingFound(f"nothing of `{restored.id}` is missing")
        written = []
        for source in missing:
            pieces = opened.home.reader.pieces(source.path)
            size = source.size
            if not dry_run:
                # The path comes from a database that may be damaged or planted: never outside of the config folder.
                size = write_new(source.path, pieces, within=opened.root)
                _update_stamps(opened, source.path)
            written.append({"path": source.place, "kind": source.kind.value, "bytes": size})
    if as_json:
        output.write_json({"session": restored.id, "files": written, "dry_run": dry_run})
        return
    verb = "would write" if dry_run else "wrote"
    output.print_pairs(((f"{verb} {file['path']}", units.size(int(str(file["bytes"])))) for file in written), indent=0)


def _archived_files(session: Session, opened: StoreAccess) -> list[Source]:
    """Return the files of a session that the archive has: its own, and those in its folder or of its agents."""
    folder = session.path.with_suffix("")
    agents = {source.path for source in session.agent_sources}
    return [
        source
        for source in opened.home.tree.sources
        if (source.path == session.path or source.path in agents or source.path.is_relative_to(folder))
        and source.kind is not Kind.FILE_BACKUP  # a copy of the user's own file, which the archive does not keep
        and _is_archived(opened, source.path)
    ]


def _is_archived(opened: StoreAccess, path: Path) -> bool:
    query = "SELECT 1 FROM sources WHERE path = ?"
    return opened.archive.database.execute(query, (str(path),)).fetchone() is not None


def _update_stamps(opened: StoreAccess, path: Path) -> None:
    """Record the new inode and time of a restored file in store and archive."""
    # Its bytes are those that were read before: with its old stamp the next sync would read all of it again.
    status = path.stat()
    assert opened.database is not None
    stamp = (status.st_dev, status.st_ino, status.st_mtime_ns)
    query = "UPDATE sources SET device = ?, inode = ?, modified = ?, size = ?, gone = NULL WHERE path = ?"
    opened.database.execute(query, (*stamp, status.st_size, str(path)))
    opened.archive.update_stamp(str(path), *stamp)
