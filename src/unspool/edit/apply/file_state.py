"""Tells whether an action of an edit has happened, by what its file holds.

Lines may have been appended to a file since, before or after the action: its beginning decides then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from msgspec.structs import replace

from unspool.edit.apply.journal import Action
from unspool.files import read_pieces


class FileState(Enum):
    """What the file of an action holds."""

    BEFORE = "before"
    BEFORE_APPENDED = "old content with appended lines"
    AFTER = "after"
    AFTER_APPENDED = "new content with appended lines"
    UNKNOWN = "something else"

    @property
    def is_before(self) -> bool:
        """Whether the action has not happened."""
        return self in (FileState.BEFORE, FileState.BEFORE_APPENDED)

    @property
    def is_after(self) -> bool:
        """Whether the action has happened."""
        return self in (FileState.AFTER, FileState.AFTER_APPENDED)


def read_state(action: Action) -> FileState:
    """Return what the file of an action holds."""
    path = Path(action.path)
    if action.kind == "create":
        if not os.path.lexists(path):
            return FileState.BEFORE
        return compare_file(path, replace(action, before=None, before_size=None))
    if action.kind == "remove":
        if not os.path.lexists(path):
            return FileState.AFTER
        return compare_file(path, replace(action, after=None, after_size=None))
    if action.target is not None and os.path.lexists(action.target):
        # Moved only if the target is the file that was moved: its name may have been taken by another one.
        moved = compare_file(Path(action.target), replace(action, before=None, before_size=None))
        if moved is not FileState.UNKNOWN:
            return moved
    state = compare_file(path, action)
    # Under its old name it has not been moved yet, whatever it holds.
    return FileState.BEFORE_APPENDED if action.target is not None and state.is_after else state


def compare_file(path: Path, action: Action) -> FileState:
    """Compare a file with the content before and after an action, and with their beginnings."""
    if not path.is_file() or path.is_symlink():
        return FileState.UNKNOWN
    sizes = {size for size in (action.before_size, action.after_size) if size is not None}
    digests = _hash_prefixes(path, sizes)
    whole = digests[None]
    if whole == action.before:
        return FileState.BEFORE
    if whole == action.after:
        return FileState.AFTER
    begins_old = action.before_size is not None and digests.get(action.before_size) == action.before
    begins_new = action.after_size is not None and digests.get(action.after_size) == action.after
    # One content may be the beginning of the other: then the longer of the two is meant.
    if begins_old and not (begins_new and (action.after_size or 0) > (action.before_size or 0)):
        return FileState.BEFORE_APPENDED
    return FileState.AFTER_APPENDED if begins_new else FileState.UNKNOWN


def _hash_prefixes(path: Path, sizes: set[int]) -> dict[int | None, str]:
    """Return the hash of a file (None), and of its first so many bytes where it has more than that."""
    digest, found, at = hashlib.blake2b(digest_size=20), dict[int | None, str](), 0
    for piece in read_pieces(path):
        for size in sorted(size for size in sizes if at <= size < at + len(piece)):
            part = digest.copy()
            part.update(piece[: size - at])
            found[size] = part.hexdigest()
        digest.update(piece)
        at += len(piece)
    return {**found, None: digest.hexdigest()}


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """Return the hash of a content."""
    return hash_and_size(pieces)[0]


def hash_and_size(pieces: Iterable[bytes]) -> tuple[str, int]:
    """Return the hash of a content, and its number of bytes."""
    digest, size = hashlib.blake2b(digest_size=20), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def holds(path: Path, digest: str | None) -> bool:
    """Tell whether a file holds the content with this hash, and nothing else."""
    if not path.is_file() or path.is_symlink():
        return False
    return hash_pieces(read_pieces(path)) == digest
