"""Finds commands that failed again and again, and the one that succeeded after them.

Rules
  1. Only a command counts that never succeeded: one that fails now and then, such as a test, is no mistake.
  2. What succeeded after it is the next command of the same turn and file that did not fail, is another one, and has at
     least half of the failed command's words: options and `cd` do not count.
  3. It is suggested if the same command succeeded after it at least twice.
  4. It would have saved the failed runs: their time, and their share of the cost of the responses that made them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from unspool.insights.analysis.suggestion import Line, Suggestion, newest_lines

MIN_CORRECTIONS: Final = 2
_LOOKED_AT: Final = 10
"""Commands after a failed one among which the one that succeeded is searched."""
_WORD: Final = re.compile(r"[\w./:@+-]+")
_NO_WORDS: Final = frozenset({"cd", "sudo", "env", "time"})


class ShellRun(NamedTuple):
    """A command that ran."""

    thread: tuple[int, str | None]
    """The file and the agent that it ran in."""
    turn: int | None
    project: str
    command: str
    failed: bool
    milliseconds: int
    cost_micros: int
    line: Line

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ShellRun:
        """Return the run that a row of the section `shell_runs` has."""
        return cls(
            (row["source_id"], row["agent_id"]),
            row["turn"],
            row["project"] or "",
            row["command"] or "",
            bool(row["error"]),
            row["duration_ms"] or 0,
            row["cost_micros"] or 0,
            row["line"],
        )


class _Correction(NamedTuple):
    failed: ShellRun
    succeeded: ShellRun


def suggest_commands(runs: Sequence[ShellRun]) -> list[Suggestion]:
    """Return the lines that are worth writing into `CLAUDE.md`; runs come in the order of their files."""
    works = {(run.project, run.command) for run in runs if not run.failed}
    found: dict[tuple[str, str], dict[str, list[_Correction]]] = {}
    failures: dict[tuple[str, str], list[ShellRun]] = {}
    for number, run in enumerate(runs):
        key = run.project, run.command
        if run.failed and key not in works and run.command:
            failures.setdefault(key, []).append(run)
            after = _find_success(run, runs[number + 1 : number + 1 + _LOOKED_AT])
            if after is not None:
                found.setdefault(key, {}).setdefault(after.command, []).append(_Correction(run, after))
    suggestions = []
    for (project, command), corrections in found.items():
        better, pairs = max(corrections.items(), key=lambda item: (len(item[1]), item[0]))
        if len(pairs) >= MIN_CORRECTIONS:
            suggestions.append(_make_suggestion(project, command, better, failures[project, command], pairs))
    return suggestions


def _find_success(failed: ShellRun, following: Iterable[ShellRun]) -> ShellRun | None:
    words = _words(failed.command)
    for run in following:
        if run.thread != failed.thread or run.turn != failed.turn:
            return None
        if not run.failed and run.command != failed.command and 2 * len(words & _words(run.command)) >= len(words) > 0:
            return run
    return None


def _words(command: str) -> frozenset[str]:
    words = (word for word in _WORD.findall(command) if not word.startswith("-"))
    return frozenset(words) - _NO_WORDS


def _make_suggestion(
    project: str, command: str, better: str, failures: Sequence[ShellRun], pairs: Sequence[_Correction]
) -> Suggestion:
    lines = [line for pair in pairs for line in (pair.failed.line, pair.succeeded.line)]
    times = f"{len(failures)} times"
    return Suggestion(
        kind="claude_md",
        action=f"Write into `CLAUDE.md`: the command failed {times} and never succeeded; the other one did after it.",
        text=f"Run `{_one_line(better)}`, not `{_one_line(command)}`.",
        project=project,
        saved={
            "failed_calls": len(failures),
            "milliseconds": sum(run.milliseconds for run in failures),
            "cost_micros": sum(run.cost_micros for run in failures),
        },
        computed="the time of the failed runs, and their share of the cost of the responses that made them",
        lines=newest_lines([*(run.line for run in failures), *lines[1::2]]),
        evidence=len(failures) + len(pairs),
    )


def _one_line(command: str) -> str:
    return " ".join(command.split())[:300]
