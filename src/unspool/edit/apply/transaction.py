"""Changes several files all together or not at all, and takes the changes back, at once or after a crash.

Rules
  1. New side files first, then the session's own file, which decides, then what is removed. Until then nobody sees a
     session that is not whole. Undoing goes the other way round.
  2. A file is replaced by one rename; one that is there is never written over by a new one.
  3. Lines that were appended to a session while its new content was made are kept: noticed before the rename, and once
     more after it, when nobody has the old file open for writing any more. The old file has a second name
     (`.unspool.old`) until they are taken over, so that neither a killed process nor a full disk loses any. If its
     beginning has changed, nothing is done.
  4. `STEPS` names the places where a process may be killed. After each of them there is the old state or the new, with
     the lines that others appended since.
  5. What a killed process left is finished or taken back by the next one (`recovery.py`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from unspool.edit.apply import journal as journals
from unspool.edit.apply.file_state import FileState, compare_file, hash_and_size, hash_pieces, holds, read_state
from unspool.edit.apply.journal import Action, Journal
from unspool.edit.planning.draft import find_new_lines, relink_between
from unspool.errors import Refused, UnspoolError
from unspool.files import (
    flush_folder,
    make_folder,
    open_with_status,
    read_pieces,
    write_durably,
    write_flushed,
    write_new,
)

STEPS = (
    "kept", "journalled", "placed", "deciding", "decided", "recorded", "undoing", "taken back", "restored", "undone",
)  # fmt: skip
"""Places where a process may be killed, in the order they are passed."""

_MAX_ROUNDS = 3
"""How often the new content is written again because lines were appended meanwhile."""
_MAX_WRITER_WAIT = 2.0
"""Seconds that a process which has the old file open may take to write its line."""

StepHook: TypeAlias = Callable[[str], None]


class FileOperation(NamedTuple):
    """What is to be done to a file."""

    kind: str
    path: Path
    data: bytes | None = None
    """The new content; None: that of `source`."""
    source: Path | None = None
    target: Path | None = None
    base: bytes | None = None
    """The content when the edit was planned; what was appended after it is kept."""
    adapt_appended: Callable[[bytes], bytes] = bytes
    """Makes what was appended meanwhile fit the new content."""
    decides: bool = False


def apply(folder: Path, journal: Journal, changes: Iterable[FileOperation], at: StepHook) -> Journal:
    """Make all changes and return the journal of them; if one fails, all are taken back."""
    # New files first, then the one that decides, then removals (rule 1).
    ordered = sorted(changes, key=lambda change: 1 if change.decides else (2 if change.kind == "remove" else 0))
    journal = _write_backups(folder, journal, ordered, at)
    journals.write_journal(folder, journal)
    at("journalled")
    try:
        for change, action in zip(ordered, journal.actions, strict=True):
            at("deciding" if change.decides else "placed")
            journal = _make_change(folder, journal, change, action)
        at("decided")
    except (UnspoolError, OSError):
        # As it is on disk: the change that failed may have recorded more than it returned.
        with suppress(OSError):  # no room to take it back either: the next command will
            roll_back(folder, journals.read_journal(folder, journal.id) or journal)
        raise
    journal = replace(journal, state="done")
    journals.write_journal(folder, journal)
    at("recorded")
    return journal


def undo(folder: Path, journal: Journal, at: StepHook, *, merge: bool = False) -> Journal:
    """Take an edit back: every file as it was, byte for byte; with `merge`, and the lines that were appended since."""
    if journal.state == "undone":
        raise Refused(f"edit `{journal.id}` is already undone", hint="list edits with `unspool edit log`")
    if journal.state == "shredded":
        raise Refused(f"edit `{journal.id}` cannot be undone", hint="its backups were deleted with `--shred`")
    deciding = journal.deciding
    if not merge or (deciding.kind == "create" and os.path.lexists(deciding.path)):
        _check_untouched(folder, journal)
    for action in journal.actions:
        take_late_lines(journal, action)
    journal = replace(journal, state="undoing", merges=merge)
    journals.write_journal(folder, journal)
    at("undoing")
    return reverse_all(folder, journal, at)


def _write_backups(folder: Path, journal: Journal, changes: list[FileOperation], at: StepHook) -> Journal:
    """Back up what will be changed, and return the journal with what will be done."""
    actions = []
    for number, change in enumerate(changes):
        new = [change.data] if change.data is not None else (read_pieces(change.source) if change.source else [])
        action = Action(change.kind, str(change.path), decides=change.decides)
        if change.data is not None or change.source is not None:
            digest, size = hash_and_size(new)
            action = replace(action, after=digest, after_size=size)
        if change.kind == "create" and os.path.lexists(change.path):
            raise Refused(f"`{change.path}` already exists", hint="nothing was written")
        if change.kind in ("replace", "remove", "move"):
            data = b"".join(read_pieces(change.path))
            status = change.path.stat()
            journals.write_backup(folder, journal.id, str(number), data)
            at("kept")
            action = replace(
                action,
                before=hash_pieces([data]),
                before_size=len(data),
                backup=str(number),
                mode=status.st_mode & 0o777,
                target=str(change.target) if change.target else None,
                modified=status.st_mtime_ns,
            )
        actions.append(action)
    made = {above for change in changes for above in (change.target or change.path).parents if not above.exists()}
    outermost_first = sorted(made, key=lambda path: len(path.parts))
    number = max((known.number for known in journals.read_journals(folder)), default=0) + 1
    return replace(
        journal, actions=tuple(actions), folders=tuple(map(str, outermost_first)), state="applying", number=number
    )


def _make_change(folder: Path, journal: Journal, change: FileOperation, action: Action) -> Journal:
    """Make one change; return the journal with how it came out."""
    match change.kind:
        case "create":
            pieces = [change.data] if change.data is not None else read_pieces(change.source or change.path)
            write_new(change.path, pieces, within=Path(journal.within))
        case "replace":
            action = _replace_content(folder, journal, change, action)
        case "move":
            assert change.target is not None
            if change.data is not None:
                action = _replace_content(folder, journal, change, action)
            else:
                action = replace(action, after=action.before, after_size=action.before_size)
            # Written down before the rename: after a crash the hash tells whether the move has happened.
            _record(folder, journal, action)
            if os.path.lexists(change.target):
                raise Refused(f"`{change.target}` already exists", hint="nothing was moved")
            make_folder(change.target.parent)
            change.path.rename(change.target)
        case _:
            change.path.unlink()
    return _record(folder, journal, action)


def _replace_content(folder: Path, journal: Journal, change: FileOperation, action: Action) -> Action:
    """Give a file the new content, with whatever was appended to it meanwhile."""
    assert change.data is not None
    base = change.base if change.base is not None else b"".join(read_pieces(change.path))

    def record(data: bytes, source: bytes) -> None:
        nonlocal action
        if len(source) != action.before_size and action.backup is not None:
            # What was appended since the backup was made belongs to it: undoing must not lose it.
            journals.write_backup(folder, journal.id, action.backup, source)
            action = replace(action, before=hash_pieces([source]), before_size=len(source))
        action = replace(action, after=hash_pieces([data]), after_size=len(data), taken=len(source))
        _record(folder, journal, action)

    _swap_content(change.path, base, change.data, change.adapt_appended, action.mode, record=record)
    return action


def _swap_content(
    path: Path,
    base: bytes,
    data: bytes,
    adapt_appended: Callable[[bytes], bytes],
    mode: int,
    *,
    record: Callable[[bytes, bytes], None],
    modified: int | None = None,
) -> None:
    """Replace a file by one rename, with whatever is appended to it meanwhile (rule 3).

    `record` is called before the rename with the new content and the old content that it was made from.
    """
    descriptor, _ = open_with_status(path)  # a pipe, put in the place of the file, would be waited for
    beside, old = temporary_path(path), old_path(path)
    is_replaced = False
    try:
        if _read_range(descriptor, 0, len(base)) != base:
            raise Refused(f"`{path}` changed during the edit", hint="nothing was written; run the edit again")
        _link_old(path, old)
        source, data = _write_beside(descriptor, beside, mode, base, data, adapt_appended=adapt_appended, record=record)
        if modified is not None and len(source) == len(base):
            os.utime(beside, ns=(modified, modified))
        beside.replace(path)
        is_replaced = True
        flush_folder(path.parent)
        # The descriptor still reads the old file: a process that had it open may write to it after the rename.
        wait_for_writers(descriptor)
        late = b""
        if appended := _read_range(descriptor, len(source), None):
            late = adapt_appended(appended)
            append_flushed(path, late)
        is_replaced = False  # no line is in the old file alone any more
        # Unless others have already continued the new file: then these lines count as appended since, too.
        if late and b"".join(read_pieces(path)) == data + late:
            record(data + late, source + appended)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            beside.unlink()
        if not is_replaced or _swap_back(path, old, data):
            with suppress(FileNotFoundError):
                old.unlink()


def _write_beside(
    descriptor: int,
    beside: Path,
    mode: int,
    source: bytes,
    data: bytes,
    *,
    adapt_appended: Callable[[bytes], bytes],
    record: Callable[[bytes, bytes], None],
) -> tuple[bytes, bytes]:
    """Write the new content of a file beside it; return the old content that it was made from, and the new one."""
    # Not until nothing is appended: others may write faster than this flushes. What is left follows the rename.
    for _ in range(_MAX_ROUNDS):
        if appended := _read_range(descriptor, len(source), None):
            source, data = source + appended, data + adapt_appended(appended)
        record(data, source)
        write_durably(beside, data, mode)
        if os.fstat(descriptor).st_size == len(source):
            break
    return source, data


def _swap_back(path: Path, old: Path, data: bytes) -> bool:
    """Give the old file its name back if nobody has continued the new one; return whether it has it.

    This needs no room on the disk. If it cannot be done, the old file keeps its second name: the lines that only it has
    are taken over by whoever takes the edit back or recovers it.
    """
    with suppress(OSError, UnspoolError):
        if old.is_file() and not old.is_symlink() and b"".join(read_pieces(path)) == data:
            old.replace(path)
            flush_folder(path.parent)
            return True
    return False


def take_late_lines(journal: Journal, action: Action) -> None:
    """Append what was written to a file after its replacement was made, as the interrupted process would have done."""
    path, old = Path(action.path), old_path(Path(action.path))
    with suppress(FileNotFoundError, NotADirectoryError):
        temporary_path(path).unlink()
    if action.backup is None or not old.is_file() or old.is_symlink():
        return
    is_undoing = journal.state == "undoing"
    taken, size = (action.taken_back, action.before_size) if is_undoing else (action.taken, action.after_size)
    if taken is not None and not _is_same_file(path, old):
        source = _read_when_closed(old)
        if not path.is_file() or path.is_symlink():
            if source[taken:]:
                return  # they stay in the old file: there is none to append them to
            old.unlink()
            return
        content = b"".join(read_pieces(path))
        late = relink_between(source[taken:], source, content)
        # The interrupted process may have come so far as to append them.
        if late not in content[size or 0 :]:
            append_flushed(path, late)
    old.unlink()


def _is_same_file(path: Path, old: Path) -> bool:
    try:
        return os.path.samestat(path.lstat(), old.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read_when_closed(path: Path) -> bytes:
    descriptor, _ = open_with_status(path)  # a pipe, put in the place of the file, would be waited for
    try:
        wait_for_writers(descriptor)
        return _read_range(descriptor, 0, None)
    finally:
        os.close(descriptor)


def wait_for_writers(descriptor: int) -> None:
    """Wait until no process has a file open for writing, at most `_MAX_WRITER_WAIT`; `descriptor` only reads it.

    Claude Code opens the file for each line, so a writer is gone at once; but on a busy machine it may be stopped
    between opening and writing. Systems without leases do not say who has a file open: there nothing is waited for.
    """
    import fcntl

    end = time.monotonic() + _MAX_WRITER_WAIT
    while time.monotonic() < end:
        try:
            # Granted only where nobody can write. It is given back at once: who breaks a lease, sends a signal.
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            time.sleep(0.001)
        except (AttributeError, OSError):  # no leases on this system, on this file system, or for this user
            return
        else:
            return


def _link_old(path: Path, old: Path) -> None:
    """Give a file a second name, under which a later process finds what was appended to it (rule 3)."""
    with suppress(FileNotFoundError):
        old.unlink()
    with suppress(OSError):  # a file system without links: a kill in that very moment may lose a line there
        os.link(path, old, follow_symlinks=False)


def reverse_all(folder: Path, journal: Journal, at: StepHook) -> Journal:
    """Take all changes of an edit back, the last one first."""
    for action in reversed(journal.actions):
        journal = _reverse(folder, journal, action, merge=journal.merges)
        at("taken back" if action.decides else "restored")
    _remove_folders(journal)
    journal = replace(journal, state="undone")
    journals.write_journal(folder, journal)
    at("undone")
    return journal


def finish(folder: Path, journal: Journal) -> None:
    """Do what is left of an edit that was decided: removals."""
    for action in journal.actions:
        if action.kind == "remove" and holds(Path(action.path), action.before):
            Path(action.path).unlink()
    journals.write_journal(folder, replace(journal, state="done"))


def roll_back(folder: Path, journal: Journal) -> None:
    """Make it as if an edit had never begun; if a file holds something else, keep the journal and the backups."""
    for action in journal.actions:
        take_late_lines(journal, action)
    for action in reversed(journal.actions):
        with suppress(FileNotFoundError, Refused):
            journal = _reverse(folder, journal, action, merge=False)
    if all(read_state(action).is_before for action in journal.actions):
        _remove_folders(journal)
        journals.discard(folder, journal.id)
    else:
        journals.write_journal(folder, replace(journal, state="unresolved"))


def _reverse(folder: Path, journal: Journal, action: Action, *, merge: bool) -> Journal:
    """Take one change back, if it was made; lines that were appended since stay.

    A file that holds something else is refused. With `merge`, its lines that are in neither content stay.
    """
    path = Path(action.path)
    if action.kind == "create":
        if holds(path, action.after):
            path.unlink()
        return journal
    assert action.backup is not None
    before = journals.read_backup(folder, journal.id, action.backup)
    make_folder(path.parent)
    target = Path(action.target) if action.target else None
    has_moved = target is not None and os.path.lexists(target) and not os.path.lexists(path)
    if target is not None and has_moved and (merge or compare_file(target, action) is not FileState.UNKNOWN):
        target.rename(path)
    if not os.path.lexists(path):
        write_durably(temporary_path(path), before, action.mode)
        if action.modified is not None:
            os.utime(temporary_path(path), ns=(action.modified, action.modified))
        temporary_path(path).replace(path)
        flush_folder(path.parent)
        return journal
    state = compare_file(path, action)
    if state is FileState.UNKNOWN and merge and path.suffix != ".jsonl":
        return journal  # not a file of lines: what others made of it stays
    if state is FileState.UNKNOWN and not merge:
        raise Refused(f"`{path}` changed after the edit", hint="nothing was changed")
    return journal if state.is_before else _restore_content(folder, journal, action, before, state)


def _restore_content(folder: Path, journal: Journal, action: Action, before: bytes, state: FileState) -> Journal:
    """Give a file its old content back, and after that the lines that others have written since."""
    path = Path(action.path)
    content = b"".join(read_pieces(path))
    appended = find_new_lines(content, before) if state is FileState.UNKNOWN else content[action.after_size or 0 :]
    data = before
    if appended:
        data += (b"" if before.endswith(b"\n") else b"\n") + relink_between(appended, content, before)

    def record(_: bytes, source: bytes) -> None:
        nonlocal journal
        journal = _record(folder, journal, replace(action, taken_back=len(source)))

    def adapt_appended(late: bytes) -> bytes:
        return relink_between(late, content + late, before)

    modified = None if appended else action.modified
    _swap_content(path, content, data, adapt_appended, action.mode, record=record, modified=modified)
    return journal


def _check_untouched(folder: Path, journal: Journal) -> None:
    for action in journal.actions:
        if action.kind == "remove":
            continue
        path = Path(action.target or action.path)
        if not holds(path, action.after):
            later = [
                known
                for known in journals.read_journals(folder)
                if known.number > journal.number and known.state == "done"
            ]
            on_top = next((known.id for known in later if any(act.path == action.path for act in known.actions)), None)
            hint = (
                f"undo `{on_top}` first"
                if on_top
                else f"keep the new lines with `unspool edit undo --merge {journal.id}`"
            )
            raise Refused(f"`{path}` changed after edit `{journal.id}`", hint=hint)


def _record(folder: Path, journal: Journal, action: Action) -> Journal:
    """Write down how an action came out, if that is new."""
    actions = tuple(action if known.path == action.path else known for known in journal.actions)
    if actions != journal.actions:
        journal = replace(journal, actions=actions)
        journals.write_journal(folder, journal)
    return journal


def _remove_folders(journal: Journal) -> None:
    for name in reversed(journal.folders):
        with suppress(OSError):  # not empty, or gone
            Path(name).rmdir()


def temporary_path(path: Path) -> Path:
    """Return where the new content of a file is written before it gets its name."""
    return path.with_name(f".{path.name}.unspool.tmp")


def old_path(path: Path) -> Path:
    """Return the second name of the old file while it is replaced (rule 3)."""
    return path.with_name(f".{path.name}.unspool.old")


def _read_range(descriptor: int, start: int, length: int | None) -> bytes:
    pieces = []
    while data := os.pread(descriptor, 1 << 20 if length is None else min(1 << 20, length), start):
        pieces.append(data)
        start += len(data)
        length = None if length is None else length - len(data)
        if length == 0:
            break
    return b"".join(pieces)


def append_flushed(path: Path, data: bytes) -> None:
    """Append bytes to a file and flush them to the disk; if that fails, no part of them stays."""
    # Another process may have put a link or a pipe in the place of the file: what is appended there is lost.
    unsafe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | unsafe)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"`{path}` is not a regular file", hint="another process has replaced it; look at it first")
        size = status.st_size
        try:
            write_flushed(descriptor, [data])
        except OSError:
            # Half a line would be torn for good. What others have appended meanwhile is not cut off.
            if data.startswith(_read_range(descriptor, size, None)):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
