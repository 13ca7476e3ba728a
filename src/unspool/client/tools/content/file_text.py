r"""The text of a file: decode it, show some of its lines, and change it without touching any other byte. Pure.

Rules
  1. A model sees `\n` at the end of each line. The file's own line ends, `\r\n` or a mixture, stay as they are.
  2. What is not UTF-8 stays as it is: it is shown as U+FFFD, and nothing that a model writes matches it.
  3. UTF-16 is recognised by its byte order mark, which is a character like any other, and stays.
  4. A change writes the line ends of the lines that it replaces, else those of most lines of the file.
  5. Where straight quotes match nothing they mean curly ones too, as in Claude Code.
  6. Memory for an excerpt does not grow with the text: lines beyond what a model could be shown are only counted.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_EXCERPT_BYTES = 1 << 20
"""More bytes than a model is ever shown."""
_STRAIGHT_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_UTF16_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BYTE_ORDER_MARK = "\ufeff"


class FileText(NamedTuple):
    """The text of a file, and its encoding."""

    raw: str
    """With its own line ends; bytes that are no text as lone surrogates."""
    encoding: str = "utf-8"

    @property
    def shown(self) -> str:
        """The text as a model sees it."""
        text = self.raw.replace("\r\n", "\n")
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    @property
    def line_end(self) -> str:
        """The line end of most lines."""
        return _most_common_line_end(self.raw)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return self.raw.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "surrogatepass")

    def find(self, old: str) -> list[tuple[int, int]]:
        """Return the ranges of the raw text that match a text of a model, without overlaps."""
        plain = self.raw.replace("\r\n", "\n")
        # `replace` returns the same object where it finds nothing: then the text has no `\r\n`.
        old = old.replace("\r\n", "\n") if plain is not self.raw else old
        starts = _find_all(plain, old) or _find_all(plain.translate(_STRAIGHT_QUOTES), old.translate(_STRAIGHT_QUOTES))
        ranges = [(at, at + len(old)) for at in starts]
        return ranges if len(plain) == len(self.raw) else _map_to_raw(self.raw, ranges)

    def replace_ranges(self, ranges: list[tuple[int, int]], new: str) -> FileText:
        """Return the text with something else in these ranges."""
        pieces, reached = [], 0
        for start, end in ranges:
            old = self.raw[start:end]
            line_end = _most_common_line_end(old) if "\n" in old else self.line_end
            pieces += [self.raw[reached:start], _with_line_ends(new, line_end)]
            reached = end
        return FileText("".join([*pieces, self.raw[reached:]]), self.encoding)

    def with_content(self, content: str) -> FileText:
        """Return other content with the line ends, encoding and byte order mark of this text."""
        if self.raw.startswith(_BYTE_ORDER_MARK) and not content.startswith(_BYTE_ORDER_MARK):
            content = _BYTE_ORDER_MARK + content
        return FileText(_with_line_ends(content, self.line_end), self.encoding)


def decode_text(data: bytes) -> FileText:
    """Return the text of a file."""
    for mark, encoding in _UTF16_MARKS:
        if data.startswith(mark) and len(data) % 2 == 0:
            return FileText(data.decode(encoding, "surrogatepass"), encoding)
    return FileText(data.decode("utf-8", "surrogateescape"))


def number_lines(lines: list[str], first: int) -> str:
    """Return lines with their numbers, as Claude Code shows them."""
    return "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, first))


def _most_common_line_end(text: str) -> str:
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def _find_all(text: str, piece: str) -> list[int]:
    places, at = [], text.find(piece)
    while at >= 0 and piece:
        places.append(at)
        at = text.find(piece, at + len(piece))
    return places


def _map_to_raw(raw: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    r"""Map ranges of a text without `\r` before `\n` to the text that has them."""
    mapped = []
    at, plain = 0, 0
    for start, end in ranges:
        edges = []
        for edge in (start, end):
            while (crlf := raw.find("\r\n", at)) >= 0 and plain + crlf - at < edge:
                plain += crlf - at + 1
                at = crlf + 2
            edges.append(at + edge - plain)
        mapped.append((edges[0], edges[1]))
    return mapped


def _with_line_ends(text: str, line_end: str) -> str:
    return text if line_end == "\n" else text.replace("\r\n", "\n").replace("\n", line_end)


class TextExcerpt(NamedTuple):
    """Some lines of a text, and what the whole is."""

    lines: list[str]
    """Without line ends. All that were asked for, or more than `MAX_EXCERPT_BYTES`."""
    total: int
    """Lines of the whole; what follows the last line end is one, even if it is empty."""
    size: int
    digest: bytes
    """SHA-256 of the whole."""


class _MeasuredChunks:
    """Passes chunks on, and counts and hashes their bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.size = 0
        self.digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.digest.update(chunk)
            self.size += len(chunk)
            yield chunk


def read_excerpt(chunks: Iterable[bytes], first: int, limit: int | None) -> TextExcerpt:
    """Return lines of a text from the first that is wanted, counted from 1."""
    measured = _MeasuredChunks(chunks)
    last = None if limit is None else first + limit - 1
    kept: list[bytes] = []
    number, unended, room = 1, b"", MAX_EXCERPT_BYTES
    for chunk in _as_utf8(iter(measured)):
        ends = chunk.count(b"\n")
        if number + ends < first or (last is not None and number > last) or room < 0:
            # No line of this chunk is wanted: it is not split, which is most of the work.
            number += ends
            unended = chunk.rpartition(b"\n")[2][:MAX_EXCERPT_BYTES] if ends else (unended + chunk)[:MAX_EXCERPT_BYTES]
            continue
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            line = unended + line
            if number >= first and (last is None or number <= last) and room >= 0:
                kept.append(line)
                room -= len(line) + 1
            number, unended = number + 1, b""
        unended = (unended + rest)[:MAX_EXCERPT_BYTES]
    if number >= first and (last is None or number <= last) and room >= 0:
        kept.append(unended)
    # A `\r` that no `\n` follows is part of its line, so the last line keeps it if the text ends there.
    is_ended = number - first >= len(kept)
    stripped = [line.removesuffix(b"\r") for line in kept[:-1]]
    stripped += [line.removesuffix(b"\r") if is_ended else line for line in kept[-1:]]
    lines = [line.decode("utf-8", "replace") for line in stripped]
    return TextExcerpt(lines, number, measured.size, measured.digest.digest())


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    encoding = next((encoding for mark, encoding in _UTF16_MARKS if first.startswith(mark)), None)
    if encoding is None:
        yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode()
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()
