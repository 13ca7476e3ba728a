"""Decide whether a shell command may run, by deciding on each simple command that it consists of. Pure.

Rules
  1. A command is allowed if every simple command in it is; it is denied if any is, also one that is nested, behind a
     wrapper, quoted, or written with its folder.
  2. Without a rule a command is allowed only if all of it is plain (`shell_plain.py`), and each simple command only
     reads what may be read (`shell_readonly.py`), or in `acceptEdits` moves files about that may be edited.
     So is what a rule allows together with such a command: it runs in the sandbox as a whole.
  3. By a rule a simple command is allowed if it does nothing that the rule does not name. A file that it is redirected
     to counts as edited, one that it is redirected from as read.
  4. A rule that denies matches all that a word may become: each file that a glob matches, each word that braces make.
     Where that is not known, it is denied if the rule would match whatever the word becomes, else asked about, also in
     `bypassPermissions`.
  5. Variables assigned before a command are allowed by name: many change what a program runs.
  6. What follows a `cd` is resolved from each folder that the command may be in then.
  7. A word that may be a file is tried in every way it may be written: after `=`, `:`, `@`, an option's letter, in
     braces. One without a slash is often no file (`npm run build`): it counts if there is such a file, or if the
     program is one that takes files.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from unspool.format.tools import EDIT_TOOLS
from unspool.permissions.call_check import (
    CallCheck,
    CommandAccess,
    PartDecision,
    RuleDecision,
    allow_by_mode,
    by_default,
    by_rule,
)
from unspool.permissions.paths import MAGIC
from unspool.permissions.rules import SHELL_TOOL, PermissionRule, suggest_rules
from unspool.permissions.shell_parser import (
    SHELL_KEYWORDS,
    ParsedCommand,
    SimpleCommand,
    Word,
    expand_braces,
    parse_command,
)
from unspool.permissions.shell_plain import parse_plain
from unspool.permissions.shell_readonly import match_read_only
from unspool.permissions.shell_wrappers import find_nested_commands, find_risky_words, may_take_command

_MAX_DEPTH = 8
_MAX_REASONS = 5
"""How many reasons a decision names."""
_HARMLESS_VARIABLE = re.compile(
    r"NODE_ENV|CI|TZ|LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|TERM|COLUMNS|LINES|RUST_LOG|"
    r"RUST_BACKTRACE|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|GOOS|GOARCH|CGO_ENABLED|DEBIAN_FRONTEND|"
    r"CARGO_TERM_COLOR|PY_COLORS|PYTEST_ADDOPTS_COLOR|VERBOSE|LOG_LEVEL|PORT|HYPOTHESIS_SEED|SOURCE_DATE_EPOCH"
)
_SHELL_VARIABLE = re.compile(r"(?!.*(proxy|path|prompt))[a-z][a-z0-9_]*")
_STANDARD_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_SHELL_BUILTINS = frozenset(
    {"cd", "echo", "pwd", "test", "[", "printf", "type", "true", "false", ":", "command", "wait", "jobs", "exec",
     "builtin", "eval"}
)  # fmt: skip
"""Programs that are inside bash, dash and zsh: no file on `PATH` can take their place, unless a wrapper runs them."""
_FILE_COMMANDS = {"mkdir": "[pv]*", "touch": "[acm]*", "rmdir": "[pv]*", "cp": "[npv]*", "mv": "[nv]*", "rm": "[fv]*"}
"""What `acceptEdits` also allows, where an edit would be allowed: with these options and no others."""
_FOLDER_CHANGERS = frozenset({"pushd", "popd", "chdir"})
_PLAIN_WRAPPERS = frozenset({"timeout", "nice", "time"})
"""Wrappers behind which a command that only reads needs no rule."""
_SHELL_CHANGERS = frozenset(
    {"export", "declare", "typeset", "local", "readonly", "integer", "float", "set", "unset", "shopt", "setopt",
     "unsetopt", "emulate", "read", "mapfile", "readarray", "getopts", "let", "eval", "source", ".", "alias", "unalias",
     "hash", "rehash", "enable", "disable", "trap", "builtin", "exec", "autoload", "functions", "zmodload", "umask"}
)  # fmt: skip
"""Builtins after which a name may be another program, or a word another text."""
_FILE_TAKERS = frozenset(
    {"awk", "base64", "cat", "cd", "chmod", "chown", "cmp", "cp", "cut", "dd", "diff", "du", "echo", "egrep",
     "fgrep", "file", "find", "grep", "head", "hexdump", "install", "jq", "less", "ln", "ls", "md5sum", "mkdir",
     "more", "mv", "nano", "nl", "od", "paste", "printf", "rg", "rm", "rmdir", "rsync", "scp", "sed", "sha256sum",
     "shred", "sort", "source", "split", "stat", "strings", "tac", "tail", "tar", "tee", "touch", "tree",
     "truncate", "uniq", "unlink", "vi", "vim", "wc", "xxd", "zip"}
)  # fmt: skip
"""Programs whose words are files."""


def decide_command(check: CallCheck, command: str) -> tuple[RuleDecision, list[PartDecision]]:
    """Return the decision about a command, and the decisions about its parts that led to it."""
    whole = parse_command(command)
    flat = _flatten(whole)
    # Deny and ask rules come first, in every mode. A shell joins lines before it does anything else.
    joined = [_flatten(parse_command(command.replace("\\\n", "")))] if "\\\n" in command else []
    for variant in (flat, *joined):
        if forbidden := _check_forbidding(check, command, variant):
            return forbidden, [PartDecision(command, forbidden)]
    plain = parse_plain(command, check.paths.home)
    decider = _CommandDecider(check, flat.commands, plain.problem)
    if plain.problem is None:
        whole = ParsedCommand(plain.commands)
    if check.mode == "plan":
        return decider.decide_in_plan_mode(whole)
    if check.mode == "bypassPermissions":
        decision = _decide_bypassed(check, flat)
        return decision, [PartDecision(command, decision)]
    rule = check.first_rule("allow", SHELL_TOOL, lambda rule: rule.allows_text(command))
    if rule is not None:
        decision = by_rule("allow", rule, "it")
        return decision, [PartDecision(command, decision)]
    parts = [PartDecision(command, by_default("ask", f"it is not understood: {doubt}")) for doubt in whole.doubts]
    parts += [PartDecision(simple.raw, decider.decide(simple)) for simple in whole.commands]
    if not parts:
        return by_default("allow", "it runs nothing"), []
    decision = _combine(command, parts)
    if decision.behaviour != "allow":
        return decision, parts
    has_rule = any(part.decision.rule is not None for part in parts)
    if not has_rule and decider.problem is not None:  # whatever was decided about its parts (rule 2)
        return by_default("ask", f"it is not plain, and no rule is about it: {decider.problem}"), parts
    outside = decider.find_written_outside(whole.commands)
    if not has_rule and outside is None:
        writes = check.mode == "acceptEdits" or decider.writes_files(whole.commands)
        return msgspec.structs.replace(decision, sandbox="edit" if writes else "read"), parts
    unruled = decider.find_unruled(whole.commands, parts)
    if not unruled:
        return decision, parts
    if outside is None:
        # What a rule allows may need to write. It may need even more, but the rest of the command would have that, too.
        return msgspec.structs.replace(decision, sandbox="edit"), parts
    program = _without_keywords(unruled[0])
    why = f"it writes `{outside}`, which the sandbox does not allow, and no rule allows `{program}`"
    return by_default("ask", why, _suggest_exact(command)), parts


def _join_access(parts: list[PartDecision]) -> CommandAccess:
    """Return what all parts of a command do."""
    return functools.reduce(
        CommandAccess.join, (part.decision.access for part in parts if part.decision.access), CommandAccess()
    )


def _add_access(decision: RuleDecision, access: CommandAccess) -> RuleDecision:
    """Return a decision with more that the command does."""
    return msgspec.structs.replace(decision, access=access.join(decision.access or CommandAccess()))


def _combine(command: str, parts: list[PartDecision]) -> RuleDecision:
    """Return one decision for all parts: the strictest, with the rules that would allow all of them."""
    strict = [part for part in parts if part.decision.behaviour != "allow"]
    if not strict:
        # What a rule allows may do anything.
        access = _join_access(parts) if all(part.decision.rule is None for part in parts) else None
        return msgspec.structs.replace(parts[0].decision, why=_join_reasons(parts), access=access)
    worst = next((part for part in strict if part.decision.behaviour == "deny"), strict[0]).decision
    needed = list(dict.fromkeys(rule for part in strict for rule in part.decision.suggestions))
    suggestions: tuple[str, ...] = ()
    if all(part.decision.suggestions for part in strict) and len(needed) < 6:
        suggestions = (", ".join(needed),)
    suggestions += _suggest_exact(command)
    return msgspec.structs.replace(worst, why=_join_reasons(strict), suggestions=suggestions)


def _suggest_exact(command: str) -> tuple[str, ...]:
    """Return the rule that allows exactly this command, if a rule can say it."""
    exact = f"Bash({command.strip()})"
    return (exact,) if "*" not in exact and "\n" not in exact and len(exact) < 300 else ()


def _join_reasons(parts: list[PartDecision]) -> str:
    """Return the first reasons, and how many more there are."""
    reasons = list(dict.fromkeys(part.decision.why for part in parts))
    more = f"; and {len(reasons) - _MAX_REASONS} more" if len(reasons) > _MAX_REASONS else ""
    return "; ".join(reasons[:_MAX_REASONS]) + more


def _flatten(command: ParsedCommand, depth: int = 0) -> ParsedCommand:
    """Return a command's simple commands together with those that they run."""
    commands, doubts = list(command.commands), list(command.doubts)
    for simple in command.commands:
        nested = find_nested_commands(simple)
        if nested.commands and depth < _MAX_DEPTH:
            below = _flatten(ParsedCommand(nested.commands, nested.doubts), depth + 1)
            commands += below.commands
            doubts += below.doubts
        doubts += nested.doubts
        if simple.words and not simple.words[0].is_literal:
            doubts.append(f"what `{simple.words[0].raw}` runs is not known")
        if not nested.is_wrapper and may_take_command(simple):
            # `find . $x` may be `find . -exec rm {} +`.
            doubts += [f"what `{word.raw}` becomes is not known" for word in simple.words if _may_be_several(word)]
    return ParsedCommand(tuple(commands), tuple(dict.fromkeys(doubts)))


