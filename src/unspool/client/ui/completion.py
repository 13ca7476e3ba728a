"""Completes what is typed at the prompt: commands after `/`, files and resources of MCP servers after `@`.

Rules
  1. File names come from the disk and may be hostile: a name that a terminal would show as something else is not
     offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from unspool.display import clean_line

MAX_FILES = 5000
"""Directory entries that are examined, so that a huge folder does not block the prompt."""
MAX_SHOWN = 50
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "target", "dist", "build", "venv"}
_COMMAND = re.compile(r"\A/[\w:./-]*\Z")
_MENTION = re.compile(r"(?:\A|(?<=\s))@(\S*)\Z")


def can_complete(before: str) -> bool:
    """Return whether the text before the cursor ends in something that can be completed."""
    return bool(_COMMAND.match(before) or _MENTION.search(before))


class ChatCompleter(Completer):
    """Offers commands after `/`, and files after `@`."""

    def __init__(
        self,
        commands: Callable[[], dict[str, str]],
        root: Path,
        resources: Callable[[], list[str]] = list,
    ) -> None:
        self._commands = commands
        self._root = root
        self._resources = resources

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the text before the cursor."""
        before = document.text_before_cursor
        if _COMMAND.match(before):
            for name, words in self._commands().items():
                if f"/{name}".startswith(before):
                    yield Completion(f"/{name}", -len(before), display_meta=clean_line(words))
        elif found := _MENTION.search(before):
            for path in _matching_files(found[1], self._root):
                yield Completion(path, -len(found[1]))
            lowered = found[1].lower()
            matching = (name for name in self._resources() if lowered in name.lower() and name == clean_line(name))
            for name in islice(matching, MAX_SHOWN):
                yield Completion(name, -len(found[1]), display_meta="MCP resource")


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
