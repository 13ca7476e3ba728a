"""Finishes or takes back the edits that killed processes left unfinished.

Rules
  1. Whether an edit has happened is told by the file that decides (`file_state.py`): what has begun and not happened is
     taken back, what has happened is finished.
  2. A file that holds neither content is left as it is, and so are the journal and the backups: the edit is
     `unresolved` until it is undone with `merge`. One such edit does not keep the others from being recovered.
  3. What was appended to a file after its replacement was made is under its second name, and is taken over first.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from unspool.edit.apply import journal as journals
from unspool.edit.apply.file_state import FileState, read_state
from unspool.edit.apply.journal import Action, Journal
from unspool.edit.apply.transaction import append_flushed, finish, old_path, reverse_all, roll_back, temporary_path
from unspool.edit.planning.draft import relink_between
from unspool.errors import UnspoolError
from unspool.files import read_pieces


def recover(folder: Path) -> None:
    """Finish or take back the edits that killed processes left unfinished."""
    for journal in journals.read_journals(folder):
        if journal.state not in ("applying", "undoing"):
            continue
        try:
            _recover_one(folder, journal)
        except (UnspoolError, OSError):  # one edit that cannot be recovered must not stop all others
            journals.write_journal(folder, replace(journal, state="unresolved"))
    journals.remove_unfinished_backups(folder)


def _recover_one(folder: Path, journal: Journal) -> None:
    for action in journal.actions:
        _take_late_lines(journal, action)
    state = read_state(journal.deciding)
    if journal.state == "applying" and state.is_after:
        finish(folder, journal)
    elif journal.state == "applying" and state.is_before:
        roll_back(folder, journal)
    elif state is FileState.UNKNOWN and not journal.merges:
        journals.write_journal(folder, replace(journal, state="unresolved"))
    elif state is FileState.AFTER_APPENDED and not journal.merges:  # somebody continued the session: the edit stays
        journals.write_journal(folder, replace(journal, state="done"))
    else:
        reverse_all(folder, journal, lambda _: None)


def _take_late_lines(journal: Journal, action: Action) -> None:
    """Append what was written to a file after its replacement was made, as the killed process would have done."""
    path, old = Path(action.path), old_path(Path(action.path))
    with suppress(FileNotFoundError):
        temporary_path(path).unlink()
    if action.backup is None or not old.is_file() or old.is_symlink():
        return
    is_undoing = journal.state == "undoing"
    taken, size = (action.taken_back, action.before_size) if is_undoing else (action.taken, action.after_size)
    if taken is not None and path.is_file() and not path.samefile(old):
        source = b"".join(read_pieces(old))
        content = b"".join(read_pieces(path))
        late = relink_between(source[taken:], source, content)
        # The killed process may have come so far as to append them.
        if late not in content[size or 0 :]:
            append_flushed(path, late)
    old.unlink()
