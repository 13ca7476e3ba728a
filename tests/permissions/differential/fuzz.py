"""The differential fuzz: generate commands, judge them, run those that are allowed, and collect violations.

Rules
  1. Most commands are judged in `default` mode in a trusted folder; some in one that is not trusted, whose git settings
     run a program; some with `acceptEdits`, each in a project of its own, because they change it.
  2. After each batch the project is compared with what was planted: what the record should have missed shows there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.permissions.differential.checks import Judged, Violation, judge_allowed, run_allowed
from tests.permissions.differential.generator import EDITORS, CommandGenerator, Focus
from tests.permissions.differential.planted_project import plant_project, take_snapshot
from tests.permissions.differential.shell_driver import SHELLS

BATCH = 200
EDIT_BATCH = 10


class Tally(NamedTuple):
    """What a part of the fuzz did."""

    judged: int = 0
    allowed: int = 0
    """Commands that were allowed; each is different from the others of its batch."""
    runs: int = 0
    stopped: int = 0
    violations: tuple[Violation, ...] = ()

    def add(self, other: Tally) -> Tally:
        """Return both together."""
        return Tally(
            self.judged + other.judged,
            self.allowed + other.allowed,
            self.runs + other.runs,
            self.stopped + other.stopped,
            (*self.violations, *other.violations),
        )


def fuzz_batch(seed: int, size: int = BATCH) -> Tally:
    """Run one batch; the seed also says of which kind it is: of twenty, two are untrusted and two make edits."""
    match seed % 20:
        case 7 | 17:
            return _fuzz_edits(seed, max(1, size // 20))
        case 3 | 13:
            return _fuzz_reading(seed, size, trusted=False)
        case _:
            return _fuzz_reading(seed, size, trusted=True)


def _fuzz_reading(seed: int, size: int, *, trusted: bool) -> Tally:
    with tempfile.TemporaryDirectory(prefix="judge-fuzz-") as folder:
        planted = plant_project(Path(folder).resolve(), trusted=trusted)
        before = take_snapshot(planted)
        allowed: dict[str, Judged] = {}
        judged = 0
        for command in _generate(CommandGenerator(seed)):
            judged += 1
            if command not in allowed and (found := judge_allowed(planted, command)) is not None:
                allowed[command] = found
            if len(allowed) == size:
                break
        outcome = run_allowed(list(allowed.values()))
        violations = outcome.violations
        if not violations and take_snapshot(planted) != before:
            violations = [Violation(f"seed {seed}", "any", "the project was changed, and the record does not show how")]
        return Tally(judged, len(allowed), outcome.runs, outcome.stopped, tuple(violations))


def _fuzz_edits(seed: int, size: int) -> Tally:
    """Run commands that may change the project."""
    with tempfile.TemporaryDirectory(prefix="judge-fuzz-") as folder:
        place = Path(folder).resolve()
        template = plant_project(place / "template", repository=False)
        tally = Tally()
        generator = _generate(CommandGenerator(seed, Focus(programs=EDITORS), wild=0.5))
        while tally.allowed < size:
            command = next(generator)
            tally = tally._replace(judged=tally.judged + 1)
            if judge_allowed(template, command, "acceptEdits") is not None:
                tally = tally.add(run_edit(command, place / str(tally.judged)))
        return tally


def run_edit(command: str, place: Path) -> Tally:
    """Run a command that may change the project: in each shell in a project of its own."""
    tally = Tally(allowed=1)
    for shell in SHELLS:
        planted = plant_project(place / shell, repository=False)
        judged = judge_allowed(planted, command, "acceptEdits")
        if judged is not None:
            outcome = run_allowed([judged], (shell,))
            tally = tally.add(Tally(0, 0, outcome.runs, outcome.stopped, tuple(outcome.violations)))
    return tally


def _generate(generator: CommandGenerator) -> Iterator[str]:
    """Return commands that end soon."""
    return (command for command in generator.generate() if len(command) < 2000)
