"""A shell command taken apart: its text in, the simple commands it would run out. Pure, and never runs anything.

    FOO=1 ls "$(git log)" > out; sh -c 'rm x'   →   git log  ·  FOO=1 ls … > out  ·  sh -c 'rm x'

It reads bash's grammar as far as commands written by a model use it. What it does not understand it says (`doubts`),
and goes on, so that whoever looks for what is forbidden still finds it.

Rules
  1. A part is a command without operators: what `;`, `&&`, `||`, `|`, `&`, a new line, `( )`, `{ }`, `$( )`, backticks
     and `<( )` hold apart. What is inside quotes is one word; what is inside `$( )`, also in quotes, is parts.
  2. A word's text is what the program would get, quotes and backslashes gone. What the shell would put in its place is
     left as it stands, and the word says so (`has_variable`, `has_glob`, …).
  3. A doubt is never silent: unclosed quotes, functions, arrays, `case`, `[[`, arithmetic, odd `${…}`, control
     characters, nesting beyond reason.

[merged: escapes.py] What `$'…'` means in a shell: letters written as numbers. Text in, text out. Pure.

[merged: parts.py] What a shell command is made of: words, redirections, parts. Data only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def decoded(text: str) -> str:
    """Return a text with its escapes replaced.

    >>> decoded(r"\\x72\\155")
    'rm'
    """
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _LETTERS.get(code, "" if code[0] == "c" and len(code) > 1 else code)


class Word(NamedTuple):
    """A word of a command."""

    text: str
    raw: str
    has_variable: bool = False
    """Something comes in its place that is not known here: a variable, the output of a command."""
    has_glob: bool = False
    has_braces: bool = False
    has_tilde: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.has_variable or self.has_glob or self.has_braces or self.has_tilde)


class Redirect(NamedTuple):
    """A file that a part reads or writes by itself."""

    is_write: bool
    target: Word


class Part(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...] = ()
    assigned: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    scripts: tuple[str, ...] = ()
    """Texts that it is fed with by `<<` and `<<<`."""
    raw: str = ""

    @property
    def program(self) -> str:
        """The first word; nothing if there is none."""
        return self.words[0].text if self.words else ""


class Command(NamedTuple):
    """All that a text would run."""

    parts: tuple[Part, ...]
    doubts: tuple[str, ...] = ()


DEEPEST = 30
_BLANK = " \t"
_ENDS = " \t\n;&|<>()"
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9?$#!@*-]|\{[A-Za-z_]\w*\})", re.ASCII)
_NUMBERS = re.compile(r"\$\(\(([0-9+\-*/% ]*)\)\)")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_REDIRECT = re.compile(r"[0-9]*(<<<|<<-|<<|<&|<>|<|>>|>\||>&|>)|&>>|&>")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
_ANSI = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)
_OPENING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{"})
_CLOSING = frozenset({"fi", "done", "}"})
_STRANGE = frozenset({"case", "esac", "select", "function", "coproc", "[["})


def taken_apart(text: str) -> Command:
    """Return the parts of a command, those inside others first."""
    reader = _Reader(text, [], [], 0)
    if _CONTROL.search(text):
        reader.doubts.append("it has control characters or odd spaces in it")
    reader.commands("")
    return Command(tuple(reader.parts), tuple(dict.fromkeys(reader.doubts)))


class _Draft:
    """A part that is being read."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.words: list[Word] = []
        self.assigned: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.scripts: list[str] = []
        self.is_split = False
        self.number: int | None = None
        """Which part it has become."""


