"""Parse permission rules in Claude Code's syntax, and match them against tool calls. Pure.

    Bash                     every command               Read(//etc/**)          from the root of the disk
    Bash(npm run test:*)     this, and more words        Read(~/notes/*.md)      from the home folder
    Bash(git * main)         a star is anything          Edit(/src/**)           from the folder of the settings
    Bash(npm test)           exactly this                Edit(docs/**)           from the folder worked in
    WebFetch(domain:a.org)   pages of a host             mcp__server__tool       a tool of a server
    Task(Explore)            an agent of a kind          Skill(name)             a skill

Rules
  1. A rule that allows matches only what it surely means; one that forbids (denies or asks) matches all it may mean:
     programs without their folder, letters of either case, files below a folder.
  2. A command is matched word by word, as the program gets them: quotes neither hide a word nor split one.
  3. A wildcard does not cover a word that makes a program run another one (`find_risky_words`); a rule that names the
     word does.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from unspool.format.tools import EDIT_TOOLS
from unspool.permissions.shell_parser import SimpleCommand, Word, expand_braces, parse_command
from unspool.permissions.shell_wrappers import find_risky_words, may_take_command

READ_TOOLS = frozenset({"Read", "Glob", "Grep", "LS", "NotebookRead"})
SHELL_TOOL = "Bash"
_CANONICAL_TOOL_NAMES = {"Agent": "Task", "KillBash": "KillShell", "TaskStop": "KillShell", "BashOutput": "TaskOutput"}
_RULE = re.compile(r"([A-Za-z][\w.*-]*)(?:\((.*)\))?", re.DOTALL)
_HOST = re.compile(r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)\.?(?::\d+)?(?:[/?#].*)?", re.DOTALL | re.IGNORECASE)
_WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "docker", "kubectl", "gh", "pip", "pip3", "uv", "make",
     "poetry", "brew", "apt", "apt-get", "systemctl", "terraform", "dotnet", "mvn", "gradle", "rake", "bundle", "just"}
)  # fmt: skip
_NEVER_SUGGESTED = frozenset(
    {"python", "python3", "node", "perl", "ruby", "php", "lua", "awk", "sed", "rm", "rmdir", "dd", "mv", "cp", "chmod",
     "chown", "curl", "wget", "kill", "pkill", "killall", "tee", "ln", "truncate", "nc", "scp", "rsync", "tar"}
)  # fmt: skip
"""Programs for which `NAME:*` would allow too much to be offered."""
_SUBCOMMAND = re.compile(r"[a-z][\w:.-]*")


class PermissionRule(NamedTuple):
    """One rule, and where it comes from. `forbids` says that it is matched as one that denies or asks."""

    text: str
    tool: str
    specifier: str | None
    """What is between the parentheses; None: the rule is about all calls of the tool."""
    source: str = "flag"
    """user, project, local, flag, session, command; kept: by the user, outside of the folder."""
    folder: str = ""
    """The folder from which paths that begin with `/` are resolved."""

    def covers_tool(self, tool: str, *, forbids: bool = False) -> bool:
        """Return whether a rule is about a tool at all."""
        if self.tool == tool:
            return True
        if forbids and "*" in self.tool:  # a star in the name of a tool never allows
            return _matches_wildcard(self.tool, tool)
        if tool.startswith("mcp__") and self.tool.startswith("mcp__"):
            server = self.tool.removesuffix("*").rstrip("_")
            return self.specifier is None and server.count("__") == 1 and tool.startswith(f"{server}__")
        if tool in EDIT_TOOLS:
            return self.tool == "Edit" or (forbids and self.tool in EDIT_TOOLS and self.specifier is not None)
        return tool in READ_TOOLS and self.tool == "Read"

    def allows_command(self, command: SimpleCommand) -> bool:
        """Return whether a rule allows a simple command, apart from its assignments and redirections."""
        if self.specifier is None:
            return True
        if not command.words or not command.words[0].is_literal:
            return False
        named = _count_named_words(self.specifier, command)
        return named is not None and all(at < named for at in find_risky_words(command))

    def allows_text(self, command: str) -> bool:
        """Return whether a rule allows all commands, or this whole command letter by letter."""
        return self.specifier is None or ("*" not in self.specifier and self.specifier == command.strip())

    def forbids_text(self, command: str) -> bool:
        """Return whether a rule forbids the text of a whole command."""
        specifier, text = self.specifier, command.strip()
        return specifier is None or specifier == text or ("*" in specifier and _matches_wildcard(specifier, text))

    def forbids_words(self, words: tuple[str, ...]) -> bool:
        """Return whether a rule that forbids is about a program with these arguments."""
        if self.specifier is None:
            return True
        if not words:
            return False
        # `/bin/rm` is `rm`, and `git -C . push` is `git push`: neither spelling gets around the self.
        names = {words[0], words[0].rpartition("/")[2]}
        variants = [(name, *rest) for name in names for rest in {words[1:], _skip_leading_options(words[1:])}]
        return any(_forbids_variant(self.specifier, variant) for variant in variants)

    def may_forbid_words(self, words: tuple[Word, ...]) -> bool:
        """Return whether a rule that forbids is about what these words may become, where that is not sure."""
        named = _named_words(self.specifier) if self.specifier is not None else ()
        if not named or not words or words[0].has_expansion:  # that the program is not known is a doubt of its own
            return False
        return any(_may_begin_with(variant, named) for variant in (words, (words[0], *_skip_options(words[1:]))))

    def matches_path(self, path: str, *, here: str, home: str, forbids: bool = False) -> bool:
        """Return whether a rule is about a path without links in it."""
        if self.specifier is None:
            return True
        anchors = _anchor_pattern(self.specifier, self.folder or here, here, home, forbids=forbids)
        return any(_matches_below(base, pattern, path, forbids) for base, pattern in anchors)

    def matches_host(self, url: str, *, forbids: bool = False) -> bool:
        """Return whether a rule is about a page: `domain:` is its host, exactly, or `*.` and what it ends with."""
        if self.specifier is None:
            return True
        kind, _, domain = self.specifier.partition(":")
        if kind != "domain" or not domain:
            return False
        domain, host = domain.lower().strip("."), host_of_url(url)
        if host is None:
            return forbids and domain.removeprefix("*.") in url.lower()
        if domain.startswith("*."):
            return host.endswith(domain[1:])
        return host == domain or (forbids and host.endswith(f".{domain}"))

    def matches_name(self, value: str) -> bool:
        """Return whether a rule is about the agent or the skill with this name."""
        if self.specifier is None or self.specifier == value:
            return True
        return self.specifier.endswith(":*") and value.split(" ", maxsplit=1)[0] == self.specifier[:-2]


class RuleSet(NamedTuple):
    """The rules of a session, by what they do."""

    allow: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()


def parse_rule(text: str, source: str = "flag", folder: str = "") -> PermissionRule | None:
    """Return the rule that a text is; None if it is not one."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        return None
    specifier = match[2].strip() if match[2] is not None else None
    if specifier in ("", "*", ":*"):
        specifier = None
    return PermissionRule(text.strip(), canonical_tool_name(match[1]), specifier, source, folder)


