"""What was typed in a folder before: `history.jsonl` in, prompts out.

Rules
  1. Only the end of the file is read, and what is no prompt of this folder is passed over, whatever it is.

[merged: history.py] What was typed, for the next time: a line in `history.jsonl` for each prompt, as the program keeps them.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.session.writer import append, spelled
from unspool.errors import UnspoolError
from unspool.files.open import open_regular
from unspool.format.codec import HISTORY, decode
from unspool.format.entry import Entry
from unspool.format.side_files.json import HistoryEntry
from unspool.read.chunks import read_at

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


_COMMAND = re.compile(
    r"<command-message>.*?</command-message>\n<command-name>(/.*?)</command-name>(?:\n<command-args>(.*)</command-args>)?",
    re.DOTALL,
)


def is_command(text: str) -> bool:
    """Tell whether a prompt is a command's raw line."""
    return _COMMAND.fullmatch(text) is not None


def remember(config: Path, text: str, project: Path, session_id: str, now: datetime) -> None:
    """Add a prompt that somebody typed."""
    line = {
        "display": typed_as(text),
        "pastedContents": {},
        "timestamp": round(now.timestamp() * 1000),
        "project": spelled(str(project)),
        "sessionId": session_id,
    }
    append(config / "history.jsonl", msgspec.json.encode(line) + b"\n")


def typed_as(text: str) -> str:
    """Return what was typed: of a command its name and arguments."""
    found = _COMMAND.fullmatch(text)
    return " ".join(part for part in found.groups() if part) if found else text
