"""Permission rules in Claude Code's syntax: a text in, a rule out, and what it matches. Pure.

    Bash                     every command               Read(//etc/**)          from the root of the disk
    Bash(npm run test:*)     this, and more words        Read(~/notes/*.md)      from the home folder
    Bash(git * main)         a star is anything          Edit(/src/**)           from the folder of the settings
    Bash(npm test)           exactly this                Edit(docs/**)           from the folder worked in
    WebFetch(domain:a.org)   pages of a host             mcp__server__tool       a tool of a server
    Task(Explore)            an agent of a kind          Skill(name)             a skill

Rules
  1. A rule that allows takes only what it surely means; one that forbids takes all it may mean: names without their
     folder, letters of either case, what lies below.
  2. A command is matched word by word, as the program gets them: no quote hides a word and none makes two of one.
  3. A wildcard does not cover a word that makes a program run another (`programs.risks`); a rule that names it does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from unspool.permissions.shell_parser import Part, taken_apart
from unspool.permissions.shell_wrappers import risks

READS = frozenset({"Read", "Glob", "Grep", "LS", "NotebookRead"})
EDITS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
SHELL = "Bash"
_SAME = {"Agent": "Task", "KillBash": "KillShell", "TaskStop": "KillShell", "BashOutput": "TaskOutput"}
_RULE = re.compile(r"([A-Za-z][\w.*-]*)(?:\((.*)\))?", re.DOTALL)
_HOST = re.compile(r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)\.?(?::\d+)?(?:[/?#].*)?", re.DOTALL | re.IGNORECASE)


class Rule(NamedTuple):
    """One rule, and where it stands."""

    text: str
    tool: str
    inside: str | None
    """What is between the parentheses; None: all calls of the tool."""
    source: str = "flag"
    """user, project, local, flag, session."""
    folder: str = ""
    """Where paths that begin with `/` begin."""


def parsed(text: str, source: str = "flag", folder: str = "") -> Rule | None:
    """Return a rule; None if it is none."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        return None
    inside = match[2].strip() if match[2] is not None else None
    return Rule(text.strip(), plain_name(match[1]), None if inside in ("", "*", ":*") else inside, source, folder)


def separated(text: str) -> list[str]:
    """Return the rules of a flag: comma or space stand between them, but not inside parentheses.

    >>> separated("Bash(git log, x:*),Read Edit(a b)")
    ['Bash(git log, x:*)', 'Read', 'Edit(a b)']
    """
    found, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")" and depth > 0)
        if character in ", \t\n" and not depth:
            found.append("")
        else:
            found[-1] += character
    return [rule for rule in found if rule]


def plain_name(tool: str) -> str:
    """Return the name under which a tool has its rules: some have had two."""
    return _SAME.get(tool, tool)


def covers_tool(rule: Rule, tool: str, *, forbids: bool = False) -> bool:
    """Tell whether a rule is about a tool at all."""
    if rule.tool == tool:
        return True
    if forbids and "*" in rule.tool:
        return _star(rule.tool, tool)
    if tool.startswith("mcp__") and rule.tool.startswith("mcp__"):
        server = rule.tool.removesuffix("*").rstrip("_")
        return rule.inside is None and server.count("__") == 1 and tool.startswith(f"{server}__")
    if tool in EDITS:
        return rule.tool == "Edit" or (forbids and rule.tool in EDITS and rule.inside is not None)
    return tool in READS and rule.tool == "Read"


def allows_part(rule: Rule, part: Part) -> bool:
    """Tell whether a rule allows a part of a command, whatever it assigns and redirects."""
    if rule.inside is None:
        return True
    if not part.words or not part.words[0].is_plain:
        return False
    named = _matched_words(rule.inside, part)
    return named is not None and all(at < named for at in risks(part))


def allows_text(rule: Rule, command: str) -> bool:
    """Tell whether a rule without a wildcard is this whole command, letter by letter."""
    return rule.inside is not None and "*" not in rule.inside and rule.inside == command.strip()


def forbids_text(rule: Rule, command: str) -> bool:
    """Tell whether a rule with stars is about a whole command as it stands."""
    return rule.inside is not None and "*" in rule.inside and _star(rule.inside, command.strip())


def forbids_words(rule: Rule, words: tuple[str, ...]) -> bool:
    """Tell whether a rule that forbids, or asks, is about a program with these arguments."""
    if rule.inside is None:
        return True
    if not words:
        return False
    names = {words[0], words[0].rpartition("/")[2]}
    forms = [(name, *rest) for name in names for rest in {words[1:], _without_options(words[1:])}]
    return any(_words_match(rule.inside, form) for form in forms)


def matches_path(rule: Rule, path: str, *, here: str, home: str, forbids: bool = False) -> bool:
    """Tell whether a rule is about a real path."""
    if rule.inside is None:
        return True
    places = _anchored(rule.inside, (rule.folder or here, here, home), forbids)
    return any(_lies_below(base, pattern, path, forbids) for base, pattern in places)


