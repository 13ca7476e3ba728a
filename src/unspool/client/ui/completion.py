"""What can go on from what was typed: a command after `/`, a file after `@`.

Rules
  1. A file's name comes from the disk, which anybody may have written: it is shown cleaned, and one that would be shown
     as something else than it is, is not offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.display.safe import clean_line

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

MANY = 5000
"""Files that are looked at."""
SHOWN = 50
_SKIPPED = {"node_modules", "__pycache__", "target", "dist", "build", "venv"}
_COMMAND = re.compile(r"\A/[\w:./-]*\Z")
_MENTION = re.compile(r"(?:\A|(?<=\s))@(\S*)\Z")


class Candidate(NamedTuple):
    """Something that can be completed to."""

    text: str
    start: int
    """Where it begins, counted back from the cursor."""
    meta: str = ""


def is_open(before: str) -> bool:
    """Tell whether the text before the cursor ends in something that can be completed."""
    return bool(_COMMAND.match(before) or _MENTION.search(before))


def candidates(before: str, commands: dict[str, str], root: Path) -> list[Candidate]:
    """Return what the text before the cursor may go on to."""
    if _COMMAND.match(before):
        return [
            Candidate(f"/{name}", -len(before), clean_line(words))
            for name, words in commands.items()
            if f"/{name}".startswith(before)
        ]
    if found := _MENTION.search(before):
        return [Candidate(path, -len(found[1])) for path in _matching(found[1], root)]
    return []


def _matching(typed: str, root: Path) -> list[str]:
    wanted = typed.lower()
    found = [path for path in _files(root) if wanted in path.lower() and path == clean_line(path)]
    return sorted(found, key=lambda path: (not path.lower().startswith(wanted), len(path), path))[:SHOWN]


def _files(root: Path) -> Iterator[str]:
    """Yield files below a folder, near ones first, without those that nobody means; not more than some."""
    folders, seen = [""], 0
    while folders and seen < MANY:
        folder = folders.pop(0)
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            name = f"{folder}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    folders.append(f"{name}/")
                    yield f"{name}/"
            else:
                yield name


def completer(complete: Callable[[str], list[Candidate]]) -> Completer:
    """Return what completes at the prompt."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Candidates(Completer):
        """Commands and files."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            """Yield what goes on as what is typed."""
            for one in complete(document.text_before_cursor):
                yield Completion(one.text, start_position=one.start, display_meta=one.meta)

    return Candidates()
