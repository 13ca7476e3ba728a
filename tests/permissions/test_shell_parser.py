"""Commands are taken apart as a real shell takes them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.client.permissions.test_policy import context, permissions
from tests.profiles import examples
from unspool.permissions.shell_decide import _flatten
from unspool.permissions.shell_parser import parse_command
from unspool.permissions.shell_wrappers import find_nested_commands

SHELLS = [shell for name in ("bash", "zsh", "dash") if (shell := shutil.which(name))]
PROGRAMS = ("p", "q", "r", "s")
EXAMPLES = int(os.environ.get("UNSPOOL_FAULTS", "0")) * 20 or 150
WORDS = """p q r s p q "q" 'r' \\s $'\\x71' q'' $"r" $(q) `r` "$(s)" "`q`" $( ) ( ` " ' \\ ; & && || | |& { } ! #
 < > >> >| 2>&1 &> <<E <<-E <<'E' E <<< <(q) >(r) ${x:-$(s)} $x ${x} x=1 x=q x=$(r) if then else fi for x in do done
 case esac ;; [[ ]] eval command exec time env 'q;r' "q;r"
 * ? [ ] ~ = : - -- 1 f $((1+1)) $[1] (( )) {q,r} $ coproc &;"""
TOKENS = (*WORDS.split(), "\n", "\t", "\\\n", "r\\\ns", "\nE\n", "E\n", "#\n")
heaps = st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(("", " ", " "))), max_size=12).map(
    lambda pieces: "".join(token + space for token, space in pieces)
)
"""Anything; most of it is no command."""

NAMES = (
    "p",
    "q",
    "'r'",
    '"s"',
    "\\q",
    "r''",
    "$'\\x73'",
    "q\\\n",
    "x=1 r",
    "command s",
    "eval q",
    "! p",
    "env q",
    "time r",
)
ARGUMENTS = (
    "1",
    "'q;r'",
    '"; s"',
    "\\;",
    "#",
    "a#b",
    "{a,b}",
    "$x",
    "${x}",
    "<&1",
    "2>&1",
    ">f",
    "<<<'r'",
    "\\\n",
    "'$(s)'",
    '"\\$(q)"',
    '"\\`q\\`"',
    "'\n'",
    '"\n"',
    "\\(",
    "=",
    "x=q",
    "}",
    "fi",
    "*",
    "~",
)
FRAMES = (
    "{0}; {1}",
    "{0}\n{1}",
    "{0} && {1}",
    "{0} || {1}",
    "{0} | {1}",
    "{0} & {1}",
    "({0}); {1}",
    "{{ {0}; }}; {1}",
    "if {0}; then {1}; fi",
    "for x in 1 2; do {0}; done; {1}",
    "p $({0}) {1}",
    'p "$({0})" 1; {1}',
    "p `{0}`; {1}",
    "p <({0}); {1}",
    "p > >({0}); {1}",
    "p <<E\n$({0})\nE\n{1}",
    "p <<'E'\n$({0})\nE\n{1}",
    "p <<-E\n\t{0}\n\tE\n{1}",
    "{0} # {1}",
    "{0} # '\n{1}",
    "p ${{x:-$({0})}}; {1}",
    "x=$({0}); {1}",
    "! {0}; {1}",
    "p \\\n {0}; {1}",
    "eval '{0}'; {1}",
    "p '{0}' {1}",
    'p "{0}" {1}',
    "p \\{0}; {1}",
    "p $(( 1 )) {0}; {1}",
    "{0} <<E\n{1}\nE\n",
    "p <<E; {0}\nq\nE\n{1}",
    'p "`{0}`"; {1}',
    "p $({0}\n{1})",
    "[ 1 ] && {0}; {1}",
    "p;{0}&{1}",
)
simple = st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(ARGUMENTS), max_size=3)).map(
    lambda words: " ".join((words[0], *words[1]))
)
sentences = st.recursive(
    simple,
    lambda inner: st.tuples(st.sampled_from(FRAMES), inner, inner).map(lambda one: one[0].format(one[1], one[2])),
    max_leaves=5,
)
"""Commands, with one find_nested_commands another in every way there is."""
texts = st.one_of(heaps, sentences, sentences)


def executed(command: str, place: Path, shell: str) -> set[str]:
    """Run a command in a real shell in which p, q, r and s only say that they ran."""
    log = place / "log"
    log.write_bytes(b"")
    functions = "".join(f"{name}() {{ printf '{name}\\n' >> '{log}'; }}\n" for name in PROGRAMS)
    run = subprocess.Popen(
        [shell, "-c", f"{functions}ulimit -f 64\n{command}"],
        cwd=place / "cwd",
        env={"PATH": "/nowhere"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return set(log.read_text().split())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shell")
    (folder / "cwd").mkdir()
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("world")
    (made / "project").mkdir()
    (made / "config").mkdir()
    return made


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts)
@example("p <<E\n$(q)\nE\nr")
@example("p \\\n# q\nr")
@example('p "$(q "$(r)")"')
@example("p `q \\`r\\``")
@example("for x in p; do q; done < <(r)")
@example("p <<E $(q <<F\nr\nF\n)\n$(s)\nE\n")
@example("p <<E; $(q\nr\nE\n)\nE\n")
@example("if p; then q; else r; fi | s")
@example("p;#'\nq #'")
@example("p $'a\\'b' ; q ' ; r")
@example("eval 'p;q' $(r)")
@example("p $'\\'; q #'")
@example("p &>f q")
def test_what_a_shell_runs_is_among_the_parts_or_doubted(place: Path, world: Path, shell: str, command: str) -> None:
    assume(not re.search(r"\((\s|\\\n)*\)", command))  # no function calls itself for ever
    taken = _flatten(parse_command(command))
    rules = permissions(world, "Bash(p:*)")
    ruling = rules.judge("Bash", {"command": command}, context(world))
    ran = executed(command, place, shell)
    if not taken.doubts:
        assert ran <= {part.program for part in taken.commands}
    if ruling.behaviour == "allow":
        assert ran <= {"p"}, ruling.why
    denying = permissions(world, denied=("Bash(q:*)",)).judge(
        "Bash", {"command": command}, context(world, "bypassPermissions")
    )
    assert "q" not in ran or denying.behaviour != "allow"


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=200))
def test_any_text_can_be_taken_apart(text: str) -> None:
    command = parse_command(text)
    assert all(isinstance(word.text, str) for part in command.commands for word in part.words)
    for part in command.commands:
        find_nested_commands(part)


@pytest.mark.parametrize(
    "text",
    ["${", "$(", "`", '"$(', "(", "aaaa", "<<E ", "1111", "x=", "$((", "'", "\\\n"],
)
def test_a_text_made_to_take_long_does_not(text: str) -> None:
    assert parse_command(text * 20_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la 'a b'", [["ls", "-la", "a b"]]),
        ("a;b&&c||d|e&f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ('a "b $(c) d"', [["c"], ["a", "b $(c) d"]]),
        ("a <<'X'\n$(b)\nX\nc", [["a"], ["c"]]),
        ("a <<X\n$(b)\nX\nc", [["a"], ["b"], ["c"]]),
        ("r''m \\rm \\\n rm", [["rm", "rm", "rm"]]),
        ("a=1 b c=2", [["b", "c=2"]]),
        ("if a; then b; fi", [["a"], ["b"]]),
        ("a # b; c\nd", [["a"], ["d"]]),
        ("a#b", [["a#b"]]),
    ],
)
def test_a_command_has_these_parts(text: str, words: list[list[str]]) -> None:
    command = parse_command(text)
    assert sorted([word.text for word in part.words] for part in command.commands) == sorted(words)
    assert command.doubts == ()
