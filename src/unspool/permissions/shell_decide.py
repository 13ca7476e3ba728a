"""Decide whether a shell command may run, by deciding on each simple command that it consists of. Pure.

Rules
  1. A command is allowed if every simple command in it is; it is denied if any is, also one that is nested, behind a
     wrapper, quoted, or written with its folder.
  2. A simple command is allowed if it only reads what may be read, or if a rule allows it and it does nothing that the
     rule does not name. A file that it is redirected to counts as edited, one that it is redirected from as read.
  3. What is not understood is asked about. If there are deny rules, also in `bypassPermissions`: it may be what they
     deny.
  4. Variables assigned before a command are allowed by name: many change what a program runs.
  5. What follows a `cd` is resolved from each folder that the command may be in then.
  6. A word that may be a file is tried in every way it may be written: after `=`, `:`, `@`, an option's letter, in
     braces. One without a slash is often no file (`npm run build`): it counts if there is such a file, or if the
     program is one that takes files.
"""

from __future__ import annotations

import posixpath
import re
from typing import Literal

import msgspec

from unspool.format.tools import EDIT_TOOLS
from unspool.permissions.call_check import CallCheck, PartDecision, RuleDecision, allow_by_mode, by_default, by_rule
from unspool.permissions.paths import MAGIC
from unspool.permissions.rules import SHELL_TOOL, PermissionRule, suggest_rules
from unspool.permissions.shell_parser import ParsedCommand, SimpleCommand, Word, parse_command
from unspool.permissions.shell_readonly import ReadOnlyCommand, match_read_only
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
     "builtin", "time", "eval"}
)  # fmt: skip
"""Programs that are inside the shell: no file on `PATH` can take their place."""
_FILE_COMMANDS = {"mkdir": "[pv]*", "touch": "[acm]*", "rmdir": "[pv]*", "cp": "[npv]*", "mv": "[nv]*", "rm": "[fv]*"}
"""What `acceptEdits` also allows, where an edit would be allowed: with these options and no others."""
_FOLDER_CHANGERS = frozenset({"pushd", "popd", "chdir"})
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
    # Deny and ask rules come first, in every mode.
    if forbidden := _check_forbidding(check, command, flat):
        return forbidden, [PartDecision(command, forbidden)]
    decider = _CommandDecider(check, flat.commands)
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
    return _combine(command, parts), parts


def _combine(command: str, parts: list[PartDecision]) -> RuleDecision:
    """Return one decision for all parts: the strictest, with the rules that would allow all of them."""
    strict = [part for part in parts if part.decision.behaviour != "allow"]
    if not strict:
        return msgspec.structs.replace(parts[0].decision, why=_join_reasons(parts))
    worst = next((part for part in strict if part.decision.behaviour == "deny"), strict[0]).decision
    needed = list(dict.fromkeys(rule for part in strict for rule in part.decision.suggestions))
    exact = f"Bash({command.strip()})"
    if all(part.decision.suggestions for part in strict) and len(needed) < 6:
        suggestions: tuple[str, ...] = (", ".join(needed),)
    else:
        suggestions = (exact,) if "*" not in exact and "\n" not in exact and len(exact) < 300 else ()
    return msgspec.structs.replace(worst, why=_join_reasons(strict), suggestions=suggestions)


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
    return ParsedCommand(tuple(commands), tuple(dict.fromkeys(doubts)))


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


def _decide_bypassed(check: CallCheck, flat: ParsedCommand) -> RuleDecision:
    has_rules = any(rule.tool == SHELL_TOOL for rule in (*check.rules.deny, *check.rules.ask))
    if has_rules and flat.doubts:
        return by_default("ask", f"there are rules that deny commands, and this is not understood: {flat.doubts[0]}")
    return allow_by_mode(check.mode)


