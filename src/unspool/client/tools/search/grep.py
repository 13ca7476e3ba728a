"""The Grep tool: searches the contents of files, by ripgrep if it is installed, else in Python.

Rules
  1. Matches are sorted by the names of their files; files alone, those changed last first.
  2. A file that a rule denies to read is not found.
  3. What is too long for an answer is left out, and the answer says so: the next call can go on from there.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import Meta, field

from unspool.client.permissions.paths import resolve_path
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.files.safe_io import file_status
from unspool.client.tools.search.grep_engines import (
    MAX_LINE,
    MAX_SECONDS,
    FileMatches,
    GrepQuery,
    MatchedLine,
    find_ripgrep,
    run_ripgrep,
    search_files,
)
from unspool.client.tools.search.walk import StopSignal

_MAX_SHOWN = 20_000
"""Characters that are shown at once."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class GrepArguments(ToolArguments, frozen=True):
    """A regular expression, and where and how it is searched."""

    pattern: Annotated[str, Meta(description="Regular expression (ripgrep)")]
    path: Annotated[str | None, Meta(description="File or folder; default: the current one")] = None
    glob: Annotated[str | None, Meta(description='As "*.{ts,tsx}"')] = None
    type: Annotated[str | None, Meta(description='As "py"')] = None
    output_mode: Literal["content", "files_with_matches", "count"] | None = None
    before: Annotated[Count | None, Meta(description="Lines before")] = field(name="-B", default=None)
    after: Annotated[Count | None, Meta(description="Lines after")] = field(name="-A", default=None)
    around: Annotated[Count | None, Meta(description="Lines around")] = field(name="-C", default=None)
    context: Count | None = None
    line_number: Annotated[bool | None, Meta(description="Default true")] = field(name="-n", default=None)
    ignore_case: bool | None = field(name="-i", default=None)
    head_limit: Annotated[Count | None, Meta(description="First N lines or files only")] = None
    offset: Annotated[Count | None, Meta(description="Skip the first N")] = None
    multiline: Annotated[bool | None, Meta(description=". matches line ends")] = None


class _ResultPage(NamedTuple):
    """The rows of a result that are shown."""

    rows: list[str]
    result_fields: Json
    """How many rows were left out, for `toolUseResult`."""
    note: str
    """The same for the model."""


