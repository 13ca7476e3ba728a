"""Files changed all together or not at all: actions in, done; or taken back, today or after a crash.

Rules
  1. New side files first, then the session's own file, which decides, then what goes. Until then nobody sees a session
     that is not whole. Undoing goes the other way round.
  2. A file is replaced by one rename; one that is there is never written over by a new one.
  3. What was appended to a session while its new content was made is kept: noticed before the rename, and once more
     after it. If its beginning has changed, nothing is done.
  4. `STEPS` names the places where a process may be killed. After each of them there is the old state or the new.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from unspool.edit.apply import journal as journals
from unspool.edit.apply.journal import Action, Journal
from unspool.errors import Refused, UnspoolError
from unspool.files.atomic import write_new
from unspool.files.open import pieces_of

STEPS = (
    "kept",
    "journalled",
    "placed",
    "deciding",
    "decided",
    "recorded",
    "undoing",
    "taken back",
    "restored",
    "undone",
)
"""Places where a process may be killed, in the order they are passed."""

Telling = Callable[[str], None]


class Wanted(NamedTuple):
    """What a file is to become."""

    kind: str
    path: Path
    data: bytes | None = None
    """The new content; None: that of `source`."""
    source: Path | None = None
    target: Path | None = None
    read: bytes | None = None
    """What was there when the edit was planned; what came after it is kept."""
    late: Callable[[bytes], bytes] = bytes
    """Makes what was appended meanwhile fit the new content."""
    decides: bool = False


def apply(folder: Path, about: Journal, wanted: Iterable[Wanted], at: Telling) -> Journal:
    """Do what is wanted and return the journal of it."""
    wants = sorted(wanted, key=_turn)
    journal = _prepared(folder, about, wants, at)
    journals.write(folder, journal)
    at("journalled")
    try:
        for want, action in zip(wants, journal.actions, strict=True):
            at("deciding" if want.decides else "placed")
            done = _do(want, action, Path(journal.within), partial(_note, folder, journal))
            journal = _note(folder, journal, done)
        at("decided")
    except (UnspoolError, OSError):
        _take_back(folder, journal)
        raise
    journal = replace(journal, state="done")
    journals.write(folder, journal)
    at("recorded")
    return journal


def undo(folder: Path, journal: Journal, at: Telling) -> Journal:
    """Take an edit back: every file as it was, byte for byte."""
    if journal.state == "undone":
        raise Refused(f"edit `{journal.id}` was undone already", hint="`unspool edit log` lists what stands")
    _check_untouched(folder, journal)
    journals.write(folder, replace(journal, state="undoing"))
    at("undoing")
    return _undone(folder, journal, at)


def recover(folder: Path) -> list[Journal]:
    """Finish or take back what killed processes left; return what was looked after."""
    found = [one for one in journals.journals(folder) if one.state in ("applying", "undoing")]
    for journal in found:
        deciding = journal.deciding
        if journal.state == "undoing":
            if _stands(deciding) or _is_back(deciding):
                _undone(folder, journal, lambda _: None)
            else:  # somebody went on with it: it stays
                journals.write(folder, replace(journal, state="done"))
        elif _stands(deciding):
            _finished(folder, journal)
        else:
            _take_back(folder, journal)
    return found


def digest(pieces: Iterable[bytes]) -> str:
    """Return a hash of some bytes."""
    made = hashlib.blake2b(digest_size=20)
    for piece in pieces:
        made.update(piece)
    return made.hexdigest()


def _turn(want: Wanted) -> int:
    """Return when something is done: what is new first, then what decides, then what goes."""
    return 1 if want.decides else (2 if want.kind == "remove" else 0)


def _prepared(folder: Path, about: Journal, wants: list[Wanted], at: Telling) -> Journal:
    """Keep what will be changed, and write down what will be done."""
    actions = []
    for number, want in enumerate(wants):
        new = [want.data] if want.data is not None else (pieces_of(want.source) if want.source else [])
        action = Action(want.kind, str(want.path), after=digest(new), decides=want.decides)
        if want.kind == "create" and os.path.lexists(want.path):
            raise Refused(f"`{want.path}` is there already", hint="nothing was written")
        if want.kind in ("replace", "remove", "move"):
            data = b"".join(pieces_of(want.path))
            status = want.path.stat()
            journals.keep(folder, about.id, str(number), data)
            at("kept")
            target = str(want.target) if want.target else None
            action = replace(
                action, before=digest([data]), backup=str(number), mode=status.st_mode & 0o777, target=target,
                modified=status.st_mtime_ns,
            )  # fmt: skip
        actions.append(action)
    made = sorted({folder for want in wants for folder in _new_folders(want)}, key=lambda path: len(path.parts))
    number = max((one.number for one in journals.journals(folder)), default=0) + 1
    return replace(about, actions=tuple(actions), folders=tuple(map(str, made)), state="applying", number=number)


def _new_folders(want: Wanted) -> list[Path]:
    path = want.target or want.path
    return [above for above in path.parents if not above.exists()]


def _do(want: Wanted, action: Action, within: Path, note: Callable[[Action], object]) -> Action:
    """Do one thing; return the action as it came out."""
    match want.kind:
        case "create":
            pieces = [want.data] if want.data is not None else pieces_of(want.source or want.path)
            write_new(want.path, pieces, within=within)
        case "replace":
            return _replaced(want, action, note)
        case "move":
            assert want.target is not None
            action = _replaced(want, action, note) if want.data is not None else replace(action, after=action.before)
            note(action)
            if os.path.lexists(want.target):
                raise Refused(f"`{want.target}` is there already", hint="nothing was moved")
            want.target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            want.path.rename(want.target)
        case _:
            want.path.unlink()
    return action


def _replaced(want: Wanted, action: Action, note: Callable[[Action], object]) -> Action:
    """Give a file new content by one rename, with whatever was appended to it meanwhile (rule 3)."""
    assert want.data is not None
    read = want.read if want.read is not None else b"".join(pieces_of(want.path))
    descriptor = os.open(want.path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    try:
        beside = want.path.with_name(f".{want.path.name}.unspool.tmp")
        known, data = len(read), want.data
        if _read(descriptor, 0, known) != read:
            raise Refused(f"`{want.path}` has changed meanwhile", hint="nothing was written; plan the edit again")
        while True:
            late = _read(descriptor, known, None)
            known, data = known + len(late), data + (want.late(late) if late else b"")
            action = replace(action, after=digest([data]))
            note(action)
            _write(beside, data, action.mode)
            if os.fstat(descriptor).st_size == known:
                break
        beside.replace(want.path)
        late = _read(descriptor, known, None)
        if late:  # written to the old file by a process that had it open
            _append(want.path, want.late(late))
            action = replace(action, after=digest(pieces_of(want.path)))
        _flush(want.path.parent)
        return action
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
        os.close(descriptor)


def _undone(folder: Path, journal: Journal, at: Telling) -> Journal:
    for action in reversed(journal.actions):
        _reverse(folder, journal, action)
        at("taken back" if action.decides else "restored")
    _remove_folders(journal)
    journal = replace(journal, state="undone")
    journals.write(folder, journal)
    at("undone")
    return journal


def _finished(folder: Path, journal: Journal) -> None:
    """Do what is left of an edit that was decided: files that go."""
    for action in journal.actions:
        if action.kind == "remove" and _holds(Path(action.path), action.before):
            Path(action.path).unlink()
    journals.write(folder, replace(journal, state="done"))


def _take_back(folder: Path, journal: Journal) -> None:
    """Make it as if an edit had never begun."""
    for action in reversed(journal.actions):
        with suppress(FileNotFoundError, Refused):
            _reverse(folder, journal, action)
    _remove_folders(journal)
    journals.drop(folder, journal.id)


def _reverse(folder: Path, journal: Journal, action: Action) -> None:
    """Take one thing back, if it was done."""
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
    data = journals.kept(folder, journal.id, action.backup)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.unspool.tmp")
    _write(beside, data, action.mode)
    if action.modified is not None:
        os.utime(beside, ns=(action.modified, action.modified))
    beside.replace(path)
    _flush(path.parent)


def _check_untouched(folder: Path, journal: Journal) -> None:
    for action in journal.actions:
        if action.kind == "remove":
            continue
        path = Path(action.target or action.path)
        if not _holds(path, action.after):
            later = [one for one in journals.journals(folder) if one.number > journal.number and one.state == "done"]
            on_top = next((one.id for one in later if any(act.path == action.path for act in one.actions)), None)
            hint = f"undo `{on_top}` first" if on_top else "what was written since would be lost; it was left as it is"
            raise Refused(f"`{path}` has changed since edit `{journal.id}`", hint=hint)


def _stands(action: Action) -> bool:
    """Tell whether what decides has happened."""
    return _holds(Path(action.target or action.path), action.after)


def _is_back(action: Action) -> bool:
    """Tell whether what decides has been taken back."""
    path = Path(action.path)
    return not os.path.lexists(path) if action.kind == "create" else _holds(path, action.before)


def _holds(path: Path, wanted: str | None) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    return digest(pieces_of(path)) == wanted


def _note(folder: Path, journal: Journal, action: Action) -> Journal:
    """Write down how an action came out, if that is news."""
    actions = tuple(action if one.path == action.path else one for one in journal.actions)
    if actions != journal.actions:
        journal = replace(journal, actions=actions)
        journals.write(folder, journal)
    return journal


def _remove_folders(journal: Journal) -> None:
    for name in reversed(journal.folders):
        with suppress(OSError):  # not empty, or gone
            Path(name).rmdir()


def _read(descriptor: int, start: int, length: int | None) -> bytes:
    pieces = []
    while data := os.pread(descriptor, 1 << 20 if length is None else min(1 << 20, length), start):
        pieces.append(data)
        start += len(data)
        length = None if length is None else length - len(data)
        if length == 0:
            break
    return b"".join(pieces)


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush(folder: Path) -> None:
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