def _may_be_several(word: Word) -> bool:
    """Return whether a word may become several."""
    return word.has_braces or (word.has_expansion and not word.raw.startswith('"'))


def _check_forbidding(check: CallCheck, command: str, flat: ParsedCommand) -> RuleDecision | None:
    """Return the decision of a rule that denies or asks about any part, or about a file that one names."""
    kinds: tuple[Literal["deny", "ask"], ...] = ("deny", "ask")
    for kind in kinds:
        for rule in getattr(check.rules, kind):
            if rule.tool != SHELL_TOOL:
                continue
            what = next((simple.raw for simple in flat.commands if _forbids(rule, simple, bool(flat.doubts))), None)
            if what is not None or rule.forbids_text(command):
                return by_rule(kind, rule, f"`{command if what is None else what}`")
            unsure = next((simple.raw for simple in flat.commands if _may_forbid(rule, simple)), None)
            if unsure is not None:
                return by_rule(kind, rule, f"what `{unsure}` may become")
        if forbidden := _check_forbidden_files(check, kind, flat.commands):
            return forbidden
    return None


def _forbids(rule: PermissionRule, command: SimpleCommand, has_doubts: bool, depth: int = 0) -> bool:
    words = tuple(word.text for word in command.words)
    # Where a word may be a command of its own, the rule is tried at each word, not at the first alone.
    everywhere = has_doubts or may_take_command(command) or bool(find_risky_words(command))
    if any(rule.forbids_words(words[at:]) for at in range(len(words) if everywhere else min(1, len(words)))):
        return True
    if not everywhere or depth > 2:
        return False
    scripts = [*command.stdin_texts, *(word for word in words if re.search(r"[\s;&|]", word))]
    nested = [simple for script in scripts for simple in parse_command(script).commands]
    return any(_forbids(rule, simple, True, depth + 1) for simple in nested)


