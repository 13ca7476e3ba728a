"""What the permission judge allows does nothing but what it said, in bash, dash and zsh."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.permissions.differential.checks import judge_allowed, run_allowed
from tests.permissions.differential.fuzz import fuzz_batch
from tests.permissions.differential.mutants import INERT, is_possible, list_mutants, read_findings, search
from tests.permissions.differential.planted_project import plant_project
from tests.permissions.differential.recorder import Run, find_missing_tools, record_runs
from tests.permissions.differential.shell_driver import SHELLS
from unspool.permissions import shell_readonly

MISSING = find_missing_tools()
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
SAMPLE = 6
"""How many mutants a run searches for; other ones each day."""


def test_the_tools_are_here_where_nothing_may_be_skipped() -> None:
    assert os.environ.get("CI") != "true" or not MISSING


@needs_tools
@pytest.mark.parametrize("seed", [1000, 1003, 1007])
def test_what_is_allowed_does_what_the_judge_said(seed: int) -> None:
    tally = fuzz_batch(seed, 40)
    assert tally.violations == ()
    assert tally.allowed
    assert tally.runs == tally.allowed * len(SHELLS)


@needs_tools
def test_the_record_shows_what_a_command_does(tmp_path: Path) -> None:
    planted = plant_project(tmp_path.resolve())
    command = "cat src/linked; touch new; sh evil.sh; cd src && mkdir x; sleep 9 & exec 3<>/dev/udp/127.0.0.1/9"
    (record,) = record_runs([Run(command, "bash", planted)])
    found = {(event.kind, event.path.replace(str(planted.home), "~")) for event in record.events}
    assert {
        ("read", "~/guarded/secret.txt"), ("write", "~/project/new"), ("read", "~/project/evil.sh"),
        ("write", "~/project/pwned"), ("write", "~/project/src/x"), ("execute", "/usr/bin/cat"),
    } <= found  # fmt: skip
    assert any(event.kind == "connect" and "AF_INET" in event.detail for event in record.events)
    assert record.leaked
    assert record.left_process


@needs_tools
@pytest.mark.parametrize(
    "command",
    ["ls", "cat a src/*.py | head -1", "cd src && ls -la; git status", "git diff > /dev/null 2>&1", "echo ~ $HOME $?",
     "grep ^one a | grep @one", "find . -printf %p", "cat < a || true"],
)  # fmt: skip
def test_everyday_commands_are_allowed_and_do_nothing_else(tmp_path: Path, command: str) -> None:
    judged = judge_allowed(plant_project(tmp_path.resolve()), command)
    assert judged is not None
    assert run_allowed([judged]).violations == []


def test_every_mutant_was_found_or_has_a_reason() -> None:
    names = [mutant.name for mutant in list_mutants()]
    assert len({*names}) == len(names)
    assert list(read_findings()) == names
    programs = {*shell_readonly._PROGRAMS, *shell_readonly._SPECIAL_PROGRAMS, *shell_readonly._VERSION_OPTIONS}
    assert {name for name in programs if f"program {name}" not in names} - {"cd"} == programs & {*INERT}


def _choose_mutants() -> list[str]:
    names = [mutant.name for mutant in list_mutants() if is_possible(mutant)]
    if os.environ.get("UNSPOOL_MUTANTS") == "all":
        return names
    day = int(time.time() // 86400)
    return [names[(day * SAMPLE + number) % len(names)] for number in range(SAMPLE)]


@needs_tools
def test_the_fuzz_finds_judges_without_one_of_their_rules() -> None:
    """Search for a few mutants, others each day, each with the seed with which it was found."""
    chosen, findings = _choose_mutants(), read_findings()
    mutants = {mutant.name: mutant for mutant in list_mutants()}
    tried = [name for name in chosen if len(findings[name]) > 1]
    assert [name for name in tried if search(mutants[name], findings[name][0]) is None] == []
