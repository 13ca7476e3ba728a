"""What mode and rules say of a shell command: the command in, a ruling for each of its parts out.

Rules
  1. The command is taken apart first. It is allowed if every part is; it is denied if any part is, also one inside
     another, behind a wrapper, quoted, or with its folder before it.
  2. A part is allowed if it only looks at what may be read, or if a rule allows it and it does nothing that the rule
     does not name. What it redirects to is an edit, what it redirects from is read.
  3. What is not understood asks. Where deny rules stand, it asks also in `bypassPermissions`: nobody knows what it is.
  4. Variables before a command are allowed by name: many change what a program runs.

[merged: shell_suggestion.py] Which rule would allow a part of a command from now on: the part in, rules out. Pure.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from unspool.client.permissions.file_access import Hearing, built_in, by_mode, by_rule
from unspool.client.permissions.shell_paths import barred_file, bases_of
from unspool.client.protocols import Ruling
from unspool.permissions.rules import SHELL, Rule, allows_part, allows_text, forbids_text, forbids_words
from unspool.permissions.shell_parser import Command, Part, Word, taken_apart
from unspool.permissions.shell_readonly import Looked, looks
from unspool.permissions.shell_wrappers import inside, is_carrier, name, risks

_WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "docker", "kubectl", "gh", "pip", "pip3", "uv", "make",
     "poetry", "brew", "apt", "apt-get", "systemctl", "terraform", "dotnet", "mvn", "gradle", "rake", "bundle", "just"}
)  # fmt: skip
_NOT_AT_LARGE = frozenset(
    {"python", "python3", "node", "perl", "ruby", "php", "lua", "awk", "sed", "rm", "rmdir", "dd", "mv", "cp", "chmod",
     "chown", "curl", "wget", "kill", "pkill", "killall", "tee", "ln", "truncate", "nc", "scp", "rsync", "tar"}
)  # fmt: skip
"""Programs for which `NAME:*` would allow too much to be offered."""
_SUBCOMMAND = re.compile(r"[a-z][\w:.-]*")


def suggested(part: Part) -> tuple[str, ...]:
    """Return a rule for the program, with its subcommand; for one that can do anything, none."""
    words = [word.text for word in part.words if word.is_plain]
    if len(words) < 1 or is_carrier(part) or risks(part) or part.assigned or part.redirects:
        return ()
    program = words[0]
    if program in _NOT_AT_LARGE or not re.fullmatch(r"[\w./+-]+", program):
        return ()
    named = [program]
    if program in _WITH_SUBCOMMANDS:
        more = 2 if words[1:2] == ["run"] else 1
        named += [word for word in words[1 : 1 + more] if _SUBCOMMAND.fullmatch(word)]
        if len(named) == 1 and len(words) > 1:
            return ()
    return (f"Bash({' '.join(named)}:*)",)


_DEEPEST = 8
_SAID = 5
"""How many reasons are said."""
_SAFE = re.compile(
    r"NODE_ENV|CI|TZ|LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|TERM|COLUMNS|LINES|RUST_LOG|"
    r"RUST_BACKTRACE|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|CGO_ENABLED|DEBIAN_FRONTEND|"
    r"CARGO_TERM_COLOR|PY_COLORS|PYTEST_ADDOPTS_COLOR|VERBOSE|LOG_LEVEL|PORT|HYPOTHESIS_SEED|SOURCE_DATE_EPOCH"
)
_LOCAL = re.compile(r"(?!.*(proxy|path|prompt))[a-z][a-z0-9_]*")
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_WITHIN = frozenset(
    {"cd", "echo", "pwd", "test", "[", "printf", "type", "true", "false", ":", "command", "wait", "jobs", "exec",
     "builtin", "time", "eval"}
)  # fmt: skip
"""Programs that are inside the shell: no file can take their place."""
_FILING = {"mkdir": "[pv]*", "touch": "[acm]*", "rmdir": "[pv]*", "cp": "[npv]*", "mv": "[nv]*", "rm": "[fv]*"}
"""What `acceptEdits` also allows, where an edit would be: with these options and no others."""


class Judged(NamedTuple):
    """What is said of one part."""

    text: str
    ruling: Ruling


def judge(hearing: Hearing, command: str) -> tuple[Ruling, list[Judged]]:
    """Return the ruling on a command, and what led to it part by part."""
    whole = taken_apart(command)
    pieces = _all_parts(whole)
    if barred := _barred(hearing, command, pieces):
        return barred, [Judged(command, barred)]
    judge_ = _Judge(hearing, pieces.parts)
    if hearing.mode == "plan":
        return judge_.planned(whole)
    if hearing.mode == "bypassPermissions":
        ruling = _bypassed(hearing, pieces)
        return ruling, [Judged(command, ruling)]
    rule = hearing.first("allow", SHELL, lambda rule: rule.inside is None or allows_text(rule, command))
    if rule is not None:
        ruling = by_rule("allow", rule, "it")
        return ruling, [Judged(command, ruling)]
    judged = [Judged(command, built_in("ask", f"it is not understood: {doubt}")) for doubt in whole.doubts]
    judged += [Judged(part.raw, judge_.part(part)) for part in whole.parts]
    if not judged:
        return built_in("allow", "it runs nothing"), []
    return _together(command, judged), judged


def _together(command: str, judged: list[Judged]) -> Ruling:
    """Return one ruling for all parts: the strictest, with what it would need."""
    strict = [one for one in judged if one.ruling.behaviour != "allow"]
    if not strict:
        first = judged[0].ruling
        return Ruling(behaviour="allow", why=_reasons(judged), rule=first.rule, source=first.source)
    worst = next((one for one in strict if one.ruling.behaviour == "deny"), strict[0]).ruling
    wanted = list(dict.fromkeys(rule for one in strict for rule in one.ruling.suggestions))
    is_enough = all(one.ruling.suggestions for one in strict) and len(wanted) < 6
    exact = f"Bash({command.strip()})"
    other = (exact,) if "*" not in exact and "\n" not in exact and len(exact) < 300 else ()
    given = (", ".join(wanted),) if is_enough else other
    why, rule, source = _reasons(strict), worst.rule, worst.source
    return Ruling(behaviour=worst.behaviour, why=why, rule=rule, source=source, suggestions=given)


def _reasons(judged: list[Judged]) -> str:
    """Return why, in a few words: the first reasons, and how many more there are."""
    found = list(dict.fromkeys(one.ruling.why for one in judged))
    more = f"; and {len(found) - _SAID} more" if len(found) > _SAID else ""
    return "; ".join(found[:_SAID]) + more


def _all_parts(command: Command, depth: int = 0) -> Command:
    """Return a command's parts and those inside them."""
    parts, doubts = list(command.parts), list(command.doubts)
    for part in command.parts:
        inner = inside(part)
        if inner.parts and depth < _DEEPEST:
            below = _all_parts(Command(inner.parts, inner.doubts), depth + 1)
            parts += below.parts
            doubts += below.doubts
        doubts += inner.doubts
        if part.words and not part.words[0].is_plain:
            doubts.append(f"what `{part.words[0].raw}` runs is not known")
    return Command(tuple(parts), tuple(dict.fromkeys(doubts)))


