"""unspool reads, keeps, queries, watches, edits and continues the sessions Claude Code leaves on disk.

    import unspool

    for source in unspool.scan(Path.home() / ".claude").of(unspool.Kind.SESSION):
        for piece in unspool.pieces(source.path, final=True):
            for item in piece.items:
                ...                       # Entry (bytes and record), BadLine or Blank

Names are loaded when first used, so that `import unspool` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.api import Edited, Planned, apply_edit, edit_log, plan_edit, undo_edit
    from unspool.edit.planning.plan import Clone, Compress, Fork, Move, Repair, Trim, TrimTo
    from unspool.edit.verify.verify import violations
    from unspool.errors import UnspoolError
    from unspool.format.codec import decode, patched
    from unspool.format.json_edit import REMOVE, patch
    from unspool.format.records import BadLine, Blank, Entry
    from unspool.home import Session
    from unspool.library import Home, UsageTable, open
    from unspool.paths import project_key
    from unspool.read.lines import Change, Position
    from unspool.read.data_report import Report, survey
    from unspool.read.source_tree import Kind, Source, Tree, scan
    from unspool.read.tail import Piece, pieces
    from unspool.store.sql.export import register

__version__ = "0.2.0"

__all__ = [
    "REMOVE", "BadLine", "Blank", "Change", "Clone", "Compress", "Edited", "Entry", "Fork", "Home", "Kind", "Move",
    "Piece", "Planned", "Position", "Repair", "Report", "Session", "Source", "Tree", "Trim", "TrimTo", "UnspoolError",
    "UsageTable", "apply_edit", "decode", "edit_log", "open", "patch", "patched", "pieces", "plan_edit", "project_key",
    "register", "scan", "survey", "undo_edit", "violations",
]

__getattr__ = lazy_door(__name__, {
    "edit.api": "Edited Planned apply_edit edit_log plan_edit undo_edit",
    "edit.planning.plan": "Clone Compress Fork Move Repair Trim TrimTo",
    "edit.verify.verify": "violations",
    "errors": "UnspoolError",
    "format.codec": "decode patched",
    "format.json_edit": "REMOVE patch",
    "format.records": "BadLine Blank Entry",
    "home": "Session",
    "library": "Home UsageTable open",
    "paths": "project_key",
    "read.lines": "Change Position",
    "read.data_report": "Report survey",
    "read.source_tree": "Kind Source Tree scan",
    "read.tail": "Piece pieces",
    "store.sql.export": "register",
})
# fmt: on


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
