"""Recognise commands that only read: a simple command in, the files that it reads out. Pure.

Rules
  1. A program is in the table with the options that are known to be harmless. An option that is not there, also an
     abbreviated one, makes the command more than a read.
  2. Options are taken apart as `getopt` does: `-n5`, `-n 5`, `-rn`, `--lines=5`, `--lines 5`, and none after `--`.
  3. Every word that may be a path is returned as one: whether it may be read is for the caller to decide.
  4. All words are literal: the caller has replaced globs by the files that they match. A file whose name begins with
     `-` counts as an option then.
  5. No program is here that reads settings of the folder it runs in, except git, which the caller allows in trusted
     folders only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from unspool.permissions.shell_parser import SimpleCommand, Word
from unspool.permissions.shell_wrappers import SYSTEM_FOLDERS


class ReadOnlyCommand(NamedTuple):
    """What a command that only reads, reads."""

    files: tuple[Word, ...] = ()
    folder: Word | None = None
    """Where `cd` goes."""
    is_recursive: bool = False
    """Whether it reads files that its words do not name."""
    follows_links: bool = False
    """Whether it reads what links lead to, in a folder that a word names."""
    is_git: bool = False


class _Options(NamedTuple):
    """The options with which a program only reads, and what its other words are."""

    flags: str = ""
    """Letters of options without a value."""
    values: str = ""
    """Letters of options that take a value."""
    words: str = ""
    """Long options without a value; one that ends with `=` may have a value after that sign."""
    value_words: str = ""
    """Long options that take a value."""
    file_options: str = ""
    """Those options of `values` and `value_words` whose value is a file."""
    takes_numbers: bool = False
    """Whether `-5` is an option."""
    takes_files: bool = True
    """Whether the words that are no options are files."""
    leading: int = 0
    """How many words come before the files, such as a pattern to search for."""
    most: int = 1000
    """How many words that are no options it may have."""
    joins_values: bool = True
    """Whether a value may be written in one word with its letter, and letters before that one."""


class _Arguments(NamedTuple):
    """The words of a command, taken apart."""

    options: tuple[tuple[str, Word | None], ...]
    """Each option by its letter or long name, with its value."""
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        """Return whether one of some options is there."""
        return any(name in names for name, _ in self.options)


_TEXT = _Options(takes_files=False)
_NOTHING = _Options(takes_files=False, most=0)
_DIGEST = _Options("btz", "", "binary text tag zero")
_GREP = _Options(
    "abcEFGhHiIlLnoPqrsvwxyzZTU",
    "ABCem",
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case word-regexp line-regexp "
    "null-data no-messages invert-match byte-offset line-number line-buffered with-filename no-filename only-matching "
    "quiet silent text recursive files-without-match files-with-matches count initial-tab null color= colour=",
    "regexp max-count after-context before-context context include exclude exclude-dir binary-files label",
    takes_numbers=True,
    leading=1,
)
_RG = _Options(
    "cFhHiIlnNopPqsSuUvwx0",
    "ABCmMtTgjed",
    "files hidden no-ignore no-ignore-vcs count count-matches line-number no-line-number no-heading heading json stats "
    "multiline multiline-dotall smart-case ignore-case case-sensitive word-regexp line-regexp fixed-strings "
    "files-with-matches files-without-match only-matching trim vimgrep type-list no-messages no-filename with-filename "
    "invert-match quiet pcre2 text null column no-config pretty no-follow crlf",
    "color type type-not glob iglob context max-count max-depth sort sortr max-filesize max-columns after-context "
    "before-context regexp replace threads engine encoding",
    leading=1,
)
_PROGRAMS: Final = MappingProxyType(
    {
        "cat": _Options(
            "AbeEnstTuv", "", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"
        ),
        "tac": _Options("br", "s", "before regex", "separator"),
        "head": _Options("qvz", "nc", "quiet silent verbose zero-terminated", "lines bytes", takes_numbers=True),
        "tail": _Options(
            "fFqrvz", "nc", "follow= retry quiet silent verbose zero-terminated", "lines bytes", takes_numbers=True
        ),
        **dict.fromkeys(
            ("ls", "dir", "vdir"),
            _Options(
                "aAbBcCdfFgGhiklmnNopqQrRsStuUvxX1",
                "",
                "all almost-all author escape directory classify= color= full-time human-readable inode recursive "
                "reverse size si group-directories-first no-group numeric-uid-gid file-type quote-name zero "
                "kibibytes literal ignore-backups",
                "sort time time-style hide ignore indicator-style format width tabsize block-size quoting-style",
            ),
        ),
        "nl": _Options("p", "bdfhilnsvw", "no-renumber", "body-numbering number-format number-width number-separator"),
        "rev": _Options(),
        "fold": _Options("bs", "w", "bytes spaces", "width", takes_numbers=True),
        # To GNU `-f` has no value, to BSD a format: which counts as a file here, and is none.
        "stat": _Options("Lftx", "c", "dereference file-system terse", "format printf"),
        "readlink": _Options("efmnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
        "realpath": _Options(
            "eLmPqsz",
            "",
            "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero",
            "relative-to relative-base",
            file_options="relative-to relative-base",
        ),
        "cut": _Options(
            "nsz",
            "bcdf",
            "complement only-delimited zero-terminated",
            "bytes characters fields delimiter output-delimiter",
        ),
        "cmp": _Options("bls", "in", "print-bytes verbose silent quiet", "bytes ignore-initial", most=4),
        "comm": _Options("123z", "", "check-order nocheck-order total zero-terminated", "output-delimiter", most=2),
        "strings": _Options("afow", "net", "all print-file-name", "bytes radix encoding"),
        "cksum": _Options(),
        "expand": _Options("i", "t", "initial", "tabs"),
        "unexpand": _Options("a", "t", "all first-only", "tabs"),
        "paste": _Options("sz", "d", "serial zero-terminated", "delimiters"),
        "basename": _Options("az", "s", "multiple zero", "suffix", takes_files=False),
        "dirname": _Options("z", "", "zero", takes_files=False),
        # Not `-f`: BSD hands the format to `printf`, with `%n` and all.
        "seq": _Options("w", "s", "equal-width", "separator", takes_numbers=True, takes_files=False, most=3),
        "pwd": _Options("LP", takes_files=False, most=0),
        "uname": _Options(
            "amnrspoiv",
            "",
            "all kernel-name nodename kernel-release kernel-version machine operating-system",
            takes_files=False,
            most=0,
        ),
        "id": _Options("gGnruzZ", "", "user group groups name real zero", takes_files=False, most=1),
        **dict.fromkeys(("whoami", "arch", "tty", "logname", "locale", "uptime"), _NOTHING),
        "groups": _Options(takes_files=False, most=1),
        "nproc": _Options("", "", "all", "ignore", takes_files=False, most=0),
        "which": _Options("as", "", "all", takes_files=False),
        "type": _Options("afptP", takes_files=False),
        "sleep": _TEXT,
        "tr": _Options("cCdst", "", "complement delete squeeze-repeats truncate-set1", takes_files=False, most=2),
        "wc": _Options("clmwL", "", "lines words bytes chars max-line-length", "total"),
        "du": _Options(
            "abchkmsS0x",
            "dt",
            "all apparent-size bytes total human-readable si summarize separate-dirs null one-file-system",
            "max-depth exclude threshold",
        ),
        "df": _Options("ahHiklPT", "tx", "all human-readable si inodes local portability print-type output=", "type"),
        "free": _Options("bghklmtw", "", "bytes kibi mebi gibi human lohi total wide", takes_files=False, most=0),
        "file": _Options(
            "bhikLN0",
            "",
            "brief mime mime-type mime-encoding extension keep-going dereference no-dereference no-pad print0",
        ),
        **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"), _DIGEST),
        "shasum": _Options("bt", "a", "binary text", "algorithm"),
        "od": _Options("abcdfhilosxv", "ANjt", "output-duplicates", "address-radix skip-bytes read-bytes format"),
        "hexdump": _Options("bcCdovx", "ns", "canonical", "length skip"),
        **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
        "rg": _RG,
        "sort": _Options(
            "bdfghiMnrRuVcCsmz",
            "kt",
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort "
            "human-numeric-sort numeric-sort random-sort reverse version-sort check= merge stable unique "
            "zero-terminated",
            "key field-separator sort",
        ),
        # A second word is the file that it writes.
        "uniq": _Options(
            "cdDiuz", "fsw", "count repeated unique ignore-case zero-terminated", "skip-fields skip-chars", most=1
        ),
        # Not `-l`, which runs `pr`; not `-r`, which follows links.
        "diff": _Options(
            "aBbcdeEiNnpqstTuwy",
            "CIUW",
            "brief report-identical-files side-by-side suppress-common-lines ignore-case ignore-tab-expansion "
            "ignore-space-change ignore-all-space ignore-blank-lines ignore-trailing-space text minimal unified= "
            "context= color= normal no-dereference strip-trailing-cr expand-tabs initial-tab show-c-function",
            "width label ignore-matching-lines",
        ),
        "column": _Options("tx", "cs", "table fillrows", "separator output-width"),
        # It is one of the programs that take the values of all letters from the words behind.
        "tree": _Options(
            "aAcCdDfFghiJnNpqQrsStuUvxX",
            "LPI",
            "dirsfirst filesfirst noreport gitignore prune du inodes device matchdirs ignore-case",
            "sort filelimit timefmt",
            joins_values=False,
        ),
        "date": _Options(
            "uRI",
            "dr",
            "utc universal rfc-email iso-8601= debug",
            "date rfc-3339 reference",
            file_options="r reference",
            takes_files=False,
            most=1,
        ),
        # Not `-f`, `-d`, `-i` and `-A`, which ask a name server.
        "hostname": _Options("Is", "", "short all-ip-addresses", takes_files=False, most=0),
        "ps": _Options("Aefl", "op", takes_files=False, most=1),
        "jq": _Options(
            "rcesnSMCjaR",
            "",
            "raw-output compact-output exit-status slurp null-input sort-keys monochrome-output color-output "
            "join-output ascii-output raw-input tab stream seq",
            "indent",
            leading=1,
        ),
        "cd": _Options(most=1),
    }
)

_VERSION_OPTIONS: Final = MappingProxyType(
    dict.fromkeys(
        ("pip", "pip3", "ruby", "gcc", "g++", "cc", "clang", "cmake", "bash", "zsh", "perl", "php", "jq", "rg", "curl",
         "sqlite3", "psql", "gh"),
        ("--version",),
    )
    | dict.fromkeys(("python", "python3"), ("--version", "-V"))
    | dict.fromkeys(("java", "javac"), ("--version", "-version"))
    | {"node": ("--version", "-v")}
)  # fmt: skip
"""Programs that print their version, and read no settings of the folder before that: `npm`, `yarn`, `pnpm`, `cargo`,
`rustc`, `go`, `uv`, `make`, `deno`, `bun` do, and some run what those settings name."""

_FIND_TESTS: Final = MappingProxyType(
    dict.fromkeys(
        ("name", "iname", "path", "ipath", "wholename", "iwholename", "regex", "iregex", "regextype", "type", "xtype",
         "maxdepth", "mindepth", "size", "mtime", "mmin", "ctime", "cmin", "atime", "amin", "user", "group", "perm",
         "links", "printf", "newer", "anewer", "cnewer", "samefile", "inum", "uid", "gid"),
        1,
    )
    | dict.fromkeys(
        ("empty", "not", "o", "or", "a", "and", "print", "print0", "ls", "prune", "executable", "readable", "writable",
         "depth", "xdev", "mount", "true", "false", "quit", "nouser", "nogroup", "daystart", "noleaf"),
        0,
    )
)  # fmt: skip
"""What `find` may be asked, and how many words follow it. Not `-L` and `-follow`: links may lead out of the folder."""
_FIND_FILES = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})

_GIT_FORMATS = (
    r"--(oneline|(num|short|dir)?stat(=[\d,]+)?|name-only|name-status|cached|staged|graph|decorate(=\w+)?|all|short|"
    r"abbrev-ref|abbrev-commit|abbrev=\d+|show-toplevel|show-current|show-prefix|is-inside-work-tree|verify|quiet|"
    r"no-color|color(=\w+)?|branch|branches|remotes|no-merges|merges|first-parent|reverse|follow|patch|no-patch|"
    r"word-diff(=\w+)?|ignore-(all-space|space-change|blank-lines)|"
    r"(since|until|after|before|author|committer|grep|format|date|sort|diff-filter|max-count|skip|unified|points-at|"
    r"contains|no-contains|merged|no-merged)=.*|"
    r"pretty(=.*)?|summary|tags|long|always|dirty|others|exclude-standard|modified|deleted|untracked-files(=\w+)?|"
    r"ignored|porcelain(=v?\w+)?|list|verbose|no-ext-diff|no-textconv|minimal|patience|histogram|left-right|count|"
    r"heads|stage|full-index|no-renames|find-renames|show-signature|pickaxe-all|merge-base|raw|check|root|topo-order|"
    r"date-order|exit-code|no-prefix|full-name|error-unmatch|ancestry-path|cherry-pick|simplify-by-decoration|relative)|"
    r"-\d+|-[pnsuvzbrlwMtiLSGUqaeEhmc]+\d*|--"
)
_GIT_READING: Final = MappingProxyType(
    dict.fromkeys(
        ("status", "log", "diff", "show", "blame", "shortlog", "ls-files", "ls-tree", "rev-parse", "rev-list",
         "describe", "merge-base", "name-rev", "whatchanged", "show-ref", "for-each-ref", "count-objects",
         "diff-tree", "check-ignore"),
        _GIT_FORMATS,
    )
    | {"cat-file": r"-[pts]"}
)  # fmt: skip
_GIT_LISTING: Final = MappingProxyType(
    {
        "branch": r"-[arvl]+|--(all|remotes|list|show-current|verbose|no-color|sort=.*)",
        "tag": r"-l|--list|-n\d*|--sort=.*",
        "remote": r"-v|--verbose",
        "stash": r"list|show",
        "worktree": r"list|--porcelain",
        "reflog": r"show|-\d+",
    }
)

_SED_ADDRESS = r"(?:\d+|\$|/[^/\\\n\[\]]+/)"
_SED_STEP = re.compile(
    # Only printing, deleting from the output, quitting, and substitutions without the flags `e` and `w`. No brackets:
    # a delimiter in them ends the pattern for one sed and not for another.
    rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?!?)?"
    r"(?:[pqd=]|s([/|#,:@])(?:\\[^\n]|(?!\1)[^\\\n\[\]])*\1(?:\\[^\n]|(?!\1)[^\\\n])*\1[gpiI0-9]*)\s*"
)
# Possessive: a zero is a flag and a digit, and thousands of them would be divided between the two in every way.
_PRINTF_FORMAT = re.compile(r"(?:[^%\\]|\\[abefnrtv\\\"'0-7x]|%%|%[-+ 0#]*+\d*+(?:\.\d++)?[sdiufgexXoc])*+")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_TEST_UNARY = frozenset(f"-{letter}" for letter in "bcdefghknprstuwxzLOSG")
_TEST_TEXT = frozenset({"=", "==", "!=", "-nt", "-ot", "-ef"})
_TEST_NUMBER = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_JQ_REACHES_OUT = re.compile(r"env|ENV|import|include|input_filename|modulemeta|get_search_list|__")
_RESPONSE_FILE = "@"
"""How a word begins from which some programs read their options."""
_PS_WORDS = frozenset({"aux", "axu", "ax", "auxf", "auxw", "auxww"})


def match_read_only(command: SimpleCommand) -> ReadOnlyCommand | None:
    """Return what a command reads; None if it may do anything else. Its words are literal, or name the home folder."""
    name, words = _system_program(command), command.words[1:]
    if name is None or any(word.has_glob or word.has_braces for word in words):
        return None
    if name == "echo":
        return ReadOnlyCommand()
    if any(map(_is_unknown, words)):
        return None
    if (special := _SPECIAL_PROGRAMS.get(name)) is not None:
        return special(words)
    if name in _VERSION_OPTIONS and len(words) == 1 and words[0].text in _VERSION_OPTIONS[name]:
        return ReadOnlyCommand()
    options = _PROGRAMS.get(name)
    arguments = _parse_arguments(options, words) if options is not None else None
    if options is None or arguments is None:
        return None
    return _read_by_table(name, options, arguments)


def _is_unknown(word: Word) -> bool:
    """Return whether a word has `$?` in it: no matter to a program that only prints its words, but to others."""
    return word.has_expansion


def _system_program(command: SimpleCommand) -> str | None:
    """Return the name of the program, if it is the system's: one in another folder may do anything."""
    if not command.words or not command.words[0].is_literal:
        return None
    folder, slash, name = command.program.rpartition("/")
    return name if not slash or f"{folder}/" in SYSTEM_FOLDERS else None


