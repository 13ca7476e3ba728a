"""Edits on disk: what is written beside what, what is refused, what comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unspool
from tests.edit.sessions import LONG, work
from tests.edit.test_properties import tree
from unspool.edit.api import apply_edit, edit_log, plan_edit, undo_edit
from unspool.edit.apply.journal import lock_edits
from unspool.edit.planning.plan import Clone, Compress, Fork, Move, Trim
from unspool.edit.verify.verify import violations
from unspool.errors import NotFound, Refused
from unspool.home import Session
from unspool.processes import read_start_ticks
from unspool.testing.build import assistant, note, result_block, session, snapshot, tool_result, tool_use, user

ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config folder with a session that has every kind of side file."""
    config = tmp_path / ".claude"
    project = config / "projects" / "-home-me-project"
    overflow = f"{project}/{ID}/tool-results/toolu_1.txt"
    built = session(
        user("Send an agent."),
        assistant(tool_use("Bash", id="toolu_1", command="ls"), tool_use("Agent", id="toolu_2", prompt="Look.")),
        tool_result(f"saved to {overflow}", id="toolu_1", structured={"stdout": "", "persistedOutputPath": overflow}),
        tool_result("It is there.", id="toolu_2", structured={"status": "completed", "agentId": "a1b2c3d"}),
        snapshot(**{"a.py": {"backupFileName": "abc@v1", "version": 1}}),
        assistant("Done."),
        note("last-prompt", lastPrompt="Send an agent.", leafUuid="00000000-0000-0000-0000-000000000000"),
        user(f"Look at {overflow}."),
        assistant("I see."),
        slug="calm-blue-sea",
    )
    built.save(config)
    agent = session(user("Look."), assistant("It is there."), agent="a1b2c3d", id=ID)
    files: dict[Path, bytes] = {
        project / ID / "subagents" / "agent-a1b2c3d.jsonl": agent.data,
        project / ID / "subagents" / "agent-a1b2c3d.meta.json": b'{"agentType":"Explore","toolUseId":"toolu_2"}',
        project / ID / "tool-results" / "toolu_1.txt": b"long output",
        project / ID / "workflows" / "wf_1.json": b'{"runId":"wf_1"}',
        project / "sessions-index.json": json.dumps(
            {"version": 1, "entries": [{"sessionId": ID, "fullPath": "x", "fileMtime": 1, "messageCount": 9}]}, indent=2
        ).encode(),
        config / "todos" / f"{ID}-agent-{ID}.json": b"[]",
        config / "tasks" / ID / "1.json": b'{"id":"1"}',
        config / "tasks" / ID / ".lock": b"",
        config / "file-history" / ID / "abc@v1": b"old",
        config / "plans" / "calm-blue-sea.md": b"# Plan",
        config / "session-env" / ID / "hook.sh": b"export A=1",
    }
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return config


def found(config: Path, id: str = ID) -> Session:
    return unspool.open(config).session(id)


def test_a_clone_has_all_that_its_source_has(config: Path, tmp_path: Path) -> None:
    before = tree(config)
    edited = apply_edit(plan_edit(found(config), Clone()), folder=tmp_path / "own")
    new = edited.planned.plan.session
    copy = found(config, new)
    made = {name for name, data in tree(config).items() if name not in before and data is not None}
    assert {name.replace(new, "NEW") for name in made} == {
        "projects/-home-me-project/NEW.jsonl",
        "projects/-home-me-project/NEW/subagents/agent-a1b2c3d.jsonl",
        "projects/-home-me-project/NEW/subagents/agent-a1b2c3d.meta.json",
        "projects/-home-me-project/NEW/tool-results/toolu_1.txt",
        "projects/-home-me-project/NEW/workflows/wf_1.json",
        "todos/NEW-agent-NEW.json",
        "tasks/NEW/1.json",
        "file-history/NEW/abc@v1",
        "session-env/NEW/hook.sh",
        *(name for name in made if name.startswith("plans/calm-blue-sea-")),
    }
    assert violations(copy) == []
    assert [agent.call is not None for agent in copy.agents] == [True]
    assert len(copy.messages) == len(found(config).messages)
    assert {entry.record.session_id for entry in copy.entries if entry.record.session_id} == {new}
    assert not {e.record.uuid for e in copy.entries if e.record.uuid} & {e.record.uuid for e in found(config).entries}
    index = json.loads((config / "projects/-home-me-project/sessions-index.json").read_bytes())
    assert [entry["sessionId"] for entry in index["entries"]] == [ID, new]


def test_paths_of_its_own_files_lead_to_the_copies_but_prompts_stay(config: Path, tmp_path: Path) -> None:
    edited = apply_edit(plan_edit(found(config), Clone()), folder=tmp_path / "own")
    text = edited.path.read_text()
    new = edited.planned.plan.session
    assert text.count(f"/{new}/tool-results/toolu_1.txt") == 2
    assert text.count(f"/{ID}/tool-results/toolu_1.txt") == 1  # what the user typed


