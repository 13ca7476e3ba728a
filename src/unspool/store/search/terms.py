r"""The query language of search: parses words and patterns, and matches them in the index, in raw bytes and in text.

Rules of words
  1. A word is a run of letters and digits, in any case. Words joined by anything but blanks (`foo_bar`, `src/app.py`),
     and everything between quotation marks, are one term: its words follow each other, whatever is between them.
  2. `word*` is the beginning of a word.
  3. An identifier is found whole and by its parts: `fooBar` also as `foo` and `bar`, `TS2345` as `ts` and `2345`. In
     scripts without spaces each character is a word.
  4. A text matches if it contains all terms.
  5. The index and a text are matched alike: both consist of the text and of its `identifier_parts`.

Rules of regular expressions
  1. The bytes of a line are what is searched. In them a quotation mark is `\"`: a text of the line matches if the
     pattern is in it, or in the text as JSON writes it.
  2. Patterns are re2's: whatever they are, the time they take grows linearly with the bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from unspool.errors import UsageError

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that put no spaces between words."""

_UNSPACED_MARK: Final = "\ue000"
"""Replaces a word of a script without spaces: neither a letter nor anything allowed between the words of a phrase."""
_BETWEEN: Final = f"(?:[^\\w{_UNSPACED_MARK}]|_)"
"""A character allowed between the words of a phrase."""
_SPACED: Final = f"[^\\W_{_UNSPACED}]"
"""A letter or digit of a script with spaces between words."""

_WORD = re.compile(r"[^\W_]+")
_QUERY_PART = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_AFTER_ESCAPE = re.compile(r"\\[nrt]([A-Za-z0-9]++)(?![^\W_])")
r"""The words after a `\n` that stands in a text as two characters: otherwise they would begin with an `n`."""
_TWO_CASES = re.compile(rb"[a-jl-rt-z0-9]+")
"""Letters with two cases only: `k` and `s` have a third in Unicode, which makes re2 slower."""


class Term(NamedTuple):
    """Words that follow each other in a text."""

    words: tuple[str, ...]
    """In lower case."""
    prefix: bool = False
    """Whether the last word is only the beginning of one."""
    pieces: tuple[str, ...] = ()
    """The parts of the identifier, if the term is one word made of several."""

    @property
    def expression(self) -> str:
        """The term as an FTS5 expression."""
        phrase = f'"{" ".join(self.words)}"{" *" if self.prefix else ""}'
        return f'({phrase} OR parts : "{" ".join(self.pieces)}")' if self.pieces else phrase

    @property
    def is_unspaced(self) -> bool:
        """Whether it has words of scripts without spaces."""
        return any(map(_is_unspaced, self.words))

    @property
    def pattern(self) -> str:
        """The term as a regular expression for a text in lower case; it does not check what stands before the term."""
        return _phrase(self.words, prefix=self.prefix)

    @property
    def pattern_of_parts(self) -> str:
        """The same for the `identifier_parts` of a text in any case; it does check what stands before the term."""
        phrases = [self.pattern, *([_phrase(self.pieces)] if self.pieces else [])]
        return rf"(?<![^\W_])(?:{'|'.join(phrases)})"


class WordQuery:
    """A search for words."""

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

        A pattern that begins with a letter is found many times faster than one that looks back or ignores case: so the
        text is searched in lower case, and the character before is checked when something was found.
        """
        lowered = text.lower()
        if len(lowered) != len(text):  # some letters become two, and the places would be others
            lowered = "".join(map(_lower, text))
        apart = (
            lowered if text.isascii() else _unspaced_character().sub(_UNSPACED_MARK, lowered)
        )  # a word ends where another script begins
        return [
            list(_whole_words(pattern, lowered if term.is_unspaced else apart, term))
            for term, pattern in zip(self.terms, self._patterns, strict=True)
        ]

    @property
    def expression(self) -> str:
        """All terms as an FTS5 expression."""
        return " AND ".join(term.expression for term in self.terms)

    @property
    def ascii_word(self) -> str | None:
        """The longest word of ASCII, if there is one: every match contains it, in any case."""
        words = [word for term in self.terms for word in term.words if word.isascii()]
        return max(words, key=len, default=None)

    @cached_property
    def byte_pattern(self) -> bytes:
        """A pattern for re2 that every matching line contains: the longest word, or a part of it that is found fast."""
        words = [word for term in self.terms for word in term.words]
        fast = [run for word in words if word.isascii() for run in _TWO_CASES.findall(word.encode())]
        longest = max(fast, key=len, default=b"")
        if len(longest) >= _RARE_ENOUGH:
            return b"(?i)" + longest
        return b"(?i)" + max((_escaped(word) for word in words), key=len)

    def may_match(self, line: bytes) -> bool:
        """Whether a line could match: its texts can only contain the words that its bytes contain."""
        lowered = line.lower()
        return all(
            word.encode() in lowered if word.isascii() else re.search(_escaped(word), lowered, re.IGNORECASE)
            for term in self.terms
            for word in term.words
        )

    def count(self, text: str) -> int:
        """Return how often the terms are in a text; 0 if one is missing."""
        counts = list(map(len, self._places(text)))
        if 0 in counts:
            others = identifier_parts(text)
            counts = [
                count or len(pattern.findall(others)) for count, pattern in zip(counts, self._in_parts, strict=True)
            ]
        return 0 if 0 in counts else sum(counts)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text the terms are, in order; for a part of an identifier approximately."""
        places = self._places(text)
        found = [span for some in places for span in some]
        for term, some in zip(self.terms, places, strict=True):
            if not some:
                loose = r"[\W_]*".join(re.escape(word) for word in term.words)
                found += [match.span() for match in re.finditer(loose, text, re.IGNORECASE)]
        return sorted(found)