def _parse_arguments(options: _Options, words: Sequence[Word]) -> _Arguments | None:
    """Take the words of a command apart; None if there is an option that is not in the table."""
    found: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text == "--":
            operands += rest
            break
        if not word.text.startswith("-") or word.text == "-" or word.has_tilde:
            operands.append(word)
        elif options.takes_numbers and re.fullmatch(r"-\d+", word.text):
            found.append(("number", None))
        else:
            parse = _parse_long if word.text.startswith("--") else _parse_letters
            parsed = parse(options, word, rest)
            if parsed is None:
                return None
            found += parsed
    if len(operands) > options.most:
        return None
    return _Arguments(tuple(found), tuple(operands))


def _parse_long(options: _Options, word: Word, rest: list[Word]) -> list[tuple[str, Word | None]] | None:
    name, sign, value = word.text[2:].partition("=")
    if name in options.value_words.split():
        if sign:
            return [(name, Word(value, value))]
        return [(name, rest.pop(0))] if rest else None
    is_known = f"{name}=" in options.words.split() or (not sign and name in options.words.split())
    return [(name, Word(value, value) if sign else None)] if is_known else None


def _parse_letters(options: _Options, word: Word, rest: list[Word]) -> list[tuple[str, Word | None]] | None:
    found: list[tuple[str, Word | None]] = []
    letters = word.text[1:]
    for at, letter in enumerate(letters):
        if letter in options.flags:
            found.append((letter, None))
            continue
        if letter not in options.values or not (options.joins_values or len(letters) == 1):
            return None
        value = letters[at + 1 :]
        if not value and not rest:
            return None
        return [*found, (letter, Word(value, value) if value else rest.pop(0))]
    return found or None


