"""What was typed in a folder before: `history.jsonl` in, prompts out.

Rules
  1. Only the end of the file is read, and what is no prompt of this folder is passed over, whatever it is.
"""

from __future__ import annotations

from pathlib import Path

from unspool.errors import UnspoolError
from unspool.format.codec import HISTORY, decode
from unspool.format.entry import Entry
from unspool.format.sidecars import HistoryEntry
from unspool.read.files import open_regular
from unspool.read.text import read_at

NEAR = 1 << 20
"""How many bytes from the end are read."""
MOST = 500


def typed(path: Path, project: str) -> list[str]:
    """Return what was typed in a project, the oldest first; nothing twice in a row."""
    found: list[str] = []
    for line in _last_lines(path):
        for item in decode(line, dialect=HISTORY):
            entry: object = item.record if isinstance(item, Entry) else None
            match entry:
                case HistoryEntry(project=place, display=str(words)) if place == project and found[-1:] != [words]:
                    found.append(words)
                case _:
                    pass
    return found[-MOST:]


def _last_lines(path: Path) -> list[bytes]:
    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            data = read_at(file, max(size - NEAR, 0), NEAR, path)
    except (OSError, UnspoolError):
        return []
    lines = data.split(b"\n")
    return [line for line in (lines if size <= NEAR else lines[1:]) if line.strip()]
