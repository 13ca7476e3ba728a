"""Finishes or takes back the edits that killed processes left unfinished.

Rules
  1. Whether an edit has happened is told by the file that decides (`file_state.py`): what has begun and not happened is
     taken back, what has happened is finished.
  2. A file that holds neither content is left as it is, and so are the journal and the backups: the edit is
     `unresolved` until it is undone with `merge`. One such edit does not keep the others from being recovered.
  3. What was appended to a file after its replacement was made is under its second name, and is taken over first.
"""

from __future__ import annotations

import errno
from pathlib import Path

from msgspec.structs import replace

from unspool.edit.apply import journal as journals
from unspool.edit.apply.file_state import FileState, read_state
from unspool.edit.apply.journal import Journal
from unspool.edit.apply.transaction import finish, reverse_all, roll_back, take_late_lines
from unspool.errors import UnspoolError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def recover(folder: Path) -> None:
    """Finish or take back the edits that killed processes left unfinished."""
    for journal in journals.read_journals(folder):
        if journal.state not in ("applying", "undoing"):
            continue
        try:
            _recover_one(folder, journal)
        except (UnspoolError, OSError) as error:  # one edit that cannot be recovered must not stop all others
            if _is_out_of_room(error):
                continue  # the next command tries again
            journals.write_journal(folder, replace(journal, state="unresolved"))
    journals.remove_unfinished_backups(folder)


def _is_out_of_room(error: UnspoolError | OSError) -> bool:
    """Tell whether there was no room on the disk; the errors of the journal are made of those of the system."""
    cause = error if isinstance(error, OSError) else error.__context__
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM


def _recover_one(folder: Path, journal: Journal) -> None:
    for action in journal.actions:
        take_late_lines(journal, action)
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