def split_rules(text: str) -> list[str]:
    """Split a list of rules at commas and spaces that are not inside parentheses.

    >>> split_rules("Bash(git log, x:*),Read Edit(a b)")
    ['Bash(git log, x:*)', 'Read', 'Edit(a b)']
    """
    rules, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")" and depth > 0)
        if character in ", \t\n" and not depth:
            rules.append("")
        else:
            rules[-1] += character
    return [rule for rule in rules if rule]


def canonical_tool_name(tool: str) -> str:
    """Return the name under which a tool has its rules: some tools have had two names."""
    return _CANONICAL_TOOL_NAMES.get(tool, tool)


def host_of_url(url: str) -> str | None:
    """Return the host of an address; None if there is any doubt about it."""
    match = _HOST.fullmatch(url)
    return match[1].lower() if match else None


def _anchor_pattern(pattern: str, settings: str, here: str, home: str, *, forbids: bool) -> list[tuple[str, str]]:
    """Return the folders that a pattern of paths is relative to, and what is left of the pattern."""
    if pattern.startswith("//"):
        return [("/", pattern[1:])]
    if pattern == "~" or pattern.startswith("~/"):
        return [(home, "/" + pattern[2:])]
    if pattern.startswith("/"):  # what the user's own settings forbid is meant wherever they work
        return [(settings, pattern), *([(here, pattern)] if forbids else [])]
    pattern = pattern.removeprefix("./")
    is_name = "/" not in pattern.rstrip("/")
    # A name alone (`.env`) is forbidden wherever it lies, also outside the folder worked in.
    return [("/" if forbids and is_name else here, pattern)]


def _matches_below(base: str, pattern: str, path: str, forbids: bool) -> bool:
    if not base:
        return forbids  # the home folder is not known
    base = base.rstrip("/")
    if not path.startswith(f"{base}/") and path != base:
        return False
    if forbids and len(pattern) > 3:
        pattern = pattern.removesuffix("/**")  # forbids the folder itself, too
    return _compile_path_pattern(pattern, forbids).fullmatch(path[len(base) + 1 :]) is not None


def _count_named_words(specifier: str, command: SimpleCommand) -> int | None:
    """Return how many words of a command a rule names; None if it does not match."""
    words = tuple(word.text for word in command.words)
    if specifier.endswith(":*"):
        named = _split_words(specifier[:-2])
        return len(named) if named and words[: len(named)] == named else None
    if "*" not in specifier:
        is_exact = words == _split_words(specifier) and all(word.is_literal for word in command.words)
        return len(words) if is_exact else None
    raw = " ".join(word.raw for word in command.words)
    if not (_matches_wildcard(specifier, " ".join(words)) or _matches_wildcard(specifier, raw)):
        return None
    named = _split_words(specifier)
    first = next((at for at, word in enumerate(named) if "*" in word), len(named))
    return first if named[:first] == words[:first] else None


