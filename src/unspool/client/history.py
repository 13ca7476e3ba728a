"""What was typed, for the next time: a line in `history.jsonl` for each prompt, as the program keeps them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.writer import append


def remember(config: Path, text: str, project: Path, session_id: str, now: datetime) -> None:
    """Add a prompt that somebody typed."""
    line = {
        "display": text,
        "pastedContents": {},
        "timestamp": round(now.timestamp() * 1000),
        "project": str(project),
        "sessionId": session_id,
    }
    append(config / "history.jsonl", msgspec.json.encode(line) + b"\n")