def _barred(hearing: Hearing, command: str, pieces: Command) -> Ruling | None:
    """Return what a rule that denies or asks says of any part, or of a file that one names."""
    for kind in ("deny", "ask"):
        rules = [rule for rule in getattr(hearing.book, kind) if rule.tool == SHELL]
        for rule in rules:
            what = next((part.raw for part in pieces.parts if _forbids(rule, part, bool(pieces.doubts))), None)
            if what is None and (rule.inside is None or rule.inside == command.strip() or forbids_text(rule, command)):
                what = command
            if what is not None:
                return by_rule("deny" if kind == "deny" else "ask", rule, f"`{what}`")
        if barred := barred_file(hearing, kind, pieces.parts):
            return barred
    return None


def _forbids(rule: Rule, part: Part, is_doubtful: bool, depth: int = 0) -> bool:
    words = tuple(word.text for word in part.words)
    everywhere = is_doubtful or is_carrier(part) or bool(risks(part))
    if any(forbids_words(rule, words[at:]) for at in range(len(words) if everywhere else min(1, len(words)))):
        return True
    if not everywhere or depth > 2:
        return False
    scripts = [*part.scripts, *(word for word in words if re.search(r"[\s;&|]", word))]
    found = [inner for script in scripts for inner in taken_apart(script).parts]
    return any(_forbids(rule, inner, True, depth + 1) for inner in found)