def matches_host(rule: Rule, url: str, *, forbids: bool = False) -> bool:
    """Tell whether a rule is about a page: `domain:` is its host, exactly, or `*.` and what it ends with."""
    if rule.inside is None:
        return True
    kind, _, domain = rule.inside.partition(":")
    if kind != "domain" or not domain:
        return False
    domain, found = domain.lower().strip("."), host(url)
    if found is None:
        return forbids and domain.removeprefix("*.") in url.lower()
    if domain.startswith("*."):
        return found.endswith(domain[1:])
    return found == domain or (forbids and found.endswith(f".{domain}"))


def matches_name(rule: Rule, value: str) -> bool:
    """Tell whether a rule is about an agent or a skill of a name."""
    if rule.inside is None or rule.inside == value:
        return True
    return rule.inside.endswith(":*") and value.split(" ", maxsplit=1)[0] == rule.inside[:-2]


def host(url: str) -> str | None:
    """Return the host of an address, None if there is any doubt about it."""
    match = _HOST.fullmatch(url)
    return match[1].lower() if match else None


def _anchored(pattern: str, folders: tuple[str, str, str], forbids: bool) -> list[tuple[str, str]]:
    """Return where a pattern of paths begins, and what is left of it."""
    settings, here, home = folders
    if pattern.startswith("//"):
        return [("/", pattern[1:])]
    if pattern == "~" or pattern.startswith("~/"):
        return [(home, "/" + pattern[2:])]
    if pattern.startswith("/"):  # what the user's own settings forbid is meant wherever they work
        return [(settings, pattern), *([(here, pattern)] if forbids else [])]
    pattern = pattern.removeprefix("./")
    is_name = "/" not in pattern.rstrip("/")
    return [("/" if forbids and is_name else here, pattern)]


def _lies_below(base: str, pattern: str, path: str, forbids: bool) -> bool:
    if not base:
        return forbids  # nobody knows where it would be
    base = base.rstrip("/")
    if not path.startswith(f"{base}/") and path != base:
        return False
    if forbids and len(pattern) > 3:
        pattern = pattern.removesuffix("/**")  # the folder itself too; one named alone wherever it lies below
    return _pattern(pattern, forbids).fullmatch(path[len(base) + 1 :]) is not None


def _matched_words(inside: str, part: Part) -> int | None:
    """Return how many words a rule names, None if it does not match."""
    words = tuple(word.text for word in part.words)
    if inside.endswith(":*"):
        named = _named(inside[:-2])
        return len(named) if named and words[: len(named)] == named else None
    if "*" not in inside:
        return len(words) if words == _named(inside) and all(word.is_plain for word in part.words) else None
    if not (_star(inside, " ".join(words)) or _star(inside, " ".join(word.raw for word in part.words))):
        return None
    named = _named(inside)
    first = next((at for at, word in enumerate(named) if "*" in word), len(named))
    return first if named[:first] == words[:first] else None


def _words_match(inside: str, words: tuple[str, ...]) -> bool:
    """Match words against a rule that forbids: the program in letters of either case."""
    first, rest = words[0].casefold(), words[1:]
    if inside.endswith(":*") or "*" not in inside:
        named = _named(inside.removesuffix(":*"))
        if not named or named[0].casefold() != first:
            return False
        return rest[: len(named) - 1] == named[1:] if inside.endswith(":*") else rest == named[1:]
    return _star(inside.casefold(), " ".join((first, *rest)).casefold())


def _without_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what stands between a program and its subcommand: `git -C . push` is a push."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return words[at:]


@lru_cache(500)
def _named(text: str) -> tuple[str, ...]:
    """Return the words of a rule as a program would get them."""
    parts = taken_apart(text).parts
    if len(parts) == 1 and not parts[0].redirects and not parts[0].scripts:
        assigned = [word.text for _, word in parts[0].assigned]
        return (*assigned, *(word.text for word in parts[0].words))
    return tuple(text.split())


def _star(pattern: str, text: str) -> bool:
    """Tell whether a text is a pattern in which a star is anything; ` *` at its end may be nothing.

    By hand, because the text is a stranger's: a regular expression with stars can take for ever.
    """
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
        found = text.find(piece, at, stop)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@lru_cache(500)
def _pattern(pattern: str, forbids: bool) -> re.Pattern[str]:
    """Return a pattern of file names as gitignore has them: without a slash inside, it holds in every folder."""
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.strip("/").split("/") if name]
    if not names:
        return re.compile(".*", re.DOTALL)
    text = "" if anchored else "(?:.*/)?"
    for at, name in enumerate(names):
        is_last = at == len(names) - 1
        if name == "**":
            text += ".*" if is_last else "(?:.*/)?"
        else:
            text += _name(name) + ("" if is_last else "/")
    is_open = names[-1] == "**" or (not forbids and "*" in names[-1])
    return re.compile(text + ("" if is_open else "(?:/.*)?"), re.DOTALL | (re.IGNORECASE if forbids else 0))


def _name(name: str) -> str:
    """Return the pattern of one name: `*`, `?` and `[…]` stay inside it."""
    pieces = re.split(r"(\*+|\?|\[[^\]/]+\])", name)
    made = {"*": "[^/]*", "?": "[^/]"}
    return "".join(
        made.get(piece[:1], "[" + re.escape(piece[1:-1]).replace(r"\-", "-") + "]" if piece[:1] == "[" else "")
        if re.fullmatch(r"\*+|\?|\[[^\]/]+\]", piece)
        else re.escape(piece)
        for piece in pieces
    )
