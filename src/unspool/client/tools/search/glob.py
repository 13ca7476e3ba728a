"""The Glob tool: finds files by a pattern of their names.

Rules
  1. A hundred files at most: the ones changed last, and of them the one changed first comes first.
  2. A file that a rule denies to read is not found.
  3. What git ignores is found too. What is in `.git` is not, unless the pattern names it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from unspool.client.permissions.paths import resolve_search
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.glob_patterns import InvalidPattern, compile_globs
from unspool.client.tools.files.safe_io import file_status
from unspool.client.tools.search.walk import VERSION_CONTROL_FOLDERS, SearchTimedOut, StopSignal, walk_files

_MAX_FILES = 100
_MAX_SECONDS = 20.0


class GlobArguments(ToolArguments, frozen=True):
    """A pattern, and the folder it is searched in."""

    pattern: Annotated[str, Meta(description='As "**/*.py"')]
    path: Annotated[str | None, Meta(description="Folder; default: the current one")] = None


class GlobTool(BuiltInTool[GlobArguments]):
    """Find files by name."""

    name = "Glob"
    description = "Find files by name pattern, sorted by time of change."
    is_concurrent = True
    arguments = GlobArguments
    target_fields = ("pattern",)

    async def execute(self, arguments: GlobArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Search in another thread."""
        root, pattern = resolve_search(arguments.path, arguments.pattern, context)
        shown = arguments.path or str(root)
        if file_status(root) is None:
            raise InvalidToolCall(f"Directory does not exist: {shown}")
        if not root.is_dir():
            raise InvalidToolCall(f"Path is not a directory: {shown}")
        stop = StopSignal(_MAX_SECONDS)
        try:
            return await asyncio.to_thread(_find_files, root, pattern, context.is_hidden, stop)
        finally:
            stop.stop()  # a thread cannot be cancelled: it would go on after the call


def _find_files(root: Path, pattern: str, is_hidden: Callable[[Path], bool], stop: StopSignal) -> ToolOutcome:
    began = time.monotonic()
    try:
        matches = compile_globs([pattern])
    except InvalidPattern as problem:
        raise InvalidToolCall(f"The pattern cannot be read: {problem}.") from None
    skipped = VERSION_CONTROL_FOLDERS - set(pattern.split("/"))
    files: list[tuple[int, str]] = []
    is_late = False
    try:
        for file in walk_files(root, stop, None, lambda path: path.rpartition("/")[2] in skipped):
            if matches(file.path) and not is_hidden(root / file.path):
                with suppress(FileNotFoundError):
                    files.append((file.entry.stat(follow_symlinks=False).st_mtime_ns, str(root / file.path)))
    except SearchTimedOut:
        is_late = True
    files.sort()  # by time, then by name: files of the same moment keep an order
    filenames = [name for _, name in files[-_MAX_FILES:]]
    truncated = is_late or len(files) > _MAX_FILES
    note = ["(Results are truncated. Consider using a more specific path or pattern.)"] if truncated else []
    result = {
        "filenames": filenames,
        "durationMs": round((time.monotonic() - began) * 1000),
        "numFiles": len(filenames),
        "truncated": truncated,
    }
    return ToolOutcome(content="\n".join(filenames + note) or "No files found", result=result)
