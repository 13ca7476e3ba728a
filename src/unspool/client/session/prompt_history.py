"""Reads and appends the history of prompts (`history.jsonl`), as Claude Code keeps it.

Rules
  1. Only the end of the file is read; lines that are no prompt of this folder are skipped, whatever they are.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from unspool.client.session.writer import append_bytes
from unspool.errors import UnspoolError
from unspool.files import open_regular
from unspool.format import encode_line
from unspool.format import written_lines as lines

_READ_BYTES = 1 << 20
_MAX_PROMPTS = 500
_COMMAND = re.compile(
    r"<command-message>.*?</command-message>\n<command-name>(/.*?)</command-name>(?:\n<command-args>(.*)</command-args>)?",
    re.DOTALL,
)


def read_prompt_history(path: Path, project: str) -> list[str]:
    """Return the prompts that were typed in a project, the oldest first; repetitions in a row once."""
    # A headless chat appends to the history and never reads it: the decoder is loaded only here.
    from unspool.format import HISTORY, Entry, decode
    from unspool.format.side_files import HistoryEntry

    prompts: list[str] = []
    for line in _last_lines(path):
        for item in decode(line, dialect=HISTORY):
            entry: object = item.record if isinstance(item, Entry) else None
            match entry:
                case HistoryEntry(project=folder, display=str(text)) if folder == project and prompts[-1:] != [text]:
                    prompts.append(text)
                case _:
                    pass
    return prompts[-_MAX_PROMPTS:]


def _last_lines(path: Path) -> list[bytes]:
    from unspool.files import read_at

    try:
        size = path.stat().st_size
        with open_regular(path) as file:
            data = read_at(file, max(size - _READ_BYTES, 0), _READ_BYTES, path)
    except (OSError, UnspoolError):
        return []
    lines = data.split(b"\n")
    # Of a longer file, the first line is the end of one that was cut.
    return [line for line in (lines if size <= _READ_BYTES else lines[1:]) if line.strip()]


def append_prompt(config: Path, text: str, project: Path, session_id: str, now: datetime) -> None:
    """Append a prompt that a user typed."""
    line = lines.HistoryLine(
        display=text_as_typed(text),
        timestamp=round(now.timestamp() * 1000),
        project=str(project),
        session_id=session_id,
    )
    append_bytes(config / "history.jsonl", encode_line(line))


def is_command(text: str) -> bool:
    """Tell whether a prompt is the expanded form of a slash command."""
    return _COMMAND.fullmatch(text) is not None


def text_as_typed(text: str) -> str:
    """Return a prompt as it was typed: of a slash command, its name and arguments."""
    found = _COMMAND.fullmatch(text)
    return " ".join(part for part in found.groups() if part) if found else text
