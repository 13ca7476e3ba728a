"""What was typed, for the next time: a line in `history.jsonl` for each prompt, as the program keeps them."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.writer import append

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
        "project": str(project),
        "sessionId": session_id,
    }
    append(config / "history.jsonl", msgspec.json.encode(line) + b"\n")


def typed_as(text: str) -> str:
    """Return what was typed: of a command its name and arguments."""
    found = _COMMAND.fullmatch(text)
    return " ".join(part for part in found.groups() if part) if found else text
