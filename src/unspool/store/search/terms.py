r"""What a person searches for: words in, terms out; and how a term is asked of the index, of raw bytes, of a text. Pure.

Rules
  1. A word is a run of letters and digits, in any case. Words joined by anything but blanks (`foo_bar`, `src/app.py`),
     and all that stands between quotation marks, are one term: its words follow each other, whatever is between them.
  2. `word*` is the beginning of a word.
  3. An identifier is found whole and by its parts: `fooBar` also as `foo` and `bar`, `TS2345` as `ts` and `2345`. Of
     scripts without blanks each character is a word.
  4. A text matches if all terms are in it.
  5. What the index finds and what is found in a text is the same: both look at the text and at its `parts`.

[merged: patterns.py] What a person searches for as a regular expression: it is asked of raw bytes, and of the texts in them. Pure.

Rules
  1. The bytes of a line are what matters. In them a quotation mark is `\"`: a text of the line matches if the pattern
     is in it, or in it as JSON writes it.
  2. Patterns are re2's: whatever they are, the time they take grows with the bytes, and no faster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from unspool.errors import Usage

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that put no blanks between words."""

_OTHER: Final = "\ue000"
"""Stands for a word of a script without blanks: no letter, and nothing that may be between the words of a phrase."""
_BETWEEN: Final = f"(?:[^\\w{_OTHER}]|_)"
"""What may be."""
_SPACED: Final = f"[^\\W_{_UNSPACED}]"
"""Letters and digits of scripts with blanks between words."""

_WORD = re.compile(r"[^\W_]+")
_ASKED = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_AFTER_ESCAPE = re.compile(r"\\[nrt]([A-Za-z0-9]++)(?![^\W_])")
r"""The words after a `\n` that stands in a text as two characters: they would begin with an `n`."""
_PLAIN = re.compile(rb"[a-jl-rt-z0-9]+")
"""Letters that have no other case than the two: of `k` and `s` there is a third in Unicode, and re2 looks for it."""


class Term(NamedTuple):
    """Words that follow each other."""

    words: tuple[str, ...]
    """In lower case."""
    prefix: bool = False
    """The last word is the beginning of one."""
    pieces: tuple[str, ...] = ()
    """The parts of an identifier, if it is one word made of several."""

    @property
    def expression(self) -> str:
        """The term as FTS5 understands it."""
        phrase = f'"{" ".join(self.words)}"{" *" if self.prefix else ""}'
        return f'({phrase} OR parts : "{" ".join(self.pieces)}")' if self.pieces else phrase

    @property
    def is_unspaced(self) -> bool:
        """Whether it has words of scripts without blanks."""
        return any(map(_is_alone, self.words))

    @property
    def pattern(self) -> str:
        """The term as a regular expression, for a text in lower case; what stands before it is not looked at."""
        return _phrase(self.words, prefix=self.prefix)

    @property
    def pattern_of_parts(self) -> str:
        """The same for the parts of identifiers in a text: a letter before it is looked at, and case is not."""
        phrases = [self.pattern, *([_phrase(self.pieces)] if self.pieces else [])]
        return rf"(?<![^\W_])(?:{'|'.join(phrases)})"


