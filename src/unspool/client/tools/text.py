r"""A text file: bytes in, the text a model is shown out, and changes of it that keep every byte they do not mean. Pure.

Rules
  1. A model is shown `\n` at the end of each line. What the file has, `\r\n` or a mixture, stays as it is.
  2. What is not UTF-8 stays as it is: it is shown as U+FFFD, and nothing that a model writes matches it.
  3. UTF-16 is known by its mark. A mark is a character like any other, and stays.
  4. A change writes line ends as the lines have them that it takes the place of, else as most lines of the file do.
  5. Where straight quotes find nothing they mean curly ones too, as with the program.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

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