def _may_forbid(rule: PermissionRule, command: SimpleCommand) -> bool:
    """Return whether a rule forbids what the words of a command may become, at the first or as a command in it."""
    starts = len(command.words) if may_take_command(command) else 1
    return any(rule.may_forbid_words(command.words[at:]) for at in range(starts))


def _decide_bypassed(check: CallCheck, flat: ParsedCommand) -> RuleDecision:
    has_rules = any(rule.tool == SHELL_TOOL for rule in (*check.rules.deny, *check.rules.ask))
    if has_rules and flat.doubts:
        return by_default("ask", f"there are rules that deny commands, and this is not understood: {flat.doubts[0]}")
    return allow_by_mode(check.mode)


class _CommandDecider:
    """Decides on the simple commands of one command, which share the folders that it may be in."""

    def __init__(self, check: CallCheck, commands: tuple[SimpleCommand, ...], problem: str | None) -> None:
        self.check, self.paths = check, check.paths
        changer = next((command.raw for command in commands if command.program_name in _SHELL_CHANGERS), None)
        self.problem = problem or (f"`{changer}` changes the shell" if changer is not None else None)
        """Why nothing in the command is allowed without a rule; None if it may be."""
        self.folders = _find_working_folders(check, commands)
        """None: they are not known."""

    def decide_in_plan_mode(self, whole: ParsedCommand) -> tuple[RuleDecision, list[PartDecision]]:
        """Decide on a command in plan mode, where commands only read."""
        parts = [PartDecision(simple.raw, self.decide(simple, reads_only=True)) for simple in whole.commands]
        if self.problem is not None:
            parts.insert(0, PartDecision("", by_default("deny", f"it is not plain enough: {self.problem}")))
        refused = [part for part in parts if part.decision.behaviour != "allow"]
        if refused:
            why = f"in plan mode commands only look: {refused[0].decision.why}"
            return RuleDecision(behaviour="deny", why=why, source="mode"), parts
        looks = by_default("allow", "it only looks")
        return msgspec.structs.replace(looks, sandbox="read", access=_join_access(parts)), parts

    def decide(
        self, command: SimpleCommand, *, reads_only: bool = False, behind_shell: bool = False, depth: int = 0
    ) -> RuleDecision:
        """Return the decision about a simple command and all that it runs."""
        refused = [*self._check_assignments(command), *self._check_redirects(command)]
        if refused:
            return next((decision for decision in refused if decision.behaviour == "deny"), refused[0])
        decision = self._decide_words(command, reads_only=reads_only, behind_shell=behind_shell, depth=depth)
        return _add_access(decision, self._redirect_access(command)) if command.redirects else decision

    def _decide_words(
        self, command: SimpleCommand, *, reads_only: bool, behind_shell: bool, depth: int
    ) -> RuleDecision:
        """Decide on a command without its redirections."""
        if not command.words:
            return by_default("allow", f"`{command.raw}` runs no program")
        if not command.words[0].is_literal:
            return by_default("ask", f"what `{command.words[0].raw}` runs is not known")
        nested = find_nested_commands(command)
        if nested.doubts or depth > _MAX_DEPTH:
            doubt = (*nested.doubts, "it is nested too deeply")[0]
            return by_default("ask", f"`{command.raw}` is not understood: {doubt}")
        behind = behind_shell or command.program not in _PLAIN_WRAPPERS
        below = [
            self.decide(simple, reads_only=reads_only, behind_shell=behind, depth=depth + 1)
            for simple in nested.commands
        ]
        if strict := next((decision for decision in below if decision.behaviour != "allow"), None):
            return strict
        if nested.is_wrapper:
            # A wrapper runs the file on `PATH` where the shell would run its builtin.
            unruled = [simple for simple, each in zip(nested.commands, below, strict=True) if each.rule is None]
            shadowed = next((simple for simple in unruled if self._is_on_path_of_workspace(simple)), None)
            if shadowed is not None or self._is_shadowed(command):
                return self._ask_about_shadowed(shadowed or command)
            without_rule = [decision for decision in below if decision.rule is None]
            inner = (*without_rule, *below, by_default("allow", f"`{command.raw}` runs nothing"))[0]
            return _add_access(inner, CommandAccess(programs=(command.program,)))
        return self._decide_alone(command, reads_only=reads_only, behind_shell=behind_shell)

    def _decide_alone(self, command: SimpleCommand, *, reads_only: bool, behind_shell: bool) -> RuleDecision:
        """Decide on what a command does itself."""
        problem = self.problem or ("a shell or a wrapper runs it" if behind_shell else None)
        decision = self._decide_read_only(command) if problem is None else None
        if decision is not None and decision.behaviour == "allow" and self.check.rules_only:
            decision = None
        if decision is not None and (decision.behaviour == "allow" or reads_only):
            return decision
        if reads_only:
            return by_default("ask", f"`{command.raw}` may do more than look")
        rule = self.check.first_rule("allow", SHELL_TOOL, lambda rule: rule.allows_command(command))
        if rule is not None:
            return self._decide_by_rule(rule, command)
        if problem is None and not self.check.rules_only and (filed := self._decide_file_command(command)) is not None:
            return filed
        if _only_prints_text(command) and not self.check.rules_only:
            return by_default("allow", f"`{command.program}` only prints the text that it is given")
        if decision is not None:
            return decision
        risky = " ".join(command.words[at].raw for at in find_risky_words(command)[:3])
        note = f" (a wildcard does not cover `{risky}`)" if risky else ""
        if problem is not None and not note and self._decide_read_only(command) is not None:
            note = f" (it would need none if the whole command were plain: {problem})"
        return by_default("ask", f"no rule allows `{_without_keywords(command)}`{note}", suggest_rules(command))

    def find_unruled(self, commands: Iterable[SimpleCommand], parts: list[PartDecision]) -> list[SimpleCommand]:
        """Return the commands that are allowed, but by no rule, and that could do harm if they were misunderstood."""
        free = [
            command
            for command, part in zip(commands, parts, strict=True)
            if part.decision.rule is None and not _only_moves_about(command)
        ]
        check = self.check
        by_rules = CallCheck(check.rules, self.paths, mode=check.mode, trusted=check.trusted, rules_only=True)
        decider = _CommandDecider(by_rules, tuple(commands), self.problem)
        return [command for command in free if decider.decide(command).rule is None]

    def writes_files(self, commands: Iterable[SimpleCommand]) -> bool:
        """Return whether commands are redirected to files."""
        return bool(self._find_written(commands))

    def find_written_outside(self, commands: Iterable[SimpleCommand]) -> str | None:
        """Return a file outside of the folders worked in that a command is redirected to, by a rule about files."""
        return next((path for path in self._find_written(commands) if not self.paths.is_inside(path)), None)

    def _find_written(self, commands: Iterable[SimpleCommand]) -> list[str]:
        written = [target for command in commands for is_write, target in command.redirects if is_write]
        return [path for word in written for path in self._resolve(word) or [] if path not in _STANDARD_DEVICES]

    def _check_assignments(self, command: SimpleCommand) -> list[RuleDecision]:
        # Without a program, an assignment sets a variable of this shell only; exported ones rarely have such names.
        patterns = (_HARMLESS_VARIABLE,) if command.words else (_HARMLESS_VARIABLE, _SHELL_VARIABLE)
        names = [name for name, _ in command.assignments if not any(pattern.fullmatch(name) for pattern in patterns)]
        return [by_default("ask", f"it sets `{name}`") for name in names]

    def _check_redirects(self, command: SimpleCommand) -> list[RuleDecision]:
        """Return the decisions that do not allow a file that a command is redirected to or from."""
        decisions = []
        for is_write, target in command.redirects:
            if target.is_literal and target.text in _STANDARD_DEVICES:
                continue
            paths = self._resolve(target)
            if paths is None:
                decisions.append(by_default("ask", f"where `{target.raw}` leads is not known"))
            elif is_write:
                decisions += [self.check.decide_edit("Edit", path) for path in paths]
            else:
                decisions += [self.check.decide_read("Read", path) for path in paths]
        return [decision for decision in decisions if decision.behaviour != "allow"]

    def _redirect_access(self, command: SimpleCommand) -> CommandAccess:
        """Return what the redirections of a command read and write."""
        reads = [path for is_write, target in command.redirects if not is_write for path in self._resolve(target) or ()]
        writes = [path for is_write, target in command.redirects if is_write for path in self._resolve(target) or ()]
        return CommandAccess(reads=tuple(reads), writes=tuple(writes))

    def _resolve(self, word: Word) -> list[str] | None:
        """Return the paths that a word names, from each folder that the command may be in; None if not known."""
        if self.folders is None:
            return None
        resolved = [self.paths.resolve_word(word, folder) for folder in self.folders]
        return None if None in resolved else [path for paths in resolved for path in paths or []]

    def _decide_read_only(self, command: SimpleCommand) -> RuleDecision | None:
        """Decide on a command as one that only reads; None if it may do anything else."""
        if self.folders is None:
            return None
        decisions = [self._decide_reading_in(folder, command) for folder in self.folders]
        allowed = [each for each in decisions if each is not None and each.behaviour == "allow"]
        if len(allowed) < len(decisions):
            return next(each for each in decisions if each is None or each.behaviour != "allow")
        access = [each.access for each in allowed if each.access is not None]
        return functools.reduce(_add_access, access[1:], allowed[0])

    def _decide_reading_in(self, folder: str, command: SimpleCommand) -> RuleDecision | None:
        """Decide on a command that only reads, if it runs in a folder."""
        expanded = self._expand_globs(command, folder)
        if expanded is None:
            why = f"what the globs in `{command.raw}` match is not known"
            return by_default("ask", why, suggest_rules(command))
        read = match_read_only(expanded)
        if read is None:
            return None
        if self._is_shadowed(command):
            return self._ask_about_shadowed(command)
        if read.is_git:
            if not self.check.trusted:
                why = "git does what the folder's settings say, and the folder is not trusted"
                return by_default("ask", why, suggest_rules(command))
            if not self._finds_ordinary_repository():
                return by_default("ask", "which repository git finds is not known")
        rules = self.check.rules
        if read.is_recursive and any(rule.tool == "Read" for rule in (*rules.deny, *rules.ask)):
            why = f"`{command.raw}` reads whatever is there, and there are rules about what may be read"
            return by_default("ask", why, suggest_rules(command))
        listed = [path for word in command.words if word.has_glob for path in self._listed_folders(word, folder)]
        for path in listed:  # `echo ../*` prints the names that are there
            if (decision := self.check.decide_read("Read", path)).behaviour != "allow":
                return decision
        found: list[str] = []
        for word in (*read.files, *((read.folder,) if read.folder else ())):
            paths = self.paths.resolve_word(word, folder)
            if paths is None:
                return by_default("ask", f"where `{word.raw}` leads is not known", suggest_rules(command))
            if read.follows_links and any(map(self.paths.is_folder, paths)):
                why = f"what links in `{word.raw}` lead to is not known"
                return by_default("ask", why, suggest_rules(command))
            for path in paths:
                if (decision := self.check.decide_read("Read", path)).behaviour != "allow":
                    return decision
            found += paths
        reads = tuple(found) or (folder,)
        # git reads what it compares, wherever in the repository that is.
        trees = self.paths.folders if read.is_git else reads if read.is_recursive else ()
        access = CommandAccess(programs=(command.program,), reads=(*reads, *listed), trees=trees)
        return _add_access(by_default("allow", f"`{command.raw}` only looks"), access)

    def _listed_folders(self, word: Word, folder: str) -> list[str]:
        """Return the folders that a shell lists to expand a glob, resolved."""
        parts = (self.paths.make_absolute(word.text, folder) or "/").split("/")
        starts = ["/".join(parts[:at]) or "/" for at, part in enumerate(parts) if MAGIC.search(part)]
        places = [place for start in starts for place in self.paths.expand_glob(start) or ()]
        resolved = [self.paths.resolve(place) or "/" for place in dict.fromkeys(places)]
        return [path for path in resolved if self.paths.is_folder(path)]

    def _expand_globs(self, command: SimpleCommand, folder: str) -> SimpleCommand | None:
        """Replace globs by what they match in a folder; None if that is too much to know."""
        words: list[Word] = []
        for word in command.words:
            if not word.has_glob:
                words.append(word)
                continue
            pattern = self.paths.make_absolute(word.text, folder)
            matches = self.paths.expand_glob(pattern) if pattern is not None else None
            if pattern is None or matches is None:
                return None
            # As the shell writes them: what the pattern has before its first wildcard stays as it is. A glob that
            # matches nothing stays, too.
            start = len(pattern) - len(word.text) if not word.text.startswith(("/", "~")) else 0
            names = [match[start:] for match in sorted(matches)] or [word.text]
            words += [Word(name, name) for name in names]
        return command._replace(words=tuple(words))

    def _decide_by_rule(self, rule: PermissionRule, command: SimpleCommand) -> RuleDecision:
        """Allow a command by a rule, except for protected files and programs that the workspace may have replaced."""
        if command.program_name == "git" and not self._finds_ordinary_repository():
            return by_default("ask", "which repository git finds is not known")
        if any(self.paths.is_found_by_relative_entry(command.program, folder) for folder in self._known_folders()):
            return self._ask_about_shadowed(command)
        for word in command.words[1:]:
            parts = (self.paths.protected_part(path) for path in self._resolve(word) or [])
            protected = next((part for part in parts if part), None)
            if protected is not None and rule.specifier is not None:
                return by_default("ask", f"`{word.raw}` leads to `{protected}`, which is guarded")
        return by_rule("allow", rule, f"`{command.raw}`")

    def _decide_file_command(self, command: SimpleCommand) -> RuleDecision | None:
        """Decide on a command that moves files about, in `acceptEdits`: an edit of each of them must be allowed."""
        pattern = _FILE_COMMANDS.get(command.program)
        is_literal = all(word.is_literal for word in command.words)
        if self.check.mode != "acceptEdits" or pattern is None or not is_literal:
            return None
        files = [word for word in command.words[1:] if not word.text.startswith("-")]
        options = [word.text for word in command.words[1:] if word.text.startswith("-")]
        if not files or not all(re.fullmatch(f"-{pattern}", option) for option in options):
            return None
        if self._is_shadowed(command):
            return None
        # A word that cannot be resolved counts as the root of the disk, where no edit is allowed.
        paths = [path for word in files for path in self._resolve(word) or ["/"]]
        if command.program in ("cp", "mv"):  # into a folder: the file gets its name there, which may be a link
            names = {posixpath.basename(word.text.rstrip("/")) for word in files[:-1]}
            targets = self._resolve(files[-1]) or []
            inner = [self.paths.resolve(posixpath.join(target, name)) for target in targets for name in names]
            paths += ["/" if path is None else path for path in inner]
        for path in paths:
            if (decision := self.check.decide_edit("Edit", path)).behaviour != "allow":
                return decision
        access = CommandAccess(programs=(command.program,), reads=tuple(paths), writes=tuple(paths))
        return _add_access(allow_by_mode(self.check.mode), access)

    def _known_folders(self) -> list[str]:
        return self.folders or [self.paths.cwd]

    def _finds_ordinary_repository(self) -> bool:
        return self.folders is not None and self.paths.has_ordinary_repository(self.folders)

    def _is_shadowed(self, command: SimpleCommand) -> bool:
        return command.program not in _SHELL_BUILTINS and self._is_on_path_of_workspace(command)

    def _is_on_path_of_workspace(self, command: SimpleCommand) -> bool:
        if "/" in command.program:
            return False
        return any(self.paths.is_shadowed(command.program, folder) for folder in self._known_folders())

    def _ask_about_shadowed(self, command: SimpleCommand) -> RuleDecision:
        why = f"`{command.program}` would not be the system's: another lies where it is looked for first"
        return by_default("ask", why)


