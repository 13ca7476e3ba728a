"""Reads and appends the history of prompts (`history.jsonl`), as Claude Code keeps it.

Rules
  1. Only the end of the file is read; lines that are no prompt of this folder are skipped, whatever they are.
  2. A pasted text is a placeholder in the prompt; the text itself is beside it, or in `paste-cache/` where Claude Code
     has written it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.client.session.pasted_texts import fold_known
from unspool.client.session.writer import append_bytes
from unspool.errors import UnspoolError
from unspool.files import open_regular
from unspool.format import encode_line
from unspool.format import written_lines as lines

if TYPE_CHECKING:
    from unspool.format.side_files import Pasted

_READ_BYTES = 1 << 20
_MAX_PROMPTS = 500
_HASH = re.compile(r"[0-9a-f]{8,64}")
_COMMAND = re.compile(
    r"<command-message>.*?</command-message>\n<command-name>(/.*?)</command-name>(?:\n<command-args>(.*)</command-args>)?",
    re.DOTALL,
)


class TypedPrompt(NamedTuple):
    """A prompt as it was typed, and the texts that were pasted into it, by number."""

    display: str
    pasted: Mapping[int, str] = {}


def read_prompt_history(path: Path, project: str) -> list[TypedPrompt]:
    """Return the prompts that were typed in a project, the oldest first; repetitions in a row once."""
    # A headless chat appends to the history and never reads it: the decoder is loaded only here.
    from unspool.format import HISTORY, Entry, decode
    from unspool.format.side_files import HistoryEntry

    prompts: list[tuple[str, dict[str, Pasted]]] = []
    for line in _last_lines(path):
        for item in decode(line, dialect=HISTORY):
            entry: object = item.record if isinstance(item, Entry) else None
            match entry:
                case HistoryEntry(project=folder, display=str(text), pasted_contents=pasted) if folder == project:
                    if prompts[-1:] != [(text, pasted)]:
                        prompts.append((text, pasted))
                case _:
                    pass
    cache = path.parent / "paste-cache"
    return [TypedPrompt(text, _read_pasted(pasted, cache)) for text, pasted in prompts[-_MAX_PROMPTS:]]


def _read_pasted(pasted: Mapping[str, Pasted], cache: Path) -> dict[int, str]:
    """Return the pasted texts that are still there."""
    from unspool.files import read_at

    texts: dict[int, str] = {}
    for number, part in pasted.items():
        if part.type != "text" or not number.isdecimal():
            continue
        if part.content:
            texts[int(number)] = part.content
        elif part.content_hash and _HASH.fullmatch(part.content_hash):
            kept = cache / f"{part.content_hash}.txt"
            with suppress(OSError, UnspoolError), open_regular(kept) as file:
                texts[int(number)] = read_at(file, 0, _READ_BYTES, kept).decode(errors="replace")
    return texts


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


class HistoryPlace(NamedTuple):
    """Where a prompt was typed, and when."""

    config: Path
    project: Path
    session_id: str
    now: datetime


def append_prompt(place: HistoryPlace, text: str, pasted: Mapping[int, str]) -> None:
    """Append a prompt that a user typed, with the texts that were pasted into it."""
    display, used = fold_known(text_as_typed(text), pasted)
    line = lines.HistoryLine(
        display=display,
        # Newer versions of Claude Code move a long text to `paste-cache/`; all of them read it here.
        pasted_contents={
            str(number): {"id": number, "type": "text", "content": content} for number, content in sorted(used.items())
        },
        timestamp=round(place.now.timestamp() * 1000),
        project=str(place.project),
        session_id=place.session_id,
    )
    append_bytes(place.config / "history.jsonl", encode_line(line))


def is_command(text: str) -> bool:
    """Tell whether a prompt is the expanded form of a slash command."""
    return _COMMAND.fullmatch(text) is not None


def text_as_typed(text: str) -> str:
    """Return a prompt as it was typed: of a slash command, its name and arguments."""
    found = _COMMAND.fullmatch(text)
    return " ".join(part for part in found.groups() if part) if found else text