class _CommandDecider:
    """Decides on the simple commands of one command, which share the folders that it may be in."""

    def __init__(self, check: CallCheck, commands: tuple[SimpleCommand, ...]) -> None:
        self.check, self.paths = check, check.paths
        self.folders = _find_working_folders(check, commands)
        """None: they are not known."""

    def decide_in_plan_mode(self, whole: ParsedCommand) -> tuple[RuleDecision, list[PartDecision]]:
        """Decide on a command in plan mode, where commands only read."""
        parts = [PartDecision(simple.raw, self.decide(simple, reads_only=True)) for simple in whole.commands]
        parts += [PartDecision("", by_default("deny", f"it is not understood: {doubt}")) for doubt in whole.doubts]
        refused = [part for part in parts if part.decision.behaviour != "allow"]
        if refused:
            why = f"in plan mode commands only look: {refused[0].decision.why}"
            return RuleDecision(behaviour="deny", why=why, source="mode"), parts
        return by_default("allow", "it only looks"), parts

    def decide(self, command: SimpleCommand, *, reads_only: bool = False, depth: int = 0) -> RuleDecision:
        """Return the decision about a simple command and all that it runs."""
        refused = [*self._check_assignments(command), *self._check_redirects(command)]
        if refused:
            return next((decision for decision in refused if decision.behaviour == "deny"), refused[0])
        if not command.words:
            return by_default("allow", f"`{command.raw}` runs no program")
        if not command.words[0].is_literal:
            return by_default("ask", f"what `{command.words[0].raw}` runs is not known")
        nested = find_nested_commands(command)
        if nested.doubts or depth > _MAX_DEPTH:
            doubt = (*nested.doubts, "it is nested too deeply")[0]
            return by_default("ask", f"`{command.raw}` is not understood: {doubt}")
        below = [self.decide(simple, reads_only=reads_only, depth=depth + 1) for simple in nested.commands]
        if strict := next((decision for decision in below if decision.behaviour != "allow"), None):
            return strict
        if nested.is_wrapper:
            if self._is_shadowed(command):
                return self._ask_about_shadowed(command)
            return below[0] if below else by_default("allow", f"`{command.raw}` runs nothing")
        return self._decide_alone(command, reads_only=reads_only)

    def _decide_alone(self, command: SimpleCommand, *, reads_only: bool) -> RuleDecision:
        """Decide on what a command does itself."""
        read = match_read_only(command)
        decision = self._decide_read_only(command, read) if read is not None else None
        if decision is not None and (decision.behaviour == "allow" or reads_only):
            return decision
        if reads_only:
            return by_default("ask", f"`{command.raw}` may do more than look")
        rule = self.check.first_rule("allow", SHELL_TOOL, lambda rule: rule.allows_command(command))
        if rule is not None:
            return self._decide_by_rule(rule, command)
        if (filed := self._decide_file_command(command)) is not None:
            return filed
        if decision is not None:
            return decision
        risky = " ".join(command.words[at].raw for at in find_risky_words(command)[:3])
        note = f" (a wildcard does not cover `{risky}`)" if risky else ""
        return by_default("ask", f"no rule allows `{command.raw}`{note}", suggest_rules(command))

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

    def _resolve(self, word: Word) -> list[str] | None:
        """Return the paths that a word names, from each folder that the command may be in; None if not known."""
        if self.folders is None:
            return None
        resolved = [self.paths.resolve_word(word, folder) for folder in self.folders]
        return None if None in resolved else [path for paths in resolved for path in paths or []]

    def _decide_read_only(self, command: SimpleCommand, read: ReadOnlyCommand) -> RuleDecision:
        rules = self.check.rules
        if self._is_shadowed(command):
            return self._ask_about_shadowed(command)
        if read.is_git:
            if not self.check.trusted:
                return by_default("ask", "git does what the folder's settings say, and the folder is not trusted")
            if not self._finds_ordinary_repository():
                return by_default("ask", "which repository git finds is not known")
        if read.is_recursive and any(rule.tool == "Read" for rule in (*rules.deny, *rules.ask)):
            why = f"`{command.raw}` reads whatever is there, and there are rules about what may be read"
            return by_default("ask", why)
        for word in (*read.files, *((read.folder,) if read.folder else ())):
            paths = self._resolve(word)
            if paths is None:
                return by_default("ask", f"where `{word.raw}` leads is not known")
            for path in paths:
                if (decision := self.check.decide_read("Read", path)).behaviour != "allow":
                    return decision
        return by_default("allow", f"`{command.raw}` only looks")

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
        if command.program in ("cp", "mv"):  # into a folder: the file gets its name there
            names = [posixpath.basename(path) for path in paths]
            paths += [
                posixpath.join(target, name) for target in self._resolve(files[-1]) or [] for name in names if name
            ]
        for path in paths:
            if (decision := self.check.decide_edit("Edit", path)).behaviour != "allow":
                return decision
        return allow_by_mode(self.check.mode)

    def _known_folders(self) -> list[str]:
        return self.folders or [self.paths.cwd]

    def _finds_ordinary_repository(self) -> bool:
        return self.folders is not None and self.paths.has_ordinary_repository(self.folders)

    def _is_shadowed(self, command: SimpleCommand) -> bool:
        if command.program in _SHELL_BUILTINS or "/" in command.program:
            return False
        return any(self.paths.is_shadowed(command.program, folder) for folder in self._known_folders())

    def _ask_about_shadowed(self, command: SimpleCommand) -> RuleDecision:
        why = f"`{command.program}` would not be the system's: another lies where it is looked for first"
        return by_default("ask", why)


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
    """Return the decision of a rule of a kind about a file that a command names."""
    rules = [rule for rule in getattr(check.rules, kind) if rule.specifier and rule.tool in ("Read", *EDIT_TOOLS)]
    if not rules:
        return None
    folders = _find_working_folders(check, commands) or [check.paths.cwd]
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
