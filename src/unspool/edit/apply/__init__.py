"""Applies planned edits to files, all or nothing, and takes them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.apply.journal import Journal, list_unreadable, read_journals

__all__ = ["Journal", "list_unreadable", "read_journals"]

__getattr__ = lazy_door(__name__, {
    "journal": "Journal list_unreadable read_journals",
})
