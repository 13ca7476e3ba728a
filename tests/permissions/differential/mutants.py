"""Mutants of the judge: each takes one rule away, and the fuzz, directed at that rule, has to find a violation.

Rules
  1. A mutant replaces data or a function of the judge at a named place, for as long as commands are judged.
  2. Only commands that the mutant allows and the judge does not are run; the first violation ends the search.
  3. `FOUND` is the list of all mutants with the seed, the number of commands generated, and what was found. A mutant
     that is not found is a rule that nothing needs, or a shape that the generator lacks.
  4. `INERT` are rules that make no difference on a system with GNU programs, each with the reason why it stays.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from tests.permissions.differential.checks import Judged, Violation, can_be_given, judge_allowed, run_allowed
from tests.permissions.differential.generator import EDITORS, CommandGenerator, Focus
from tests.permissions.differential.planted_project import SYSTEM_PATH, PlantedProject, plant_project
from unspool.permissions import CallCheck, shell_decide, shell_plain, shell_readonly
from unspool.permissions.shell_parser import Word
from unspool.permissions.shell_readonly import ReadOnlyCommand

Patch: TypeAlias = tuple[Any, str, Any]
FOUND = Path(__file__).with_name("mutants.jsonl")
MAX_COMMANDS = 3_000
_BATCH = 8
_NEVER = re.compile(r"(?!)")
_ANYTHING = re.compile(r"[\s\S]*")


class Mutant(NamedTuple):
    """A judge without one of its rules."""

    name: str
    patches: tuple[Patch, ...]
    focus: Focus
    needs: str = ""
    """A program without which it cannot be found."""
    mode: str = "default"
    home: str = "home"
    trusted: bool = True


class Finding(NamedTuple):
    """The violation that gave a mutant away."""

    generated: int
    """How many commands had been generated."""
    violation: Violation


INERT = MappingProxyType(
    dict.fromkeys(
        ("sleep", "basename", "dirname", "seq", "pwd", "uname", "id", "whoami", "arch", "tty", "logname", "locale",
         "uptime", "groups", "nproc", "tr", "free", "true", "false", ":", "expr"),
        "no word makes the GNU program open, write or run a file; elsewhere some do (`arch` of macOS runs programs)",
    )
    | {
        "command": "a command behind it is judged as one behind a wrapper",
        "cat-file": "what `--textconv` runs is in git's settings, and those of a trusted folder are trusted",
        "keywords": "no keyword is a program of the tables; the rule sends the command to the parser of keywords",
        "first word": "no such word is a program of the tables; the rule is for the parser of assignments",
        "redirection target": "each file that a pattern matches has to be allowed anyway",
    }
)  # fmt: skip
"""Rules that no violation shows, by what they are about."""


@contextlib.contextmanager
def apply(mutant: Mutant) -> Iterator[None]:
    """Take the rule of a mutant away."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in mutant.patches]
    try:
        for owner, name, value in mutant.patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def is_possible(mutant: Mutant) -> bool:
    """Return whether the program is here that a mutant is about."""
    return not mutant.needs or shutil.which(mutant.needs, path=SYSTEM_PATH) is not None


def search(mutant: Mutant, seed: int, limit: int = MAX_COMMANDS) -> Finding | None:
    """Return the first violation that a mutant allows; None if there is none in so many commands."""
    with tempfile.TemporaryDirectory(prefix="judge-mutant-") as folder:
        place = Path(folder).resolve()
        planted = _plant(mutant, place / "0")
        generator = CommandGenerator(seed, mutant.focus, wild=0.6)
        waiting: list[Judged] = []
        seen: set[str] = set()
        for count in range(1, limit + 1):
            command = generator.make_command()
            if command in seen:
                continue
            seen.add(command)
            if (judged := _judge_mutated(mutant, planted, command)) is not None:
                waiting.append(judged)
            if len(waiting) == _BATCH or (waiting and count % 100 == 0):
                if violation := _run_waiting(mutant, waiting, place / str(count)):
                    return Finding(count, violation)
                waiting.clear()
    return None


def write_findings(findings: Mapping[str, tuple[int, Finding]]) -> None:
    """Write the list of mutants: what was found now, and for those that could not be tried what stands there."""
    known = read_findings()
    lines = []
    for mutant in list_mutants():
        if mutant.name in findings:
            seed, (count, violation) = findings[mutant.name]
            what = re.sub(r"/\S*/judge-mutant-[^/]+/[^/]+(?:/[^/]+-(?:bash|dash|zsh))?/", "", violation.what)
            what = re.sub(r" by /\S*/", " by ", what)
            lines.append([mutant.name, seed, count, violation.shell, violation.command, what])
        else:
            lines.append([mutant.name, *known.get(mutant.name, ["not tried"])])
    FOUND.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_findings() -> dict[str, list[Any]]:
    """Return the committed list: by name the seed, the count, the shell, the command and what it did."""
    if not FOUND.exists():
        return {}
    return {name: rest for name, *rest in map(json.loads, FOUND.read_text().splitlines())}


