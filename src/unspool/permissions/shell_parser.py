"""Parse a shell command into the simple commands that it would run. Pure: nothing is ever run.

    FOO=1 ls "$(git log)" > out; sh -c 'rm x'   →   git log  ·  FOO=1 ls … > out  ·  sh -c 'rm x'

The parser covers bash's grammar as far as commands written by a model use it. What it does not understand it records
in `doubts`, and reads on, so that a caller that searches for forbidden commands still finds them.

Rules
  1. Simple commands are separated by `;`, `&&`, `||`, `|`, `&`, a new line, `( )`, `{ }`, `$( )`, backticks and `<( )`.
     What is inside quotes is one word; what is inside `$( )`, also in quotes, is commands of its own.
  2. A word's text is what the program would get, without quotes and backslashes. What the shell would expand is left
     unexpanded, and the word says so (`has_expansion`, `has_glob`, …).
  3. A doubt is never silent: unclosed quotes, functions, arrays, `case`, `[[`, arithmetic, `${…}` with more than a
     name, lines joined inside a word, control characters, nesting beyond `MAX_DEPTH`.
  4. This parser finds what a command may run. What may run without a question has to be in a smaller grammar, that of
     `shell_plain.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_DEPTH = 30
_MAX_BRACE_WORDS = 256
_BLANKS = " \t"
_WORD_ENDS = " \t\n;&|<>()"
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9?$#!@*-]|\{[A-Za-z_]\w*\})", re.ASCII)
_ARITHMETIC_ON_NUMBERS = re.compile(r"\$\(\(([0-9+\-*/% ]*)\)\)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_REDIRECT = re.compile(r"[0-9]*(<<<|<<-|<<|<&|<>|<|>>|>\||>&|>)|&>>|&>")
UNSEEN_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, and characters that look like a space or like nothing: a person would not see them."""
_JOINED_LINES = re.compile(r"(?<![ \t])\\\n")
"""A backslash and a new line, without a blank before: a shell removes both, which may make one sign of two (`$` and
`(`). In a here-document it may make the line that ends it."""
_ANSI_C_QUOTES = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL)
_ANSI_C_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_LETTER_ESCAPES = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_BACKTICKS = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)
SHELL_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "fi", "done", "}"})
"""Reserved words that only hold commands together: what follows them is a command."""
_UNSUPPORTED_KEYWORDS = frozenset({"case", "esac", "select", "function", "coproc", "[["})


class Word(NamedTuple):
    """A word of a command, and which expansions the shell would still make in it."""

    text: str
    raw: str
    has_expansion: bool = False
    """The shell puts something in its place that is not known here: a variable, the output of a command."""
    has_glob: bool = False
    has_braces: bool = False
    has_tilde: bool = False

    @property
    def is_literal(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.has_expansion or self.has_glob or self.has_braces or self.has_tilde)


class Redirect(NamedTuple):
    """A file that a command is redirected to or from."""

    is_write: bool
    target: Word


