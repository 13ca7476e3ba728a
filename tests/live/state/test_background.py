"""Commands that run in the background: a session with one is not plainly waiting, until something says it ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.state.test_verdict import at, lines, process, signal, state, told
from unspool.live.state.model import ActivityKind, BoardGroup, EvidenceSource, Verdict, describe_verdict
from unspool.live.state.verdict import Evidence, board_group, decide
from unspool.testing.build import Step, assistant, attachment, note, tool_result, tool_use, user

SERVE = assistant(tool_use("Bash", id="t1", command="make serve", run_in_background=True))
STARTED = tool_result("Command running in background with ID: b1", structured={"backgroundTaskId": "b1"})
BEGUN = (user("a"), SERVE, STARTED, assistant("It runs.", stop_reason="end_turn"))
ENDED = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n</task-notification>"
STOPPED = {"message": "Successfully stopped task: b1", "task_id": "b1", "task_type": "local_bash"}


def by_call(tool: str, result: Any) -> tuple[Step, ...]:
    return (
        assistant(tool_use(tool, id="t2", task_id="b1")),
        tool_result("x", structured=result),
        assistant("Ok.", stop_reason="end_turn"),
    )


def words(found: Verdict) -> str:
    return describe_verdict(found, at(10))


def test_by_lines_alone_a_command_in_the_background_probably_runs() -> None:
    found = lines(*BEGUN)
    assert words(found).startswith("probably background command ")
    assert words(found).endswith(" s: make serve")
    assert found.activity.kind is ActivityKind.BACKGROUND
    assert board_group(found, state(*BEGUN)) is BoardGroup.BACKGROUND


def test_a_process_says_that_a_shell_runs_in_the_background() -> None:
    found = lines(*BEGUN, process=process("shell"))
    assert words(found).startswith("background command ")
    assert (found.source, found.probably) == (EvidenceSource.REGISTRY, False)
    assert words(lines(*BEGUN, process=process("idle"))) == "waiting"
    assert words(lines(user("a"), process=process("shell"))) == "background command 8 s"
    failed = assistant("API Error: 529", model="<synthetic>", isApiErrorMessage=True)
    assert lines(*BEGUN, user("b"), failed, process=process("shell")).activity.kind is ActivityKind.ERROR


def test_a_hook_says_how_many_run_and_old_versions_leave_it_to_the_lines() -> None:
    assert words(lines(*BEGUN, signals=told(signal("Stop", 9, commands=2)))) == "background commands 2"
    assert words(lines(*BEGUN, signals=told(signal("Stop", 9, commands=0)))) == "waiting"
    assert words(lines(*BEGUN, signals=told(signal("Stop", 9)))).startswith("background command ")
    assert words(lines(*BEGUN, signals=told(signal("Stop", 9, commands=1, agents=1)))) == "sub-agents 1"
    assert words(lines(*BEGUN, signals=told(signal("Notification", 9)))).startswith("background command ")
    assert words(lines(*BEGUN, signals=told(signal("SessionStart", 9)))) == "waiting"


@pytest.mark.parametrize(
    "steps",
    [
        (user(ENDED, origin={"kind": "task-notification"}), assistant("So it ended.", stop_reason="end_turn")),
        (note("queue-operation", operation="enqueue", content=ENDED),),
        (attachment("queued_command", prompt=ENDED, commandMode="task-notification"),),
        by_call("TaskStop", STOPPED),
        by_call("KillShell", {"message": "Successfully killed shell: b1", "shell_id": "b1"}),
        by_call("TaskOutput", {"retrieval_status": "success", "task": {"task_id": "b1", "status": "completed"}}),
        by_call("BashOutput", {"shellId": "b1", "status": "killed"}),
    ],
)
def test_it_is_over_when_something_says_so(steps: tuple[Step, ...]) -> None:
    assert state(*BEGUN, *steps).background == ()
    assert words(lines(*BEGUN, *steps)) == "waiting"


@pytest.mark.parametrize(
    "steps",
    [
        (user("Is <task-id>b1</task-id> done?"), assistant("No.", stop_reason="end_turn")),
        (note("queue-operation", operation="enqueue", content=ENDED.replace("b1", "b2")),),
        (note("queue-operation", operation="dequeue"),),
        (note("queue-operation", operation="enqueue", content=ENDED.replace("completed", "running")),),
        by_call("TaskStop", "Error: No task found with ID: b1"),
        by_call("TaskOutput", {"retrieval_status": "timeout", "task": {"task_id": "b1", "status": "running"}}),
        by_call("TaskOutput", {"task": ["b1"], "task_id": {"b1": 1}}),
    ],
)
def test_anything_else_does_not_end_it(steps: tuple[Step, ...]) -> None:
    assert [command.id for command in state(*BEGUN, *steps).background] == ["b1"]


@pytest.mark.parametrize("id", [7, None, "", ["b1"], {"b1": 1}])
def test_an_id_that_is_none_starts_nothing(id: Any) -> None:
    assert state(user("a"), SERVE, tool_result("x", structured={"backgroundTaskId": id})).background == ()


def test_while_the_session_works_that_is_said() -> None:
    assert lines(*BEGUN, user("b")).activity.kind is ActivityKind.THINKING


def test_a_sub_agent_that_left_a_command_behind_has_ended() -> None:
    found = decide(Evidence(state(*BEGUN, agent="a1")), at(10))
    assert found.activity.kind is ActivityKind.ENDED
