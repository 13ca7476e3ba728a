"""Find the folders that a command may be in while it runs, and the files in it that deny and ask rules are about. Pure.

Rules
  1. What follows a `cd` is resolved from each folder that the command may be in then.
  2. A word that may be a file is tried in every way it may be written: after `=`, `:`, `@`, an option's letter, in
     braces. One without a slash is often no file (`npm run build`): it counts if there is such a file, or if the
     program is one that takes files.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

from unspool.format.tools import EDIT_TOOLS
from unspool.permissions.call_check import CallCheck, RuleDecision, by_default, by_rule
from unspool.permissions.paths import MAGIC
from unspool.permissions.shell_parser import SimpleCommand, Word
from unspool.permissions.shell_readonly import match_read_only

_FOLDER_CHANGERS = frozenset({"pushd", "popd", "chdir"})
_FILE_TAKERS = frozenset(
    {"awk", "base64", "cat", "cd", "chmod", "chown", "cmp", "cp", "cut", "dd", "diff", "du", "echo", "egrep",
     "fgrep", "file", "find", "grep", "head", "hexdump", "install", "jq", "less", "ln", "ls", "md5sum", "mkdir",
     "more", "mv", "nano", "nl", "od", "paste", "printf", "rg", "rm", "rmdir", "rsync", "scp", "sed", "sha256sum",
     "shred", "sort", "source", "split", "stat", "strings", "tac", "tail", "tar", "tee", "touch", "tree",
     "truncate", "uniq", "unlink", "vi", "vim", "wc", "xxd", "zip"}
)  # fmt: skip
"""Programs whose words are files."""


def find_working_folders(check: CallCheck, commands: tuple[SimpleCommand, ...]) -> list[str] | None:
    """Return the folders that a command may be in while it runs; None if they are not known."""
    folders = [check.paths.cwd]
    for command in commands:
        if command.program_name in _FOLDER_CHANGERS:
            return None
        if command.program_name == "cd":
            read = match_read_only(command)
            if read is None or read.folder is None or len(folders) > 8 or check.paths.environment.get("CDPATH"):
                return None
            # A `cd` may fail, so what follows runs here or there: each one can double the folders.
            for base in [*folders]:
                targets = check.paths.resolve_word(read.folder, base)
                if targets is None or not _ignores_links(check, read.folder, base, targets):
                    return None
                folders += [folder for folder in targets if folder not in folders]
    return folders


def check_forbidden_files(
    check: CallCheck, kind: Literal["ask", "deny"], commands: tuple[SimpleCommand, ...]
) -> RuleDecision | None:
    """Return the decision of a rule of a kind about a file that a command names."""
    rules = [rule for rule in getattr(check.rules, kind) if rule.specifier and rule.tool in ("Read", *EDIT_TOOLS)]
    if not rules:
        return None
    folders = find_working_folders(check, commands) or [check.paths.cwd]
    for word, is_file in (found for command in commands for found in _file_words(command)):
        for path in _paths_in_word(check, word, folders):
            rule = next((rule for rule in rules if check.matches_path(rule, path)), None)
            if rule is None or not (is_file or check.paths.is_file(path)):
                continue
            # A glob that also matches a denied file is asked about; a word that names the file is denied.
            if kind == "deny" and word.has_glob and not MAGIC.search(path):
                return by_default("ask", f"`{word.raw}` takes in what the {rule.source} rule `{rule.text}` denies")
            return by_rule(kind, rule, f"`{word.raw}`")
    return None


def _file_words(command: SimpleCommand) -> list[tuple[Word, bool]]:
    """Return the words that may be files, each with whether it surely is one."""
    takes_files = command.program_name in _FILE_TAKERS
    words = [(word, takes_files or re.search(r"/|^\.", word.text) is not None) for word in command.words[1:]]
    others = [target for _, target in command.redirects] + [value for _, value in command.assignments]
    return words + [(word, True) for word in others]


def _ignores_links(check: CallCheck, folder: Word, base: str, targets: list[str]) -> bool:
    """Return whether `..` means the same to a shell, which goes by names, as to the system, which follows links."""
    by_names = posixpath.normpath(posixpath.join(base, folder.text))
    return ".." not in folder.text or check.paths.resolve(by_names) in targets


def _paths_in_word(check: CallCheck, word: Word, folders: list[str]) -> list[str]:
    """Return the paths that a word may name: whole, or after `=`, `:`, `@`, `-x`."""
    whole = _expand_braces(word.text) if word.has_braces else [word.text]
    pieces = {*whole, *(text[match.end() :] for text in whole for match in re.finditer(r"[=:@,]|^-\w", text))}
    paths: list[str] = []
    for folder in folders:
        for piece in pieces:
            candidate = word._replace(text=piece, has_expansion=False, has_braces=False)
            written = check.paths.make_absolute(piece, folder)
            paths += check.paths.resolve_word(candidate, folder) or []
            paths += [written] if written is not None else []
    return paths


def _expand_braces(text: str) -> list[str]:
    """Return what `a{b,c}d` expands to; four groups and 64 words at most."""
    expanded = [text]
    for _ in range(4):
        matches = [(word, re.search(r"\{([^{}]*,[^{}]*)\}", word)) for word in expanded]
        expanded = [
            word[: match.start()] + middle + word[match.end() :] if match else word
            for word, match in matches
            for middle in (match[1].split(",") if match else [""])
        ][:64]
    return expanded
