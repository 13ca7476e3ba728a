"""Grep: a pattern in, the lines that match it out, or the files, or how many. By ripgrep if there is one, else by us.

Rules
  1. What is found comes in the order of its names; files alone, those changed last first.
  2. What a rule hides is not found.
  3. What is too much for an answer is left off, and said to be: the next call can go on from there.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from msgspec import Meta, field

from unspool.client.permissions.paths import resolved
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Outcome, aim, parse, schema
from unspool.client.tools.files import text_file
from unspool.client.tools.search.grep_engines import LONGEST, SECONDS, Hits, Line, Search, program, ripgrep, scan
from unspool.client.tools.search.walk import Stop

Json: TypeAlias = dict[str, Any]

MOST = 20_000
"""Characters that are shown at once."""

Lines: TypeAlias = Annotated[int, Meta(ge=0)]


class GrepInput(Asked, frozen=True):
    """Search in files."""

    pattern: Annotated[str, Meta(description="Regular expression (ripgrep)")]
    path: Annotated[str | None, Meta(description="File or folder; default: the current one")] = None
    glob: Annotated[str | None, Meta(description='As "*.{ts,tsx}"')] = None
    type: Annotated[str | None, Meta(description='As "py"')] = None
    output_mode: Literal["content", "files_with_matches", "count"] | None = None
    before: Annotated[Lines | None, Meta(description="Lines before")] = field(name="-B", default=None)
    after: Annotated[Lines | None, Meta(description="Lines after")] = field(name="-A", default=None)
    around: Annotated[Lines | None, Meta(description="Lines around")] = field(name="-C", default=None)
    context: Lines | None = None
    line_number: Annotated[bool | None, Meta(description="Default true")] = field(name="-n", default=None)
    ignore_case: bool | None = field(name="-i", default=None)
    head_limit: Annotated[Lines | None, Meta(description="First N lines or files only")] = None
    offset: Annotated[Lines | None, Meta(description="Skip the first N")] = None
    multiline: Annotated[bool | None, Meta(description=". matches line ends")] = None


class Part(NamedTuple):
    """What is shown of what was found."""

    rows: list[str]
    told: Json
    """How much was left off, for the session."""
    words: str
    """The same for the model."""


class Grep:
    """The tool."""

    name = "Grep"
    description = "Search file contents. output_mode: files_with_matches (default), content, count."
    is_concurrent = True

    def __init__(self) -> None:
        self.input_schema = schema(GrepInput)

    def target(self, input: Json) -> str:
        """Return the pattern."""
        return aim(input, "pattern")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Look for it."""
        asked = parse(self.name, input, GrepInput)
        search = _search(asked, desk)
        tool = program(desk)
        if tool is not None:
            found = [hits for hits in await ripgrep(search, tool, desk) if not desk.hides(Path(hits.path))]
        else:
            stop = Stop(SECONDS)
            try:
                found = await asyncio.to_thread(scan, search, stop, desk.hides)
            finally:
                stop.tell()  # nothing is left running if the call is cancelled
        match search.mode:
            case "files_with_matches":
                return _files(asked, found, desk)
            case "content":
                return _content(asked, search, found, desk)
            case "count":
                return _count(asked, found, desk)


def _search(asked: GrepInput, desk: Desk) -> Search:
    root = resolved(asked.path or str(desk.cwd), desk)
    found = text_file.status(root)
    if found is None:
        where = "" if desk.cwd == desk.place.root else f". Note: your current working directory is {desk.cwd}."
        raise BadCall(f"Path does not exist: {asked.path}{where}")
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not stat.S_ISREG(found.st_mode):
        raise BadCall(f"Not a regular file: {asked.path}")
    cwd = desk.cwd.resolve()
    around = asked.context if asked.context is not None else asked.around
    mode = asked.output_mode or "files_with_matches"
    limit = (asked.offset or 0) + (asked.head_limit or MOST)
    return Search(
        pattern=asked.pattern,
        root=root,
        base=cwd if root.is_relative_to(cwd) else root if is_folder else root.parent,
        mode=mode,
        globs=tuple(_globs(asked.glob or "")),
        kind=asked.type,
        ignore_case=bool(asked.ignore_case),
        multiline=bool(asked.multiline),
        before=(around if around is not None else asked.before or 0) if mode == "content" else 0,
        after=(around if around is not None else asked.after or 0) if mode == "content" else 0,
        enough=None if mode == "files_with_matches" else limit,
    )