class Words:
    """What is searched for, by words."""

    is_raw = False

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(term.pattern) for term in self.terms]

    @cached_property
    def _in_parts(self) -> list[re.Pattern[str]]:
        return [re.compile(term.pattern_of_parts, re.IGNORECASE) for term in self.terms]

    def _places(self, text: str) -> list[list[tuple[int, int]]]:
        """Return where each term is in a text.

        A pattern that begins with a letter is found many times as fast as one that must look back or ignore case: so
        lower case is searched, and what stands before is looked at when something was found.
        """
        lowered = text.lower()
        if len(lowered) != len(text):  # some letters become two
            lowered = "".join(map(_lower, text))
        apart = lowered if text.isascii() else _alone().sub(_OTHER, lowered)  # a word ends where another script begins
        return [
            list(_whole_words(pattern, lowered if term.is_unspaced else apart, term))
            for term, pattern in zip(self.terms, self._patterns, strict=True)
        ]

    @property
    def expression(self) -> str:
        """All terms as FTS5 understands them."""
        return " AND ".join(term.expression for term in self.terms)

    @property
    def word(self) -> str | None:
        """The longest word, if it is of ASCII: what matches has it, in any case."""
        words = [word for term in self.terms for word in term.words if word.isascii()]
        return max(words, key=len, default=None)

    @cached_property
    def needle(self) -> bytes:
        """A pattern for re2 of what every line that matches has: the longest word, as far as it is quickly found."""
        words = [word for term in self.terms for word in term.words]
        plain = [run for word in words if word.isascii() for run in _PLAIN.findall(word.encode())]
        longest = max(plain, key=len, default=b"")
        if len(longest) >= _ENOUGH:
            return b"(?i)" + longest
        return b"(?i)" + max((_escaped(word) for word in words), key=len)

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether a line could match; a text in it can only have the words that its bytes have."""
        lowered = line.lower()
        return all(
            word.encode() in lowered if word.isascii() else re.search(_escaped(word), lowered, re.IGNORECASE)
            for term in self.terms
            for word in term.words
        )

    def count(self, text: str) -> int:
        """Return how often the terms are in a text: not at all if one is missing."""
        counts = list(map(len, self._places(text)))
        if 0 in counts:
            others = parts(text)
            counts = [
                count or len(pattern.findall(others)) for count, pattern in zip(counts, self._in_parts, strict=True)
            ]
        return 0 if 0 in counts else sum(counts)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text the terms are, in order; of a part of an identifier about where."""
        places = self._places(text)
        found = [span for some in places for span in some]
        for term, some in zip(self.terms, places, strict=True):
            if not some:
                loose = r"[\W_]*".join(re.escape(word) for word in term.words)
                found += [match.span() for match in re.finditer(loose, text, re.IGNORECASE)]
        return sorted(found)


_ENOUGH = 3
"""Letters that are rare enough to look for."""


def words(asked: str) -> Words | None:
    """Return what a person asks for; nothing if there is no word in it."""
    terms = []
    for quoted, star, bare in _ASKED.findall(asked):
        text = bare or quoted
        prefix = bool(star) or bare.endswith("*")
        if found := tuple(_words_of(text)):
            is_name = len(found) == 1 and found[0].isascii() and not prefix
            pieces = parts("".join(_WORD.findall(text))).lower().split() if is_name else []
            terms.append(Term(found, prefix, tuple(pieces)))
    return Words(tuple(dict.fromkeys(terms))) if terms else None


def indexed(text: str) -> str:
    """Return a text as it goes into the index: each character of scripts without blanks by itself."""
    return text if text.isascii() else _alone().sub(r" \g<0> ", text)


def parts(text: str) -> str:
    """Return the parts of the identifiers in a text: `fooBar` has `foo Bar`. What has none costs next to nothing."""
    classes = text.encode("ascii", "replace").translate(_CLASSES)
    found: dict[int, int] = {}
    find, before = classes.find, classes.rfind
    for mark in _BOUNDARIES:
        at, end = find(mark), 0
        while at >= 0:
            start = before(b" ", end, at) + 1 or end
            end = find(b" ", at)
            if end < 0:
                end = len(classes)
            if classes[start] != _DIGIT:  # a time or a hash
                found[start] = end
            at = find(mark, end)
    pieces = [_split(text[start:end]) for start, end in sorted(found.items())] if found else []
    if "\\" in text:
        pieces += _AFTER_ESCAPE.findall(text)
    return " ".join(pieces)


@lru_cache(4096)
def _split(identifier: str) -> str:
    return " ".join(_PIECE.findall(identifier))