def _plant(mutant: Mutant, place: Path) -> PlantedProject:
    place.mkdir()
    return plant_project(place, trusted=mutant.trusted, home=mutant.home, repository=mutant.mode == "default")


def _judge_mutated(mutant: Mutant, planted: PlantedProject, command: str) -> Judged | None:
    """Return what a command may do if only the mutant allows it."""
    with apply(mutant):
        judged = judge_allowed(planted, command, mutant.mode)
    return judged if judged is not None and judge_allowed(planted, command, mutant.mode) is None else None


def _run_waiting(mutant: Mutant, waiting: list[Judged], place: Path) -> Violation | None:
    if unfit := [each for each in waiting if not can_be_given(each.command)]:
        return run_allowed(unfit).violations[0]
    if mutant.mode == "default":
        return next(iter(run_allowed(waiting).violations), None)
    place.mkdir()
    for number, each in enumerate(waiting):  # they change the project: each gets one of its own
        for shell in ("bash", "dash", "zsh"):
            planted = _plant(mutant, place / f"{number}-{shell}")
            judged = _judge_mutated(mutant, planted, each.command)
            outcome = run_allowed([judged], (shell,)) if judged is not None else None
            if outcome is not None and outcome.violations:
                return outcome.violations[0]
    return None


def _allow_anything(words: object) -> ReadOnlyCommand:
    return ReadOnlyCommand()


def _open_program(name: str) -> Mutant:
    """Return a mutant that takes any words of a program for harmless, and none for files."""
    special = MappingProxyType({**shell_readonly._SPECIAL_PROGRAMS, name: _allow_anything})
    focus = Focus(programs=(name,))
    return Mutant(f"program {name}", ((shell_readonly, "_SPECIAL_PROGRAMS", special),), focus, needs=_needed(name))


def _needed(name: str) -> str:
    return "" if name in ("[", "test", "printf", "type", "cd") else name


def _open_options(name: str) -> Mutant:
    """Return a mutant that takes an option that is not in a program's table for one without a value."""
    table = shell_readonly._PROGRAMS[name]

    def wrap(parse: Callable[..., Any]) -> Callable[..., Any]:
        def parse_any(options: object, word: Word, rest: list[Word]) -> Any:
            found = parse(options, word, rest)
            return [("?", None)] if found is None and options is table else found

        return parse_any

    patches = tuple(
        (shell_readonly, each, wrap(getattr(shell_readonly, each))) for each in ("_parse_long", "_parse_letters")
    )
    return Mutant(f"options {name}", patches, Focus(programs=(name,)), needs=name)


def _change_table(name: str, what: str, **fields: Any) -> Mutant:
    table = shell_readonly._PROGRAMS[name]._replace(**fields)
    patched = MappingProxyType({**shell_readonly._PROGRAMS, name: table})
    return Mutant(
        f"{name}: {what}", ((shell_readonly, "_PROGRAMS", patched),), Focus(programs=(name,)), needs=_needed(name)
    )


def _replace_data(
    name: str, attribute: str, value: Any, *programs: str, needs: str = "", owner: Any = shell_readonly
) -> Mutant:
    return Mutant(name, ((owner, attribute, value),), Focus(programs=programs), needs=needs)


def _change_grammar(
    name: str, attribute: str, value: Any, *shapes: str, programs: tuple[str, ...] = ("cat", "head", "wc")
) -> Mutant:
    return Mutant(f"grammar: {name}", ((shell_plain, attribute, value),), Focus(programs=programs, shapes=shapes))


def _change_piece(
    name: str, old: str, new: str, *shapes: str, programs: tuple[str, ...] = ("cat", "head", "wc")
) -> Mutant:
    pattern = shell_plain._PIECE.pattern
    assert old in pattern, f"the grammar of words has no `{old}`"
    return _change_grammar(
        name, "_PIECE", re.compile(pattern.replace(old, new), re.VERBOSE), *shapes, programs=programs
    )


def _change_pattern(name: str, attribute: str, old: str, new: str, *shapes: str) -> Mutant:
    pattern = getattr(shell_plain, attribute).pattern
    assert old in pattern, f"`{attribute}` has no `{old}`"
    return _change_grammar(name, attribute, re.compile(pattern.replace(old, new)), *shapes)


