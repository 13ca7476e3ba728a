"""Finds the prompts that a session can be rewound to, and restores the files as they were before a prompt.

Rules
  1. A rewind overwrites nothing: what came after stays in the file as a branch, and files are backed up before they are
     restored.
  2. A file that was first tracked after a prompt was, at that prompt, as its first backup has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unspool.client.session.file_backups import FileBackups
from unspool.client.tool_result import Json
from unspool.errors import NotFound
from unspool.files import raise_unwritable, write_atomically
from unspool.format import Backup, Entry, FileBackup, FileHistoryDelta, FileHistorySnapshot, User
from unspool.graph import Speaker, classify_user_record, find_thread_entries, find_threads, typed_text
from unspool.graph.context import build_context


class RewindPoint(NamedTuple):
    """A prompt that a session can be rewound to."""

    uuid: str
    parent: str | None
    text: str
    files: tuple[str, ...]
    """The tracked files that have changed since."""


class ConversationBranch(NamedTuple):
    """One thread of a session."""

    leaf: str
    text: str
    """Its last prompt."""
    detail: str
    is_active: bool


def find_rewind_points(entries: Sequence[Entry], backups: FileBackups) -> list[RewindPoint]:
    """Return the prompts of the active thread, the oldest first."""
    files_by_prompt = _files_by_prompt(entries)
    digests: dict[str, bytes | None] = {}
    points = []
    for line in find_thread_entries(entries):
        record = line.record
        if is_prompt(line) and isinstance(record, User):
            files = files_by_prompt.get(record.uuid, {})
            changed = [path for path, backup in files.items() if backups.differs(path, backup, digests)]
            text = typed_text(record.message.blocks)
            points.append(RewindPoint(record.uuid or "", record.parent_uuid, text, tuple(sorted(changed))))
    return points


def messages_until(entries: Sequence[Entry], leaf: str, model: str) -> list[Json]:
    """Return the messages up to a line, without what no line says: the conversation continues from there."""
    messages = build_context(entries, leaf, model)
    if messages and all(block.entry is None for block in messages[-1].blocks):
        messages.pop()
    return [message.json for message in messages]


def list_branches(entries: Sequence[Entry]) -> list[ConversationBranch]:
    """Return the threads of a session, the oldest first."""
    active = {line.record.uuid for line in find_thread_entries(entries)}
    branches = []
    for thread in find_threads(entries):
        prompts = [line.record for line in thread.entries if is_prompt(line)]
        texts = [typed_text(record.message.blocks) for record in prompts if isinstance(record, User)]
        leaf = thread.leaf.record.uuid or ""
        count = f"{len(texts)} prompt{'' if len(texts) == 1 else 's'}"
        when = (thread.leaf.record.timestamp or "")[:16].replace("T", " ")
        branches.append(ConversationBranch(leaf, texts[-1] if texts else "", f"{count}, {when}", leaf in active))
    return branches


def is_prompt(line: Entry) -> bool:
    """Tell whether a line is a prompt of the user, or a slash command."""
    record = line.record
    return isinstance(record, User) and classify_user_record(record) in (Speaker.HUMAN, Speaker.COMMAND)


def files_before(entries: Sequence[Entry], prompt: str) -> dict[str, FileBackup]:
    """Return the backup of every tracked file as it was before a prompt."""
    return _files_by_prompt(entries).get(prompt, {})


def restore_files(backups: FileBackups, root: Path, files: Mapping[str, FileBackup]) -> list[str]:
    """Restore files from their backups; return those that changed."""
    names = {path: backup.backup_file_name for path, backup in files.items()}
    contents = {path: backups.read_backup(name) for path, name in names.items() if name is not None}
    missing = [path for path, content in contents.items() if content is None]
    # All backups are looked at before the first file is written: all files are restored, or none.
    if missing:
        raise NotFound(f"the backup of `{missing[0]}` no longer exists", hint="nothing was changed")
    return [path for path in sorted(files) if _restore(root / path, contents.get(path))]


def _restore(path: Path, content: tuple[bytes, int] | None) -> bool:
    """Write a file as it was, or delete it if it did not exist; tell whether that changed anything."""
    with raise_unwritable(f"cannot restore `{path}`"):
        if content is None:
            if not path.is_file():
                return False
            path.unlink()
            return True
        if path.is_file() and path.stat().st_size == len(content[0]) and path.read_bytes() == content[0]:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(path, *content)
    return True


def _replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file as a whole; an existing one keeps its mode."""
    target = path.resolve()
    # A backup has only the owner's bits (0700); a file that is created anew gets the same bits for group and others.
    bits = target.stat().st_mode & 0o7777 if target.exists() else (mode | mode >> 3 | mode >> 6) & ~_umask()
    write_atomically(target, data, bits)


def _umask() -> int:
    now = os.umask(0o077)  # it can only be read by setting it
    os.umask(now)
    return now


def _files_by_prompt(entries: Sequence[Entry]) -> dict[str | None, dict[str, FileBackup]]:
    """Return how files were before each prompt: as its snapshot has them, else as the next one has that does."""
    by_prompt: dict[str | None, dict[str, FileBackup]] = {}
    for prompt, path, backup in tracked_files(entries):
        by_prompt.setdefault(prompt, {})[path] = backup
    later: dict[str, FileBackup] = {}
    for prompt in reversed([*by_prompt]):
        later = by_prompt[prompt] = {**later, **by_prompt[prompt]}
    return by_prompt


def tracked_files(entries: Iterable[Entry]) -> Iterable[tuple[str | None, str, FileBackup]]:
    """Yield what the snapshots of a session say: the uuid of the prompt, a file, its backup."""
    for entry in entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot):
                for path, backup in snapshot.tracked_file_backups.items():
                    yield snapshot.message_id, path, _from_record(backup)
            case FileHistoryDelta(snapshot_message_id=prompt, tracking_path=str(path), backup=Backup() as backup):
                yield prompt, path, _from_record(backup)
            case _:
                pass


def _from_record(backup: Backup) -> FileBackup:
    return FileBackup(backup.backup_file_name, backup.version or 1, backup.backup_time or "")
