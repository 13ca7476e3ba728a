"""Lines that were appended to a session while it was edited, made to fit what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unspool.edit.manuscript import read
from unspool.format.entry import Entry
from unspool.format.patch import patch


def fitted(moved: Mapping[str, str | None]) -> Callable[[bytes], bytes]:
    """Return what makes late lines hang on lines that are still there; all else of them stays."""

    def fit(late: bytes) -> bytes:
        pieces = []
        tail = read("", late)
        for item in tail.items:
            piece = late[item.offset : item.offset + item.length]
            if isinstance(item, Entry) and item.record.parent_uuid in moved:
                piece = patch(piece, {("parentUuid",): moved[item.record.parent_uuid or ""]})
            pieces.append(piece)
        return b"".join(pieces)

    return fit