def _read_by_table(name: str, options: _Options, arguments: _Arguments) -> ReadOnlyCommand | None:
    operands = arguments.operands
    if name == "cd":
        return ReadOnlyCommand(folder=operands[0]) if operands and operands[0].text != "-" else None
    if name == "date" and any(not word.text.startswith("+") for word in operands):
        return None  # `date 01010000` sets the clock
    if name == "ps" and any(word.text not in _PS_WORDS for word in operands):
        return None  # `ps e` shows the environment of others
    if name == "jq" and any(_JQ_REACHES_OUT.search(word.text) for word in operands[:1]):
        return None
    if name in ("which", "type"):
        return ReadOnlyCommand(_paths_among(operands))
    if not options.takes_files:
        operands = ()
    # A pattern given by an option, or none at all: then the first word is a file, too.
    has_pattern = arguments.has("e", "regexp", "files", "type-list") and options.leading
    files = operands if has_pattern else operands[options.leading :]
    in_options = [
        value for name, value in arguments.options if value is not None and name in options.file_options.split()
    ]
    if any(word.text.startswith(_RESPONSE_FILE) for word in (*files, *in_options)):
        return None
    return ReadOnlyCommand(
        (*files, *in_options),
        is_recursive=name == "rg" or (options is _GREP and arguments.has("r", "recursive")),
        follows_links=name == "diff",
    )


