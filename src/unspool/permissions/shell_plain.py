"""Parse plain commands: those in a small grammar that bash, dash and zsh all read in the same way. Pure.

    commands   =  pipeline { ( "&&" | "||" | ";" | newline ) pipeline }
    pipeline   =  simple { "|" simple }
    simple     =  word { word | redirection }
    redirection = [ "0" | "1" | "2" ] ( "<" | ">" | ">>" ) word   |   [ "1" | "2" ] ">&" ( "1" | "2" )
    word       =  { letters | 'text' | "text" | \\punctuation | $HOME | $? | * | ? }

Rules
  1. Every character of a command is in this grammar, or the command is not plain, and the reason is returned. There is
     nothing here that a shell would expand to something unknown: no braces, no substitution, no variable but `HOME`
     and the exit code, no here-document, no joined lines, no function, assignment, keyword or background command.
  2. A word is exactly what the program gets, except for a glob and a leading `~/`, which the word says.
  3. A character that one of the shells treats specially in some place is accepted only in other places: `=` not at the
     beginning of a word, `~` not after `=` or `:`, `:` and `[` not after a variable. Text that is not ASCII has to be
     quoted.
  4. Each rule is one that a shell would break without: the differential fuzz (`tests/permissions/differential`) takes
     them away one by one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from unspool.permissions.shell_parser import UNSEEN_CHARACTERS, Redirect, SimpleCommand, Word

_BLANKS = re.compile(r"[ \t]+")
_SEPARATOR = re.compile(r"&&|\|\||\||;|\n")
_REDIRECT = re.compile(r"([0-2]?)(>>|>|<)(?!!|[0-9]*-[0-9]*>)[ \t]*")
"""A redirection, up to its target. To zsh `<1-9>` is a pattern, and `>!` is `>|`."""
_DUPLICATE = re.compile(r"[12]?>&[12](?=[ \t\n;|&]|$)")
_DESCRIPTOR = re.compile(r"[0-9]+")
"""A word that is the number of a descriptor, if `<` or `>` follows it."""
_AFTER_WORD = re.compile(r"[ \t\n;|&<>]|$")
_LONE_WORD = re.compile(r"[!\[\]](?=[ \t\n;|&]|$)")
"""`!`, `[` and `]` as words of their own (`find . ! -name x`, `[ -f x ]`)."""
_NAME_END = r"(?![A-Za-z0-9_:\[])"
"""What may follow the name of a variable. To zsh `$HOME:h` and `$HOME[x=1]` are operations, also in quotes."""
_PIECE = re.compile(
    rf"""(?P<letters>[A-Za-z0-9_./,:%+=^~@-]+)
      | '(?P<single>[^']*)'
      | "(?P<double>(?:[^"\\$`]|\\[^\n]|\$(?:HOME{_NAME_END}|\{{HOME\}}|\?{_NAME_END}))*)"
      | \\(?P<escaped>[ -/:-@\[-`{{-~])
      | (?P<home>\$(?:HOME{_NAME_END}|\{{HOME\}}))
      | (?P<exit_code>\$\?{_NAME_END})
      | (?P<glob>[*?])""",
    re.VERBOSE,
)
"""One part of a word."""
_QUOTING = frozenset({"single", "double", "escaped"})
"""Parts of a word in which a wildcard is an ordinary character: a word with both is not understood."""
_DEEP_GLOB = re.compile(r"\*\*")
"""To zsh, any number of folders."""
_IN_DOUBLE_QUOTES = re.compile(r"(\\[\\\"$`]|\$HOME|\$\{HOME\}|\$\?)")
_TILDE_BEHIND_SIGN = re.compile("[=:]~")
_PLAIN_FOLDER = re.compile(r"/[A-Za-z0-9_./+-]*")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "foreach", "end", "in",
     "select", "function", "coproc", "repeat", "nocorrect", "noglob", "!", "-"}
)  # fmt: skip
"""Words that are no programs at the beginning of a command, to one shell or another."""


class PlainCommands(NamedTuple):
    """The simple commands of a plain command, or why it is not one."""

    commands: tuple[SimpleCommand, ...] = ()
    problem: str | None = None


def parse_plain(text: str, home: str) -> PlainCommands:
    """Return the simple commands of a text; with a problem if it is not plain. `home` is the value of `HOME`."""
    try:
        return PlainCommands(tuple(_PlainParser(text, home).parse()))
    except _NotPlainError as error:
        return PlainCommands(problem=str(error))


class _NotPlainError(Exception):
    """The text is not in the grammar."""


class _PlainParser:
    """Reads a text from left to right; `at` is where it is."""

    def __init__(self, text: str, home: str) -> None:
        self.text, self.at = text, 0
        self._home = home if _PLAIN_FOLDER.fullmatch(home) else None

    def parse(self) -> list[SimpleCommand]:
        """Return the simple commands."""
        if match := UNSEEN_CHARACTERS.search(self.text):
            raise _NotPlainError(f"it has the character U+{ord(match[0]):04X} in it")
        commands: list[SimpleCommand] = []
        needs_command = False  # after `|`, `&&` and `||`
        while True:
            self._skip_blanks()
            if self.at == len(self.text):
                break
            if self.text[self.at] == "\n":
                self.at += 1
                continue
            commands.append(self._parse_simple())
            separator = _SEPARATOR.match(self.text, self.at)
            needs_command = separator is not None and separator[0] in ("|", "&&", "||")
            if separator is not None:
                self.at = separator.end()
            elif self.at < len(self.text):
                raise _NotPlainError(f"`{self.text[self.at]}` is not understood where it stands")
        if needs_command:
            raise _NotPlainError("it ends with an operator")
        return commands

    def _skip_blanks(self) -> None:
        """Skip blanks, and a comment: `#` where a word would begin."""
        if match := _BLANKS.match(self.text, self.at):
            self.at = match.end()
        if self.text.startswith("#", self.at) and (self.at == 0 or self.text[self.at - 1] in " \t\n;|&"):
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)

    def _parse_simple(self) -> SimpleCommand:
        start, words, redirects = self.at, list[Word](), list[Redirect]()
        while self.at < len(self.text) and not _SEPARATOR.match(self.text, self.at):
            if match := _DUPLICATE.match(self.text, self.at):
                self.at = match.end()
            elif match := _REDIRECT.match(self.text, self.at):
                self.at = match.end()
                target = self._parse_word()
                if not target.is_literal:
                    raise _NotPlainError(f"where `{target.raw}` leads is not known")
                redirects.append(Redirect(match[2] != "<", target))
            else:
                words.append(self._parse_word())
            self._skip_blanks()
        self._check_words(words)
        return SimpleCommand(tuple(words), redirects=tuple(redirects), raw=self.text[start : self.at].strip())

    def _check_words(self, words: list[Word]) -> None:
        if not words:
            raise _NotPlainError("a command has no program")
        first = words[0]
        if not first.is_literal or "=" in first.raw:
            raise _NotPlainError(f"what `{first.raw}` runs is not known")
        if first.raw in _KEYWORDS:
            raise _NotPlainError(f"it uses `{first.raw}`")

    def _parse_word(self) -> Word:
        start, pieces, kinds = self.at, list[str](), set[str]()
        if match := _LONE_WORD.match(self.text, self.at):
            self.at = match.end()
            return Word(match[0], match[0])
        while match := _PIECE.match(self.text, self.at):
            kind = match.lastgroup or ""
            kinds.add(kind)
            if kind == "letters":
                # To zsh `=` and `~` are first also behind empty quotes.
                self._check_letters(match[kind], is_first=not any(pieces), is_plain=not pieces)
            pieces.append(self._decode_piece(kind, match[kind]))
            self.at = match.end()
        raw, text = self.text[start : self.at], "".join(pieces)
        if not raw or not _AFTER_WORD.match(self.text, self.at):
            character = self.text[self.at : self.at + 1]
            raise _NotPlainError(f"`{character}` is not understood where it stands" if character else "it is cut off")
        if _DESCRIPTOR.fullmatch(raw) and self.text[self.at : self.at + 1] in ("<", ">"):
            raise _NotPlainError(f"it redirects the descriptor {raw}")
        if "glob" in kinds and (_DEEP_GLOB.search(text) or kinds & _QUOTING):
            raise _NotPlainError(f"what `{raw}` matches is not known")
        has_exit_code = "exit_code" in kinds or ("double" in kinds and "$?" in raw)
        return Word(text, raw, has_expansion=has_exit_code, has_glob="glob" in kinds, has_tilde=raw.startswith("~"))

    def _decode_piece(self, kind: str, piece: str) -> str:
        """Return one part of a word as the program gets it."""
        match kind:
            case "double":
                return "".join(map(self._decode_in_quotes, _IN_DOUBLE_QUOTES.split(piece)))
            case "home":
                return self._home_folder()
            case "exit_code":
                return "0"
            case _:
                return piece

    def _check_letters(self, letters: str, *, is_first: bool, is_plain: bool) -> None:
        """Check letters that are first in what a word becomes; `is_plain`: and in the word as it is written."""
        if is_first and letters[0] == "=":
            raise _NotPlainError("a word begins with `=`")
        # A tilde is the home folder before a slash, or alone: `~+` and `~name` are other folders. After `=` and `:`
        # it depends on the shell.
        begins = is_first and letters[0] == "~"
        is_home = is_plain and (letters.startswith("~/") or self._is_lone_tilde())
        if (begins and not is_home) or _TILDE_BEHIND_SIGN.search(letters):
            raise _NotPlainError("what `~` means there is not known")

    def _is_lone_tilde(self) -> bool:
        return self.text[self.at] == "~" and _AFTER_WORD.match(self.text, self.at + 1) is not None

    def _decode_in_quotes(self, piece: str) -> str:
        if piece in ("$HOME", "${HOME}"):
            return self._home_folder()
        if piece == "$?":
            return "0"
        return piece[1] if _IN_DOUBLE_QUOTES.fullmatch(piece) else piece

    def _home_folder(self) -> str:
        if self._home is None:
            raise _NotPlainError("the home folder has an unusual name")
        return self._home
