"""Changing a file that was read: what all tools that do it share.

Rules
  1. A file that was not read, or is not as it was when it was read, is not changed.
  2. It is kept (`desk.keep`) before it is changed, and seen as it is afterwards.
  3. Nothing is waited for between the look and the change: no other call comes between, and no interrupt.
"""

from __future__ import annotations

from pathlib import Path

from unspool.client.desk import Desk
from unspool.client.tools import disk
from unspool.client.tools.text import decoded
from unspool.client.tools.tool import BadCall

UNREAD = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)


def current(path: Path, desk: Desk) -> bytes:
    """Return what is in a file, if it was read and is as it was then."""
    earlier = desk.seen.text(path) if desk.seen.look(path) is None else None
    if earlier is None and desk.seen.look(path) is None:
        raise BadCall(UNREAD)
    data = disk.load(path).data
    if not (desk.seen.is_current(path, data) if earlier is None else decoded(data).shown == earlier):
        raise BadCall(CHANGED)
    return data


def change(path: Path, data: bytes, desk: Desk) -> None:
    """Write a file."""
    desk.keep(path)
    modified = disk.store(path, data)
    desk.seen.note(path, data, modified)


def checked(text: str, name: str) -> str:
    """Return a text that a model wrote, if a file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadCall(f"The parameter `{name}` has half of a surrogate pair in it, which no file can hold.") from None
    return text