def _match_printf(words: Sequence[Word]) -> ReadOnlyCommand | None:
    """Match `printf` with a format that only prints. Not `%n`, which sets a variable, and not `-v`."""
    if not words or words[0].text.startswith("-") or not _PRINTF_FORMAT.fullmatch(words[0].text):
        return None
    # zsh evaluates what stands for a number, and in that it may run a command.
    has_numbers = re.search(r"%[^%sc]*[diufgexXo]", words[0].text.replace("%%", "")) is not None
    if has_numbers and not all(_NUMBER.fullmatch(word.text) or not word.text for word in words[1:]):
        return None
    return ReadOnlyCommand()


def _match_test(words: Sequence[Word]) -> ReadOnlyCommand | None:
    """Match `test` with one condition."""
    words = words[1:] if words and words[0].text == "!" else words
    match [*words]:
        case [Word(text=operator), word] if operator in _TEST_UNARY:
            return ReadOnlyCommand(() if operator in ("-n", "-z", "-t") else (word,))
        case [_, Word(text=operator), _] if operator in ("=", "==", "!="):
            return ReadOnlyCommand()
        case [left, Word(text=operator), right] if operator in _TEST_TEXT:
            return ReadOnlyCommand((left, right))
        case [left, Word(text=operator), right] if operator in _TEST_NUMBER:
            # Some shells evaluate what stands for a number, and in that run a command: `a[$(x)]`.
            return ReadOnlyCommand() if _NUMBER.fullmatch(left.text) and _NUMBER.fullmatch(right.text) else None
        case _:
            return None