class GrepTool(BuiltInTool[GrepArguments]):
    """Search in files."""

    name = "Grep"
    description = "Search file contents. output_mode: files_with_matches (default), content, count."
    is_concurrent = True
    arguments = GrepArguments
    target_fields = ("pattern",)

    async def execute(self, arguments: GrepArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Search with ripgrep, or in another thread."""
        query = _make_query(arguments, context)
        program = find_ripgrep(context)
        if program is not None:
            matches = await run_ripgrep(query, program, context.environment)
            files = [file for file in matches if not context.is_hidden(Path(file.path))]
        else:
            stop = StopSignal(MAX_SECONDS)
            try:
                files = await asyncio.to_thread(search_files, query, stop, context.is_hidden)
            finally:
                stop.stop()  # a thread cannot be cancelled: it would go on after the call
        match query.mode:
            case "files_with_matches":
                return _format_files(arguments, files, context)
            case "content":
                return _format_content(arguments, query, files, context)
            case "count":
                return _format_counts(arguments, files, context)


def _make_query(arguments: GrepArguments, context: ToolContext) -> GrepQuery:
    root = resolve_path(arguments.path or str(context.cwd), context)
    status = file_status(root)
    if status is None:
        is_moved = context.cwd != context.workspace.root
        where = f". Note: your current working directory is {context.cwd}." if is_moved else ""
        raise InvalidToolCall(f"Path does not exist: {arguments.path}{where}")
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        raise InvalidToolCall(f"Not a regular file: {arguments.path}")
    cwd = context.cwd.resolve()
    mode = arguments.output_mode or "files_with_matches"
    # All files are needed to sort them by time; of rows, those that can be shown are enough.
    enough = None if mode == "files_with_matches" else (arguments.offset or 0) + (arguments.head_limit or _MAX_SHOWN)
    before, after = 0, 0
    if mode == "content":
        around = arguments.context if arguments.context is not None else arguments.around
        before = around if around is not None else arguments.before or 0
        after = around if around is not None else arguments.after or 0
    return GrepQuery(
        pattern=arguments.pattern,
        root=root,
        base=cwd if root.is_relative_to(cwd) else root if is_folder else root.parent,
        mode=mode,
        globs=tuple(_split_globs(arguments.glob or "")),
        file_type=arguments.type,
        ignore_case=bool(arguments.ignore_case),
        multiline=bool(arguments.multiline),
        before=before,
        after=after,
        enough=enough,
    )


def _split_globs(text: str) -> list[str]:
    """Split patterns at blanks, and at commas that are not in braces."""
    words = [[word] if "{" in word else word.split(",") for word in text.split()]
    return [glob for parts in words for glob in parts if glob]


def _format_files(arguments: GrepArguments, files: list[FileMatches], context: ToolContext) -> ToolOutcome:
    newest = sorted(files, key=lambda file: (-_modified(file.path), file.path))
    page = _make_page([_shown_path(file.path, context) for file in newest], arguments)
    count = len(page.rows)
    note = f" {page.note}" if page.note else ""
    content = f"Found {_counted(count, 'file')}{note}\n" + "\n".join(page.rows)
    result = {"mode": "files_with_matches", "filenames": page.rows, "numFiles": count, **page.result_fields}
    return ToolOutcome(content=content if page.rows else "No files found", result=result)


def _format_content(
    arguments: GrepArguments, query: GrepQuery, files: list[FileMatches], context: ToolContext
) -> ToolOutcome:
    rows: list[str] = []
    is_folder = query.root.is_dir()
    for file in files:
        name = _shown_path(file.path, context) if is_folder else ""
        reached = None
        for line in file.lines:
            if (query.before or query.after) and rows and (reached is None or line.number > reached + 1):
                rows.append("--")
            rows.append(_format_line(name, line, is_numbered=arguments.line_number is not False))
            reached = line.number
    page = _make_page(rows, arguments)
    content = "\n".join(page.rows)
    note = f"\n\n[Showing results with pagination = {page.note}]" if page.note else ""
    result = {"mode": "content", "numFiles": 0, "filenames": [], "content": content, "numLines": len(page.rows)}
    return ToolOutcome(content=(content or "No matches found") + note, result={**result, **page.result_fields})


def _format_counts(arguments: GrepArguments, files: list[FileMatches], context: ToolContext) -> ToolOutcome:
    counts = {f"{_shown_path(file.path, context)}:{file.match_count}": file.match_count for file in files}
    page = _make_page(list(counts), arguments)
    content, matches = "\n".join(page.rows), sum(counts[row] for row in page.rows)
    note = f" with pagination = {page.note}" if page.note else ""
    total = f"Found {_counted(matches, 'total occurrence')} across {_counted(len(page.rows), 'file')}.{note}"
    result = {"mode": "count", "numFiles": len(page.rows), "filenames": [], "content": content, "numMatches": matches}
    content = f"{content or 'No matches found'}\n\n{total}"
    return ToolOutcome(content=content, result={**result, **page.result_fields})


def _format_line(name: str, line: MatchedLine, *, is_numbered: bool) -> str:
    mark = ":" if line.is_match else "-"
    text = line.text.removesuffix(b"\r").decode("utf-8", "replace")
    if len(line.text) > MAX_LINE:
        text = f"[Omitted long {'matching' if line.is_match else 'context'} line]"
    return f"{name}{mark if name else ''}{f'{line.number}{mark}' if is_numbered else ''}{text}"


def _make_page(rows: Sequence[str], arguments: GrepArguments) -> _ResultPage:
    """Return the rows that were asked for, and no more than can be shown."""
    offset = arguments.offset or 0
    limit = arguments.head_limit or None
    shown: list[str] = []
    room = _MAX_SHOWN
    for row in rows[offset:][:limit]:
        room -= len(row) + 1
        if room < 0 and shown:  # one row is always shown, or no call could get past a long one
            limit = len(shown)
            break
        shown.append(row)
    fields = ({"appliedLimit": limit} if limit else {}) | ({"appliedOffset": offset} if offset else {})
    note = f"limit: {limit}, offset: {offset}" if limit else f"offset: {offset}" if offset else ""
    return _ResultPage(shown, fields, note)


def _shown_path(path: str, context: ToolContext) -> str:
    """Return a path relative to the shell's folder, if it is in it."""
    cwd = context.cwd.resolve()
    return Path(path).relative_to(cwd).as_posix() if Path(path).is_relative_to(cwd) else path


def _modified(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