def _forbids_variant(specifier: str, words: tuple[str, ...]) -> bool:
    """Match words against a rule that forbids: the program in letters of either case."""
    first, rest = words[0].casefold(), words[1:]
    if specifier.endswith(":*") or "*" not in specifier:
        named = _split_words(specifier.removesuffix(":*"))
        if not named or named[0].casefold() != first:
            return False
        return rest[: len(named) - 1] == named[1:] if specifier.endswith(":*") else rest == named[1:]
    return _matches_wildcard(specifier.casefold(), " ".join((first, *rest)).casefold())


def _skip_leading_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the options between a program and its subcommand: `git -C . push` is a push."""
    return words[_count_leading_options(words) :]


def _skip_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    return words[_count_leading_options(tuple(word.text for word in words)) :]


def _count_leading_options(words: tuple[str, ...]) -> int:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return at


def _named_words(specifier: str) -> tuple[str, ...]:
    """Return the words that a command must begin with for a rule to match."""
    named = _split_words(specifier.removesuffix(":*"))
    first = next((at for at, word in enumerate(named) if "*" in word), len(named))
    return named[:first]


def _may_begin_with(words: tuple[Word, ...], named: tuple[str, ...]) -> bool:
    """Return whether words may become others that begin with those that a rule names."""
    for at, name in enumerate(named):
        if at == len(words):
            return False
        word = words[at]
        if word.has_expansion:
            return True  # any word, and more than one
        possible = expand_braces(word) if word.has_braces else [word.text]
        if possible is None:
            return True
        if at == 0:
            name, possible = name.casefold(), [text.rpartition("/")[2].casefold() for text in possible]
        if not any(text == name or (word.has_glob and fnmatchcase(name, text)) for text in possible):
            return False
    return True


@lru_cache(500)
def _split_words(text: str) -> tuple[str, ...]:
    """Return the words of a rule as a program would get them."""
    commands = parse_command(text).commands
    if len(commands) == 1 and not commands[0].redirects and not commands[0].stdin_texts:
        assignments = [word.text for _, word in commands[0].assignments]
        return (*assignments, *(word.text for word in commands[0].words))
    return tuple(text.split())


def _matches_wildcard(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which a star is anything; ` *` at its end may be nothing."""
    # By hand, because the model writes the text: a regular expression with several stars can take very long.
    if pattern.endswith(" *") and pattern.count("*") == 1 and text == pattern[:-2]:
        return True
    start, *middle = pattern.split("*")
    if not middle:
        return text == pattern
    end = middle.pop()
    if len(text) < len(start) + len(end) or not (text.startswith(start) and text.endswith(end)):
        return False
    at, stop = len(start), len(text) - len(end)
    for piece in middle:
        place = text.find(piece, at, stop)
        if place < 0:
            return False
        at = place + len(piece)
    return True


@lru_cache(500)
def _compile_path_pattern(pattern: str, forbids: bool) -> re.Pattern[str]:
    """Compile a pattern in gitignore's syntax: one without a slash inside matches in every folder."""
    is_anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.strip("/").split("/") if name]
    if not names:
        return re.compile(".*", re.DOTALL)
    text = "" if is_anchored else "(?:.*/)?"
    for at, name in enumerate(names):
        is_last = at == len(names) - 1
        if name == "**":
            text += ".*" if is_last else "(?:.*/)?"
        else:
            text += _translate_name(name) + ("" if is_last else "/")
    matches_below = names[-1] == "**" or (not forbids and "*" in names[-1])
    return re.compile(text + ("" if matches_below else "(?:/.*)?"), re.DOTALL | (re.IGNORECASE if forbids else 0))


def _translate_name(name: str) -> str:
    """Translate one name of a pattern: `*`, `?` and `[…]` do not match a slash."""
    translated = ""
    for piece in re.split(r"(\*+|\?|\[[^\]/]+\])", name):
        if piece.startswith("*"):
            translated += "[^/]*"
        elif piece == "?":
            translated += "[^/]"
        elif re.fullmatch(r"\[[^\]/]+\]", piece):
            translated += "[" + re.escape(piece[1:-1]).replace(r"\-", "-") + "]"
        else:
            translated += re.escape(piece)
    return translated


def suggest_rules(command: SimpleCommand) -> tuple[str, ...]:
    """Return a rule that allows a program with its subcommand; none for a program that can do anything."""
    words = [word.text for word in command.words if word.is_literal]
    if not words or may_take_command(command) or find_risky_words(command) or command.assignments or command.redirects:
        return ()
    program = words[0]
    if program in _NEVER_SUGGESTED or not re.fullmatch(r"[\w./+-]+", program):
        return ()
    named = [program]
    if program in _WITH_SUBCOMMANDS:
        count = 2 if words[1:2] == ["run"] else 1  # `npm run test`
        named += [word for word in words[1 : 1 + count] if _SUBCOMMAND.fullmatch(word)]
        if len(named) == 1 and len(words) > 1:
            return ()
    return (f"Bash({' '.join(named)}:*)",)
