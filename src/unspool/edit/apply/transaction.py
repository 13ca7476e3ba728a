"""Changes several files all together or not at all, and takes the changes back, at once or after a crash.

Rules
  1. New side files first, then the session's own file, which decides, then what is removed. Until then nobody sees a
     session that is not whole. Undoing goes the other way round.
  2. A file is replaced by one rename; one that is there is never written over by a new one.
  3. Lines that were appended to a session while its new content was made are kept: noticed before the rename, and once
     more after it. If its beginning has changed, nothing is done.
  4. `STEPS` names the places where a process may be killed. After each of them there is the old state or the new.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from unspool.edit.apply import journal as journals
from unspool.edit.apply.journal import Action, Journal
from unspool.errors import Refused, UnspoolError
from unspool.files import flush_folder, read_pieces, write_durably, write_flushed, write_new

STEPS = (
    "kept", "journalled", "placed", "deciding", "decided", "recorded", "undoing", "taken back", "restored", "undone",
)  # fmt: skip
"""Places where a process may be killed, in the order they are passed."""

StepHook: TypeAlias = Callable[[str], None]


class FileChange(NamedTuple):
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


def apply(folder: Path, journal: Journal, changes: Iterable[FileChange], at: StepHook) -> Journal:
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
        _roll_back(folder, journal)
        raise
    journal = replace(journal, state="done")
    journals.write_journal(folder, journal)
    at("recorded")
    return journal


def undo(folder: Path, journal: Journal, at: StepHook) -> Journal:
    """Take an edit back: every file as it was, byte for byte."""
    if journal.state == "undone":
        raise Refused(f"edit `{journal.id}` was undone already", hint="`unspool edit log` lists what stands")
    _check_untouched(folder, journal)
    journals.write_journal(folder, replace(journal, state="undoing"))
    at("undoing")
    return _reverse_all(folder, journal, at)


def recover(folder: Path) -> None:
    """Finish or take back the edits that killed processes left unfinished."""
    for journal in journals.read_journals(folder):
        if journal.state not in ("applying", "undoing"):
            continue
        deciding = journal.deciding
        has_happened = _holds(Path(deciding.target or deciding.path), deciding.after)
        if journal.state == "undoing":
            if has_happened or _is_reversed(deciding):
                _reverse_all(folder, journal, lambda _: None)
            else:  # somebody continued the session: it stays
                journals.write_journal(folder, replace(journal, state="done"))
        elif has_happened:
            _finish(folder, journal)
        else:
            _roll_back(folder, journal)


def _hash(pieces: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _write_backups(folder: Path, journal: Journal, changes: list[FileChange], at: StepHook) -> Journal:
    """Back up what will be changed, and return the journal with what will be done."""
    actions = []
    for number, change in enumerate(changes):
        new = [change.data] if change.data is not None else (read_pieces(change.source) if change.source else [])
        action = Action(change.kind, str(change.path), after=_hash(new), decides=change.decides)
        if change.kind == "create" and os.path.lexists(change.path):
            raise Refused(f"`{change.path}` is there already", hint="nothing was written")
        if change.kind in ("replace", "remove", "move"):
            data = b"".join(read_pieces(change.path))
            status = change.path.stat()
            journals.write_backup(folder, journal.id, str(number), data)
            at("kept")
            action = replace(
                action,
                before=_hash([data]),
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


def _make_change(folder: Path, journal: Journal, change: FileChange, action: Action) -> Journal:
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
                action = replace(action, after=action.before)
            # Written down before the rename: after a crash the hash tells whether the move has happened.
            _record(folder, journal, action)
            if os.path.lexists(change.target):
                raise Refused(f"`{change.target}` is there already", hint="nothing was moved")
            change.target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            change.path.rename(change.target)
        case _:
            change.path.unlink()
    return _record(folder, journal, action)


def _replace_content(folder: Path, journal: Journal, change: FileChange, action: Action) -> Action:
    """Give a file new content by one rename, with whatever was appended to it meanwhile (rule 3)."""
    assert change.data is not None
    base = change.base if change.base is not None else b"".join(read_pieces(change.path))
    descriptor = os.open(change.path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    try:
        beside = _temporary_path(change.path)
        known, data = len(base), change.data
        if _read_range(descriptor, 0, known) != base:
            raise Refused(f"`{change.path}` has changed meanwhile", hint="nothing was written; plan the edit again")
        while True:
            appended = _read_range(descriptor, known, None)
            known, data = known + len(appended), data + (change.adapt_appended(appended) if appended else b"")
            action = replace(action, after=_hash([data]))
            _record(folder, journal, action)
            write_durably(beside, data, action.mode)
            if os.fstat(descriptor).st_size == known:
                break
        beside.replace(change.path)
        # The descriptor still reads the old file: a process that had it open may have written to it after the rename.
        appended = _read_range(descriptor, known, None)
        if appended:
            _append(change.path, change.adapt_appended(appended))
            action = replace(action, after=_hash(read_pieces(change.path)))
        flush_folder(change.path.parent)
        return action
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
        os.close(descriptor)


def _reverse_all(folder: Path, journal: Journal, at: StepHook) -> Journal:
    for action in reversed(journal.actions):
        _reverse(folder, journal, action)
        at("taken back" if action.decides else "restored")
    _remove_folders(journal)
    journal = replace(journal, state="undone")
    journals.write_journal(folder, journal)
    at("undone")
    return journal


def _finish(folder: Path, journal: Journal) -> None:
    """Do what is left of an edit that was decided: removals."""
    for action in journal.actions:
        if action.kind == "remove" and _holds(Path(action.path), action.before):
            Path(action.path).unlink()
    journals.write_journal(folder, replace(journal, state="done"))


def _roll_back(folder: Path, journal: Journal) -> None:
    """Make it as if an edit had never begun."""
    for action in reversed(journal.actions):
        with suppress(FileNotFoundError, Refused):
            _reverse(folder, journal, action)
    _remove_folders(journal)
    journals.discard(folder, journal.id)


def _reverse(folder: Path, journal: Journal, action: Action) -> None:
    """Take one change back, if it was made."""
    path = Path(action.path)
    if action.kind == "create":
        if _holds(path, action.after):
            path.unlink()
        return
    assert action.backup is not None
    target = Path(action.target) if action.target else None
    if target is not None and _holds(target, action.after):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.rename(path)
    if _holds(path, action.before):
        return
    if os.path.lexists(path) and not _holds(path, action.after):
        raise Refused(f"`{path}` has changed since", hint="it was left as it is")
    data = journals.read_backup(folder, journal.id, action.backup)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = _temporary_path(path)
    write_durably(beside, data, action.mode)
    if action.modified is not None:
        os.utime(beside, ns=(action.modified, action.modified))
    beside.replace(path)
    flush_folder(path.parent)


def _check_untouched(folder: Path, journal: Journal) -> None:
    for action in journal.actions:
        if action.kind == "remove":
            continue
        path = Path(action.target or action.path)
        if not _holds(path, action.after):
            later = [
                known
                for known in journals.read_journals(folder)
                if known.number > journal.number and known.state == "done"
            ]
            on_top = next((known.id for known in later if any(act.path == action.path for act in known.actions)), None)
            hint = f"undo `{on_top}` first" if on_top else "what was written since would be lost; it was left as it is"
            raise Refused(f"`{path}` has changed since edit `{journal.id}`", hint=hint)


def _is_reversed(action: Action) -> bool:
    path = Path(action.path)
    return not os.path.lexists(path) if action.kind == "create" else _holds(path, action.before)


def _holds(path: Path, digest: str | None) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    return _hash(read_pieces(path)) == digest


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


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.unspool.tmp")


def _read_range(descriptor: int, start: int, length: int | None) -> bytes:
    pieces = []
    while data := os.pread(descriptor, 1 << 20 if length is None else min(1 << 20, length), start):
        pieces.append(data)
        start += len(data)
        length = None if length is None else length - len(data)
        if length == 0:
            break
    return b"".join(pieces)


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        write_flushed(descriptor, [data])
    finally:
        os.close(descriptor)