class SimpleCommand(NamedTuple):
    """One program with its arguments, assignments and redirections: bash's simple command."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin_texts: tuple[str, ...] = ()
    """The texts of its here-documents (`<<`) and here-strings (`<<<`)."""
    raw: str = ""

    @property
    def program(self) -> str:
        """The first word; empty if there is none."""
        return self.words[0].text if self.words else ""

    @property
    def program_name(self) -> str:
        """The program without its folder."""
        return self.program.rpartition("/")[2]


class ParsedCommand(NamedTuple):
    """All simple commands that a text would run, and what in it was not understood."""

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...] = ()


def parse_command(text: str) -> ParsedCommand:
    """Return the simple commands of a text, nested ones before those that contain them."""
    parser = _Parser(text, [], [], 0)
    if UNSEEN_CHARACTERS.search(text):
        parser.doubts.append("it has control characters or odd spaces in it")
    if _JOINED_LINES.search(text) or ("<<" in text and "\\\n" in text):
        parser.doubts.append("lines are joined inside a word")
    parser.parse_commands("")
    return ParsedCommand(tuple(parser.commands), tuple(dict.fromkeys(parser.doubts)))


def decode_ansi_c(text: str) -> str:
    """Return the inside of `$'…'` with its escapes replaced.

    >>> decode_ansi_c(r"\\x72\\155")
    'rm'
    """
    return _ANSI_C_ESCAPE.sub(_decode_escape, text)


def expand_braces(word: Word) -> list[str] | None:
    """Return the words that braces make of a word, which has no other expansion; None if they are not known.

    >>> expand_braces(parse_command("x {{a},r{m,}}").commands[0].words[1])
    ['{a}', 'rm', 'r']
    """
    # Quotes inside of braces hide commas, and where they were is not in the text.
    return _expand_text(word.text) if word.raw == word.text else None


def _expand_text(text: str) -> list[str] | None:
    start = text.find("{")
    while start >= 0:
        parts = _split_group(text, start)
        if parts is None or (len(parts) == 2 and ".." in parts[0]):
            return None  # not closed, or a range
        *middles, tail = parts
        if len(middles) > 1:
            tails, inner = _expand_text(tail), [_expand_text(middle) for middle in middles]
            if tails is None or None in inner:
                return None
            expanded = [text[:start] + each + rest for words in inner for each in words or [] for rest in tails]
            return expanded if len(expanded) <= _MAX_BRACE_WORDS else None
        start = text.find("{", start + 1)
    return [text]


def _split_group(text: str, start: int) -> list[str] | None:
    """Split a group in braces at its commas; return its parts, and the text after it. None if it is not closed."""
    depth, last, parts = 0, start + 1, list[str]()
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return [*parts, text[last:at], text[at + 1 :]]
        if text[at] == "," and depth == 1:
            parts.append(text[last:at])
            last = at + 1
    return None


def _decode_escape(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _LETTER_ESCAPES.get(code, "" if code[0] == "c" and len(code) > 1 else code)


class _CommandBuilder:
    """A simple command while it is parsed."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.words: list[Word] = []
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.stdin_texts: list[str] = []
        self.has_ampersand_redirect = False
        self.index: int | None = None
        """Its place in the parser's list once it is complete."""


