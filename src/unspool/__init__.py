"""unspool reads, keeps, queries, watches, edits and continues the sessions Claude Code leaves on disk.

    import unspool

    for source in unspool.scan(Path.home() / ".claude").of(unspool.Kind.SESSION):
        for piece in unspool.pieces(source.path, final=True):
            for item in piece.items:
                ...                       # Entry (bytes and record), BadLine or Blank

Names are loaded when first used, so that `import unspool` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from unspool.edit.api import Edited
    from unspool.edit.api import Planned
    from unspool.edit.api import apply_edit
    from unspool.edit.api import edit_log
    from unspool.edit.api import plan_edit
    from unspool.edit.api import undo_edit
    from unspool.edit.planning.plan import Clone
    from unspool.edit.planning.plan import Compress
    from unspool.edit.planning.plan import Fork
    from unspool.edit.planning.plan import Move
    from unspool.edit.planning.plan import Trim
    from unspool.edit.planning.plan import TrimTo
    from unspool.edit.verify.check_session import violations
    from unspool.errors import UnspoolError
    from unspool.format.codec import decode
    from unspool.format.codec import patched
    from unspool.format.json_edit import REMOVE
    from unspool.format.json_edit import patch
    from unspool.format.records import BadLine
    from unspool.format.records import Blank
    from unspool.format.records import Entry
    from unspool.home import Home
    from unspool.home import Session
    from unspool.home import open
    from unspool.paths import project_key
    from unspool.read.chunks import Change
    from unspool.read.chunks import Position
    from unspool.read.data_report import Report
    from unspool.read.data_report import survey
    from unspool.read.source_tree import Kind
    from unspool.read.source_tree import Source
    from unspool.read.source_tree import Tree
    from unspool.read.source_tree import scan
    from unspool.read.tail import Piece
    from unspool.read.tail import pieces
    from unspool.store.sql.export import register

__version__ = "0.1.0"

__all__ = [
    "REMOVE",
    "BadLine",
    "Blank",
    "Change",
    "Clone",
    "Compress",
    "Edited",
    "Entry",
    "Fork",
    "Home",
    "Kind",
    "Move",
    "Piece",
    "Planned",
    "Position",
    "Report",
    "Session",
    "Source",
    "Tree",
    "Trim",
    "TrimTo",
    "UnspoolError",
    "apply_edit",
    "decode",
    "edit_log",
    "open",
    "patch",
    "patched",
    "pieces",
    "plan_edit",
    "project_key",
    "register",
    "scan",
    "survey",
    "undo_edit",
    "violations",
]

_HOMES = {
    "Clone": "edit.planning.plan",
    "Compress": "edit.planning.plan",
    "Fork": "edit.planning.plan",
    "Move": "edit.planning.plan",
    "TrimTo": "edit.planning.plan",
    "Trim": "edit.planning.plan",
    "Edited": "edit.api",
    "Planned": "edit.api",
    "apply_edit": "edit.api",
    "edit_log": "edit.api",
    "plan_edit": "edit.api",
    "undo_edit": "edit.api",
    "violations": "edit.verify.check_session",
    "UnspoolError": "errors",
    "decode": "format.codec",
    "patched": "format.codec",
    "BadLine": "format.records",
    "Blank": "format.records",
    "Entry": "format.records",
    "REMOVE": "format.json_edit",
    "patch": "format.json_edit",
    "Home": "home",
    "Session": "home",
    "open": "home",
    "project_key": "paths",
    "Kind": "read.source_tree",
    "Source": "read.source_tree",
    "Tree": "read.source_tree",
    "scan": "read.source_tree",
    "Report": "read.data_report",
    "survey": "read.data_report",
    "Change": "read.chunks",
    "Piece": "read.tail",
    "Position": "read.chunks",
    "pieces": "read.tail",
    "register": "store.sql.export",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `unspool` has no attribute `{name}`")
    return getattr(import_module(f"unspool.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
