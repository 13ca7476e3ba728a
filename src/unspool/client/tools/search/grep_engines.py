"""A search in files where there is no ripgrep: what is looked for in, the files it is in out.

Rules
  1. As ripgrep does: what git ignores is passed over unless a glob means it, binary files are, hidden ones are not.
  2. Patterns are re2's: whatever they are, the time they take grows with the bytes, and no faster.
  3. A line matches by itself, unless the search is for more than a line.

[merged: searching.py] What is looked for in files, and what was found: the same whether ripgrep looks or we do. Data, and files by kind.

[merged: ripgrep.py] A search in files by ripgrep: what is looked for in, the files it is in out.

Rules
  1. Only a ripgrep from outside of the folders the session works in is run, and no settings of its own are read.
  2. It is ended when the time is up, when it has said enough, and when the call is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from unspool.client.permissions.paths import is_inside
from unspool.client.tool_context import Desk
from unspool.client.tools.base import BadCall, ToolFailed
from unspool.client.tools.search.walk import OWN_FOLDERS, BadPattern, Fits, Late, Stop, any_of, ignores_above, walk

Mode: TypeAlias = Literal["content", "files_with_matches", "count"]

LONGEST: Final = 500
"""Bytes of a line that is still shown."""
SECONDS: Final = 20.0
TOO_LONG: Final = f"The search took more than {SECONDS:.0f} seconds. Try a more specific path, glob or pattern."


class Search(NamedTuple):
    """What is looked for."""

    pattern: str
    root: Path
    """A file, or a folder with all that is in it."""
    base: Path
    """The folder that globs are relative to."""
    mode: Mode
    globs: tuple[str, ...] = ()
    kind: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    enough: int | None = None
    """How many lines, or files, are enough."""


class Line(NamedTuple):
    """A line of a file."""

    number: int
    text: bytes
    is_match: bool


class Hits(NamedTuple):
    """A file in which something was found."""

    path: str
    matches: int = 0
    """How many lines match; only if they were to be counted."""
    lines: tuple[Line, ...] = ()
    """Only if they were to be shown."""


KINDS: Final = {
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"),
    "csharp": ("*.cs",),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss"),
    "csv": ("*.csv",),
    "dart": ("*.dart",),
    "docker": ("*Dockerfile*",),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "go": ("*.go",),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.htm", "*.html", "*.ejs"),
    "java": ("*.java", "*.jsp"),
    "js": ("*.js", "*.jsx", "*.vue", "*.cjs", "*.mjs"),
    "json": ("*.json",),
    "jsonl": ("*.jsonl",),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("[Mm]akefile", "*.mk", "GNUmakefile", "*.mak"),
    "markdown": ("*.md", "*.markdown", "*.mdx"),
    "md": ("*.md", "*.markdown", "*.mdx"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php", "*.phtml"),
    "protobuf": ("*.proto",),
    "py": ("*.py", "*.pyi"),
    "python": ("*.py", "*.pyi"),
    "r": ("*.r", "*.R", "*.Rmd"),
    "ruby": ("*.rb", "*.rbw", "Gemfile", "Rakefile", "*.gemspec"),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sh": ("*.sh", "*.bash", "*.zsh", "*.ksh", "*.csh", ".bashrc", ".profile", ".zshrc"),
    "sql": ("*.sql",),
    "swift": ("*.swift",),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "typescript": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}
"""Kinds of files by the names ripgrep has for them: those of most projects."""

_LARGEST = 64 << 20
_SNIFFED = 8192


def scan(search: Search, stop: Stop, hides: Callable[[Path], bool]) -> list[Hits]:
    """Return the files that have what is looked for, by name."""
    regex = _compiled(search)
    found: list[Hits] = []
    lines = 0
    try:
        for path in _files(search, stop):
            stop.check()
            data = None if hides(Path(path)) else _data(path)
            if data is None or (hits := _hits(data, regex, search)) is None:
                continue
            found.append(hits._replace(path=path))
            lines += len(hits.lines)
            if search.enough is not None and max(lines, len(found)) > search.enough:
                break
    except Late:
        raise ToolFailed(TOO_LONG) from None
    return found


def _compiled(search: Search) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not search.ignore_case
    options.dot_nl = search.multiline
    try:
        return re2.compile(f"(?m){search.pattern}".encode(), options)
    except re2.error as problem:
        words = problem.args[0].decode(errors="replace").replace("(?m)", "", 1) if problem.args else "it is not one"
        raise BadCall(f"The pattern cannot be read: {words}. It must be a regular expression of ripgrep.") from None


def _files(search: Search, stop: Stop) -> Iterator[str]:
    if not search.root.is_dir():
        yield str(search.root)
        return
    wanted, unwanted, of_kind = _names(search)
    prefix = search.root.relative_to(search.base).as_posix() if search.root.is_relative_to(search.base) else "."
    inside = "" if prefix == "." else f"{prefix}/"

    def passes(path: str) -> bool:
        return path.rpartition("/")[2] in OWN_FOLDERS or (unwanted is not None and unwanted(inside + path))

    for listed in walk(search.root, stop, ignores_above(search.root), passes):
        name = inside + listed.path
        is_meant = wanted is not None and wanted(name)
        is_left_out = (
            (listed.is_ignored and not is_meant) or (wanted is not None and not is_meant) or passes(listed.path)
        )
        if not is_left_out and (of_kind is None or of_kind(listed.path)):
            yield str(search.root / listed.path)


def _names(search: Search) -> tuple[Fits | None, Fits | None, Fits | None]:
    """Return what tells which files are wanted, which are not, and which are of the kind that is looked for."""
    if search.kind is not None and search.kind not in KINDS:
        raise BadCall(f"Unknown file type: {search.kind}. Use `glob`, or one of: {', '.join(KINDS)}.")
    given = (
        [glob for glob in search.globs if not glob.startswith("!")],
        [glob[1:] for glob in search.globs if glob.startswith("!")],
        [*KINDS[search.kind]] if search.kind else [],
    )
    try:
        wanted, unwanted, of_kind = (any_of(patterns) if patterns else None for patterns in given)
    except BadPattern as problem:
        raise BadCall(f"The glob cannot be read: {problem}.") from None
    return wanted, unwanted, of_kind


def _data(path: str) -> bytes | None:
    """Return what is in a file; None if it is no text, too large, or cannot be read."""
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST or b"\0" in os.pread(file, _SNIFFED, 0):
                return None
            with os.fdopen(file, "rb", closefd=False) as whole:
                return whole.read(_LARGEST)
        finally:
            os.close(file)
    return None


def _hits(data: bytes, regex: Any, search: Search) -> Hits | None:
    places = (_passages if search.multiline else _single_lines)(data, regex)
    match search.mode:
        case "files_with_matches":
            return Hits("") if next(places, None) is not None else None
        case "count":
            count = sum(1 for _ in places)
            return Hits("", matches=count) if count else None
        case "content":
            spans = list(islice(places, search.enough and search.enough + 1))
            return Hits("", lines=_shown(data, spans, search)) if spans else None


def _single_lines(data: bytes, regex: Any) -> Iterator[range]:
    """Yield each line that matches, as a range of numbers."""
    at, number = 0, 1
    while at < len(data) and (found := regex.search(data, at)) is not None:
        start = data.rfind(b"\n", at, found.start()) + 1 or at
        if start == len(data):
            return
        number += data.count(b"\n", at, start)
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if found.end() <= end or regex.search(data[start:end]) is not None:
            yield range(number, number + 1)
        at, number = end + 1, number + 1


def _passages(data: bytes, regex: Any) -> Iterator[range]:
    """Yield the lines of each match."""
    at, number = 0, 1
    for found in regex.finditer(data):
        start, end = found.span()
        if start == len(data) and data.endswith(b"\n"):
            return
        number += data.count(b"\n", at, start)
        lines = data.count(b"\n", start, max(start, end - 1))
        yield range(number, number + lines + 1)
        at = start


def _shown(data: bytes, spans: list[range], search: Search) -> tuple[Line, ...]:
    lines = data.split(b"\n")
    last = len(lines) - 1 if data.endswith(b"\n") else len(lines)
    matching = {number for span in spans for number in span}
    around = {
        number
        for span in spans
        for number in range(max(1, span.start - search.before), min(last, span.stop - 1 + search.after) + 1)
    }
    return tuple(Line(number, lines[number - 1], number in matching) for number in sorted(matching | around))


_MOST = 8 << 20
"""Bytes that are read of what it says: a line of it is short."""
_ROW = re.compile(rb"--\n|([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_MODES = {"content": "--line-number", "files_with_matches": "--files-with-matches", "count": "--count"}


def program(desk: Desk) -> str | None:
    """Return where ripgrep is; None if it is not there, or is not to be trusted."""
    found = shutil.which("rg", path=desk.environment.get("PATH", ""))
    return None if found is None or is_inside(Path(found).resolve(), desk) else found


async def ripgrep(search: Search, program: str, desk: Desk) -> list[Hits]:
    """Return the files that have what is looked for, by name."""
    process = await asyncio.create_subprocess_exec(
        program,
        *_arguments(search),
        cwd=search.base,
        env=dict(desk.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    words = asyncio.ensure_future(process.stderr.read())
    said, piece = b"", b"-"
    try:
        async with asyncio.timeout(SECONDS):
            while len(said) < _MOST and (piece := await process.stdout.read(1 << 16)):
                said += piece
    except TimeoutError:
        raise ToolFailed(TOO_LONG) from None
    finally:
        if piece:  # it has not ended by itself
            with suppress(ProcessLookupError):
                process.kill()
        problem = (await words).decode(errors="replace").strip()
        await process.wait()
    if not said and problem:
        raise BadCall(f"The search cannot be made: {problem.removeprefix('rg: ')}")
    return list(_read(said, search))


def _arguments(search: Search) -> list[str]:
    arguments = ["--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null"]
    arguments += ["--hidden", "--sort=path", f"--max-columns={LONGEST}", _MODES[search.mode]]
    arguments += [f"--glob=!{folder}" for folder in sorted(OWN_FOLDERS)] + [f"--glob={glob}" for glob in search.globs]
    arguments += ["--ignore-case"] * search.ignore_case
    arguments += ["--multiline", "--multiline-dotall"] * search.multiline
    arguments += [f"--type={search.kind}"] if search.kind else []
    arguments += [f"--before-context={search.before}", f"--after-context={search.after}"]
    return [*arguments, f"--regexp={search.pattern}", "--", str(search.root)]


def _read(said: bytes, search: Search) -> Iterator[Hits]:
    match search.mode:
        case "files_with_matches":
            yield from (Hits(os.fsdecode(path)) for path in said.split(b"\0")[:-1])
        case "count":
            for path, count in re.findall(rb"([^\0]+)\0(\d+)\n", said):
                yield Hits(os.fsdecode(path), matches=int(count))
        case "content":
            rows = (row.groups() for row in _ROW.finditer(said) if row[1] is not None)
            for path, lines in groupby(rows, key=lambda row: row[0]):
                shown = tuple(Line(int(number), text, mark == b":") for _, number, mark, text in lines)
                yield Hits(os.fsdecode(path), lines=shown)
