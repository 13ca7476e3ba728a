"""Completes what is typed at the prompt: commands after `/`, files after `@`.

Rules
  1. File names come from the disk and may be hostile: a name that a terminal would show as something else is not
     offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.display import clean_line

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

MAX_FILES = 5000
"""Directory entries that are examined, so that a huge folder does not block the prompt."""
MAX_SHOWN = 50
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "target", "dist", "build", "venv"}
_COMMAND = re.compile(r"\A/[\w:./-]*\Z")
_MENTION = re.compile(r"(?:\A|(?<=\s))@(\S*)\Z")


class CompletionCandidate(NamedTuple):
    """One completion that is offered."""

    text: str
    start: int
    """Where it begins, relative to the cursor: zero or negative."""
    meta: str = ""
    """A description."""


def can_complete(before: str) -> bool:
    """Return whether the text before the cursor ends in something that can be completed."""
    return bool(_COMMAND.match(before) or _MENTION.search(before))


def find_completions(before: str, commands: dict[str, str], root: Path) -> list[CompletionCandidate]:
    """Return the completions of the text before the cursor."""
    if _COMMAND.match(before):
        return [
            CompletionCandidate(f"/{name}", -len(before), clean_line(words))
            for name, words in commands.items()
            if f"/{name}".startswith(before)
        ]
    if found := _MENTION.search(before):
        return [CompletionCandidate(path, -len(found[1])) for path in _matching_files(found[1], root)]
    return []


def _matching_files(typed: str, root: Path) -> list[str]:
    lowered = typed.lower()
    found = [path for path in _iter_files(root) if lowered in path.lower() and path == clean_line(path)]
    return sorted(found, key=lambda path: (not path.lower().startswith(lowered), len(path), path))[:MAX_SHOWN]


def _iter_files(root: Path) -> Iterator[str]:
    """Yield files and folders below a folder, the nearest first, without generated ones; at most `MAX_FILES`."""
    folders, examined = [""], 0
    while folders and examined < MAX_FILES:
        folder = folders.pop(0)
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            examined += 1
            name = f"{folder}{entry.name}"
            # Links are not followed: they may lead out of the folder, or in a circle.
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED_FOLDERS:
                    folders.append(f"{name}/")
                    yield f"{name}/"
            else:
                yield name


def make_completer(complete: Callable[[str], list[CompletionCandidate]]) -> Completer:
    """Return a prompt_toolkit completer for a function that finds completions."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Candidates(Completer):
        """Offers commands and files."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            """Yield the completions of the document."""
            for candidate in complete(document.text_before_cursor):
                yield Completion(candidate.text, start_position=candidate.start, display_meta=candidate.meta)

    return Candidates()
