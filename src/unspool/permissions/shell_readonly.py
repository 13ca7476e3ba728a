"""Which commands only look at things: a part of a command in, what it looks at out. Pure.

Rules
  1. A program is in the table with the options it may have; an option that is not there makes it something else.
  2. Each word that may be a path is handed back as one: whether it may be read is for others to say.
  3. A word that the shell would put something else in the place of is known only if it is a pattern of file names that
     cannot become an option.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from unspool.permissions.shell_parser import Part, Word
from unspool.permissions.shell_wrappers import SYSTEM

_ANY = r"-.*"
_NONE = r"(?!)"
_HARMLESS = re.compile(
    r"\$(\?|\$|#|!|HOME|PWD|OLDPWD|USER|SHELL|PATH|LANG|TERM|HOSTNAME|RANDOM|SECONDS)|\$\{(HOME|PWD|USER)\}"
)


class _Look(NamedTuple):
    """What a program may be given."""

    options: str = _ANY
    skipped: int = 0
    """How many words come before the files, such as a pattern to search for."""
    has_files: bool = True
    most: int = 1000
    """How many words that are no options it may have."""


class Looked(NamedTuple):
    """What a command looks at."""

    files: tuple[Word, ...] = ()
    folder: Word | None = None
    """Where `cd` goes."""
    is_deep: bool = False
    """Whether it reads whatever files are below."""
    is_git: bool = False


_WORDS = _Look(has_files=False)
_PLAIN = _Look(_NONE, has_files=False, most=0)
_GREP = (
    r"-[abcEFGhHiIlLnoPqrsvwxyzZ]*|-[ABCm]\d*|-e|--(color|colour|include|exclude|exclude-dir|context|max-count)(=.*)?|"
    r"--(line-number|ignore-case|recursive|count|files-with-matches|files-without-match|only-matching|with-filename|"
    r"no-filename|word-regexp|fixed-strings|extended-regexp|invert-match|quiet)"
)
_RG = (
    r"-[cFhHiIlnNopPqsSuUvwx]*|-[ABCmMtTgj]\S*|-e|--(files|hidden|no-ignore|count|line-number|no-heading|heading|json|"
    r"stats|multiline|smart-case|ignore-case|word-regexp|fixed-strings|files-with-matches|only-matching|trim|vimgrep|"
    r"no-line-number|type-list|no-messages)|--(color|type|type-not|glob|iglob|context|max-count|max-depth|sort|sortr|"
    r"max-filesize|max-columns|after-context|before-context)(=.*)?"
)
_FIND = (
    r"-(name|iname|path|ipath|wholename|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|ctime|cmin|atime|amin|newer|"
    r"empty|not|o|or|a|and|print|print0|ls|prune|user|group|perm|executable|readable|writable|links|depth|xdev|mount|"
    r"true|false|printf|quit)"
)
_LOOKS = {
    **dict.fromkeys(("cat", "tac", "head", "tail", "ls", "nl", "rev", "fold", "stat", "readlink", "realpath", "cut",
                     "cmp", "comm", "strings", "cksum", "dir", "vdir", "expand", "unexpand", "paste"), _Look()),
    **dict.fromkeys(("basename", "dirname", "echo", "seq", "expr", "true", "false", ":", "pwd", "uname", "whoami", "id",
                     "groups", "arch", "nproc", "tty", "logname", "which", "type", "sleep", "factor", "tr"), _WORDS),
    **dict.fromkeys(("uptime", "jobs", "wait", "locale"), _PLAIN),
    "printf": _Look(_NONE, has_files=False),
    "wc": _Look(r"-[clmwL]+|--(lines|words|bytes|chars|max-line-length)"),
    "du": _Look(r"-[abcDhkmsS]+|-d\d*|--(max-depth|exclude)=.*|--(human-readable|summarize|apparent-size|total)"),
    "df": _Look(r"-[ahHiklPTx]+|--human-readable"),
    "free": _Look(r"-[bkmght]+", has_files=False, most=0),
    "file": _Look(r"-[biLhN0]+|--mime(-type|-encoding)?|--brief"),
    "md5sum": _Look(_NONE), "sha1sum": _Look(_NONE), "sha256sum": _Look(_NONE), "shasum": _Look(r"-a|\d+"),
    "od": _Look(r"-[abcdfhilosxv]+|-[ANjt]\S*"), "hexdump": _Look(r"-[bcCdovx]+|-[ns]\d*"),
    "grep": _Look(_GREP, 1), "egrep": _Look(_GREP, 1), "fgrep": _Look(_GREP, 1), "rg": _Look(_RG, 1),
    "sort": _Look(r"-[bdfghinMrRuVcCsz]+|-[kt]\S*|--(reverse|unique|numeric-sort|human-numeric-sort|version-sort)"),
    "uniq": _Look(r"-[cdiuz]+|-[fsw]\d*|--count|--repeated", most=1),
    "diff": _Look(r"-[aBbcdEeiNnpqstuwWy]+|-[UC]\d*|--(brief|unified|side-by-side|color|stat)(=\w+)?|--ignore-.*"),
    "column": _Look(r"-[tx]+|-s|-c\d*"),
    "tree": _Look(r"-[aACdDfFghinNpQrsStuUvx]+|-[LPI]\S*|--(dirsfirst|noreport|gitignore|prune|du)"),
    "date": _Look(r"-[uIR]\S*|-d|--(date|iso-8601|utc|rfc-3339)(=.*)?", has_files=False),
    "hostname": _Look(r"-[fsdiI]", has_files=False, most=0),
    "ps": _Look(r"-ef|-e|-f|-A", has_files=False, most=0),
    "jq": _Look(r"-[rcesnSMCja]+|--(raw-output|compact-output|slurp|null-input|sort-keys|exit-status|tab)", 1),
    "find": _Look(_FIND),
    "test": _Look(r"-[bcdefghknprstuwxzLOSG]", most=3), "[": _Look(r"-[bcdefghknprstuwxzLOSG]", most=4),
    "cd": _Look(_NONE, most=1),
}  # fmt: skip
_GIT = (
    r"--(oneline|(num|short|dir)?stat|name-only|name-status|cached|staged|graph|decorate(=\w+)?|all|short|abbrev-ref|"
    r"abbrev-commit|show-toplevel|show-current|show-prefix|is-inside-work-tree|verify|quiet|no-color|color(=\w+)?|branch|"
    r"no-merges|merges|first-parent|reverse|follow|patch|no-patch|word-diff(=\w+)?|ignore-(all-space|space-change)|"
    r"(since|until|after|before|author|committer|grep|format|date|sort|diff-filter|max-count|skip|unified)=.*|"
    r"pretty(=.*)?|summary|tags|long|always|dirty|others|exclude-standard|modified|deleted|untracked-files(=\w+)?|ignored|"
    r"porcelain(=v?\w+)?|list|verbose|no-ext-diff|no-textconv|minimal|patience|histogram|left-right|count|heads|stage|"
    r"full-index|no-renames|find-renames|show-signature|pickaxe-all|merge-base|raw|check|root|topo-order|date-order)|"
    r"-\d+|-[pnsuvzbrlwMtiLSGUqaeEh]+\d*|--"
)
_GIT_LOOKS = {
    **dict.fromkeys(("status", "log", "diff", "show", "blame", "shortlog", "ls-files", "ls-tree", "rev-parse",
                     "rev-list", "describe", "merge-base", "name-rev", "whatchanged", "show-ref", "for-each-ref",
                     "count-objects"), _GIT),
    "cat-file": r"-[pts]",
}  # fmt: skip
_GIT_LISTS = {
    "branch": r"-[arvl]+|--(all|remotes|list|show-current|verbose|no-color|sort=.*)",
    "tag": r"-l|--list|-n\d*|--sort=.*",
    "remote": r"-v|--verbose",
    "stash": r"list|show",
    "worktree": r"list|--porcelain",
    "reflog": r"show|-\d+",
}
_VERSIONED = frozenset(
    {"node", "npm", "npx", "yarn", "pnpm", "python", "python3", "pip", "pip3", "uv", "cargo", "rustc", "go", "java",
     "javac", "ruby", "git", "make", "cmake", "gcc", "clang", "docker", "bash", "perl", "php", "deno", "bun", "rg"}
)  # fmt: skip
_SED_SHOWS = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?[pq](;(\d+|\$)(,(\d+|\$|\+\d+))?[pq])*")


def program(part: Part) -> str | None:
    """Return the name of the program that a part runs, if it is the system's: another folder's may be anything."""
    words = part.words
    if not words or not words[0].is_plain:
        return None
    text = words[0].text
    folder = next((folder for folder in SYSTEM if text.startswith(folder) and "/" not in text[len(folder) :]), None)
    return text[len(folder) :] if folder else text if "/" not in text else None


def looks(part: Part) -> Looked | None:
    """Return what a part looks at; None if it may do anything else."""
    name, words = program(part), part.words[1:]
    if name is None or any(_is_unknown(word, name) for word in words):
        return None
    texts = [word.text for word in words]
    if name in _VERSIONED and texts in (["--version"], ["-V"], *([["-v"]] if name in ("node", "npm") else [])):
        return Looked()
    if name == "command" and len(texts) == 2 and texts[0] in ("-v", "-V"):
        return Looked()
    if name == "git":
        return _git(words)
    if name == "sed":
        return _sed(words)
    look = _LOOKS.get(name)
    return _looked(name, look, words) if look is not None else None


def _is_unknown(word: Word, name: str) -> bool:
    if word.has_braces:
        return True
    if word.has_variable:
        rest = _HARMLESS.sub("", word.raw)
        return name not in ("echo", "printf") or "$" in rest or "`" in rest
    takes_any = name in _LOOKS and _LOOKS[name].options == _ANY
    return word.has_glob and word.text[:1] in ("*", "?", "[", "-") and not takes_any


def _looked(name: str, look: _Look, words: tuple[Word, ...]) -> Looked | None:
    options = [word.text for word in words if word.text.startswith("-") and word.text != "-"]
    others = [word for word in words if not word.text.startswith("-")]
    if any(option != "--" and not re.fullmatch(look.options, option) for option in options) or len(others) > look.most:
        return None
    if name == "cd":
        return Looked(folder=others[0]) if others else None
    if name == "jq" and re.search(r"env|ENV|import|include|input", "".join(word.text for word in others[:1])):
        return None
    if name == "date" and "-d" not in options and any(not word.text.startswith("+") for word in others):
        return None  # it would set the clock
    if name in ("test", "[") and any("[" in word.text for word in others if word.text != "["):
        return None  # a subscript is evaluated
    if not look.has_files:
        return Looked()
    skipped = 0 if {"-e", "--files", "--type-list"} & {*options} else look.skipped
    is_deep = name == "rg" or (name.endswith("grep") and any(re.match(r"-\w*r|--recursive", one) for one in options))
    return Looked((*others[skipped:], *_attached(options)), is_deep=is_deep)


def _attached(options: list[str]) -> list[Word]:
    """Return what may be files inside options."""
    values = [option.partition("=")[2] for option in options if "=" in option]
    return [Word(value, value) for value in values if "/" in value]


def _git(words: tuple[Word, ...]) -> Looked | None:
    while words and words[0].text in ("--no-pager", "-P"):
        words = words[1:]
    if not words:
        return None
    subject, rest = words[0].text, words[1:]
    if subject in _GIT_LISTS:
        return Looked(is_git=True) if _only_lists(subject, [word.text for word in rest]) else None
    options = _GIT_LOOKS.get(subject)
    if options is None or any(word.text.startswith("-") and not re.fullmatch(options, word.text) for word in rest):
        return None
    files = tuple(word for word in rest if not word.text.startswith("-"))
    return Looked(files, is_git=True, is_deep=_shows_files(subject, [word.text for word in rest]))


def _shows_files(subject: str, words: list[str]) -> bool:
    """Tell whether git would show what is in files, not only their names and what was said of them."""
    if any(re.fullmatch(r"-\w*[puU]\w*|--(patch|word-diff|unified)\b.*", word) for word in words):
        return True
    short = r"--((num|short|dir)?stat|name-only|name-status|no-patch|summary|quiet)|-s"
    is_short = any(re.fullmatch(short, word) for word in words)
    return subject in ("diff", "show", "blame", "cat-file", "whatchanged") and not is_short


def _only_lists(subject: str, words: list[str]) -> bool:
    """Tell whether a subcommand that can also change things lists them: names are patterns only if it says so."""
    if subject in ("stash", "worktree") and not words:
        return False
    takes_names = subject in ("branch", "tag") and not {"-l", "--list"}.isdisjoint(words)
    options = [word for word in words if word.startswith("-") or not takes_names]
    return all(re.fullmatch(_GIT_LISTS[subject], option) for option in options)


def _sed(words: tuple[Word, ...]) -> Looked | None:
    match words:
        case [Word(text="-n"), Word(text=script, has_variable=False), *files] if _SED_SHOWS.fullmatch(script):
            return None if any(file.text.startswith("-") for file in files) else Looked(tuple(files))
        case _:
            return None
