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
@options.session_argument()
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing")
@options.output_options
def restore(session: str, dry_run: bool, as_json: bool, config_dirs: tuple[str | None, ...]) -> None:
    """Restore a deleted session from the archive, byte for byte.

    SESSION is a title or the start of a session id. This also restores its subagents and side files, and never changes
    existing files. Claude Code can then resume the session and keeps it for another `cleanupPeriodDays`.
    """
    with store_access.open_folders(options.AccessOptions(config_dirs)) as opened:
        if opened.database is None:
            raise Refused("there is no store to restore from", hint="create one with `unspool sync`")
        restored = opened.home.session(session)
        options.refuse_other_agents(restored.path)
        # lexists: a link that leads nowhere is there too, and nothing that is there is written over.
        missing = [source for source in _archived_files(restored, opened) if not os.path.lexists(source.path)]
        if not missing:
            raise NothingFound(f"nothing to restore: no file of `{restored.id}` is missing")
        written = []
        for source in missing:
            pieces = opened.home.reader.pieces(source.path)
            size = source.size
            if not dry_run:
                # The path comes from a database that may be damaged or planted: never outside of the config folder.
                root = next((root for root in opened.roots if source.path.is_relative_to(root)), opened.roots[0])
                size = write_new(source.path, pieces, within=root)
                _update_stamps(opened, source.path)
            written.append({"path": source.place, "kind": source.kind.value, "bytes": size})
    if as_json:
        names = {"session_id": restored.id, "session": restored.id}
        output.write_document("restore", {**names, "files": written, "dry_run": dry_run})
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
