"""The two engines of the Grep tool: ripgrep, and a search in Python where it is not installed.

Rules
  1. The search in Python does as ripgrep does: what git ignores is skipped unless a glob names it, binary files are
     skipped, hidden ones are not.
  2. Patterns are matched by re2: whatever they are, the time they take grows with the bytes, and no faster.
  3. A line matches by itself, unless the search is for more than a line.
  4. Only a ripgrep from outside the workspace is run, and it reads no settings of its own.
  5. Ripgrep is ended when its time is up, when its output is long enough, and when the call is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, ToolFailed
from unspool.client.tools.content.glob_patterns import InvalidPattern, PathMatcher, compile_globs
from unspool.client.tools.search.walk import (
    VERSION_CONTROL_FOLDERS,
    SearchTimedOut,
    StopSignal,
    load_ignore_rules_above,
    walk_files,
)

MAX_LINE: Final = 500
"""Bytes of a line that is still shown."""
MAX_SECONDS: Final = 20.0
_TIMED_OUT = f"The search took more than {MAX_SECONDS:.0f} seconds. Try a more specific path, glob or pattern."
_MAX_FILE = 64 << 20
_SNIFFED_BYTES = 8192
_MAX_OUTPUT = 8 << 20
"""Bytes of ripgrep's output that are read."""
_OUTPUT_ROW = re.compile(rb"--\n|([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_MODE_OPTIONS = {"content": "--line-number", "files_with_matches": "--files-with-matches", "count": "--count"}


class GrepQuery(NamedTuple):
    """What is searched for, and where."""

    pattern: str
    root: Path
    """A file, or a folder with all that is in it."""
    base: Path
    """The folder that globs are relative to."""
    mode: Literal["content", "files_with_matches", "count"]
    globs: tuple[str, ...] = ()
    file_type: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    enough: int | None = None
    """How many lines, or files, are enough."""


class MatchedLine(NamedTuple):
    """A line that matches, or one of its context."""

    number: int
    text: bytes
    is_match: bool


class FileMatches(NamedTuple):
    """A file in which the pattern was found."""

    path: str
    match_count: int = 0
    """How many lines match; in the mode `count` only."""
    lines: tuple[MatchedLine, ...] = ()
    """In the mode `content` only."""


_FILE_TYPES: Final = {
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"),
    **dict.fromkeys(("csharp", "cs"), ("*.cs",)),
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
    **dict.fromkeys(("markdown", "md"), ("*.md", "*.markdown", "*.mdx")),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php", "*.phtml"),
    "protobuf": ("*.proto",),
    **dict.fromkeys(("py", "python"), ("*.py", "*.pyi")),
    "r": ("*.r", "*.R", "*.Rmd"),
    "ruby": ("*.rb", "*.rbw", "Gemfile", "Rakefile", "*.gemspec"),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sh": ("*.sh", "*.bash", "*.zsh", "*.ksh", "*.csh", ".bashrc", ".profile", ".zshrc"),
    "sql": ("*.sql",),
    "swift": ("*.swift",),
    "toml": ("*.toml", "Cargo.lock"),
    **dict.fromkeys(("ts", "typescript"), ("*.ts", "*.tsx", "*.cts", "*.mts")),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}
"""File types by ripgrep's names for them: those of most projects."""


def search_files(query: GrepQuery, stop: StopSignal, is_hidden: Callable[[Path], bool]) -> list[FileMatches]:
    """Search in Python; return the files with matches, sorted by name."""
    regex = _compile_pattern(query)
    files: list[FileMatches] = []
    lines = 0
    try:
        for path in _candidate_files(query, stop):
            stop.check()
            data = None if is_hidden(Path(path)) else _read_text_file(path)
            if data is None or (matches := _search_data(path, data, regex, query)) is None:
                continue
            files.append(matches)
            lines += len(matches.lines)
            if query.enough is not None and max(lines, len(files)) > query.enough:
                break
    except SearchTimedOut:
        raise ToolFailed(_TIMED_OUT) from None
    return files


def _compile_pattern(query: GrepQuery) -> Any:
    import re2  # not needed where ripgrep is installed

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not query.ignore_case
    options.dot_nl = query.multiline
    try:
        # `^` and `$` match at each line, as in ripgrep.
        return re2.compile(f"(?m){query.pattern}".encode(), options)
    except re2.error as problem:
        words = problem.args[0].decode(errors="replace").replace("(?m)", "", 1) if problem.args else "it is not one"
        message = f"The pattern cannot be read: {words}. It must be a regular expression of ripgrep."
        raise InvalidToolCall(message) from None


def _candidate_files(query: GrepQuery, stop: StopSignal) -> Iterator[str]:
    """Yield the files to search in, after globs, file type and ignore rules."""
    if not query.root.is_dir():
        yield str(query.root)
        return
    is_wanted, is_unwanted, is_of_type = _compile_filters(query)
    prefix = query.root.relative_to(query.base).as_posix() if query.root.is_relative_to(query.base) else "."
    prefix = "" if prefix == "." else f"{prefix}/"

    def skips(path: str) -> bool:
        is_excluded = is_unwanted is not None and is_unwanted(prefix + path)
        return is_excluded or path.rpartition("/")[2] in VERSION_CONTROL_FOLDERS

    for file in walk_files(query.root, stop, load_ignore_rules_above(query.root), skips):
        # A glob that matches brings back a file that git ignores, as in ripgrep.
        matches = not file.is_ignored if is_wanted is None else is_wanted(prefix + file.path)
        if matches and not skips(file.path) and (is_of_type is None or is_of_type(file.path)):
            yield str(query.root / file.path)


def _compile_filters(query: GrepQuery) -> tuple[PathMatcher | None, PathMatcher | None, PathMatcher | None]:
    """Return functions that say which files are wanted, which are not, and which are of the file type."""
    if query.file_type is not None and query.file_type not in _FILE_TYPES:
        raise InvalidToolCall(f"Unknown file type: {query.file_type}. Use `glob`, or one of: {', '.join(_FILE_TYPES)}.")
    groups = (
        [glob for glob in query.globs if not glob.startswith("!")],
        [glob[1:] for glob in query.globs if glob.startswith("!")],
        [*_FILE_TYPES[query.file_type]] if query.file_type else [],
    )
    try:
        wanted, unwanted, of_type = (compile_globs(patterns) if patterns else None for patterns in groups)
    except InvalidPattern as problem:
        raise InvalidToolCall(f"The glob cannot be read: {problem}.") from None
    return wanted, unwanted, of_type


def _read_text_file(path: str) -> bytes | None:
    """Return the bytes of a file; None if it is no text, too large, or cannot be read."""
    with suppress(OSError):
        # Without O_NONBLOCK a pipe that was put in the place of the file would be waited for.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE:
                return None
            if b"\0" in os.pread(file, _SNIFFED_BYTES, 0):
                return None
            with os.fdopen(file, "rb", closefd=False) as whole:
                return whole.read(_MAX_FILE)
        finally:
            os.close(file)
    return None


def _search_data(path: str, data: bytes, regex: Any, query: GrepQuery) -> FileMatches | None:
    spans = (_find_multiline if query.multiline else _find_lines)(data, regex)
    match query.mode:
        case "files_with_matches":
            return FileMatches(path) if next(spans, None) is not None else None
        case "count":
            count = sum(1 for _ in spans)
            return FileMatches(path, match_count=count) if count else None
        case "content":
            some = list(islice(spans, query.enough and query.enough + 1))
            return FileMatches(path, lines=_with_context(data, some, query)) if some else None


def _find_lines(data: bytes, regex: Any) -> Iterator[range]:
    """Yield each line that matches, as a range of line numbers."""
    at, number = 0, 1
    while at < len(data) and (match := regex.search(data, at)) is not None:
        start = data.rfind(b"\n", at, match.start()) + 1 or at
        if start == len(data):
            return
        number += data.count(b"\n", at, start)
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        # A match that goes on over the line's end counts only if the line matches by itself.
        if match.end() <= end or regex.search(data[start:end]) is not None:
            yield range(number, number + 1)
        at, number = end + 1, number + 1


def _find_multiline(data: bytes, regex: Any) -> Iterator[range]:
    """Yield the line numbers of each match, which may span lines."""
    at, number = 0, 1
    for match in regex.finditer(data):
        start, end = match.span()
        if start == len(data) and data.endswith(b"\n"):
            return
        number += data.count(b"\n", at, start)
        lines = data.count(b"\n", start, max(start, end - 1))
        yield range(number, number + lines + 1)
        at = start


def _with_context(data: bytes, spans: list[range], query: GrepQuery) -> tuple[MatchedLine, ...]:
    lines = data.split(b"\n")
    last = len(lines) - 1 if data.endswith(b"\n") else len(lines)
    matching = {number for span in spans for number in span}
    around = {
        number
        for span in spans
        for number in range(max(1, span.start - query.before), min(last, span.stop - 1 + query.after) + 1)
    }
    return tuple(MatchedLine(number, lines[number - 1], number in matching) for number in sorted(matching | around))


def find_ripgrep(context: ToolContext) -> str | None:
    """Return the path of ripgrep; None if it is not installed, or lies in the workspace."""
    found = shutil.which("rg", path=context.environment.get("PATH", ""))
    return None if found is None or PathsOnDisk(context).is_inside(str(Path(found).resolve())) else found


async def run_ripgrep(query: GrepQuery, program: str, environment: Mapping[str, str]) -> list[FileMatches]:
    """Search with ripgrep; return the files with matches, sorted by name."""
    process = await asyncio.create_subprocess_exec(
        program,
        *_ripgrep_arguments(query),
        cwd=query.base,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # Both pipes are read at once: a process that fills one of them waits for its reader.
    errors = asyncio.ensure_future(process.stderr.read())
    output, chunk = b"", b"-"
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while len(output) < _MAX_OUTPUT and (chunk := await process.stdout.read(1 << 16)):
                output += chunk
    except TimeoutError:
        raise ToolFailed(_TIMED_OUT) from None
    finally:
        if chunk:  # it has not ended by itself
            with suppress(ProcessLookupError):
                process.kill()
        problem = (await errors).decode(errors="replace").strip()
        await process.wait()
    if not output and problem:
        raise InvalidToolCall(f"The search cannot be made: {problem.removeprefix('rg: ')}")
    return list(_parse_output(output, query))


def _ripgrep_arguments(query: GrepQuery) -> list[str]:
    # A configuration file could name a program for ripgrep to run (`--pre`).
    arguments = ["--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null"]
    arguments += ["--hidden", "--sort=path", f"--max-columns={MAX_LINE}", _MODE_OPTIONS[query.mode]]
    arguments += [f"--glob=!{folder}" for folder in sorted(VERSION_CONTROL_FOLDERS)]
    arguments += [f"--glob={glob}" for glob in query.globs]
    arguments += ["--ignore-case"] * query.ignore_case
    arguments += ["--multiline", "--multiline-dotall"] * query.multiline
    arguments += [f"--type={query.file_type}"] if query.file_type else []
    arguments += [f"--before-context={query.before}", f"--after-context={query.after}"]
    return [*arguments, f"--regexp={query.pattern}", "--", str(query.root)]


def _parse_output(output: bytes, query: GrepQuery) -> Iterator[FileMatches]:
    match query.mode:
        case "files_with_matches":
            yield from (FileMatches(os.fsdecode(path)) for path in output.split(b"\0")[:-1])
        case "count":
            for path, count in re.findall(rb"([^\0]+)\0(\d+)\n", output):
                yield FileMatches(os.fsdecode(path), match_count=int(count))
        case "content":
            rows = (row.groups() for row in _OUTPUT_ROW.finditer(output) if row[1] is not None)
            for path, group in groupby(rows, key=lambda row: row[0]):
                lines = tuple(MatchedLine(int(number), text, mark == b":") for _, number, mark, text in group)
                yield FileMatches(os.fsdecode(path), lines=lines)