class _Spelling:
    """A word that is being read."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.marks: set[str] = set()


class _Reader:
    """Where the reading of a text is."""

    def __init__(self, text: str, parts: list[Part], doubts: list[str], depth: int) -> None:
        self.text, self.parts, self.doubts, self.depth = text, parts, doubts, depth
        self.at = 0
        self._awaited: list[tuple[str, bool, bool, _Draft]] = []

    def commands(self, closing: str) -> None:
        """Read commands up to the end, or to a closing parenthesis."""
        self._deeper()
        if self._awaited:
            self.doubts.append("a here-document waits for its text")
        draft = _Draft(self.at)
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == closing:
                break
            if character in _BLANK:
                self.at += 1
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif not self.text.startswith(("<(", ">("), self.at) and (match := _REDIRECT.match(self.text, self.at)):
                self._redirect(match, draft)
            elif character in ";&|\n()":
                draft = self._operator(character, draft)
            else:
                self._take(self._word(), draft)
        self._finish(draft)
        if closing and self.at >= len(self.text):
            self.doubts.append("a parenthesis is not closed")
        if self._awaited:
            self.doubts.append("a here-document has no text")
        self.at += len(closing)
        self.depth -= 1

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.doubts.append("it is nested too deeply")
            self.at = len(self.text)

    def _operator(self, character: str, draft: _Draft) -> _Draft:
        if character == "(":
            if draft.words or draft.assigned:
                self.doubts.append("it defines a function or an array")
            if self.text.startswith("((", self.at):
                self.doubts.append("it calculates")
            self._finish(draft)
            self.at += 1
            self.commands(")")
            return _Draft(self.at)
        if character == ")":
            self.doubts.append("a parenthesis closes nothing")
        if self.text.startswith(";;", self.at):
            self.doubts.append("it branches with `case`")
        self._finish(draft)
        self.at += 1
        if character == "\n":
            self._read_documents()
        return _Draft(self.at)

    def _finish(self, draft: _Draft) -> None:
        """Keep a part, without the words that only hold commands together."""
        words = draft.words
        while words and words[0].raw == words[0].text and words[0].text in _OPENING | _CLOSING:
            words = words[1:]
            while words and (match := _ASSIGNED.match(words[0].raw)):
                draft.assigned.append((match[1], words[0]))
                words = words[1:]
        if words and words[0].raw in _STRANGE:
            self.doubts.append(f"it uses `{words[0].raw}`")
        if any(word.raw in ("{", "}") for word in words):
            self.doubts.append("a brace stands where none is expected")  # in zsh it may begin a block
        elif words and words[0].raw == "for":
            words = self._loop(words, draft)
        if words or draft.assigned or draft.redirects or draft.scripts:
            raw = self.text[draft.start : self.at].strip()
            draft.number = len(self.parts)
            made = (tuple(words), tuple(draft.assigned), tuple(draft.redirects), tuple(draft.scripts))
            self.parts.append(Part(*made, raw))

    def _loop(self, words: list[Word], draft: _Draft) -> list[Word]:
        """Take `for NAME in WORDS` for what it is: a name that gets values."""
        match words:
            case [_, Word(raw=name), Word(raw="in"), *_] if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                draft.assigned += [(name, word) for word in words[3:]] or [(name, words[1])]
                return []
            case _:
                self.doubts.append("it loops in a way that is not understood")
                return words

    def _take(self, word: Word, draft: _Draft) -> None:
        if draft.is_split:
            self.doubts.append("words follow `&>`")  # to a plain `sh` they are a command of their own
        if not draft.words and (match := _ASSIGNED.match(word.raw)):
            draft.assigned.append((match[1], word))
        elif word.raw:
            draft.words.append(word)

    def _redirect(self, match: re.Match[str], draft: _Draft) -> None:
        operator = match[1] or match[0]
        draft.is_split |= operator.startswith("&")
        self.at = match.end()
        while self.at < len(self.text) and self.text[self.at] in _BLANK:
            self.at += 1
        word = self._word()
        if not word.raw or word.raw.startswith("!"):
            self.doubts.append("it redirects to nothing")  # in zsh `>! x` writes to x
        elif operator in ("<<", "<<-"):
            self._awaited.append((word.text, word.raw == word.text, operator == "<<-", draft))
        elif operator == "<<<":
            draft.scripts.append(word.text)
            draft.words += [] if word.is_plain else [Word("", "", has_variable=True)]
        elif not (operator in ("<&", ">&") and re.fullmatch(r"[0-9]+-?|-", word.raw)):  # one of its own
            draft.redirects.append(Redirect(operator not in ("<", "<&"), word))

    def _read_documents(self) -> None:
        """Read the texts of `<<`, which begin on the line after it."""
        for end, is_expanded, is_indented, draft in self._awaited:
            lines = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                line = self.text[self.at : stop if stop >= 0 else None]
                self.at += len(line) + 1
                if (line.lstrip("\t") if is_indented else line) == end:
                    break
                lines.append(line)
            else:
                self.doubts.append("a here-document does not end")
            text = "\n".join(lines)
            self._feed(draft, text)
            if is_expanded:
                inner = _Reader(text, self.parts, self.doubts, self.depth)
                while inner.at < len(text):
                    inner._quoted(_Spelling(), "")
        self._awaited = []

    def _feed(self, draft: _Draft, text: str) -> None:
        """Give a text to the part that waited for it; it was kept when its line ended."""
        if draft.number is None:
            self.parts.append(Part(scripts=(text,), raw=text))
        else:
            part = self.parts[draft.number]
            self.parts[draft.number] = part._replace(scripts=(*part.scripts, text))

    def _word(self) -> Word:
        start, spelling = self.at, _Spelling()
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.text.startswith(("<(", ">("), self.at):
                self.at += 2
                self.commands(")")
                spelling.marks.add("variable")
            elif character in _ENDS:
                break
            else:
                self._character(character, spelling, start)
        raw, text, marks = self.text[start : self.at], "".join(spelling.pieces), spelling.marks
        globs = not marks.isdisjoint("*?") or ("[" in marks and "]" in raw)
        braces = "{" in marks and re.search(r"\{[^{}]*(,|\.\.)", raw) is not None
        return Word(text, raw, "variable" in marks, globs, braces, "~" in marks)

    def _character(self, character: str, spelling: _Spelling, start: int) -> None:
        match character:
            case "\\":
                following = self.text[self.at + 1 : self.at + 2]
                spelling.pieces.append("" if following == "\n" else following)
                self.at += 2
            case "'":
                self._single(spelling)
            case '"':
                self.at += 1
                self._quoted(spelling, '"')
            case "$":
                self._dollar(spelling, is_quoted=False)
            case "`":
                self._backticks(spelling)
            case _:
                if character in "*?[{":
                    spelling.marks.add(character)
                elif character == "~" and (self.at == start or self.text[self.at - 1] in "=:"):
                    spelling.marks.add("~")
                spelling.pieces.append(character)
                self.at += 1

    def _single(self, spelling: _Spelling) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.doubts.append("a quote is not closed")
            end = len(self.text)
        spelling.pieces.append(self.text[self.at + 1 : end])
        self.at = end + 1

    def _quoted(self, spelling: _Spelling, closing: str) -> None:
        """Read what is between double quotes, or a text in which the same is expanded."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == closing:
                self.at += 1
                return
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                spelling.pieces.append(self.text[self.at + 1].strip("\n"))
                self.at += 2
            elif character == "$":
                self._dollar(spelling, is_quoted=True)
            elif character == "`":
                self._backticks(spelling)
            else:
                spelling.pieces.append(character)
                self.at += 1
        if closing:
            self.doubts.append("a quote is not closed")

    def _dollar(self, spelling: _Spelling, *, is_quoted: bool) -> None:
        text, at = self.text, self.at
        if match := _NUMBERS.match(text, at) or _VARIABLE.match(text, at):
            spelling.marks.add("variable")
            spelling.pieces.append(match[0])
            self.at = match.end()
        elif text.startswith("$(", at):
            if text.startswith("$((", at):
                self.doubts.append("it calculates")
            spelling.marks.add("variable")
            self.at += 2
            self.commands(")")
            spelling.pieces.append(text[at : self.at])
        elif text.startswith("${", at):
            self._odd_variable(spelling)
        elif text.startswith("$'", at) and not is_quoted:
            self._ansi(spelling)
        elif text.startswith('$"', at) and not is_quoted:
            self.at += 2
            self._quoted(spelling, '"')
        else:
            if text.startswith("$[", at):
                self.doubts.append("it calculates")
            if text[at + 1 : at + 2] in tuple("=~^+:"):
                spelling.marks.add("variable")  # to zsh it is one
            spelling.pieces.append("$")
            self.at += 1

    def _odd_variable(self, spelling: _Spelling) -> None:
        """Read `${…}` with more than a name in it: some run what is in a variable."""
        self.doubts.append("it uses `${…}` with more than a name")
        spelling.marks.add("variable")
        start, inner = self.at, _Spelling()
        self.at += 2
        self._deeper()
        while self.at < len(self.text) and self.text[self.at] != "}":
            if self.text[self.at] in "\\'\"$`":
                self._character(self.text[self.at], inner, start)
            else:
                self.at += 1
        self.at += 1
        self.depth -= 1
        spelling.pieces.append(self.text[start : self.at])

    def _ansi(self, spelling: _Spelling) -> None:
        """Read `$'…'`, in which letters can be written as numbers."""
        match = _ANSI.match(self.text, self.at)
        if match is None:
            self.doubts.append("a quote is not closed")
            self.at += 2
            return
        if "\\'" in match[0]:
            self.doubts.append("a quote is inside another")  # a plain `sh` sees it end there
        spelling.pieces.append(decoded(match[1]))
        self.at = match.end()

    def _backticks(self, spelling: _Spelling) -> None:
        match = _BACKTICKS.match(self.text, self.at)
        if match is None:
            self.doubts.append("a backtick is not closed")
            self.at += 1
            return
        inner = _Reader(re.sub(r"\\([$`\\])", r"\1", match[1]), self.parts, self.doubts, self.depth)
        inner.commands("")
        spelling.marks.add("variable")
        spelling.pieces.append(match[0])
        self.at = match.end()
