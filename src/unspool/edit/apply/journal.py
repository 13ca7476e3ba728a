"""Keeps the journal of edits in unspool's own data folder: what was done to which file, and the bytes before it.

    edits/lock                 held while an edit is applied or undone
    edits/<id>/journal.json    what is done, and how far it got
    edits/<id>/<n>             the bytes of file n as they were

Rules
  1. The journal is written before the first file is touched, whole or not at all.
  2. One action decides (`decides`): before it has happened the edit has not, after it the edit has. Whatever a killed
     process left undone, the next one takes back or finishes (`recovery.py`).
  3. A journal and its backups are deleted only when every file is as it was before. What cannot be decided stays, as
     `unresolved`.
  4. No name in here ends like a session's: nobody takes a backup for one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import NotFound, Refused, Unreadable, UnspoolError
from unspool.files import (
    LockTaken,
    hold_lock,
    make_data_folder,
    make_folder,
    raise_unwritable,
    read_pieces,
    read_whole,
    write_atomically,
)

VERSION = 1
_MAX_JOURNAL = 64 * 1024 * 1024


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done to one file."""

    kind: str
    """`create`, `replace`, `remove` or `move`."""
    path: str
    before: str | None = None
    """A hash of the content before."""
    after: str | None = None
    """A hash of the content after."""
    backup: str | None = None
    """The name of the backup with the bytes before."""
    target: str | None = None
    """Where a file is moved to."""
    mode: int = 0o600
    modified: int | None = None
    """When the content before had been changed last, in nanoseconds since 1970."""
    decides: bool = False
    before_size: int | None = None
    """The size of the content before: lines may have been appended to it since."""
    after_size: int | None = None
    """The size of the content after."""
    taken: int | None = None
    """How many bytes of the file the content after was made from; more may have been appended since."""
    taken_back: int | None = None
    """The same of undoing: how many bytes of the edited file the restored one was made from."""


class Journal(msgspec.Struct, frozen=True):
    """An edit: what it was, what it did, how far it got."""

    id: str
    operation: str
    source: str
    session: str
    path: str
    when: str
    state: str
    """`applying`, `done`, `undoing`, `undone`, `shredded` (its backups are deleted), or `unresolved`: killed, and then
    others changed the files."""
    actions: tuple[Action, ...]
    folders: tuple[str, ...] = ()
    """Folders that were made, outermost first."""
    within: str = ""
    report: dict[str, Any] = {}
    """What was reported when it was applied."""
    number: int = 0
    """Edits are numbered in the order they were applied."""
    merges: bool = False
    """Whether undoing it keeps what others have written since."""
    version: int = VERSION

    @property
    def deciding(self) -> Action:
        """The action that decides (rule 2)."""
        return next(action for action in self.actions if action.decides)

    def is_within(self, folder: Path) -> bool:
        """Tell whether the session lies in a folder, or is this file."""
        return any(Path(path).is_relative_to(folder) for path in (self.path, *(action.path for action in self.actions)))


def edits_folder(folder: Path) -> Path:
    """Return where edits are kept in a data folder."""
    return folder / "edits"


@contextmanager
def lock_edits(folder: Path) -> Iterator[None]:
    """Hold the lock of edits; whoever comes second is refused."""
    edits = edits_folder(folder)
    with raise_unwritable(f"cannot write to `{edits}`"):
        make_data_folder(folder)
        make_folder(edits)
        (edits / "lock").touch(mode=0o600)
    try:
        with hold_lock(edits / "lock", timeout=0):
            yield
    except LockTaken:
        raise Refused("another edit is running", hint="nothing was written; try again when it has finished") from None


def write_journal(folder: Path, journal: Journal) -> None:
    """Write a journal, whole or not at all."""
    _write_own(folder, journal.id, "journal.json", msgspec.json.encode(journal), failure="cannot write the journal")


def write_backup(folder: Path, id: str, name: str, data: bytes) -> None:
    """Keep the bytes of a file as they are before an edit."""
    _write_own(folder, id, name, data, failure="cannot write the backup")


def read_backup(folder: Path, id: str, name: str) -> bytes:
    """Return the bytes of a backup."""
    try:
        return b"".join(read_pieces(edits_folder(folder) / id / name))
    except (OSError, UnspoolError):
        raise Unreadable(f"cannot read the backup of edit `{id}`", hint="nothing was changed") from None


def discard(folder: Path, id: str) -> None:
    """Delete the journal and backups of an edit that never happened."""
    import shutil

    shutil.rmtree(edits_folder(folder) / id, ignore_errors=True)


def remove_unfinished_backups(folder: Path) -> None:
    """Delete backups without a journal: their process was killed before it touched any file (rule 1)."""
    for path in edits_folder(folder).glob("*/"):
        if not os.path.lexists(path / "journal.json"):
            discard(folder, path.name)


def read_journal(folder: Path, id: str) -> Journal | None:
    """Return an edit as it was written last; None if it cannot be read."""
    return next((journal for journal in read_journals(folder) if journal.id == id), None)


def read_journals(folder: Path) -> list[Journal]:
    """Return all edits, oldest first; one that cannot be read is left out (`list_unreadable` names it)."""
    found = [journal for path in _journal_files(folder) if (journal := _read_journal(path))]
    return sorted(found, key=lambda journal: (journal.number, journal.when))


def list_unreadable(folder: Path) -> list[Path]:
    """Return the folders of edits whose journal cannot be read; their backups are still there."""
    return sorted(path.parent for path in _journal_files(folder) if _read_journal(path) is None)


def _journal_files(folder: Path) -> Iterator[Path]:
    return edits_folder(folder).glob("*/journal.json")


def _read_journal(path: Path) -> Journal | None:
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, UnspoolError):
        journal = msgspec.json.decode(read_whole(path, _MAX_JOURNAL), type=Journal)
        # Without one, nobody can tell whether the edit has happened; no version has written such a journal.
        if any(action.decides for action in journal.actions):
            return journal
    return None


def find_journal(folder: Path, id: str | None, config: Path | None = None) -> Journal:
    """Return the edit that a person names: the last one that stands, or by the beginning of an id.

    The id is that of an edit, or of a session: then it is the last one of that session that stands. With `config`, only
    edits of sessions in that folder are meant.
    """
    found = [journal for journal in read_journals(folder) if config is None or journal.is_within(config)]
    standing = [journal for journal in found if journal.state == "done"]
    if id is None:
        if not standing:
            raise Refused("no edit to undo", hint="list edits with `unspool edit log`")
        return standing[-1]
    fitting = [journal for journal in found if journal.id.startswith(id)]
    of_session = [journal for journal in standing if journal.session.startswith(id)]
    if not fitting and len({journal.session for journal in of_session}) == 1:
        return of_session[-1]
    if len(fitting) != 1:
        words = "no edit matches" if not fitting else f"{len(fitting)} edits match"
        raise NotFound(f"{words}: `{id}`", hint="list edits with `unspool edit log`")
    return fitting[0]


def _write_own(folder: Path, id: str, name: str, data: bytes, *, failure: str) -> None:
    """Write a file of an edit, whole or not at all."""
    path = edits_folder(folder) / id / name
    with raise_unwritable(failure):
        # Backups hold conversations: they are for the user alone.
        make_folder(path.parent)
        write_atomically(path, data)