def _match_bracket(words: Sequence[Word]) -> ReadOnlyCommand | None:
    return _match_test(words[:-1]) if words and words[-1].text == "]" else None


def _match_find(words: Sequence[Word]) -> ReadOnlyCommand | None:
    rest, files = list(words), list[Word]()
    while rest and rest[0].text in ("-P", "-H"):
        rest.pop(0)
    while rest and not rest[0].text.startswith(("-", "(", ")", "!", ",")):
        files.append(rest.pop(0))
    while rest:
        word = rest.pop(0)
        if word.text in ("(", ")", "!", ","):
            continue
        count = _FIND_TESTS.get(word.text[1:]) if word.text.startswith("-") else None
        if count is None or len(rest) < count:
            return None
        if word.text in _FIND_FILES:
            files.append(rest[0])
        del rest[:count]
    return ReadOnlyCommand(tuple(files))


def _match_git(words: Sequence[Word]) -> ReadOnlyCommand | None:
    while words and words[0].text in ("--no-pager", "-P"):
        words = words[1:]
    if not words:
        return None
    if [word.text for word in words] == ["--version"]:
        return ReadOnlyCommand(is_git=True)
    subcommand, rest = words[0].text, words[1:]
    if subcommand in _GIT_LISTING:
        return ReadOnlyCommand(is_git=True) if _only_lists(subcommand, [word.text for word in rest]) else None
    options = _GIT_READING.get(subcommand)
    separator = next((at for at, word in enumerate(rest) if word.text == "--"), len(rest))
    if options is None or any(
        word.text.startswith("-") and not re.fullmatch(options, word.text) for word in rest[:separator]
    ):
        return None
    files = tuple(word for at, word in enumerate(rest) if at > separator or not word.text.startswith("-"))
    return ReadOnlyCommand(files, is_git=True, is_recursive=_shows_files(subcommand, [word.text for word in rest]))