class _WordBuilder:
    """A word while it is parsed."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.marks: set[str] = set()
        """Unquoted characters that may start an expansion (`*?[{~`), and `expansion`."""


class _PendingHeredoc(NamedTuple):
    """A here-document whose text begins on the next line."""

    delimiter: str
    is_expanded: bool
    strips_tabs: bool
    command: _CommandBuilder


class _Parser:
    """A recursive descent parser at one place of a text; parsers of nested texts share its lists."""

    def __init__(self, text: str, commands: list[SimpleCommand], doubts: list[str], depth: int) -> None:
        self.text, self.commands, self.doubts, self.depth = text, commands, doubts, depth
        self.at = 0
        self._heredocs: list[_PendingHeredoc] = []

    def parse_commands(self, closing: str) -> None:
        """Parse commands up to the end of the text, or to a closing parenthesis."""
        self._enter()
        if self._heredocs:
            self.doubts.append("a here-document waits for its text")
        command = _CommandBuilder(self.at)
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == closing:
                break
            if character in _BLANKS:
                self.at += 1
            elif character == "#":  # only where a word would begin: `a#b` is one word
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif not self.text.startswith(("<(", ">("), self.at) and (match := _REDIRECT.match(self.text, self.at)):
                self._parse_redirect(match, command)
            elif character in ";&|\n()":
                command = self._parse_operator(character, command)
            else:
                self._add_word(self._parse_word(), command)
        self._finish_command(command)
        if closing and self.at >= len(self.text):
            self.doubts.append("a parenthesis is not closed")
        if self._heredocs:
            self.doubts.append("a here-document has no text")
        self.at += len(closing)
        self.depth -= 1

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.doubts.append("it is nested too deeply")
            self.at = len(self.text)

    def _parse_operator(self, character: str, command: _CommandBuilder) -> _CommandBuilder:
        if character == "(":
            if command.words or command.assignments:
                self.doubts.append("it defines a function or an array")
            if self.text.startswith("((", self.at):
                self.doubts.append("it calculates")
            self._finish_command(command)
            self.at += 1
            self.parse_commands(")")
            return _CommandBuilder(self.at)
        if character == ")":
            self.doubts.append("a parenthesis closes nothing")
        if self.text.startswith(";;", self.at):
            self.doubts.append("it branches with `case`")
        self._finish_command(command)
        self.at += 1
        if character == "\n":
            self._parse_heredocs()
        return _CommandBuilder(self.at)

    def _finish_command(self, command: _CommandBuilder) -> None:
        """Add a command to the list, without the keywords before it."""
        words = command.words
        while words and words[0].raw == words[0].text and words[0].text in SHELL_KEYWORDS:
            words = words[1:]
            while words and (match := _ASSIGNMENT.match(words[0].raw)):
                command.assignments.append((match[1], words[0]))
                words = words[1:]
        if words and words[0].raw in _UNSUPPORTED_KEYWORDS:
            self.doubts.append(f"it uses `{words[0].raw}`")
        if any(word.raw in ("{", "}") for word in words):
            self.doubts.append("a brace stands where none is expected")  # in zsh it may begin a block
        elif words and words[0].raw == "for":
            words = self._parse_for(words, command)
        if words or command.assignments or command.redirects or command.stdin_texts:
            raw = self.text[command.start : self.at].strip()
            command.index = len(self.commands)
            self.commands.append(
                SimpleCommand(
                    tuple(words),
                    tuple(command.assignments),
                    tuple(command.redirects),
                    tuple(command.stdin_texts),
                    raw,
                )
            )

    def _parse_for(self, words: list[Word], command: _CommandBuilder) -> list[Word]:
        """Turn `for NAME in WORDS` into assignments; return the words that are left of the command."""
        match words:
            case [_, Word(raw=name), Word(raw="in"), *_] if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                command.assignments += [(name, word) for word in words[3:]] or [(name, words[1])]
                return []
            case _:
                self.doubts.append("it loops in a way that is not understood")
                return words

    def _add_word(self, word: Word, command: _CommandBuilder) -> None:
        if command.has_ampersand_redirect:
            self.doubts.append("words follow `&>`")  # to a plain `sh` they are a command of their own
        if not command.words and (match := _ASSIGNMENT.match(word.raw)):
            command.assignments.append((match[1], word))
        elif word.raw:
            command.words.append(word)

    def _parse_redirect(self, match: re.Match[str], command: _CommandBuilder) -> None:
        operator = match[1] or match[0]
        command.has_ampersand_redirect |= operator.startswith("&")
        self.at = match.end()
        while self.at < len(self.text) and self.text[self.at] in _BLANKS:
            self.at += 1
        word = self._parse_word()
        if not word.raw or word.raw.startswith("!"):
            self.doubts.append("it redirects to nothing")  # in zsh `>! x` writes to x
        elif operator in ("<<", "<<-"):
            self._heredocs.append(_PendingHeredoc(word.text, word.raw == word.text, operator == "<<-", command))
        elif operator == "<<<":
            command.stdin_texts.append(word.text)
            # The text is not known here: the command must not count as one whose words are all literal.
            command.words += [] if word.is_literal else [Word("", "", has_expansion=True)]
        elif not (operator in ("<&", ">&") and re.fullmatch(r"[0-9]+-?|-", word.raw)):  # `2>&1`: no file
            command.redirects.append(Redirect(operator not in ("<", "<&"), word))

    def _parse_heredocs(self) -> None:
        """Read the texts of `<<`, which begin on the line after it."""
        for delimiter, is_expanded, strips_tabs, command in self._heredocs:
            lines = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                line = self.text[self.at : stop if stop >= 0 else None]
                self.at += len(line) + 1
                if (line.lstrip("\t") if strips_tabs else line) == delimiter:
                    break
                lines.append(line)
            else:
                self.doubts.append("a here-document does not end")
            text = "\n".join(lines)
            self._attach_heredoc(command, text)
            if is_expanded:  # a delimiter without quotes: `$(…)` in the text runs
                inner = _Parser(text, self.commands, self.doubts, self.depth)
                while inner.at < len(text):
                    inner._parse_double_quoted(_WordBuilder(), "")
        self._heredocs = []

    def _attach_heredoc(self, command: _CommandBuilder, text: str) -> None:
        """Add a text to its command, which was completed when its line ended."""
        if command.index is None:
            self.commands.append(SimpleCommand(stdin_texts=(text,), raw=text))
        else:
            complete = self.commands[command.index]
            self.commands[command.index] = complete._replace(stdin_texts=(*complete.stdin_texts, text))

    def _parse_word(self) -> Word:
        start, word = self.at, _WordBuilder()
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.text.startswith(("<(", ">("), self.at):
                self.at += 2
                self.parse_commands(")")
                word.marks.add("expansion")
            elif character in _WORD_ENDS:
                break
            else:
                self._parse_character(character, word, start)
        raw, text, marks = self.text[start : self.at], "".join(word.pieces), word.marks
        has_glob = not marks.isdisjoint("*?") or ("[" in marks and "]" in raw)
        # Wherever the comma stands: braces can be nested, and parts of them quoted.
        has_braces = "{" in marks and ("," in raw or ".." in raw)
        return Word(text, raw, "expansion" in marks, has_glob, has_braces, "~" in marks)

    def _parse_character(self, character: str, word: _WordBuilder, start: int) -> None:
        match character:
            case "\\":
                following = self.text[self.at + 1 : self.at + 2]
                word.pieces.append("" if following == "\n" else following)
                self.at += 2
            case "'":
                self._parse_single_quotes(word)
            case '"':
                self.at += 1
                self._parse_double_quoted(word, '"')
            case "$":
                self._parse_dollar(word, is_quoted=False)
            case "`":
                self._parse_backticks(word)
            case _:
                if character in "*?[{":
                    word.marks.add(character)
                elif character == "~" and (self.at == start or self.text[self.at - 1] in "=:"):
                    word.marks.add("~")
                word.pieces.append(character)
                self.at += 1

    def _parse_single_quotes(self, word: _WordBuilder) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.doubts.append("a quote is not closed")
            end = len(self.text)
        word.pieces.append(self.text[self.at + 1 : end])
        self.at = end + 1

    def _parse_double_quoted(self, word: _WordBuilder, closing: str) -> None:
        """Parse what is between double quotes; without a closing quote a here-document, where the same is expanded."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == closing:
                self.at += 1
                return
            # Inside double quotes a backslash escapes these five characters only, and stays before all others.
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                word.pieces.append(self.text[self.at + 1].strip("\n"))
                self.at += 2
            elif character == "$":
                self._parse_dollar(word, is_quoted=True)
            elif character == "`":
                self._parse_backticks(word)
            else:
                word.pieces.append(character)
                self.at += 1
        if closing:
            self.doubts.append("a quote is not closed")

    def _parse_dollar(self, word: _WordBuilder, *, is_quoted: bool) -> None:
        text, at = self.text, self.at
        if match := _ARITHMETIC_ON_NUMBERS.match(text, at) or _VARIABLE.match(text, at):
            word.marks.add("expansion")
            word.pieces.append(match[0])
            self.at = match.end()
        elif text.startswith("$(", at):
            if text.startswith("$((", at):
                self.doubts.append("it calculates")
            word.marks.add("expansion")
            self.at += 2
            self.parse_commands(")")
            word.pieces.append(text[at : self.at])
        elif text.startswith("${", at):
            self._parse_parameter_expansion(word)
        elif text.startswith("$'", at) and not is_quoted:
            self._parse_ansi_c_quotes(word)
        elif text.startswith('$"', at) and not is_quoted:
            self.at += 2
            self._parse_double_quoted(word, '"')
        else:
            if text.startswith("$[", at):
                self.doubts.append("it calculates")
            if text[at + 1 : at + 2] in tuple("=~^+:"):
                word.marks.add("expansion")  # to zsh it is one
            word.pieces.append("$")
            self.at += 1

    def _parse_parameter_expansion(self, word: _WordBuilder) -> None:
        """Parse `${…}` with more than a name in it. Always a doubt: some forms run what is in a variable."""
        self.doubts.append("it uses `${…}` with more than a name")
        word.marks.add("expansion")
        start, inner = self.at, _WordBuilder()
        self.at += 2
        self._enter()
        while self.at < len(self.text) and self.text[self.at] != "}":
            if self.text[self.at] in "\\'\"$`":
                self._parse_character(self.text[self.at], inner, start)
            else:
                self.at += 1
        self.at += 1
        self.depth -= 1
        word.pieces.append(self.text[start : self.at])

    def _parse_ansi_c_quotes(self, word: _WordBuilder) -> None:
        """Parse `$'…'`, in which letters can be written as numbers."""
        match = _ANSI_C_QUOTES.match(self.text, self.at)
        if match is None:
            self.doubts.append("a quote is not closed")
            self.at += 2
            return
        if "\\'" in match[0]:
            self.doubts.append("a quote is inside another")  # a plain `sh` sees it end there
        word.pieces.append(decode_ansi_c(match[1]))
        self.at = match.end()

    def _parse_backticks(self, word: _WordBuilder) -> None:
        match = _BACKTICKS.match(self.text, self.at)
        if match is None:
            self.doubts.append("a backtick is not closed")
            self.at += 1
            return
        # The shell removes one level of backslashes before it runs what is between backticks.
        inner = _Parser(re.sub(r"\\([$`\\])", r"\1", match[1]), self.commands, self.doubts, self.depth)
        inner.parse_commands("")
        word.marks.add("expansion")
        word.pieces.append(match[0])
        self.at = match.end()
