"""Recognise commands that only read: a simple command in, the files that it reads out. Pure.

Rules
  1. A program is in the table with the options it may have; any other option makes the command more than a read.
  2. Each word that may be a path is returned as one: whether it may be read is for the caller to decide.
  3. A word that the shell would expand is understood only if it is a glob that cannot become an option.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from unspool.permissions.shell_parser import SimpleCommand, Word
from unspool.permissions.shell_wrappers import SYSTEM_FOLDERS

_ANY_OPTION = r"-.*"
_NO_OPTION = r"(?!)"
_HARMLESS_VARIABLE = re.compile(
    r"\$(\?|\$|#|!|HOME|PWD|OLDPWD|USER|SHELL|PATH|LANG|TERM|HOSTNAME|RANDOM|SECONDS)|\$\{(HOME|PWD|USER)\}"
)


class _Program(NamedTuple):
    """The options and words with which a program only reads."""

    options: str = _ANY_OPTION
    leading_words: int = 0
    """How many words come before the files, such as a pattern to search for."""
    has_files: bool = True
    max_words: int = 1000
    """How many words that are no options it may have."""


class ReadOnlyCommand(NamedTuple):
    """What a command that only reads, reads."""

    files: tuple[Word, ...] = ()
    folder: Word | None = None
    """Where `cd` goes."""
    is_recursive: bool = False
    """Whether it reads files that its words do not name."""
    is_git: bool = False


_WORDS_ONLY = _Program(has_files=False)
_NO_WORDS = _Program(_NO_OPTION, has_files=False, max_words=0)
_GREP_OPTIONS = (
    r"-[abcEFGhHiIlLnoPqrsvwxyzZ]*|-[ABCm]\d*|-e|--(color|colour|include|exclude|exclude-dir|context|max-count)(=.*)?|"
    r"--(line-number|ignore-case|recursive|count|files-with-matches|files-without-match|only-matching|with-filename|"
    r"no-filename|word-regexp|fixed-strings|extended-regexp|invert-match|quiet)"
)
_RG_OPTIONS = (
    r"-[cFhHiIlnNopPqsSuUvwx]*|-[ABCmMtTgj]\S*|-e|--(files|hidden|no-ignore|count|line-number|no-heading|heading|json|"
    r"stats|multiline|smart-case|ignore-case|word-regexp|fixed-strings|files-with-matches|only-matching|trim|vimgrep|"
    r"no-line-number|type-list|no-messages)|--(color|type|type-not|glob|iglob|context|max-count|max-depth|sort|sortr|"
    r"max-filesize|max-columns|after-context|before-context)(=.*)?"
)
_FIND_OPTIONS = (
    r"-(name|iname|path|ipath|wholename|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|ctime|cmin|atime|amin|newer|"
    r"empty|not|o|or|a|and|print|print0|ls|prune|user|group|perm|executable|readable|writable|links|depth|xdev|mount|"
    r"true|false|printf|quit)"
)
_PROGRAMS = {
    **dict.fromkeys(("cat", "tac", "head", "tail", "ls", "nl", "rev", "fold", "stat", "readlink", "realpath", "cut",
                     "cmp", "comm", "strings", "cksum", "dir", "vdir", "expand", "unexpand", "paste"), _Program()),
    **dict.fromkeys(("basename", "dirname", "echo", "seq", "expr", "true", "false", ":", "pwd", "uname", "whoami", "id",
                     "groups", "arch", "nproc", "tty", "logname", "which", "type", "sleep", "factor",
                     "tr"), _WORDS_ONLY),
    **dict.fromkeys(("uptime", "jobs", "wait", "locale"), _NO_WORDS),
    "printf": _Program(_NO_OPTION, has_files=False),
    "wc": _Program(r"-[clmwL]+|--(lines|words|bytes|chars|max-line-length)"),
    "du": _Program(r"-[abcDhkmsS]+|-d\d*|--(max-depth|exclude)=.*|--(human-readable|summarize|apparent-size|total)"),
    "df": _Program(r"-[ahHiklPTx]+|--human-readable"),
    "free": _Program(r"-[bkmght]+", has_files=False, max_words=0),
    "file": _Program(r"-[biLhN0]+|--mime(-type|-encoding)?|--brief"),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum"), _Program(_NO_OPTION)), "shasum": _Program(r"-a|\d+"),
    "od": _Program(r"-[abcdfhilosxv]+|-[ANjt]\S*"), "hexdump": _Program(r"-[bcCdovx]+|-[ns]\d*"),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _Program(_GREP_OPTIONS, 1)), "rg": _Program(_RG_OPTIONS, 1),
    "sort": _Program(r"-[bdfghinMrRuVcCsz]+|-[kt]\S*|--(reverse|unique|numeric-sort|human-numeric-sort|version-sort)"),
    "uniq": _Program(r"-[cdiuz]+|-[fsw]\d*|--count|--repeated", max_words=1),
    "diff": _Program(r"-[aBbcdEeiNnpqstuwWy]+|-[UC]\d*|--(brief|unified|side-by-side|color|stat)(=\w+)?|--ignore-.*"),
    "column": _Program(r"-[tx]+|-s|-c\d*"),
    "tree": _Program(r"-[aACdDfFghinNpQrsStuUvx]+|-[LPI]\S*|--(dirsfirst|noreport|gitignore|prune|du)"),
    "date": _Program(r"-[uIR]\S*|-d|--(date|iso-8601|utc|rfc-3339)(=.*)?", has_files=False),
    "hostname": _Program(r"-[fsdiI]", has_files=False, max_words=0),
    "ps": _Program(r"-ef|-e|-f|-A", has_files=False, max_words=0),
    "jq": _Program(r"-[rcesnSMCja]+|--(raw-output|compact-output|slurp|null-input|sort-keys|exit-status|tab)", 1),
    "find": _Program(_FIND_OPTIONS),
    "test": _Program(r"-[bcdefghknprstuwxzLOSG]", max_words=3), "[": _Program(r"-[bcdefghknprstuwxzLOSG]", max_words=4),
    "cd": _Program(_NO_OPTION, max_words=1),
}  # fmt: skip
_GIT_OPTIONS = (
    r"--(oneline|(num|short|dir)?stat|name-only|name-status|cached|staged|graph|decorate(=\w+)?|all|short|abbrev-ref|"
    r"abbrev-commit|show-toplevel|show-current|show-prefix|is-inside-work-tree|verify|quiet|no-color|color(=\w+)?|branch|"
    r"no-merges|merges|first-parent|reverse|follow|patch|no-patch|word-diff(=\w+)?|ignore-(all-space|space-change)|"
    r"(since|until|after|before|author|committer|grep|format|date|sort|diff-filter|max-count|skip|unified)=.*|"
    r"pretty(=.*)?|summary|tags|long|always|dirty|others|exclude-standard|modified|deleted|untracked-files(=\w+)?|ignored|"
    r"porcelain(=v?\w+)?|list|verbose|no-ext-diff|no-textconv|minimal|patience|histogram|left-right|count|heads|stage|"
    r"full-index|no-renames|find-renames|show-signature|pickaxe-all|merge-base|raw|check|root|topo-order|date-order)|"
    r"-\d+|-[pnsuvzbrlwMtiLSGUqaeEh]+\d*|--"
)
_GIT_READING = {
    **dict.fromkeys(("status", "log", "diff", "show", "blame", "shortlog", "ls-files", "ls-tree", "rev-parse",
                     "rev-list", "describe", "merge-base", "name-rev", "whatchanged", "show-ref", "for-each-ref",
                     "count-objects"), _GIT_OPTIONS),
    "cat-file": r"-[pts]",
}  # fmt: skip
_GIT_LISTING = {
    "branch": r"-[arvl]+|--(all|remotes|list|show-current|verbose|no-color|sort=.*)",
    "tag": r"-l|--list|-n\d*|--sort=.*",
    "remote": r"-v|--verbose",
    "stash": r"list|show",
    "worktree": r"list|--porcelain",
    "reflog": r"show|-\d+",
}
_WITH_VERSION_OPTION = frozenset(
    {"node", "npm", "npx", "yarn", "pnpm", "python", "python3", "pip", "pip3", "uv", "cargo", "rustc", "go", "java",
     "javac", "ruby", "git", "make", "cmake", "gcc", "clang", "docker", "bash", "perl", "php", "deno", "bun", "rg"}
)  # fmt: skip
_SED_PRINTING = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?[pq](;(\d+|\$)(,(\d+|\$|\+\d+))?[pq])*")


def _system_program(command: SimpleCommand) -> str | None:
    """Return the name of the program, if it is the system's: one in another folder may do anything."""
    if not command.words or not command.words[0].is_literal:
        return None
    folder, slash, name = command.program.rpartition("/")
    return name if not slash or f"{folder}/" in SYSTEM_FOLDERS else None


