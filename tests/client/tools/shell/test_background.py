"""Commands in the background: started, looked at, waited for, ended, and told about once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.client.tools.calling import decoded
from tests.client.tools.commanding import call, context, is_running, made, said, until
from unspool.client.background_tasks import AGENT_TASK, BackgroundTask, BackgroundTasks, format_task_notification
from unspool.client.tool_context import ToolContext
from unspool.client.tools.shell.background import TaskOutputTool, TaskStopTool
from unspool.client.tools.shell.bash import BashTool

BASH, OUTPUT, STOP = BashTool(), TaskOutputTool(), TaskStopTool()


async def begun(at: ToolContext, command: str, **more: Any) -> str:
    outcome = await made(BASH, at, command=command, run_in_background=True, **more)
    id = outcome.result["backgroundTaskId"]
    assert isinstance(id, str)
    file = at.workspace.side_folder / "tool-results" / f"{id}.txt"
    assert outcome.content == f"Command running in background with ID: {id}. Output is being written to: {file}"
    return id


def test_a_command_in_the_background_is_looked_at_and_waited_for(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> None:
        id = await begun(at, "echo one; until [ -e go ]; do sleep 0.02; done; echo two", description="Say two words")
        task = at.tasks.get(id)
        assert task is not None
        await until(lambda: task.current_output() == "one\n")

        early = await made(OUTPUT, at, task_id=id, block=False)
        assert early.content == (
            f"<retrieval_status>not_ready</retrieval_status>\n\n<task_id>{id}</task_id>\n\n"
            "<task_type>local_bash</task_type>\n\n<status>running</status>\n\n<output>\none\n</output>"
        )
        still = await made(OUTPUT, at, task_id=id, block=True, timeout=50)
        assert still.result["retrieval_status"] == "timeout"
        assert at.tasks.take_ended() == []

        (at.cwd / "go").touch()
        late = await made(OUTPUT, at, task_id=id, timeout=60_000)
        assert late.result == {
            "retrieval_status": "success",
            "task": {
                "task_id": id,
                "task_type": "local_bash",
                "status": "completed",
                "description": "Say two words",
                "output": "one\ntwo\n",
                "exitCode": 0,
            },
        }
        decoded("TaskOutput", late)
        assert "<exit_code>0</exit_code>\n\n<output>\none\ntwo\n</output>" in said(late)
        assert task.path is not None
        assert task.path.read_text() == "one\ntwo\n"
        assert at.tasks.take_ended() == []  # who waited knows

    asyncio.run(conversation())


def test_a_command_that_ends_unseen_is_news_once(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> None:
        good, bad = await begun(at, "true", description="Do well"), await begun(at, "exit 7")
        await until(lambda: all(task.ended.is_set() for task in at.tasks.all()))
        news = {task.id: task for task in at.tasks.take_ended()}
        assert news.keys() == {good, bad}
        assert at.tasks.take_ended() == []
        file = at.workspace.side_folder / "tool-results" / f"{good}.txt"
        assert format_task_notification(news[good]) == (
            f"<task-notification>\n<task-id>{good}</task-id>\n<output-file>{file}</output-file>\n"
            '<status>completed</status>\n<summary>Background command "Do well" completed (exit code 0)</summary>\n'
            f"</task-notification>\nRead the output file to retrieve the result: {file}"
        )
        assert '<summary>Background command "exit 7" failed with exit code 7</summary>' in format_task_notification(
            news[bad]
        )
        assert "<status>failed</status>" in format_task_notification(news[bad])

    asyncio.run(conversation())


def test_a_command_that_is_stopped_is_gone_and_no_news(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> int:
        id = await begun(at, "echo $$ > pid; sleep 600 | sleep 600")
        await until(lambda: (at.cwd / "pid").exists() and (at.cwd / "pid").read_text() != "")
        stopped = await made(STOP, at, task_id=id)
        message = f"Successfully stopped task: {id} (echo $$ > pid; sleep 600 | sleep 600)"
        assert stopped.result["message"] == message
        assert said(stopped).startswith(f'{{"message":"{message}","task_id":"{id}","task_type":"local_bash"')
        assert at.tasks.take_ended() == []
        decoded("TaskStop", stopped)

        looked = await made(TaskOutputTool("BashOutput"), at, bash_id=id, filter="x")
        assert looked.result["task"]["status"] == "killed"
        again = await made(TaskStopTool("KillShell"), at, shell_id=id)
        assert again.content == f"<tool_use_error>Task {id} is not running (status: killed)</tool_use_error>"
        return int((at.cwd / "pid").read_text())

    assert not is_running(asyncio.run(conversation()))


def test_all_that_runs_is_ended_when_the_conversation_is_closed(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> list[int]:
        for name in ("a", "b"):
            await begun(at, f"trap '' TERM; echo $$ > {name}; while :; do sleep 1; done")
        await until(lambda: all((at.cwd / name).exists() and (at.cwd / name).read_text() for name in ("a", "b")))
        await at.tasks.stop()
        return [int((at.cwd / name).read_text()) for name in ("a", "b")]

    assert not any(map(is_running, asyncio.run(conversation())))
    assert [task.status for task in at.tasks.all()] == ["killed", "killed"]


def test_a_flood_in_the_background_is_told_from_its_end(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> None:
        id = await begun(at, "seq 1 300000")
        outcome = await made(OUTPUT, at, task_id=id)
        output = outcome.result["task"]["output"]
        assert output.startswith(f"[Truncated. Full output: {at.workspace.side_folder}/tool-results/{id}.txt]\n\n")
        assert output.endswith("\n299999\n300000\n")
        assert len(output) < 16_000
        path = at.workspace.side_folder / "tool-results" / f"{id}.txt"
        assert len(path.read_text().splitlines()) == 300_000

    asyncio.run(conversation())


def test_who_waits_for_a_task_tells_so(tmp_path: Path) -> None:
    at = context(tmp_path)
    told: list[dict[str, Any]] = []
    at.report_progress = lambda call_id, data: told.append(data)

    async def conversation() -> None:
        await made(OUTPUT, at, task_id=await begun(at, "sleep 0.2", description="Sleep a little"))

    asyncio.run(conversation())
    assert told == [{"type": "waiting_for_task", "taskDescription": "Sleep a little", "taskType": "local_bash"}]


def test_a_task_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    words = "<tool_use_error>No task found with ID: b000000</tool_use_error>"
    assert call(OUTPUT, context(tmp_path), task_id="b000000").content == words
    assert call(STOP, context(tmp_path), task_id="b000000").content == words
    assert "`task_id` is missing" in said(call(STOP, context(tmp_path)))


def test_an_agent_that_has_answered_is_told_with_its_answer(tmp_path: Path) -> None:
    async def told() -> str:
        tasks = BackgroundTasks()
        task = BackgroundTask("a1b2c3d", AGENT_TASK, "Count the birds")
        task.output = "Four."
        task.path = Path("/c/agent-a1b2c3d.jsonl")
        tasks.add(task)
        tasks.end(task, "completed")
        (news,) = tasks.take_ended()
        return format_task_notification(news)

    assert asyncio.run(told()) == (
        "<task-notification>\n<task-id>a1b2c3d</task-id>\n<status>completed</status>\n"
        '<summary>Agent "Count the birds" completed</summary>\n<result>Four.</result>\n</task-notification>\n'
        "Full transcript available at: /c/agent-a1b2c3d.jsonl"
    )


def test_no_two_tasks_have_one_id() -> None:
    async def ids() -> list[str]:
        chances = iter([b"\xaa\xaa\xaa", b"\xaa\xaa\xaa", b"\xbb\xbb\xbb"])
        tasks = BackgroundTasks(lambda size: next(chances))
        tasks.add(BackgroundTask(first := tasks.new_id(), AGENT_TASK, "x"))
        return [first, tasks.new_id()]

    assert asyncio.run(ids()) == ["baaaaaa", "bbbbbbb"]


WAITS = "echo one; until [ -e go ]; do sleep 0.02; done; echo two"


def test_a_command_that_runs_out_of_time_goes_on_in_the_background(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> None:
        outcome = await made(BASH, at, command=WAITS, timeout=300)
        decoded("Bash", outcome)
        id = outcome.result["backgroundTaskId"]
        assert outcome.result["stdout"] == "one"
        assert outcome.result["timedOutAfterMs"] == 300
        assert not outcome.is_error
        moved = f"one\nCommand did not complete within its 0.3s timeout and was moved to the background (ID: {id})."
        assert said(outcome).startswith(moved)
        ended: list[str] = []
        at.tasks.listen(lambda task: ended.append(f"{task.id} {task.status}"))
        (at.cwd / "go").touch()
        late = await made(OUTPUT, at, task_id=id, timeout=60_000)
        assert late.result["task"]["output"] == "one\ntwo\n"
        assert ended == [f"{id} completed"]
        task = at.tasks.get(id)
        assert task is not None
        assert task.path is not None
        assert task.path.read_text() == "one\ntwo\n"

    asyncio.run(conversation())


def test_no_command_is_moved_where_the_environment_forbids_it(tmp_path: Path) -> None:
    at = context(tmp_path, CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="1")
    assert "Command timed out after 0.2s" in said(call(BASH, at, command=WAITS, timeout=200))


def test_a_running_command_is_moved_by_the_user_and_ended_with_the_session(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> int:
        running = asyncio.ensure_future(made(BASH, at, command=f"echo $$ > pid; {WAITS}"))
        await until(lambda: (at.cwd / "pid").exists() and (at.cwd / "pid").read_text().strip() != "")
        assert at.tasks.move_to_background() == 1
        outcome = await running
        id = outcome.result["backgroundTaskId"]
        assert outcome.result["backgroundedByUser"]
        assert f"Command was manually backgrounded by user with ID: {id}." in said(outcome)
        assert at.tasks.move_to_background() == 0
        process = int((at.cwd / "pid").read_text())
        assert is_running(process)
        await at.tasks.stop()
        return process

    assert not is_running(asyncio.run(conversation()))