def _shows_files(subcommand: str, words: list[str]) -> bool:
    """Return whether git would show the contents of files, not only their names and the messages of commits."""
    if any(re.fullmatch(r"-\w*[puU]\w*|--(patch|word-diff|unified)\b.*", word) for word in words):
        return True
    summary = r"--((num|short|dir)?stat(=[\d,]+)?|name-only|name-status|no-patch|summary|quiet)|-s"
    is_summary = any(re.fullmatch(summary, word) for word in words)
    return subcommand in ("diff", "show", "blame", "cat-file", "whatchanged", "diff-tree") and not is_summary


def _only_lists(subcommand: str, words: list[str]) -> bool:
    """Return whether a subcommand that can also change things only lists them."""
    if subcommand in ("stash", "worktree") and not words:
        return False
    # `git branch NAME` makes a branch; with `--list` the name is a pattern.
    takes_names = subcommand in ("branch", "tag") and not {"-l", "--list"}.isdisjoint(words)
    options = [word for word in words if word.startswith("-") or not takes_names]
    return all(re.fullmatch(_GIT_LISTING[subcommand], option) for option in options)


def _match_sed(words: Sequence[Word]) -> ReadOnlyCommand | None:
    """Match `sed` with a script that only prints: at the beginning, or after each `-e`."""
    scripts, files, is_last_script = list[Word](), list[Word](), False
    for word in words:
        if is_last_script:
            scripts.append(word)
            is_last_script = False
        elif word.text.startswith("-"):
            if not re.fullmatch(r"-[nEr]*e?|--quiet|--regexp-extended", word.text) or word.text == "-":
                return None
            is_last_script = word.text.endswith("e") and not word.text.startswith("--")
        else:
            files.append(word)
    if is_last_script:
        return None
    if not scripts and files:
        scripts.append(files.pop(0))
    steps = [step for script in scripts for step in script.text.split(";") if step.strip()]
    if not steps or not all(_SED_STEP.fullmatch(step) for step in steps):
        return None
    return ReadOnlyCommand(tuple(files))


def _match_command(words: Sequence[Word]) -> ReadOnlyCommand | None:
    is_lookup = len(words) == 2 and words[0].text in ("-v", "-V")
    return ReadOnlyCommand(_paths_among(words[1:])) if is_lookup else None


def _paths_among(names: Sequence[Word]) -> tuple[Word, ...]:
    """Return those names of programs that are paths: whether such a file exists is told, too."""
    return tuple(word for word in names if "/" in word.text)


def _match_anything(words: Sequence[Word]) -> ReadOnlyCommand:
    return ReadOnlyCommand()


_SPECIAL_PROGRAMS: Final = MappingProxyType[str, Callable[[Sequence[Word]], ReadOnlyCommand | None]](
    {
        "printf": _match_printf,
        "test": _match_test,
        "[": _match_bracket,
        "find": _match_find,
        "git": _match_git,
        "sed": _match_sed,
        "command": _match_command,
        "true": _match_anything,
        "false": _match_anything,
        ":": _match_anything,
        "expr": _match_anything,
    }
)
"""Programs whose words need more than a table of options."""
