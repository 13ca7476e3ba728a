"""Where the words of a command lead: the folders it may be in, and the files it names that rules are about.

Rules
  1. What follows a `cd` is looked at from each folder that the command may be in then.
  2. A word that may be a file is looked at in every way it may be written: after `=`, `:`, `@`, an option's letter, in
     braces. One without a slash is often no file (`npm run build`): it counts if there is such a file, or if the
     program is one that takes files.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path

from unspool.client.permissions.file_access import Hearing, built_in, by_rule
from unspool.client.protocols import Ruling
from unspool.paths import absolute
from unspool.permissions.rules import EDITS
from unspool.permissions.shell_parser import Part, Word
from unspool.permissions.shell_readonly import looks
from unspool.permissions.shell_wrappers import name

_WANDERS = frozenset({"pushd", "popd", "chdir"})
_TAKERS = frozenset(
    {"awk", "base64", "cat", "cd", "chmod", "chown", "cmp", "cp", "cut", "dd", "diff", "du", "echo", "egrep",
     "fgrep", "file", "find", "grep", "head", "hexdump", "install", "jq", "less", "ln", "ls", "md5sum", "mkdir",
     "more", "mv", "nano", "nl", "od", "paste", "printf", "rg", "rm", "rmdir", "rsync", "scp", "sed", "sha256sum",
     "shred", "sort", "source", "split", "stat", "strings", "tac", "tail", "tar", "tee", "touch", "tree",
     "truncate", "uniq", "unlink", "vi", "vim", "wc", "xxd", "zip"}
)  # fmt: skip
"""Programs whose words are files."""


def bases_of(hearing: Hearing, parts: tuple[Part, ...]) -> list[Path] | None:
    """Return the folders that a command may be in while it runs; None if nobody knows."""
    bases = [hearing.desk.cwd]
    for part in parts:
        if name(part) in _WANDERS:
            return None
        if name(part) == "cd":
            looked = looks(part)
            if looked is None or looked.folder is None or len(bases) > 8 or hearing.desk.environment.get("CDPATH"):
                return None
            for base in [*bases]:
                found = hearing.reach.of_word(looked.folder, base)
                if found is None or not _is_straight(looked.folder, base, found):
                    return None
                bases += [folder for folder in found if folder not in bases]
    return bases


def barred_file(hearing: Hearing, kind: str, parts: tuple[Part, ...]) -> Ruling | None:
    """Return what a rule of a kind says of a file that a command names."""
    rules = [rule for rule in getattr(hearing.book, kind) if rule.inside is not None and rule.tool in ("Read", *EDITS)]
    if not rules:
        return None
    bases = bases_of(hearing, parts) or [hearing.desk.cwd]
    for part in parts:
        for word, is_file in _words(part):
            for path in _paths_in(hearing, word, bases):
                rule = next((rule for rule in rules if hearing.is_about(rule, path)), None)
                if rule is None or not (is_file or path.is_file()):
                    continue
                if kind == "deny" and word.has_glob and not glob.has_magic(str(path)):
                    return built_in("ask", f"`{word.raw}` takes in what the {rule.source} rule `{rule.text}` denies")
                return by_rule("deny" if kind == "deny" else "ask", rule, f"`{word.raw}`")
    return None


def _words(part: Part) -> list[tuple[Word, bool]]:
    """Return the words that may be files, each with whether it surely is one."""
    takes = name(part) in _TAKERS
    words = [(word, takes or re.search(r"/|^\.", word.text) is not None) for word in part.words[1:]]
    return [*words, *((target, True) for _, target in part.redirects), *((value, True) for _, value in part.assigned)]


def _is_straight(folder: Word, base: Path, found: list[Path]) -> bool:
    """Tell whether `..` means the same to a shell, which goes by names, as to the system, which follows links."""
    return ".." not in folder.text or absolute(base / folder.text).resolve() in found


def _paths_in(hearing: Hearing, word: Word, bases: list[Path]) -> list[Path]:
    """Return the paths that a word may name: whole, or after `=`, `:`, `@`, `-x`."""
    text = word.text
    whole = _unfolded(text) if word.has_braces else [text]
    pieces = {*whole, *(one[match.end() :] for one in whole for match in re.finditer(r"[=:@,]|^-\w", one))}
    found: list[Path] = []
    for base in bases:
        for piece in pieces:
            candidate = word._replace(text=piece, has_variable=False, has_braces=False)
            named = hearing.reach.named(piece, base)
            found += hearing.reach.of_word(candidate, base) or []
            found += [Path(named)] if named is not None else []
    return found


def _unfolded(text: str) -> list[str]:
    """Return what `a{b,c}d` stands for, as far as one can be bothered to tell."""
    found = [text]
    for _ in range(4):
        matches = [(one, re.search(r"\{([^{}]*,[^{}]*)\}", one)) for one in found]
        found = [
            one[: match.start()] + middle + one[match.end() :] if match else one
            for one, match in matches
            for middle in (match[1].split(",") if match else [""])
        ][:64]
    return found