_DIGIT: Final = ord("0")
_BOUNDARIES: Final = (b"aA", b"AAa", b"0Aa", b"A0")
"""Where an identifier is made of parts, by the classes of its characters."""


def _class(code: int) -> int:
    character = chr(code)
    if not character.isascii() or not character.isalnum():
        return ord(" ")
    return ord("0" if character.isdigit() else "A" if character.isupper() else "a")


_CLASSES: Final = bytes(map(_class, range(256)))


def _words_of(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(indexed(text))]


def _is_alone(word: str) -> bool:
    return not word.isascii() and _alone().match(word) is not None


@cache
def _alone() -> re.Pattern[str]:
    """Return a pattern of characters that are words by themselves; to make it takes longer than most searches."""
    return re.compile(f"[{_UNSPACED}]")


def _phrase(words: tuple[str, ...], *, prefix: bool = False) -> str:
    pattern = re.escape(words[0])
    for before, word in pairwise(words):
        pattern += f"{_BETWEEN}*" if _is_alone(word) or _is_alone(before) else f"{_BETWEEN}+"
        pattern += re.escape(word)
    if prefix or _is_alone(words[-1]):
        return pattern
    return rf"{pattern}(?![^\W_])" if all(map(str.isascii, words)) else f"{pattern}(?!{_SPACED})"


def _whole_words(pattern: re.Pattern[str], text: str, term: Term) -> Iterator[tuple[int, int]]:
    """Yield where a pattern is in a text, if no letter stands before it."""
    if term.words[0] not in text:
        return
    goes_anywhere, at = _is_alone(term.words[0]), 0
    while (found := pattern.search(text, at)) is not None:
        start, end = found.span()
        before = text[start - 1] if start else " "
        if goes_anywhere or not before.isalnum() or _is_alone(before):
            yield start, end
            at = end
        else:
            at = start + 1


def _lower(letter: str) -> str:
    """Return a letter in lower case; one that would become two stays, so that places are the same."""
    lowered = letter.lower()
    return lowered if len(lowered) == 1 else letter


def _escaped(word: str) -> bytes:
    """Return a pattern of a word in raw JSON, where any letter but those of ASCII may be written as an escape."""
    return b"".join(map(_letter, word))


def _letter(letter: str) -> bytes:
    if letter.isascii():
        return re.escape(letter).encode()
    forms = []
    for form in dict.fromkeys((letter, letter.lower(), letter.upper())):
        units = form.encode("utf-16-be")
        escapes = b"".join(b"\\\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))
        forms += [b"".join(b"\\x%02x" % byte for byte in form.encode()), escapes]
    return b"(?:" + b"|".join(forms) + b")"


class Pattern:
    """A regular expression."""

    is_raw = True

    def __init__(self, pattern: str) -> None:
        import re2

        try:
            self._pattern = compiled(pattern)
        except re2.error as error:
            said = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
            hint = "patterns are those of re2: no look-around, no back-references"
            raise Usage(f"not a pattern: `{pattern}`: {said}", hint=hint) from None
        self.needle = pattern

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether a line could match: it was found by its bytes."""
        return True

    def count(self, text: str) -> int:
        """Return how often a text matches."""
        return len(self.spans(text)) or int(self._pattern.search(_written(text)) is not None)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text it matches; nowhere if it does only as JSON writes it."""
        found: list[tuple[int, int]] = []
        for match in self._pattern.finditer(_clean(text)):
            found.append(match.span())
            if len(found) == _MOST:
                break
        return found


def compiled(pattern: bytes | str) -> Any:
    """Return a pattern as re2 has it; of bytes, a byte is a byte."""
    import re2

    options = re2.Options()
    options.log_errors = False
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern, options)


_MOST = 100
"""Matches in a text that are counted."""


def _written(text: str) -> str:
    return json.dumps(_clean(text), ensure_ascii=False)[1:-1]


def _clean(text: str) -> str:
    """Return text that can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
