"""The board: what it reads, what it tells, and in which order it shows."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.live.world import ID, OTHER, World, kinds
from tests.real_files import corpus
from unspool.live.board import Board
from unspool.live.state.events import event_to_json as plain_event
from unspool.live.state.model import ActivityKind, BoardGroup, EvidenceSource, SessionStatus
from unspool.live.state.rows import row_to_json
from unspool.testing.build import assistant, compaction, note, session, text, tool_result, tool_use, user

BASH = tool_use("Bash", id="t1", command="touch a")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_first_refresh_tells_where_each_session_stands(world: World) -> None:
    world.save(user("a"), assistant("Done."))
    world.save(user("b"), assistant(BASH), id=OTHER)
    events = world.board.refresh()
    assert kinds(events) == ["status", "status"]
    assert {event.session: event.status for event in events} == {ID: SessionStatus.INPUT, OTHER: SessionStatus.APPROVAL}


def test_after_that_each_line_is_told_once(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    world.append(path, assistant("I look.", BASH), tool_result("no", id="t1", error=True), compaction("short"))
    events = world.board.refresh([path])
    assert kinds(events) == ["message", "tool_call", "tool_result", "compaction", "session_changed"]
    assert (events[1].tool, events[1].target, events[1].id) == ("Bash", "touch a", "t1")
    assert (events[2].id, events[2].failed) == ("t1", True)
    assert events[0].facts["stop_reason"] == "tool_use"
    assert world.board.refresh([path]) == []
    assert world.board.refresh() == []


def test_events_have_the_status_that_follows_from_them(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    world.append(path, assistant("Done."))
    message, status, *_ = world.board.refresh([path])
    assert (message.event, message.status) == ("message", SessionStatus.INPUT)
    found = plain_event(status, world.now())
    assert [*found][:3] == ["schema", "event", "session_id"]
    assert (found["event"], found["status"], found["detail"]) == ("status", "waiting_for_input", "waiting")
    assert (found["path"], found["end"]) == (str(path), path.stat().st_size)


def test_a_new_session_is_told_with_all_its_lines(world: World) -> None:
    world.board.refresh()
    path = world.save(user("a"), note("ai-title", aiTitle="Mine"), assistant("Done."))
    assert kinds(world.board.refresh([path])) == ["session_started", "prompt", "message", "status"]


def test_a_fork_does_not_tell_again_what_it_was_forked_from(world: World) -> None:
    world.board.refresh()
    old = session(user("long ago"), assistant("Done."), start="2026-01-05T09:00:00.000Z", id=OTHER).data
    path = world.save(user("now"))
    path.write_bytes(old + path.read_bytes())
    events = world.board.refresh([path])
    assert [event.text for event in events if event.event == "prompt"] == ["now"]
    assert world.row().goal == "long ago"


def test_what_is_appended_is_told_whatever_the_clock_of_its_writer_says(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    with path.open("ab") as file:
        file.write(session(user("from the past"), start="2020-01-05T09:00:00.000Z").data)
    assert [event.text for event in world.board.refresh([path])] == ["from the past"]


def test_a_part_of_a_config_folder_knows_the_processes_of_the_whole(world: World) -> None:
    path = world.save(user("a"), assistant("Done."))
    world.process(status="idle")
    (world.root / "history.jsonl").write_text("")
    for root in (world.root / "projects", path.parent, path):
        board = Board(root, world.signals, clock=world.now)
        board.refresh()
        (row,) = board.rows(world.now())
        assert (row.session_id, row.verdict.source) == (ID, EvidenceSource.REGISTRY)


def test_a_session_in_a_new_folder_is_found_by_the_name_of_the_folder_alone(world: World) -> None:
    world.board.refresh()
    path = world.save(user("a"))
    assert kinds(world.board.refresh([path.parent])) == ["session_started", "prompt", "status"]


def test_a_hint_that_was_missed_is_made_up_for_by_the_walk(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    agent = world.agent(path, user("b"), assistant(tool_use("Read", id="t9")))
    assert world.board.refresh([]) == []
    assert "session_started" in kinds(world.board.refresh())
    assert [row.agent_id for row in world.rows()] == [None, "a1b2c3d"]
    assert agent.exists()


def test_a_hot_file_is_looked_at_without_a_hint(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    world.append(path, assistant("Done."))
    assert kinds(world.board.refresh([])) == ["message", "status", "session_changed"]


def test_titles_and_changes_are_told(world: World) -> None:
    path = world.save(user("a"), assistant("Done."))
    world.board.refresh()
    world.append(path, note("custom-title", customTitle="Mine"))
    (title,) = world.board.refresh([path])
    assert (title.event, title.text, world.row().title) == ("title", "Mine", "Mine")
    world.append(path, assistant("Done again.", model="claude-other"))
    assert "session_changed" in kinds(world.board.refresh([path]))


def test_an_old_session_is_not_read_until_it_changes_and_then_its_past_is_not_told(world: World) -> None:
    long_ago = world.now() - timedelta(days=40)
    start = long_ago.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path = session(user("a"), assistant("One"), id=ID, start=start).save(world.root)
    os.utime(path, (long_ago.timestamp(),) * 2)
    assert world.board.refresh() == []
    assert (world.rows(), world.board.unread) == ([], 1)
    world.append(path, user("b"))
    events = world.board.refresh([path])
    assert [(event.event, event.text) for event in events][:2] == [("session_started", ""), ("prompt", "b")]
    assert (world.row().goal, world.board.unread) == ("a", 0)


def test_an_old_session_that_a_process_runs_is_read(world: World) -> None:
    path = world.save(user("a"), assistant("One"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    world.process(status="idle")
    world.board.refresh()
    assert (world.row().verdict.activity.kind, world.row().verdict.source, world.row().pid) == (
        ActivityKind.WAITING,
        EvidenceSource.REGISTRY,
        os.getpid(),
    )


def test_a_process_without_a_file_has_a_row_and_then_a_file(world: World) -> None:
    world.process(status="idle")
    world.board.refresh()
    row = world.row()
    assert (row.path, row.project, row.group, row.status) == ("", "project", BoardGroup.WAITING, SessionStatus.IDLE)
    world.board.refresh([])
    path = world.save(user("a"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    world.board.refresh()
    assert world.row().path == str(path)


def test_a_process_that_ends_ends_its_session(world: World) -> None:
    world.save(user("a"), assistant(BASH))
    entry = world.process(status="waiting", waitingFor="permission prompt")
    world.board.refresh()
    assert world.row().group is BoardGroup.NEEDS_YOU
    entry.unlink()
    assert kinds(world.board.refresh([])) == ["status", "session_ended"]
    assert (world.row().group, world.row().verdict.probably) == (BoardGroup.ENDED, False)
    assert world.board.refresh() == []


def test_a_process_that_died_ends_its_session_and_its_agents(world: World) -> None:
    path = world.save(user("a"), assistant(tool_use("Agent", id="t1")))
    world.agent(path, user("b"), assistant(BASH))
    entry = world.process(status="busy")
    world.board.refresh()
    assert [row.group for row in world.rows()] == [BoardGroup.WORKING, BoardGroup.BACKGROUND]
    assert world.row().agents == 1
    entry.write_text(entry.read_text().replace('"procStart": "', '"procStart": "9'))
    world.board.refresh([])
    assert [row.group for row in world.rows()] == [BoardGroup.ENDED, BoardGroup.ENDED]
    assert world.row().verdict.activity.message == "its process has exited"


def test_a_file_that_has_gone_has_no_row(world: World) -> None:
    path = world.save(user("a"))
    world.board.refresh()
    path.unlink()
    assert kinds(world.board.refresh([path])) == ["session_ended"]
    assert world.rows() == []
    path = world.save(user("a"), id=OTHER)
    world.board.refresh([path])
    path.unlink()
    assert kinds(world.board.refresh()) == ["session_ended"]


def test_a_file_that_was_rewritten_starts_again(world: World) -> None:
    path = world.save(user("a"), assistant(BASH))
    world.board.refresh()
    path.write_bytes(world.build(user("something else, longer than before" * 20)).data)
    assert kinds(world.board.refresh([path])) == ["status", "title", "session_changed"]
    assert (world.row().status, world.row().goal[:9]) == (SessionStatus.WORKING, "something")


def test_time_alone_makes_a_session_idle(world: World) -> None:
    world.save(user("a"), assistant("Done."))
    world.board.refresh()
    world.later = timedelta(minutes=6)
    (event,) = world.board.refresh([])
    assert (event.event, event.status, event.verdict and event.verdict.activity.kind) == (
        "status",
        SessionStatus.IDLE,
        ActivityKind.WAITING,
    )
    world.later = timedelta(hours=2)
    world.board.refresh([])
    assert world.row().group is BoardGroup.IDLE


def test_what_rests_for_long_is_let_go(world: World) -> None:
    world.save(user("a"), assistant("Done."))
    world.board.refresh()
    world.later = timedelta(days=2)
    world.board.refresh()
    world.board.refresh()
    assert (world.rows(), world.board.unread) == ([], 1)


def test_rows_are_sorted_by_who_needs_you(world: World) -> None:
    ids = [f"00000000-0000-4000-8000-00000000001{number}" for number in range(5)]
    interrupt = user(text("[Request interrupted by user]"))
    world.save(user("a"), assistant("Done."), id=ids[0])
    world.save(user("a"), id=ids[1])
    world.save(user("a"), assistant("x", model="<synthetic>", isApiErrorMessage=True), id=ids[2])
    world.save(user("a"), interrupt, id=ids[3])
    world.save(user("a"), assistant(tool_use("AskUserQuestion", id="q")), id=ids[4])
    world.board.refresh()
    assert [row.group for row in world.rows()] == [
        BoardGroup.NEEDS_YOU,
        BoardGroup.NEEDS_YOU,
        BoardGroup.WORKING,
        BoardGroup.WAITING,
        BoardGroup.WAITING,
    ]


def test_forks_of_the_programs_own_and_warm_ups_are_not_shown(world: World) -> None:
    path = world.save(user("a"), assistant("Done."))
    world.agent(path, user("x"), assistant("y"), id="aprompt_suggestion-1a2b3c")
    world.agent(path, user("Warmup"), assistant("y"), id="a7654321")
    world.board.refresh()
    assert len(world.rows()) == 1
    world.agent(path, user("x"), id="acompact-1a2b3c")
    assert {event.agent for event in world.board.refresh()} == {None}
    assert world.row().verdict.activity.kind is ActivityKind.COMPACTING


def test_a_hook_tells_that_an_agent_has_stopped(world: World) -> None:
    path = world.save(user("a"), assistant("Sent."))
    world.agent(path, user("b"), assistant("Report."), id="a1b2c3d")
    words = {"session_id": ID, "hook_event_name": "SubagentStop", "agent_id": "a1b2c3d"}
    (world.signals / f"{ID}.SubagentStop.json").write_text(json.dumps(words))
    world.board.refresh()
    agent = next(row for row in world.rows() if row.agent_id)
    assert (agent.verdict.activity.kind, agent.verdict.source, world.row().agents) == (
        ActivityKind.ENDED,
        EvidenceSource.HOOK,
        0,
    )


def test_an_agent_beside_its_session_is_one_of_it(world: World) -> None:
    path = world.save(user("a"), assistant(tool_use("Task", id="t1")))
    beside = path.with_name("agent-1a2b3c4d.jsonl")
    beside.write_bytes(world.build(user("b"), assistant(tool_use("Read", id="t2")), agent="1a2b3c4d").data)
    world.board.refresh()
    assert world.row().verdict.activity.count == 1
    assert {(row.session_id, row.agent_id) for row in world.rows()} == {(ID, None), (ID, "1a2b3c4d")}


def test_settings_tell_what_does_not_ask(world: World) -> None:
    world.save(user("a"), assistant(BASH))
    world.later = timedelta(seconds=2)
    world.board.refresh()
    assert world.row().verdict.activity.kind is ActivityKind.PERMISSION
    (world.root / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(touch:*)"]}}))
    world.later = timedelta(seconds=20)
    world.board.refresh([])
    assert world.row().verdict.activity.kind is ActivityKind.RUNNING


def test_settings_of_the_project_count_too(world: World, tmp_path: Path) -> None:
    (tmp_path / "work" / ".claude").mkdir(parents=True)
    rules = {"permissions": {"defaultMode": "bypassPermissions"}}
    (tmp_path / "work" / ".claude" / "settings.local.json").write_text(json.dumps(rules))
    world.save(user("a"), assistant(BASH), cwd=str(tmp_path / "work"))
    world.later = timedelta(seconds=2)
    world.board.refresh()
    assert world.row().verdict.activity.kind is ActivityKind.RUNNING


def test_a_row_as_json_has_the_names_of_the_metadata(world: World) -> None:
    world.save(user("a"), assistant(BASH))
    world.board.refresh()
    found = row_to_json(world.row(), world.now())
    names = (
        "sessionId cwd projectName projectHash gitBranch goal recentOutput model isSubagent pendingToolUse tokenUsage"
    )
    assert set(names.split()) | {"status", "detail", "source", "since"} <= set(found)
    assert found["tokenUsage"] == {"ephemeral5mTokens": 200, "ephemeral1hTokens": 0}
    assert json.loads(json.dumps(found)) == found


def test_links_out_of_the_folder_are_not_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / f"{ID}.jsonl").write_bytes(world.build(user("secret")).data)
    (world.root / "projects" / "link").symlink_to(tmp_path / "outside")
    (world.root / "projects" / "p").mkdir()
    (world.root / "projects" / "p" / f"{ID}.jsonl").symlink_to(tmp_path / "outside" / f"{ID}.jsonl")
    assert world.board.refresh() == []
    assert world.board.refresh([world.root / "projects" / "link", world.root / "projects" / "p" / f"{ID}.jsonl"]) == []


def test_a_folder_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    world = World(tmp_path)
    board = Board(tmp_path / "nowhere", tmp_path / "signals", clock=world.now)
    assert (board.refresh(), board.rows(world.now()), board.unread) == ([], [], 0)


def test_work_is_proportional_to_what_was_appended(world: World) -> None:
    path = world.save(*[user("x" * 1000) for _ in range(300)])
    world.board.refresh()
    before = path.stat().st_size
    world.append(path, user("b"))
    (prompt, *_) = world.board.refresh([path])
    assert prompt.offset == before


def test_every_real_file_has_a_verdict(tmp_path: Path) -> None:
    world = World(tmp_path)
    board = Board(corpus(), tmp_path / "signals", clock=world.now, recent=timedelta(days=10_000))
    board.refresh()
    rows = board.rows(world.now())
    assert len(rows) > 100
    assert {row.group for row in rows} <= {BoardGroup.IDLE, BoardGroup.ENDED, BoardGroup.WAITING}


def test_a_file_with_an_old_time_and_new_lines_is_read(world: World) -> None:
    """A copy or a restored backup has the time at which it was made: its lines say when the session worked."""
    path = world.save(user("Publish it."), assistant(BASH))
    old = world.now().timestamp() - 3 * 86_400
    os.utime(path, (old, old))
    world.board.refresh()
    assert world.row().last is not None
    assert world.board.unread == 0
    world.later = timedelta(days=2)
    world.board.refresh()  # it is idle now, and forgotten by the next
    world.board.refresh()
    assert world.rows() == []


def test_a_file_with_a_new_time_and_old_lines_is_idle(world: World) -> None:
    session(user("Publish it."), assistant(BASH), id=ID, start="2026-01-05T09:00:00.000Z").save(world.root)
    world.board.refresh()
    row = world.row()
    assert row.group is BoardGroup.IDLE
    assert row.last is not None
    assert row.last.year == 2026
    assert row.last.month == 1


def test_the_row_of_a_session_that_asks_has_the_call_that_asks(world: World) -> None:
    world.save(
        user("a"),
        assistant(
            tool_use("Bash", id="t1", command="git push"), tool_use("Read", id="t2", file_path="/home/me/project/a")
        ),
    )
    world.process(status="waiting", waitingFor="permission prompt")
    world.board.refresh()
    row = world.row()
    assert row.pending is not None
    assert row.pending.id == "t2"
    assert row.asking is not None
    assert row.asking.input == {"command": "git push"}


def test_a_call_of_an_agent_that_asks_is_that_of_its_session(world: World) -> None:
    main = world.save(user("a"), assistant(tool_use("Task", id="t1", prompt="b", subagent_type="general-purpose")))
    world.agent(main, user("b"), assistant(tool_use("Bash", id="t9", command="rm -r build")))
    world.process(status="waiting", waitingFor="permission prompt")
    world.board.refresh()
    asking = world.row().asking
    assert asking is not None
    assert asking.input == {"command": "rm -r build"}