def _check_words_of_something(parser: Any, words: list[Word]) -> None:
    if words:
        _CHECK_WORDS(parser, words)


_CHECK_WORDS = shell_plain._PlainParser._check_words


def _check_no_tilde(parser: Any, letters: str, *, is_first: bool, is_plain: bool) -> None:
    if is_first and letters[0] == "=":
        raise shell_plain._NotPlainError("`=`")
    if shell_plain._TILDE_BEHIND_SIGN.search(letters):
        raise shell_plain._NotPlainError("`~`")


def _check_no_equals(parser: Any, letters: str, *, is_first: bool, is_plain: bool) -> None:
    if not (is_first and letters[0] == "="):
        _CHECK_LETTERS(parser, letters, is_first=is_first, is_plain=is_plain)


def _check_without_quotes(parser: Any, letters: str, *, is_first: bool, is_plain: bool) -> None:
    _CHECK_LETTERS(parser, letters, is_first=is_plain, is_plain=is_plain)


_CHECK_LETTERS = shell_plain._PlainParser._check_letters


def _in_parser(name: str, attribute: str, value: Any, *shapes: str) -> Mutant:
    focus = Focus(programs=("cat", "head", "wc"), shapes=shapes)
    return Mutant(f"grammar: {name}", ((shell_plain._PlainParser, attribute, value),), focus)


def _list_grammar_mutants() -> Iterator[Mutant]:
    """Return a mutant for each rule of the grammar of plain commands."""
    letters = "[A-Za-z0-9_./,:%+=^~@-]+"
    yield _change_grammar("control characters", "UNSEEN_CHARACTERS", _NEVER, "character", programs=("echo", "true"))
    yield _change_pattern("background", "_SEPARATOR", r"|\n", r"|\n|&", "background")
    yield _change_pattern("`<1-9>`", "_REDIRECT", "|[0-9]*-[0-9]*>", "", "redirection")
    forced = _change_pattern("`>!`", "_REDIRECT", "!|", "", "redirection")
    yield forced._replace(mode="acceptEdits", focus=Focus(programs=EDITORS, shapes=("redirection",)))
    yield _change_pattern("end of `>&1`", "_DUPLICATE", r"(?=[ \t\n;|&]|$)", "", "redirection")
    yield _change_grammar("descriptors", "_DESCRIPTOR", _NEVER, "digit", programs=("paste", "nl"))
    yield _change_grammar("end of a word", "_AFTER_WORD", re.compile(""), "sign")
    yield _change_pattern("`!`, `[` and `]` alone", "_LONE_WORD", r"(?=[ \t\n;|&]|$)", "", "bracket")
    for characters, shape in (("{}", "brace"), (r"\[\]", "bracket"), ("$", "variable"), ("`", "variable"), ("()",
        "parenthesis"),
                              ("&", "background"), ("\\\\", "join")):  # fmt: skip
        yield _change_piece(f"no `{characters}` in a word", letters, f"[A-Za-z0-9_./,:%+=^~@{characters}-]+", shape)
    yield _change_piece("no `$` in quotes", r'[^"\\$`]|', r'[^"\\`]|', "variable")
    yield _change_piece("no backtick in quotes", r'[^"\\$`]|', r'[^"\\$]|', "variable")
    yield _change_piece("no joined lines in quotes", r"\\[^\n]|", r"\\[\s\S]|", "join")
    yield _change_piece("no joined lines", r"\\(?P<escaped>[", r"\\(?P<escaped>[\n", "join")
    yield _change_piece(
        "end of a variable's name", r"(?![A-Za-z0-9_:\[])", r"(?![:\[])", "variable", programs=("grep",)
    )
    yield _change_piece(
        "operations on a variable", r"(?![A-Za-z0-9_:\[])", "(?![A-Za-z0-9_])", "variable", "path", programs=("echo",)
    )
    yield _change_grammar("wildcards and quotes", "_QUOTING", frozenset[str](), "glob")
    yield _change_grammar("`**`", "_DEEP_GLOB", _NEVER, "glob")
    split = _change_grammar("home folder with an unusual name", "_PLAIN_FOLDER", _ANYTHING, "home", programs=("grep",))
    yield split._replace(home="ho -flink1")
    yield _change_grammar("`~` behind a sign", "_TILDE_BEHIND_SIGN", _NEVER, "tilde")
    yield _in_parser("`~+` and `~name`", "_check_letters", _check_no_tilde, "tilde")
    yield _in_parser("`=` at the beginning", "_check_letters", _check_no_equals, "begin")
    yield _in_parser("`=` behind empty quotes", "_check_letters", _check_without_quotes, "begin")
    yield _in_parser("a program in each command", "_check_words", _check_words_of_something, "null")