def _bypassed(hearing: Hearing, pieces: Command) -> Ruling:
    barring = [rule for rule in (*hearing.book.deny, *hearing.book.ask) if rule.tool == SHELL]
    if barring and pieces.doubts:
        return built_in("ask", f"there are rules that deny commands, and this is not understood: {pieces.doubts[0]}")
    return by_mode("allow", hearing.mode)


class _Judge:
    """How the parts of one command are judged."""

    def __init__(self, hearing: Hearing, parts: tuple[Part, ...]) -> None:
        self.hearing, self.reach = hearing, hearing.reach
        self.bases = bases_of(hearing, parts)

    def planned(self, whole: Command) -> tuple[Ruling, list[Judged]]:
        """Judge a command in plan mode: it may look."""
        judged = [Judged(part.raw, self.part(part, only_looks=True)) for part in whole.parts]
        judged += [Judged("", built_in("deny", f"it is not understood: {doubt}")) for doubt in whole.doubts]
        bad = [one for one in judged if one.ruling.behaviour != "allow"]
        if bad:
            why = f"in plan mode commands only look: {bad[0].ruling.why}"
            return Ruling(behaviour="deny", why=why, source="mode"), judged
        return built_in("allow", "it only looks"), judged

    def part(self, part: Part, *, only_looks: bool = False, depth: int = 0) -> Ruling:
        """Return the ruling on a part."""
        asks = [*self._assigned(part), *self._redirected(part)]
        if asks:
            return next((ruling for ruling in asks if ruling.behaviour == "deny"), asks[0])
        if not part.words:
            return built_in("allow", f"`{part.raw}` runs no program")
        if not part.words[0].is_plain:
            return built_in("ask", f"what `{part.words[0].raw}` runs is not known")
        inner = inside(part)
        if inner.doubts or depth > _DEEPEST:
            return built_in("ask", f"`{part.raw}` is not understood: {(*inner.doubts, 'it is nested too deeply')[0]}")
        below = [self.part(one, only_looks=only_looks, depth=depth + 1) for one in inner.parts]
        if strict := next((ruling for ruling in below if ruling.behaviour != "allow"), None):
            return strict
        if inner.is_wrapper:
            if self._is_shadowed(part):
                return self._shadow(part)
            return below[0] if below else built_in("allow", f"`{part.raw}` runs nothing")
        return self._alone(part, only_looks=only_looks)

    def _alone(self, part: Part, *, only_looks: bool) -> Ruling:
        """Judge what a part does itself."""
        looked = looks(part)
        ruling = self._looked(part, looked) if looked is not None else None
        if ruling is not None and (ruling.behaviour == "allow" or only_looks):
            return ruling
        if only_looks:
            return built_in("ask", f"`{part.raw}` may do more than look")
        rule = self.hearing.first("allow", SHELL, lambda rule: allows_part(rule, part))
        if rule is not None:
            return self._by_rule(rule, part)
        if (filed := self._filed(part)) is not None:
            return filed
        if ruling is not None:
            return ruling
        return built_in("ask", f"no rule allows `{part.raw}`{self._risk(part)}", suggested(part))

    def _risk(self, part: Part) -> str:
        """Say what in a part a wildcard does not cover."""
        words = " ".join(part.words[at].raw for at in risks(part)[:3])
        return f" (a wildcard does not cover `{words}`)" if words else ""

    def _assigned(self, part: Part) -> list[Ruling]:
        names = [name for name, _ in part.assigned]
        safe = _SAFE if part.words else re.compile(f"{_SAFE.pattern}|{_LOCAL.pattern}")
        return [built_in("ask", f"it sets `{name}`") for name in names if not safe.fullmatch(name)]

    def _redirected(self, part: Part) -> list[Ruling]:
        """Return what is not allowed of the files that a part is redirected to and from."""
        found = []
        for is_write, target in part.redirects:
            if target.is_plain and target.text in _NOWHERE:
                continue
            paths = self._paths(target)
            if paths is None:
                found.append(built_in("ask", f"where `{target.raw}` leads is not known"))
                continue
            judge_ = self.hearing.edit if is_write else self.hearing.read
            found += [judge_("Edit" if is_write else "Read", path) for path in paths]
        return [ruling for ruling in found if ruling.behaviour != "allow"]

    def _paths(self, word: Word) -> list[Path] | None:
        """Return where a word leads, from each folder that the command may be in."""
        if self.bases is None:
            return None
        found: list[Path] = []
        for base in self.bases:
            paths = self.reach.of_word(word, base)
            if paths is None:
                return None
            found += paths
        return found

    def _looked(self, part: Part, looked: Looked) -> Ruling:
        if self._is_shadowed(part):
            return self._shadow(part)
        if looked.is_git:
            if not self.hearing.trusted:
                return built_in("ask", "git does what the folder's settings say, and the folder is not trusted")
            if self.bases is None or not self.reach.repository_is_plain(self.bases):
                return built_in("ask", "which repository git finds is not known")
        if looked.is_deep and any(rule.tool == "Read" for rule in (*self.hearing.book.deny, *self.hearing.book.ask)):
            return built_in("ask", f"`{part.raw}` reads whatever is there, and there are rules about what may be read")
        for word in (*looked.files, *((looked.folder,) if looked.folder else ())):
            paths = self._paths(word)
            if paths is None:
                return built_in("ask", f"where `{word.raw}` leads is not known")
            strict = [ruling for path in paths if (ruling := self.hearing.read("Read", path)).behaviour != "allow"]
            if strict:
                return strict[0]
        return built_in("allow", f"`{part.raw}` only looks")

    def _by_rule(self, rule: Rule, part: Part) -> Ruling:
        """Say what a rule covers of a part: not what is guarded, and not what another folder puts in its place."""
        program = name(part)
        if program == "git" and (self.bases is None or not self.reach.repository_is_plain(self.bases)):
            return built_in("ask", "which repository git finds is not known")
        if any(self.reach.is_relative(part.program, base) for base in self.bases or [self.hearing.desk.cwd]):
            return self._shadow(part)
        for word in part.words[1:]:
            guarded = next((one for path in self._paths(word) or [] if (one := self.reach.guarded(path))), None)
            if guarded is not None and rule.inside is not None:
                return built_in("ask", f"`{word.raw}` leads to `{guarded}`, which is guarded")
        return by_rule("allow", rule, f"`{part.raw}`")

    def _filed(self, part: Part) -> Ruling | None:
        """Judge a command that moves files about, in `acceptEdits`: each place has to be one that may be edited."""
        options = _FILING.get(part.program)
        if self.hearing.mode != "acceptEdits" or options is None or not all(word.is_plain for word in part.words):
            return None
        words = [word for word in part.words[1:] if not word.text.startswith("-")]
        given = [word.text for word in part.words[1:] if word.text.startswith("-")]
        if not words or not all(re.fullmatch(f"-{options}", one) for one in given) or self._is_shadowed(part):
            return None
        paths = [path for word in words for path in self._paths(word) or [Path("/")]]
        if part.program in ("cp", "mv"):
            paths += [target / path.name for target in self._paths(words[-1]) or [] for path in paths]
        strict = [ruling for path in paths if (ruling := self.hearing.edit("Edit", path)).behaviour != "allow"]
        return strict[0] if strict else by_mode("allow", self.hearing.mode)

    def _is_shadowed(self, part: Part) -> bool:
        if part.program in _WITHIN or "/" in part.program:
            return False
        return any(self.reach.is_shadowed(part.program, base) for base in self.bases or [self.hearing.desk.cwd])

    def _shadow(self, part: Part) -> Ruling:
        return built_in("ask", f"`{part.program}` would not be the system's: another lies where it is looked for first")