def _globs(given: str) -> list[str]:
    """Return patterns that stand one after the other, with blanks or commas between; those in braces are no borders."""
    words = [[word] if "{" in word else word.split(",") for word in given.split()]
    return [glob for parts in words for glob in parts if glob]


def _files(asked: GrepInput, found: list[Hits], desk: Desk) -> Outcome:
    newest = sorted(found, key=lambda hits: (-_modified(hits.path), hits.path))
    part = _part([_name(hits.path, desk) for hits in newest], asked)
    count = len(part.rows)
    content = f"Found {_number(count, 'file')}{f' {part.words}' if part.words else ''}\n" + "\n".join(part.rows)
    result = {"mode": "files_with_matches", "filenames": part.rows, "numFiles": count, **part.told}
    return Outcome(content=content if part.rows else "No files found", result=result)


def _content(asked: GrepInput, search: Search, found: list[Hits], desk: Desk) -> Outcome:
    rows: list[str] = []
    is_folder = search.root.is_dir()
    for hits in found:
        name = _name(hits.path, desk) if is_folder else ""
        reached = None
        for line in hits.lines:
            if (search.before or search.after) and rows and (reached is None or line.number > reached + 1):
                rows.append("--")
            rows.append(_row(name, line, is_numbered=asked.line_number is not False))
            reached = line.number
    part = _part(rows, asked)
    content = "\n".join(part.rows)
    note = f"\n\n[Showing results with pagination = {part.words}]" if part.words else ""
    result = {
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": content,
        "numLines": len(part.rows),
        **part.told,
    }
    return Outcome(content=(content or "No matches found") + note, result=result)


def _count(asked: GrepInput, found: list[Hits], desk: Desk) -> Outcome:
    counts = {f"{_name(hits.path, desk)}:{hits.matches}": hits.matches for hits in found}
    part = _part(list(counts), asked)
    content, matches = "\n".join(part.rows), sum(counts[row] for row in part.rows)
    note = f" with pagination = {part.words}" if part.words else ""
    total = f"Found {_number(matches, 'total occurrence')} across {_number(len(part.rows), 'file')}.{note}"
    result = {
        "mode": "count",
        "numFiles": len(part.rows),
        "filenames": [],
        "content": content,
        "numMatches": matches,
        **part.told,
    }
    return Outcome(content=f"{content or 'No matches found'}\n\n{total}", result=result)


def _row(name: str, line: Line, *, is_numbered: bool) -> str:
    mark = ":" if line.is_match else "-"
    text = line.text.removesuffix(b"\r").decode("utf-8", "replace")
    if len(line.text) > LONGEST:
        text = f"[Omitted long {'matching' if line.is_match else 'context'} line]"
    return f"{name}{mark if name else ''}{f'{line.number}{mark}' if is_numbered else ''}{text}"


def _part(rows: Sequence[str], asked: GrepInput) -> Part:
    """Return what was asked for of what was found, and no more than can be shown."""
    offset = asked.offset or 0
    rows = rows[offset:]
    limit = asked.head_limit or None
    shown: list[str] = []
    room = MOST
    for row in rows[:limit]:
        room -= len(row) + 1
        if room < 0 and shown:
            limit = len(shown)
            break
        shown.append(row)
    told = ({"appliedLimit": limit} if limit else {}) | ({"appliedOffset": offset} if offset else {})
    words = f"limit: {limit}, offset: {offset}" if limit else f"offset: {offset}" if offset else ""
    return Part(shown, told, words)


def _name(path: str, desk: Desk) -> str:
    """Return a path as it is shown: from where the shell is."""
    cwd = desk.cwd.resolve()
    return Path(path).relative_to(cwd).as_posix() if Path(path).is_relative_to(cwd) else path


def _modified(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
