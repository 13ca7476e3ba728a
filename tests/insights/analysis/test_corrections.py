"""What is worth writing into `CLAUDE.md`: a command that never succeeds, and the one that does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.insights.analysis import ShellRun, suggest_commands


def ran(command: str, *, failed: bool = False, turn: int = 1, source: int = 1) -> ShellRun:
    return ShellRun((source, None), turn, "shop", command, failed, 1000, 10, {"time": turn})


def test_the_command_that_succeeds_is_suggested() -> None:
    runs = [run for turn in (1, 2) for run in (ran("npm test", failed=True, turn=turn), ran("npm run test", turn=turn))]
    (one,) = suggest_commands(runs)
    assert one.text == "Run `npm run test`, not `npm test`."
    assert one.saved == {"failed_calls": 2, "milliseconds": 2000, "cost_micros": 20}


def test_a_command_that_fails_now_and_then_is_no_mistake() -> None:
    pairs = [run for turn in (1, 2) for run in (ran("pytest", failed=True, turn=turn), ran("pytest -x", turn=turn))]
    assert len(suggest_commands(pairs)) == 1
    assert suggest_commands([*pairs, ran("pytest", turn=3)]) == []


def test_another_turn_file_or_program_says_nothing() -> None:
    apart = [ran("npm test", failed=True, turn=1), ran("npm run test", turn=2)]
    assert suggest_commands(apart * 2) == []
    elsewhere = [ran("npm test", failed=True, source=1), ran("npm run test", source=2)]
    assert suggest_commands(elsewhere * 2) == []
    different = [ran("npm test", failed=True), ran("ls src")]
    assert suggest_commands(different * 2) == []


@given(st.lists(st.tuples(st.sampled_from(["a b", "a c", "b", ""]), st.booleans(), st.integers(1, 3)), max_size=30))
def test_a_suggestion_has_its_evidence(steps: list[tuple[str, bool, int]]) -> None:
    runs = [ran(command, failed=failed, turn=turn) for command, failed, turn in steps]
    for one in suggest_commands(runs):
        failed = [run for run in runs if run.failed and f"not `{run.command}`." in one.text]
        assert len(failed) == one.saved["failed_calls"] >= 2
        assert not any(run.command == failed[0].command for run in runs if not run.failed)
        assert one.evidence >= 2 * 2