class AnyText(WordQuery):
    """A search without words: every text matches, and the filters choose."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def byte_pattern(self) -> bytes:
        """A pattern for re2 that every line contains."""
        return rb"\S"

    def count(self, text: str) -> int:
        """Return 1: a text matches once."""
        return 1


_RARE_ENOUGH = 3
"""Letters of which a run is rare enough to search for."""


def parse_words(query: str) -> WordQuery | None:
    """Parse what a user searches for; null if there is no word in it."""
    terms = []
    for quoted, star, bare in _QUERY_PART.findall(query):
        text = bare or quoted
        prefix = bool(star) or bare.endswith("*")
        if words := tuple(word.lower() for word in _WORD.findall(separate_unspaced(text))):
            is_name = len(words) == 1 and words[0].isascii() and not prefix
            pieces = identifier_parts("".join(_WORD.findall(text))).lower().split() if is_name else []
            terms.append(Term(words, prefix, tuple(pieces)))
    return WordQuery(tuple(dict.fromkeys(terms))) if terms else None


def separate_unspaced(text: str) -> str:
    """Return a text for the index, with spaces around each character of scripts that have none between words."""
    return text if text.isascii() else _unspaced_character().sub(r" \g<0> ", text)


def identifier_parts(text: str) -> str:
    """Return the parts of the identifiers in a text: of `fooBar` `foo Bar`.

    Runs over every text that is indexed, so boundaries are searched as bytes, by the classes of the characters.
    """
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
            if classes[start] != _DIGIT:  # else it is a time or a hash
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


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _unspaced_character().match(word) is not None


@cache
def _unspaced_character() -> re.Pattern[str]:
    """Return a pattern of characters that are words by themselves. Compiling it takes longer than most searches."""
    return re.compile(f"[{_UNSPACED}]")


def _phrase(words: tuple[str, ...], *, prefix: bool = False) -> str:
    pattern = re.escape(words[0])
    for before, word in pairwise(words):
        pattern += f"{_BETWEEN}*" if _is_unspaced(word) or _is_unspaced(before) else f"{_BETWEEN}+"
        pattern += re.escape(word)
    if prefix or _is_unspaced(words[-1]):
        return pattern
    return rf"{pattern}(?![^\W_])" if all(map(str.isascii, words)) else f"{pattern}(?!{_SPACED})"


def _whole_words(pattern: re.Pattern[str], text: str, term: Term) -> Iterator[tuple[int, int]]:
    """Yield where a pattern is in a text with no letter before it."""
    if term.words[0] not in text:
        return
    is_anywhere, at = _is_unspaced(term.words[0]), 0
    while (found := pattern.search(text, at)) is not None:
        start, end = found.span()
        before = text[start - 1] if start else " "
        if is_anywhere or not before.isalnum() or _is_unspaced(before):
            yield start, end
            at = end
        else:
            at = start + 1


def _lower(letter: str) -> str:
    """Return a letter in lower case, unless that would be two letters."""
    lowered = letter.lower()
    return lowered if len(lowered) == 1 else letter


def _escaped(word: str) -> bytes:
    """Return a pattern of a word in raw JSON, where a letter outside ASCII may be written as an escape."""
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


class RegexQuery:
    """A search for a regular expression."""

    is_raw = True

    def __init__(self, pattern: str) -> None:
        import re2

        try:
            self._pattern = compile_re2(pattern)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args else "syntax error"
            hint = "use re2 syntax: no look-around, no back-references"
            raise UsageError(f"invalid pattern `{pattern}`: {reason}", hint=hint) from None
        self.byte_pattern = pattern

    def may_match(self, line: bytes) -> bool:
        """Whether a line could match: it was found by its bytes, so it does."""
        return True

    def count(self, text: str) -> int:
        """Return how often a text matches."""
        return len(self.spans(text)) or int(self._pattern.search(_as_json(text)) is not None)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text it matches; nowhere if it matches only the text as JSON writes it."""
        matches = islice(self._pattern.finditer(_encodable(text)), _MAX_MATCHES)
        return [match.span() for match in matches]


SearchTerms: TypeAlias = WordQuery | RegexQuery
"""What is searched for."""


def compile_re2(pattern: bytes | str) -> Any:
    """Compile a pattern for re2; one of bytes matches byte by byte."""
    import re2

    options = re2.Options()
    options.log_errors = False
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern, options)


_MAX_MATCHES = 100
"""Matches in a text that are counted at most."""


def _as_json(text: str) -> str:
    return json.dumps(_encodable(text), ensure_ascii=False)[1:-1]


def _encodable(text: str) -> str:
    """Return text without lone surrogates, which re2 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