def _list_table_mutants() -> Iterator[Mutant]:
    """Return a mutant for each program, and for the other rules of the tables."""
    programs = (*shell_readonly._PROGRAMS, *shell_readonly._SPECIAL_PROGRAMS, *shell_readonly._VERSION_OPTIONS)
    yield from (_open_program(name) for name in dict.fromkeys(programs) if name not in INERT and name != "cd")
    with_options = (
        "sort",
        "grep",
        "rg",
        "tree",
        "date",
        "wc",
        "du",
        "file",
        "md5sum",
        "shasum",
        "cksum",
        "diff",
        "jq",
        "hexdump",
    )
    yield from (_open_options(name) for name in with_options)
    yield _change_table("uniq", "one file", most=1000)
    yield _change_table("cd", "one folder", most=2)
    yield _change_table("date", "files in options", file_options="")
    yield _change_table("realpath", "files in options", file_options="")
    yield _change_table("tree", "values in words of their own", joins_values=True)
    yield from (_change_table(name, "one pattern", leading=2) for name in ("grep", "rg", "jq"))
    yield _replace_data("a pattern in an option", "has", lambda *_: False, "grep", owner=shell_readonly._Arguments)
    yield _replace_data("files of options", "_RESPONSE_FILE", "\0", "strings", needs="strings")
    yield _replace_data("`$?` in a word", "_is_unknown", lambda _: False)._replace(focus=Focus(shapes=("exit",)))
    yield _replace_data(
        "programs of the system", "_system_program", lambda command: command.program.rpartition("/")[2], "1/ls", "1/cat"
    )
    yield _replace_data("find: tests", "_FIND_TESTS", _AnyTest(shell_readonly._FIND_TESTS), "find")
    yield _replace_data("find: files in tests", "_FIND_FILES", frozenset[str](), "find")
    yield _replace_data("sed: steps", "_SED_STEP", _ANYTHING, "sed")
    yield _replace_data("printf: formats", "_PRINTF_FORMAT", _ANYTHING, "printf")._replace(
        focus=Focus(programs=("printf",), shapes=("path",))
    )
    yield _replace_data("numbers", "_NUMBER", _ANYTHING, "printf", "test", "[")._replace(
        focus=Focus(programs=("printf", "test", "["), shapes=("path",))
    )
    yield _replace_data("test: conditions", "_TEST_UNARY", shell_readonly._TEST_UNARY | {"-v", "-R"}, "test", "[")
    yield _replace_data("jq: environment", "_JQ_REACHES_OUT", _NEVER, "jq", needs="jq")
    yield _replace_data(
        "ps: environment", "_PS_WORDS", shell_readonly._PS_WORDS | {"e", "auxe", "axe", "auxwwe"}, "ps", needs="ps"
    )
    reading = MappingProxyType(dict.fromkeys(shell_readonly._GIT_READING, ".*"))
    yield _replace_data("git: options", "_GIT_READING", reading, "git")
    for name in shell_readonly._GIT_LISTING:
        listing = MappingProxyType({**shell_readonly._GIT_LISTING, name: ".*"})
        yield _replace_data(f"git: words of {name}", "_GIT_LISTING", listing, "git")


def _list_decision_mutants() -> Iterator[Mutant]:
    """Return mutants of what the decision adds to the tables."""

    start = CallCheck.__init__

    def start_trusted(check: CallCheck, *arguments: Any, **options: Any) -> None:
        start(check, *arguments, **{**options, "trusted": True})

    yield Mutant(
        "git in a folder that is not trusted",
        ((CallCheck, "__init__", start_trusted),),
        Focus(("git",)),
        trusted=False,
    )
    decider = shell_decide._CommandDecider
    yield Mutant(
        "programs of the project",
        ((decider, "_is_on_path_of_workspace", lambda *_: False),),
        Focus(("timeout", "nice", "time")),
    )
    yield Mutant(
        "folders that a pattern lists",
        ((decider, "_listed_folders", lambda *_: []),),
        Focus(("echo", "expr"), ("glob",)),
    )


class _AnyTest(dict[str, int]):
    """Tests of `find` in which every name is one without a value."""

    def get(self, name: str, default: object = None) -> int:
        return super().get(name, 0)


def list_mutants() -> list[Mutant]:
    """Return all mutants."""
    return [*_list_grammar_mutants(), *_list_table_mutants(), *_list_decision_mutants()]
