"""Sessions from words."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from unspool.demo import session_builder
from unspool.errors import UsageError
from unspool.format.attachments import QueuedCommand
from unspool.format.base import Record
from unspool.format.meta_records import FileHistorySnapshot
from unspool.format.records import Assistant, Attachment, System, User
from unspool.format.side_files.json import AgentMeta, parse_object
from unspool.testing.build import (
    assistant,
    compaction,
    document,
    image,
    note,
    progress,
    queued,
    raw,
    records,
    rewind,
    session,
    snapshot,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
    wait,
)

STORY = [
    user("hi"),
    snapshot(),
    assistant(thinking("hm"), "Let me look.", tool_use("Read", file_path="/a"), tool_use("Bash", command="ls")),
    tool_result("one"),
    tool_result("two", error=True, structured="Error: no"),
    assistant("Done."),
]


def test_the_example_in_the_docstring_is_true() -> None:
    assert doctest.testmod(session_builder).failed == 0


def test_the_same_words_give_the_same_bytes() -> None:
    assert session(*STORY).data == session(*STORY).data
    assert session(*STORY).data != session(*STORY, id="00000000-0000-4000-8000-000000000002").data


def test_every_block_of_an_answer_has_a_line_and_all_have_one_message() -> None:
    lines = [record for record in records(*STORY) if isinstance(record, Assistant)]
    assert [len(line.message.blocks) for line in lines] == [1] * 5
    assert len({line.message.id for line in lines}) == len({line.request_id for line in lines}) == 2


def test_lines_hang_on_the_line_before() -> None:
    nodes = [record for record in records(user("a"), assistant("b"), user("c")) if record.uuid]
    assert [node.parent_uuid for node in nodes] == [None, nodes[0].uuid, nodes[1].uuid]
    assert len({node.timestamp for node in nodes}) == 3


@pytest.mark.parametrize(("version", "shape"), [("2.0.76", "chain"), ("2.1.29", "tree")])
def test_parallel_results_have_the_shape_of_their_version(version: str, shape: str) -> None:
    made = session(*STORY, version=version).records
    first, second = [r for r in made if isinstance(r, User) and not isinstance(r.message.content, str)]
    calls = [r for r in made if isinstance(r, Assistant)][2:4]
    expected = [calls[0].uuid, calls[1].uuid] if shape == "tree" else [calls[1].uuid, first.uuid]
    assert [first.parent_uuid, second.parent_uuid] == expected


@pytest.mark.parametrize(("version", "reasons"), [("2.1.29", {None}), ("2.1.325", {"tool_use", "end_turn"})])
def test_stop_reasons_are_there_where_the_version_has_them(version: str, reasons: set[str | None]) -> None:
    made = session(*STORY, version=version).records
    assert {record.message.stop_reason for record in made if isinstance(record, Assistant)} == reasons


def test_a_compaction_is_a_boundary_and_a_summary() -> None:
    *_, last, boundary, summary, after = records(user("a"), assistant("b"), compaction("short", keep=1), user("c"))
    assert isinstance(boundary, System)
    assert isinstance(summary, User)
    assert boundary.compact_metadata is not None
    assert boundary.compact_metadata.preserved_messages is not None
    assert boundary.compact_metadata.preserved_messages.uuids == (last.uuid,)
    assert boundary.compact_metadata.preserved_messages.anchor_uuid == summary.uuid
    assert (boundary.parent_uuid, boundary.logical_parent_uuid) == (None, last.uuid)
    assert (summary.parent_uuid, summary.is_compact_summary) == (boundary.uuid, True)
    assert after.parent_uuid == summary.uuid


def test_a_rewind_starts_a_branch_before_the_prompt() -> None:
    first, answer, second, third = records(user("a"), assistant("b"), user("c"), rewind(), user("d"))
    assert second.parent_uuid == third.parent_uuid == answer.uuid
    assert first.parent_uuid is None


def test_a_queued_prompt_is_an_attachment_only_in_newer_versions() -> None:
    new = records(user("a"), queued("faster"))
    assert any(isinstance(r, Attachment) and isinstance(r.attachment, QueuedCommand) for r in new)
    old = session(user("a"), queued("faster"), queued("later", taken=False), version="2.1.29").records
    assert [type(record).__struct_config__.tag for record in old[1:]] == ["queue-operation"] * 3


def test_all_words_make_lines() -> None:
    made = session(
        user("look", image(), document("JVBERi0="), text("at this")),
        progress("bash_progress", output="x"),
        system("turn_duration", durationMs=5),
        note("custom-title", customTitle="T"),
        raw(b"\n"),
        agent="a1",
    )
    assert len(made.lines) == 5
    assert all(isinstance(record, Record) for record in made.records)
    assert made.records[0].agent_id == "a1"


def test_a_snapshot_belongs_to_the_newest_prompt() -> None:
    prompt, shot = records(user("hi"), snapshot())
    assert isinstance(shot, FileHistorySnapshot)
    assert shot.message_id == prompt.uuid
    assert len(records(snapshot())) == 1


def test_a_saved_session_lies_where_the_program_looks(tmp_path: Path) -> None:
    made = session(user("hi"), cwd="/home/me/a.b")
    assert made.save(tmp_path) == tmp_path / "projects" / "-home-me-a-b" / f"{made.id}.jsonl"


def test_words_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError):
        session(tool_result("x"))
    with pytest.raises(UsageError):
        session(user("a"), rewind(2))


def test_an_agent_is_saved_inside_its_session_with_its_meta_file(tmp_path: Path) -> None:
    made = session(user("Look."), assistant("Seen."), agent="a0123456789abcdef")
    path = made.save_agent(tmp_path, agentType="Explore", toolUseId="toolu_1")
    assert path == tmp_path / "projects" / "-home-me-project" / made.id / "subagents" / "agent-a0123456789abcdef.jsonl"
    assert path.read_bytes() == made.data
    assert parse_object(path.with_suffix(".meta.json").read_bytes(), AgentMeta).agent_type == "Explore"


def test_time_passes_where_it_is_said_to() -> None:
    times = [record.timestamp for record in records(user("a"), wait(60), assistant("b"), user("c"))]
    assert times == [f"2026-01-05T09:{time}.000Z" for time in ("00:00", "01:01", "01:02")]