def _only_moves_about(command: SimpleCommand) -> bool:
    """Return whether a command runs no program and opens no file, so that it needs no sandbox: `cd src && npm test`."""
    is_plain = all(word.is_literal for word in command.words) and not command.redirects
    return not command.words or (command.program in ("cd", "pwd", "true", "false", ":") and is_plain)


def _only_prints_text(command: SimpleCommand) -> bool:
    """Return whether a command is `cat` with a here-document: the usual way to write a text of several lines."""
    return command.program == "cat" and len(command.words) == 1 and len(command.stdin_texts) == 1


def _find_working_folders(check: CallCheck, commands: tuple[SimpleCommand, ...]) -> list[str] | None:
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


def _check_forbidden_files(
    check: CallCheck, kind: Literal["ask", "deny"], commands: tuple[SimpleCommand, ...]
) -> RuleDecision | None:
    """Return the decision of a rule of a kind about a file that a command names, or may name."""
    rules = [rule for rule in getattr(check.rules, kind) if rule.specifier and rule.tool in ("Read", *EDIT_TOOLS)]
    if not rules:
        return None
    folders = _find_working_folders(check, commands) or [check.paths.cwd]
    # A shell may have been told that `*` takes in files whose names begin with a dot.
    hidden = any(command.program_name in _SHELL_CHANGERS for command in commands)
    unknown = None
    for command in commands:
        for word, is_file in _file_words(command):
            paths, is_known = _paths_in_word(check, word, folders, hidden=hidden)
            if not is_known and is_file and _opens_files(command, word):
                unknown = unknown or word
            for path in paths:
                rule = next((rule for rule in rules if check.matches_path(rule, path)), None)
                if rule is not None and (is_file or check.paths.is_file(path)):
                    return by_rule(kind, rule, f"`{word.raw}`")
    if unknown is not None:
        return by_default(
            "ask", f"which file `{unknown.raw}` is is not known, and the rule `{rules[0].text}` {kind}s some"
        )
    return None