def test_ten_clones_cost_nothing(config: Path, tmp_path: Path) -> None:
    def total() -> object:
        from unspool.prices.responses import count_once

        home = unspool.open(config)
        billed = [(s.id, response) for s in home.sessions() for response in s.responses]
        return {(counted.source, counted.response.id, counted.response.output) for counted in count_once(billed)}

    before = total()
    for _ in range(10):
        apply_edit(plan_edit(found(config), Clone()), folder=tmp_path / "own")
    assert total() == before


def test_undo_takes_several_edits_back_in_turn(config: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    states = [tree(config)]
    for operation, in_place in (
        (Clone(), False),
        (Trim(tools=()), True),
        (Compress(keep_last=1), True),
        (Fork("1"), False),
    ):
        apply_edit(plan_edit(found(config), operation, in_place=in_place), folder=own)
        states.append(tree(config))
    for state in reversed(states[:-1]):
        undo_edit(folder=own)
        assert tree(config) == state
    assert [journal.state for journal in edit_log(folder=own)] == ["undone"] * 4


def test_an_edit_that_another_stands_on_is_not_undone(config: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    first = apply_edit(plan_edit(found(config), Trim(tools=()), in_place=True), folder=own)
    second = apply_edit(plan_edit(found(config), Compress(keep_last=1), in_place=True), folder=own)
    with pytest.raises(Refused) as refused:
        undo_edit(first.undo_id, folder=own)
    assert second.undo_id in (refused.value.hint or "")


def test_a_session_that_was_gone_on_with_is_not_undone(config: Path, tmp_path: Path) -> None:
    edited = apply_edit(plan_edit(found(config), Clone()), folder=tmp_path / "own")
    with edited.path.open("ab") as file:
        file.write(b'{"type":"user"}\n')
    with pytest.raises(Refused, match="changed after"):
        undo_edit(folder=tmp_path / "own")
    assert edited.path.exists()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_session_moves_with_what_lies_in_its_project(config: Path, tmp_path: Path, in_place: bool) -> None:
    there = tmp_path / ("a folder.with dots" * 12) / "here"
    there.mkdir(parents=True)
    before = tree(config)
    edited = apply_edit(plan_edit(found(config), Move(str(there)), in_place=in_place), folder=tmp_path / "own")
    assert edited.path.parent.name == unspool.project_key(str(there.resolve()))
    moved = found(config, edited.planned.plan.session)
    assert violations(moved) == []
    assert (edited.path.with_suffix("") / "tool-results" / "toolu_1.txt").exists()
    assert (config / "projects/-home-me-project" / f"{ID}.jsonl").exists() is not in_place
    assert "/home/me/project" in edited.path.read_text()  # where it was written is history
    undo_edit(folder=tmp_path / "own")
    assert tree(config) == before


def test_agents_beside_the_session_get_new_ids(tmp_path: Path) -> None:
    config = tmp_path / ".claude"
    (config / "todos").mkdir(parents=True)
    built = session(
        user("Go."),
        assistant(tool_use("Task", id="toolu_1", prompt="Look.")),
        tool_result("Seen.", id="toolu_1", structured={"status": "completed", "agentId": "a1b2c3d"}),
        assistant("Done."),
        version="2.0.76",
    )
    path = built.save(config)
    own, other = (
        session(user("Look."), assistant("Seen."), agent="a1b2c3d", id=id, version="2.0.76").data
        for id in (ID, "99999999-9999-4999-8999-999999999999")
    )
    path.with_name("agent-a1b2c3d.jsonl").write_bytes(own + other)
    edited = apply_edit(plan_edit(found(config), Clone()), folder=tmp_path / "own")
    (agent,) = found(config, edited.planned.plan.session).agents
    assert agent.call is not None
    assert agent.id != "a1b2c3d"
    assert len(agent.id) == 7
    assert path.with_name(f"agent-{agent.id}.jsonl").read_bytes().count(b"\n") == 2


def test_agents_whose_calls_went_are_not_copied(config: Path, tmp_path: Path) -> None:
    edited = apply_edit(plan_edit(found(config), Trim(tools=())), folder=tmp_path / "own")
    assert not (edited.path.with_suffix("") / "subagents").exists()


def test_in_place_is_refused_while_somebody_has_it_open(config: Path, tmp_path: Path) -> None:
    path = found(config).path
    code = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(Refused, match=f"process {process.pid} has the file open"):
            apply_edit(plan_edit(found(config), Trim(tools=()), in_place=True), folder=tmp_path / "own")
        apply_edit(plan_edit(found(config), Trim(tools=())), folder=tmp_path / "own")
        process.communicate(b"")


def test_in_place_is_refused_while_a_process_is_registered_for_it(config: Path, tmp_path: Path) -> None:
    (config / "sessions").mkdir()
    entry = {"pid": os.getpid(), "sessionId": ID, "procStart": read_start_ticks(os.getpid())}
    path = config / "sessions" / f"{os.getpid()}.json"
    path.write_text(json.dumps(entry))
    planned = plan_edit(found(config), Trim(tools=()), in_place=True)
    with pytest.raises(Refused, match="is running this session"):
        apply_edit(planned, folder=tmp_path / "own")
    path.write_text(json.dumps({**entry, "procStart": "1"}))  # another process by now
    apply_edit(planned, folder=tmp_path / "own")


def test_a_process_that_began_after_the_registration_does_not_run_the_session(config: Path, tmp_path: Path) -> None:
    (config / "sessions").mkdir()
    entry = {"pid": os.getpid(), "sessionId": ID, "startedAt": 1000}
    (config / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(entry))
    apply_edit(plan_edit(found(config), Trim(tools=()), in_place=True), folder=tmp_path / "own")


def test_in_place_is_refused_while_a_call_is_open(tmp_path: Path) -> None:
    path = session(user("Go."), assistant("Yes."), user("On."), assistant(tool_use("Bash", id="toolu_1"))).save(
        tmp_path
    )
    with pytest.raises(Refused, match="has no result yet"):
        apply_edit(plan_edit(found(tmp_path, str(path)), Trim(keep_last=1), in_place=True), folder=tmp_path / "own")


def test_a_result_in_an_answer_closes_its_call(tmp_path: Path) -> None:
    answer = assistant(tool_use("Bash", id="toolu_1"), result_block("toolu_1", "y"))
    path = session(user("Go."), assistant("Yes."), user("On."), answer).save(tmp_path)
    apply_edit(plan_edit(found(tmp_path, str(path)), Trim(keep_last=1), in_place=True), folder=tmp_path / "own")


def test_what_was_appended_meanwhile_is_kept(config: Path, tmp_path: Path) -> None:
    planned = plan_edit(found(config), Trim(turns=range(2, 3)), in_place=True)
    last = found(config).messages[-1].entries[-1].record.uuid
    late = json.dumps({"type": "user", "uuid": "late", "parentUuid": last, "sessionId": ID}) + "\n"
    with planned.session.path.open("a") as file:
        file.write(late)
    apply_edit(planned, folder=tmp_path / "own")
    entry = found(config).entries[-1]
    assert entry.record.uuid == "late"
    assert entry.record.parent_uuid in {one.record.uuid for one in found(config).entries}
    undo_edit(folder=tmp_path / "own")
    assert planned.session.path.read_bytes().endswith(late.encode())


def test_a_session_that_was_written_anew_meanwhile_is_left_alone(config: Path, tmp_path: Path) -> None:
    planned = plan_edit(found(config), Trim(tools=()), in_place=True)
    planned.session.path.write_bytes(work().data)
    with pytest.raises(Refused, match="changed during the edit"):
        apply_edit(planned, folder=tmp_path / "own")
    assert planned.session.path.read_bytes() == work().data


def test_of_two_editors_one_is_refused(config: Path, tmp_path: Path) -> None:
    planned = plan_edit(found(config), Clone())
    with lock_edits(tmp_path / "own"), pytest.raises(Refused, match="another edit is running"):
        apply_edit(planned, folder=tmp_path / "own")


def test_a_file_in_the_way_leaves_nothing_behind(config: Path, tmp_path: Path) -> None:
    planned = plan_edit(found(config), Clone())
    blocker = config / "tasks" / planned.plan.session
    blocker.write_text("a file where a folder should be")
    before = tree(config)
    with pytest.raises(Exception, match="cannot write"):
        apply_edit(planned, folder=tmp_path / "own")
    assert tree(config) == before
    assert edit_log(folder=tmp_path / "own") == []


def test_an_agent_is_not_edited_by_itself(config: Path) -> None:
    agent = config / "projects/-home-me-project" / ID / "subagents" / "agent-a1b2c3d.jsonl"
    with pytest.raises(Refused, match="cannot be edited separately"):
        plan_edit(found(config, str(agent)), Clone())


def test_no_such_edit_is_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no edit to undo"):
        undo_edit(folder=tmp_path)
    with pytest.raises(NotFound, match="no edit matches"):
        undo_edit("abc", folder=tmp_path)


def test_a_long_result_in_a_loose_file_is_trimmed_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "full.jsonl"
    path.write_bytes(work().data)
    edited = apply_edit(plan_edit(found(tmp_path, str(path)), Trim(results=True)), folder=tmp_path / "own")
    assert edited.path.parent == tmp_path
    assert LONG.splitlines()[0] * 2 not in edited.path.read_text()
