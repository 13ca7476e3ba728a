r"""Files as tools open them: a real path in, bytes out; bytes in, a file that is whole.

Rules
  1. No link is followed on the way, so what is opened is what was judged: the path has no links in it, and if one has
     been put there since, it is not opened.
  2. Only regular files are opened. A pipe, a device or a socket is not waited for.
  3. A file is replaced, not written over: who reads it meanwhile, and whoever finds it after a crash, has the old one
     or the new one. Its mode stays. What has several names, or another owner, is written over, so that it stays that.
  4. A file that may not be written is not replaced either.

[merged: excerpt.py] Some lines of a text of any size: pieces of bytes in, the lines asked for out, and what the whole is. Pure.

Rules
  1. Memory does not grow with the text: of what nobody could be shown, only the lines are counted.
  2. UTF-16 is known by its mark; what is no text is shown as U+FFFD.

[merged: text.py] A text file: bytes in, the text a model is shown out, and changes of it that keep every byte they do not mean. Pure.

Rules
  1. A model is shown `\n` at the end of each line. What the file has, `\r\n` or a mixture, stays as it is.
  2. What is not UTF-8 stays as it is: it is shown as U+FFFD, and nothing that a model writes matches it.
  3. UTF-16 is known by its mark. A mark is a character like any other, and stays.
  4. A change writes line ends as the lines have them that it takes the place of, else as most lines of the file do.
  5. Where straight quotes find nothing they mean curly ones too, as with the program.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from unspool.client.tools.base import ToolFailed

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
LARGEST = 64 << 20
"""Bytes of a file that is taken whole."""


class Found(NamedTuple):
    """A file as it is now."""

    data: bytes
    modified: int
    """In nanoseconds."""


def status(path: Path) -> os.stat_result | None:
    """Return what there is at a path; None if there is nothing."""
    try:
        with _folder(path.parent) as folder:
            return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def load(path: Path) -> Found:
    """Return all of a file."""
    with opened(path) as file:
        if (size := os.fstat(file).st_size) > LARGEST:
            raise ToolFailed(f"File is too large ({size >> 20} MB; {LARGEST >> 20} MB at most). Use Bash for it.")
        data = b"".join(chunks(file))
        return Found(data, os.fstat(file).st_mtime_ns)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a regular file for reading."""
    with _folder(path.parent) as folder:
        _check(os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False), path)
        file = os.open(path.name, _READ, dir_fd=folder)
    try:
        _check(os.fstat(file), path)
        yield file
    finally:
        os.close(file)


def chunks(file: int) -> Iterator[bytes]:
    """Yield what is in an open file, a piece at a time."""
    while piece := os.read(file, _CHUNK):
        yield piece


def store(path: Path, data: bytes) -> int:
    """Write a file, and the folders it needs. Returns when it was modified."""
    with _folder(path.parent, make=True) as folder:
        try:
            old = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            old = None
        if old is None:
            return _replace(path.name, data, folder, None)
        _check(old, path)
        file = os.open(path.name, _WRITE, dir_fd=folder)
        try:
            if old.st_nlink > 1 or old.st_uid != os.geteuid():
                return _write_over(file, data)
            try:
                return _replace(path.name, data, folder, old)
            except PermissionError:  # the file may be written, and its folder may not
                return _write_over(file, data)
        finally:
            os.close(file)


def _check(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed("EISDIR: illegal operation on a directory, read")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"Not a regular file: {path} is a pipe, a device, a socket or a link.")


@contextmanager
def _folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder, step by step from the root."""
    folder = os.open(path.anchor or "/", _STEP)
    try:
        for name in path.parts[1:]:
            try:
                inner = _step(name, folder, make=make)
            except OSError as problem:
                problem.filename = str(path)
                raise
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _step(name: str, folder: int, *, make: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _STEP, dir_fd=folder)


def _replace(name: str, data: bytes, folder: int, old: os.stat_result | None) -> int:
    unfinished = f".{name[:200]}.{os.getpid()}.tmp"
    file = os.open(unfinished, _WRITE | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        try:
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(file, -1, old.st_gid)
                os.fchmod(file, stat.S_IMODE(old.st_mode))
            modified = _fill(file, data)
        finally:
            os.close(file)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):  # nothing is left of it but after a failure
            os.unlink(unfinished, dir_fd=folder)
    return modified


def _write_over(file: int, data: bytes) -> int:
    os.ftruncate(file, 0)
    return _fill(file, data)


def _fill(file: int, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)
    return os.fstat(file).st_mtime_ns


ROOM = 1 << 20
"""More bytes than a model is ever shown."""


class Excerpt(NamedTuple):
    """Some lines of a text."""

    lines: list[str]
    """Without line ends. All of those asked for, or more bytes than there is room for."""
    total: int
    """Lines of the whole; what follows the last line end is one, even if it is empty."""
    size: int
    digest: bytes
    """Of the whole, SHA-256."""


class _Whole:
    """Looks at all bytes as they pass."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.size = 0
        self.digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.digest.update(piece)
            self.size += len(piece)
            yield piece