def match_read_only(command: SimpleCommand) -> ReadOnlyCommand | None:
    """Return what a command reads; None if it may do anything else."""
    name, words = _system_program(command), command.words[1:]
    if name is None or any(_is_not_understood(word, name) for word in words):
        return None
    texts = [word.text for word in words]
    version_options = (["--version"], ["-V"], ["-v"]) if name in ("node", "npm") else (["--version"], ["-V"])
    if name in _WITH_VERSION_OPTION and texts in version_options:
        return ReadOnlyCommand()
    if name == "command" and len(texts) == 2 and texts[0] in ("-v", "-V"):
        return ReadOnlyCommand()
    if name == "git":
        return _match_git(words)
    if name == "sed":
        return _match_sed(words)
    program = _PROGRAMS.get(name)
    return _match_program(name, program, words) if program is not None else None


def _is_not_understood(word: Word, name: str) -> bool:
    if word.has_braces:
        return True
    if word.has_expansion:
        rest = _HARMLESS_VARIABLE.sub("", word.raw)
        return name not in ("echo", "printf") or "$" in rest or "`" in rest
    # A file called `-x` matches `*`: it would be an option, unless every option is harmless.
    takes_any = name in _PROGRAMS and _PROGRAMS[name].options == _ANY_OPTION
    return word.has_glob and word.text[:1] in ("*", "?", "[", "-") and not takes_any


