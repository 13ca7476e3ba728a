"""The way back: the prompts of a conversation and what its files were like before each; its branches.

Rules
  1. Going back writes nothing over: what was said stays as a branch, and files are kept as they are before they change.
  2. A file that came to be tracked after a prompt was, at that prompt, as its first backup has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from unspool.client.backups import Backups, Kept
from unspool.errors import NotFound, Unwritable
from unspool.format.entry import Entry
from unspool.format.notes import Backup, FileHistoryDelta, FileHistorySnapshot
from unspool.format.records import User
from unspool.graph.context import context
from unspool.graph.speakers import Speaker
from unspool.graph.thread_lines import thread_lines
from unspool.graph.threads import threads
from unspool.graph.turns import speaker, typed_text


class Point(NamedTuple):
    """A prompt to go back to."""

    uuid: str
    parent: str | None
    text: str
    files: tuple[str, ...]
    """What has changed since, as far as it is tracked."""


class Branch(NamedTuple):
    """A way a conversation went."""

    leaf: str
    text: str
    """Its last prompt."""
    detail: str
    is_active: bool


def points(entries: Sequence[Entry], backups: Backups) -> list[Point]:
    """Return the prompts of the thread that is gone on with, the oldest first."""
    then = _before(entries)
    now: dict[str, bytes | None] = {}
    found = []
    for line in thread_lines(entries):
        record = line.record
        if is_prompt(line) and isinstance(record, User):
            files = [path for path, kept in then.get(record.uuid, {}).items() if backups.differs(path, kept, now)]
            text = typed_text(record.message.blocks)
            found.append(Point(record.uuid or "", record.parent_uuid, text, tuple(sorted(files))))
    return found


def said(entries: Sequence[Entry], leaf: str, model: str) -> list[dict[str, Any]]:
    """Return what was said up to a line: no more than its lines say, for it is gone on with from there."""
    found = context(entries, leaf, model)
    if found and all(block.entry is None for block in found[-1].blocks):
        found.pop()
    return [message.json for message in found]


def branches(entries: Sequence[Entry]) -> list[Branch]:
    """Return every way the conversation went, the oldest first."""
    active = {line.record.uuid for line in thread_lines(entries)}
    found = []
    for thread in threads(entries):
        prompts = [line for line in thread.entries if is_prompt(line)]
        texts = [typed_text(line.record.message.blocks) for line in prompts if isinstance(line.record, User)]
        leaf = thread.leaf.record.uuid or ""
        count = f"{len(texts)} prompt{'' if len(texts) == 1 else 's'}"
        when = (thread.leaf.record.timestamp or "")[:16].replace("T", " ")
        found.append(Branch(leaf, texts[-1] if texts else "", f"{count}, {when}", leaf in active))
    return found


def is_prompt(line: Entry) -> bool:
    """Tell whether a line is what somebody asked for."""
    record = line.record
    return isinstance(record, User) and speaker(record) in (Speaker.HUMAN, Speaker.COMMAND)


def before(entries: Sequence[Entry], prompt: str) -> dict[str, Kept]:
    """Return how every tracked file was before a prompt."""
    return _before(entries).get(prompt, {})


def restore(backups: Backups, root: Path, wanted: dict[str, Kept]) -> list[str]:
    """Let files be as they were; return those that changed."""
    missing = [path for path, kept in wanted.items() if kept.name is not None and backups.held(kept.name) is None]
    if missing:
        raise NotFound(f"there is no backup of `{missing[0]}` any more", hint="nothing was changed")
    changed = []
    for path, kept in sorted(wanted.items()):
        if _restored(backups, root / path, kept):
            changed.append(path)
    return changed


def _restored(backups: Backups, path: Path, kept: Kept) -> bool:
    try:
        if kept.name is None:
            if not path.is_file():
                return False
            path.unlink()
            return True
        held = backups.held(kept.name)
        assert held is not None
        data, mode = held
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data, mode)
    except OSError as error:
        raise Unwritable(f"cannot restore `{path}`: {(error.strerror or '').lower()}") from None
    return True


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file as a whole; it keeps its rights, a new one gets those of its owner's."""
    target = path.resolve()
    rights = target.stat().st_mode & 0o7777 if target.exists() else (mode | mode >> 3 | mode >> 6) & ~_umask()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), rights)
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _before(entries: Sequence[Entry]) -> dict[str | None, dict[str, Kept]]:
    """Return how files were before each prompt: as its snapshot has them, else as the next one has that does."""
    told: dict[str | None, dict[str, Kept]] = {}
    for prompt, path, backup in _tracked(entries):
        told.setdefault(prompt, {})[path] = Kept(backup.backup_file_name, backup.version or 1, backup.backup_time or "")
    later: dict[str, Kept] = {}
    for prompt in reversed([*told]):
        later = told[prompt] = {**later, **told[prompt]}
    return told


def _tracked(entries: Iterable[Entry]) -> Iterable[tuple[str | None, str, Backup]]:
    """Yield what snapshots tell: the prompt, a file, its backup."""
    for entry in entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot):
                yield from ((snapshot.message_id, *one) for one in snapshot.tracked_file_backups.items())
            case FileHistoryDelta(snapshot_message_id=prompt, tracking_path=str(path), backup=Backup() as backup):
                yield prompt, path, backup
            case _:
                pass
