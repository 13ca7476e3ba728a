"""Glob: a pattern of names in, the files that fit it out.

Rules
  1. A hundred files at most: the ones changed last, and of them the one changed first comes first.
  2. What a rule hides is not found.
  3. What git ignores is found too. What is in `.git` is not, unless the pattern names it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from unspool.client.permissions.paths import searched
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Outcome, aim, parse, schema
from unspool.client.tools.files import text_file
from unspool.client.tools.search.walk import OWN_FOLDERS, BadPattern, Late, Stop, fits, walk

Json: TypeAlias = dict[str, Any]

MOST = 100
_SECONDS = 20.0


class GlobInput(Asked, frozen=True):
    """Find files by name."""

    pattern: Annotated[str, Meta(description='As "**/*.py"')]
    path: Annotated[str | None, Meta(description="Folder; default: the current one")] = None


class Glob:
    """The tool."""

    name = "Glob"
    description = "Find files by name pattern, sorted by time of change."
    is_concurrent = True

    def __init__(self) -> None:
        self.input_schema = schema(GlobInput)

    def target(self, input: Json) -> str:
        """Return the pattern."""
        return aim(input, "pattern")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Look for files."""
        asked = parse(self.name, input, GlobInput)
        root, pattern = searched(asked.path, asked.pattern, desk)
        named = asked.path or str(root)
        found = text_file.status(root)
        if found is None:
            raise BadCall(f"Directory does not exist: {named}")
        if not root.is_dir():
            raise BadCall(f"Path is not a directory: {named}")
        stop = Stop(_SECONDS)
        try:
            return await asyncio.to_thread(_found, root, pattern, desk.hides, stop)
        finally:
            stop.tell()  # nothing is left running if the call is cancelled


def _found(root: Path, pattern: str, hides: Callable[[Path], bool], stop: Stop) -> Outcome:
    began = time.monotonic()
    try:
        fit = fits(pattern)
    except BadPattern as problem:
        raise BadCall(f"The pattern cannot be read: {problem}.") from None
    named = OWN_FOLDERS & set(pattern.split("/"))
    files: list[tuple[int, str]] = []
    is_late = False
    try:
        for listed in walk(root, stop, None, _foreign(named)):
            if fit(listed.path) and not hides(root / listed.path):
                with suppress(FileNotFoundError):
                    files.append((listed.entry.stat(follow_symlinks=False).st_mtime_ns, str(root / listed.path)))
    except Late:
        is_late = True
    files.sort()
    filenames = [name for _, name in files[-MOST:]]
    truncated = is_late or len(files) > MOST
    note = ["(Results are truncated. Consider using a more specific path or pattern.)"] if truncated else []
    result = {
        "filenames": filenames,
        "durationMs": round((time.monotonic() - began) * 1000),
        "numFiles": len(filenames),
        "truncated": truncated,
    }
    return Outcome(content="\n".join(filenames + note) or "No files found", result=result)


def _foreign(named: frozenset[str]) -> Callable[[str], bool]:
    return lambda path: (name := path.rpartition("/")[2]) in OWN_FOLDERS and name not in named
