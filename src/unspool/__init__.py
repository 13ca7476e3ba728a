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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspool.errors import UnspoolError
    from unspool.format.codec import decode, patched
    from unspool.format.entry import BadLine, Blank, Entry
    from unspool.format.patch import REMOVE, patch
    from unspool.home import Home, Session, open
    from unspool.paths import project_key
    from unspool.read.scan import Kind, Source, Tree, scan
    from unspool.read.survey import Report, survey
    from unspool.read.tail import Change, Piece, Position, pieces
    from unspool.store.registered import register

__version__ = "0.1.0"

__all__ = [
    "REMOVE",
    "BadLine",
    "Blank",
    "Change",
    "Entry",
    "Home",
    "Kind",
    "Piece",
    "Position",
    "Report",
    "Session",
    "Source",
    "Tree",
    "UnspoolError",
    "decode",
    "open",
    "patch",
    "patched",
    "pieces",
    "project_key",
    "register",
    "scan",
    "survey",
]

_HOMES = {
    "UnspoolError": "errors",
    "decode": "format.codec",
    "patched": "format.codec",
    "BadLine": "format.entry",
    "Blank": "format.entry",
    "Entry": "format.entry",
    "REMOVE": "format.patch",
    "patch": "format.patch",
    "Home": "home",
    "Session": "home",
    "open": "home",
    "project_key": "paths",
    "Kind": "read.scan",
    "Source": "read.scan",
    "Tree": "read.scan",
    "scan": "read.scan",
    "Report": "read.survey",
    "survey": "read.survey",
    "Change": "read.tail",
    "Piece": "read.tail",
    "Position": "read.tail",
    "pieces": "read.tail",
    "register": "store.registered",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `unspool` has no attribute `{name}`")
    return getattr(import_module(f"unspool.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