def _file_words(command: SimpleCommand) -> list[tuple[Word, bool]]:
    """Return the words that may be files, each with whether it surely is one."""
    takes_files = command.program_name in _FILE_TAKERS
    words = [(word, takes_files or re.search(r"/|^\.", word.text) is not None) for word in command.words[1:]]
    others = [target for _, target in command.redirects] + [value for _, value in command.assignments]
    return words + [(word, True) for word in others]


def _opens_files(command: SimpleCommand, word: Word) -> bool:
    """Return whether a command opens a word as a file, whatever it becomes."""
    is_target = any(word is target for _, target in command.redirects)
    return is_target or (command.program_name in _FILE_TAKERS and command.program_name not in ("echo", "printf"))


def _ignores_links(check: CallCheck, folder: Word, base: str, targets: list[str]) -> bool:
    """Return whether `..` means the same to a shell, which goes by names, as to the system, which follows links."""
    by_names = posixpath.normpath(posixpath.join(base, folder.text))
    return ".." not in folder.text or check.paths.resolve(by_names) in targets


def _paths_in_word(check: CallCheck, word: Word, folders: list[str], *, hidden: bool) -> tuple[list[str], bool]:
    """Return the paths that a word may name: whole, or after `=`, `:`, `@`, `-x`; and whether these are all."""
    whole = expand_braces(word) if word.has_braces else [word.text]
    is_known = whole is not None and not word.has_expansion and not (word.has_tilde and _has_odd_tilde(word))
    texts = whole or [word.text]
    pieces = {*texts, *(text[match.end() :] for text in texts for match in re.finditer(r"[=:@,]|^-\w", text))}
    paths: list[str] = []
    for folder in folders:
        for piece in pieces:
            written = check.paths.make_absolute(piece, folder)
            if written is None:
                continue
            matches = check.paths.expand_glob(written, hidden=hidden) if word.has_glob else []
            is_known = is_known and matches is not None
            found = (check.paths.resolve(piece, folder), *map(check.paths.follow_links, matches or ()))
            paths += [written, *(matches or ()), *(path for path in found if path is not None)]
    return paths, is_known


def _has_odd_tilde(word: Word) -> bool:
    """Return whether a tilde may be another folder than the home folder."""
    return re.search(r"(?:^|[=:])~(?!/|$)", word.text) is not None


def _without_keywords(command: SimpleCommand) -> str:
    """Return a command as it is written, without words of the shell before it: `rm x` of `then rm x`."""
    shown = command.raw
    while (parts := shown.split(maxsplit=1)) and len(parts) == 2 and parts[0] in SHELL_KEYWORDS:
        shown = parts[1]
    return shown
