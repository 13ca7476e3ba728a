"""The same tool call elsewhere: with the same tool and input, in all sessions and agents, in bounded work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.search.test_failure_log import IDS, access
from tests.store.search.test_search import Searched
from unspool.store.search import find_same_calls
from unspool.testing.build import Built, assistant, raw, session, tool_result, tool_use, user

STATUS = {"command": "git status --short", "description": "What changed"}


@pytest.fixture
def searched(tmp_path: Path) -> Iterator[Searched]:
    made = Searched(tmp_path / "config", tmp_path / "own")
    yield made
    made.database.close()


def calls(number: int, *inputs: Any, tool: str = "Bash") -> Built:
    steps = [user("Look"), assistant("Yes."), user("Again")]
    for count, input in enumerate(inputs):
        id = f"c{number}-{count}"
        steps += [assistant(tool_use(tool, id=id, **input)), tool_result("done", id=id)]
    return session(*steps, id=IDS[number], cwd=f"/p/{number}", start=f"2026-01-0{number + 1}T08:00:00Z")


def test_calls_of_other_sessions_and_agents_are_found_by_tool_and_input_the_newest_first(searched: Searched) -> None:
    other = {**STATUS, "command": "git status --long"}
    calls(0, STATUS, other).save(searched.root)
    calls(1, other, STATUS, STATUS).save(searched.root)
    calls(2, STATUS, tool="Monitor").save(searched.root)
    path = calls(3, other).save(searched.root)
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    lines = session(
        user("Look"), assistant(tool_use("Bash", id="in", **STATUS)), id=IDS[3], start="2026-01-09T08:00:00Z"
    )
    agent.write_bytes(lines.data.replace(b'"isSidechain":false', b'"isSidechain":true'))
    searched.sync()
    found = find_same_calls(access(searched), "Bash", STATUS)
    assert [(call.session, call.agent, call.turn) for call in found.calls][1:] == [
        (IDS[1], None, 2), (IDS[1], None, 2), (IDS[0], None, 2),
    ]  # fmt: skip
    assert (found.calls[0].session, found.calls[0].agent) == (IDS[3], "a1")
    assert found.is_complete
    assert [call.session for call in find_same_calls(access(searched), "Monitor", STATUS).calls] == [IDS[2]]
    assert find_same_calls(access(searched), "Bash", {**STATUS, "timeout": 5}).calls == []


def test_a_call_that_a_fork_repeats_is_one_in_the_session_that_made_it(searched: Searched) -> None:
    made = calls(0, STATUS)
    made.save(searched.root)
    session(*(raw(bytes(line.raw)) for line in made.entries), id=IDS[1]).save(searched.root)
    searched.sync()
    assert [call.session for call in find_same_calls(access(searched), "Bash", STATUS).calls] == [IDS[0]]


def test_a_deleted_session_is_found_in_the_archive(searched: Searched) -> None:
    path = calls(0, STATUS).save(searched.root)
    searched.sync()
    path.unlink()
    searched.sync()
    assert [call.session for call in find_same_calls(access(searched), "Bash", STATUS).calls] == [IDS[0]]


def test_so_many_lines_are_read_and_what_is_left_is_said(searched: Searched) -> None:
    alike = [{"command": f"git{' ' * count}status"} for count in range(1, 601)]
    calls(0, *alike).save(searched.root)
    searched.sync()
    newest, oldest = (find_same_calls(access(searched), "Bash", alike[at]) for at in (-1, 0))
    assert (len(newest.calls), newest.is_complete) == (1, False)
    assert (len(oldest.calls), oldest.is_complete) == (0, False)


@pytest.mark.parametrize(
    "input",
    [{}, {"command": "!!! ---"}, {"command": '" OR "x'}, {"a": [[[1]]]}, "words", None, 7, {"command": "\ud800 x"}],
)
def test_no_input_is_too_strange(searched: Searched, input: Any) -> None:
    calls(0, STATUS, *([input] if isinstance(input, dict) else [])).save(searched.root)
    searched.sync()
    found = find_same_calls(access(searched), "Bash", input)
    assert len(found.calls) <= 1
    assert find_same_calls(access(searched, store=False), "Bash", STATUS).calls == []