def excerpt(pieces: Iterable[bytes], first: int, limit: int | None) -> Excerpt:
    """Return lines from the first asked for, counted from 1."""
    whole = _Whole(pieces)
    last = None if limit is None else first + limit - 1
    kept: list[bytes] = []
    number, unended, room = 1, b"", ROOM
    for piece in _as_utf8(iter(whole)):
        ends = piece.count(b"\n")
        if number + ends < first or (last is not None and number > last) or room < 0:
            number += ends
            unended = piece.rpartition(b"\n")[2][:ROOM] if ends else (unended + piece)[:ROOM]
            continue
        *ended, rest = piece.split(b"\n")
        for line in ended:
            line = unended + line
            if number >= first and (last is None or number <= last) and room >= 0:
                kept.append(line)
                room -= len(line) + 1
            number, unended = number + 1, b""
        unended = (unended + rest)[:ROOM]
    if number >= first and (last is None or number <= last) and room >= 0:
        kept.append(unended)
    lines = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in kept[:-1]]
    lines += [_last(line, is_ended=number - first >= len(kept)) for line in kept[-1:]]
    return Excerpt(lines, number, whole.size, whole.digest.digest())


def _last(line: bytes, *, is_ended: bool) -> str:
    r"""A `\r` that no `\n` follows is part of its line."""
    return (line.removesuffix(b"\r") if is_ended else line).decode("utf-8", "replace")


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first
        yield from pieces
        return
    encoding = "utf-16-le" if first.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode()
    for piece in pieces:
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()


_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
MARK = "\ufeff"


class Text(NamedTuple):
    """What is in a text file."""

    raw: str
    """With its own line ends; bytes that are no text as lone surrogates."""
    encoding: str = "utf-8"

    @property
    def shown(self) -> str:
        """What a model is shown."""
        return _displayable(self.raw.replace("\r\n", "\n"))

    @property
    def line_end(self) -> str:
        """What ends most lines."""
        crlf = self.raw.count("\r\n")
        return "\r\n" if crlf > self.raw.count("\n") - crlf else "\n"

    def encoded(self) -> bytes:
        """Return the bytes."""
        return self.raw.encode(self.encoding, _errors(self.encoding))


class Change(NamedTuple):
    """A piece of a text, and what takes its place."""

    start: int
    end: int
    new: str


def decoded(data: bytes) -> Text:
    """Return the text of a file."""
    for mark, encoding in _MARKS:
        if data.startswith(mark) and len(data) % 2 == 0:
            return Text(data.decode(encoding, "surrogatepass"), encoding)
    return Text(data.decode("utf-8", "surrogateescape"))


def rewritten(text: Text, content: str) -> Text:
    """Return a text with other content: line ends, encoding and mark are as they were."""
    if text.raw.startswith(MARK) and not content.startswith(MARK):
        content = MARK + content
    return Text(_ended(content, text.line_end), text.encoding)


def occurrences(text: Text, old: str) -> list[tuple[int, int]]:
    """Return where a piece that a model wrote is in the raw text, without overlaps."""
    plain = text.raw.replace("\r\n", "\n")
    old = old.replace("\r\n", "\n") if plain is not text.raw else old
    found = _all(plain, old) or _all(plain.translate(_STRAIGHT), old.translate(_STRAIGHT))
    if len(plain) == len(text.raw):
        return [(at, at + len(old)) for at in found]
    return _in_raw(text.raw, [(at, at + len(old)) for at in found])


def replaced(text: Text, places: list[tuple[int, int]], new: str) -> Text:
    """Return a text with something else in these places."""
    pieces, reached = [], 0
    for start, end in places:
        taken = text.raw[start:end]
        crlf = taken.count("\r\n")
        line_end = ("\r\n" if crlf > taken.count("\n") - crlf else "\n") if "\n" in taken else text.line_end
        pieces += [text.raw[reached:start], _ended(new, line_end)]
        reached = end
    return Text("".join([*pieces, text.raw[reached:]]), text.encoding)


def numbered(lines: list[str], first: int) -> str:
    """Return lines with their numbers, as the program shows them."""
    return "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, first))


def _all(text: str, piece: str) -> list[int]:
    places, at = [], text.find(piece)
    while at >= 0 and piece:
        places.append(at)
        at = text.find(piece, at + len(piece))
    return places


def _in_raw(raw: str, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    r"""Return places in a text without `\r` before `\n` as places in the text that has them."""
    shifted = []
    at, plain = 0, 0
    for start, end in places:
        edges = []
        for edge in (start, end):
            while (crlf := raw.find("\r\n", at)) >= 0 and plain + crlf - at < edge:
                plain += crlf - at + 1
                at = crlf + 2
            edges.append(at + edge - plain)
        shifted.append((edges[0], edges[1]))
    return shifted


def _ended(text: str, line_end: str) -> str:
    return text if line_end == "\n" else text.replace("\r\n", "\n").replace("\n", line_end)


def _displayable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"