def _match_program(name: str, program: _Program, words: tuple[Word, ...]) -> ReadOnlyCommand | None:
    options = [word.text for word in words if word.text.startswith("-") and word.text != "-"]
    others = [word for word in words if not word.text.startswith("-")]
    if any(option != "--" and not re.fullmatch(program.options, option) for option in options):
        return None
    if len(others) > program.max_words:
        return None
    if name == "cd":
        return ReadOnlyCommand(folder=others[0]) if others else None
    if name == "jq" and re.search(r"env|ENV|import|include|input", "".join(word.text for word in others[:1])):
        return None
    if name == "date" and "-d" not in options and any(not word.text.startswith("+") for word in others):
        return None  # `date 01010000` sets the clock
    if name in ("test", "[") and any("[" in word.text for word in others if word.text != "["):
        return None  # the shell evaluates a subscript (`a[$(x)]`)
    if not program.has_files:
        return ReadOnlyCommand()
    # A pattern given by `-e`, or none at all: then the first word is a file, too.
    leading_words = 0 if {"-e", "--files", "--type-list"} & {*options} else program.leading_words
    has_recursive_option = any(re.match(r"-\w*r|--recursive", option) for option in options)
    is_recursive = name == "rg" or (name.endswith("grep") and has_recursive_option)
    return ReadOnlyCommand((*others[leading_words:], *_files_in_options(options)), is_recursive=is_recursive)


def _files_in_options(options: list[str]) -> list[Word]:
    """Return values of options (`--x=value`) that may be files."""
    values = [option.partition("=")[2] for option in options if "=" in option]
    return [Word(value, value) for value in values if "/" in value]


def _match_git(words: tuple[Word, ...]) -> ReadOnlyCommand | None:
    while words and words[0].text in ("--no-pager", "-P"):
        words = words[1:]
    if not words:
        return None
    subcommand, rest = words[0].text, words[1:]
    if subcommand in _GIT_LISTING:
        return ReadOnlyCommand(is_git=True) if _only_lists(subcommand, [word.text for word in rest]) else None
    options = _GIT_READING.get(subcommand)
    if options is None or any(word.text.startswith("-") and not re.fullmatch(options, word.text) for word in rest):
        return None
    files = tuple(word for word in rest if not word.text.startswith("-"))
    return ReadOnlyCommand(files, is_git=True, is_recursive=_shows_files(subcommand, [word.text for word in rest]))


def _shows_files(subcommand: str, words: list[str]) -> bool:
    """Return whether git would show the contents of files, not only their names and the messages of commits."""
    if any(re.fullmatch(r"-\w*[puU]\w*|--(patch|word-diff|unified)\b.*", word) for word in words):
        return True
    summary = r"--((num|short|dir)?stat|name-only|name-status|no-patch|summary|quiet)|-s"
    is_summary = any(re.fullmatch(summary, word) for word in words)
    return subcommand in ("diff", "show", "blame", "cat-file", "whatchanged") and not is_summary


def _only_lists(subcommand: str, words: list[str]) -> bool:
    """Return whether a subcommand that can also change things only lists them."""
    if subcommand in ("stash", "worktree") and not words:
        return False
    # `git branch NAME` makes a branch; with `--list` the name is a pattern.
    takes_names = subcommand in ("branch", "tag") and not {"-l", "--list"}.isdisjoint(words)
    options = [word for word in words if word.startswith("-") or not takes_names]
    return all(re.fullmatch(_GIT_LISTING[subcommand], option) for option in options)


def _match_sed(words: tuple[Word, ...]) -> ReadOnlyCommand | None:
    match words:
        case [Word(text="-n"), Word(text=script, has_expansion=False), *files] if _SED_PRINTING.fullmatch(script):
            return None if any(file.text.startswith("-") for file in files) else ReadOnlyCommand(tuple(files))
        case _:
            return None
