"""Session metadata, row by row, and what FORMAT knows better."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from unspool.format.records import AnyRecord
from unspool.live.board import Board
from unspool.live.session_files import SessionFileName, parse_session_path
from unspool.live.state.metadata import SessionMetadata
from unspool.live.state.model import SessionStatus
from unspool.live.state.rows import BoardRow, row_to_json
from unspool.testing.build import (
    Step,
    assistant,
    compaction,
    note,
    queued,
    session,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

ID = "00000000-0000-4000-8000-000000000001"


def about(lines: Iterable[AnyRecord], *, is_agent: bool = False) -> SessionMetadata:
    found = SessionMetadata(is_agent=is_agent)
    for record in lines:
        found.add_record(record)
    return found


def of(*steps: Step) -> SessionMetadata:
    return about(session(*steps).records)


def usage(short: int, long: int, output: int = 10, whole: int | None = None) -> dict[str, object]:
    parts = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    total = short + long if whole is None else whole
    return {"cache_creation": parts, "cache_creation_input_tokens": total, "output_tokens": output}


# The metadata table


def test_session_id_is_that_of_the_lines() -> None:
    assert of(user("a")).session_id == ID


def test_cwd_is_that_of_the_first_event() -> None:
    lines = [*session(user("a"), cwd="/home/me/one").records, *session(user("b"), cwd="/home/me/two").records]
    assert about(lines).cwd == "/home/me/one"


def test_git_branch_is_updated_on_each_event() -> None:
    lines = [*session(user("a"), branch="main").records, *session(user("b"), branch="fix").records]
    assert about(lines).branch == "fix"


def test_goal_is_the_first_user_message_cut_after_200_characters() -> None:
    assert of(user("Fix it"), user("No, that")).goal == "Fix it"
    assert of(user("x" * 500)).goal == "x" * 200


def test_a_goal_is_what_a_person_said_and_not_a_command_a_note_or_a_result() -> None:
    steps = [
        user("<command-name>/clear</command-name>"),
        user(text("Caveat"), isMeta=True),
        assistant(tool_use("Read")),
        tool_result("ok"),
        user({"type": "text", "text": "<ide_opened_file>x</ide_opened_file>"}, {"type": "text", "text": "Fix it"}),
    ]
    assert of(*steps).goal == "Fix it"


def test_the_goal_of_a_sub_agent_is_what_it_was_asked() -> None:
    assert about(session(user("Look around"), agent="a1b2c3d").records, is_agent=True).goal == "Look around"


def test_recent_output_is_the_last_assistant_text_cut_after_500_characters() -> None:
    assert (
        of(user("a"), assistant("One"), user("b"), assistant(thinking("hm"), "Two", tool_use("Bash"))).output == "Two"
    )
    assert of(user("a"), assistant("y" * 900)).output == "y" * 500


def test_model_is_that_of_the_last_assistant_event_and_never_the_program_itself() -> None:
    steps = [user("a"), assistant("b", model="claude-one"), assistant("c", model="claude-two")]
    assert of(*steps, assistant("No response requested.", model="<synthetic>")).model == "claude-two"


def test_ephemeral_tokens_are_accumulated_once_for_each_message() -> None:
    answer = assistant(thinking("hm"), "I look.", tool_use("Bash"), usage=usage(100, 50))
    found = of(user("a"), answer, tool_result("ok"), assistant("Done.", usage=usage(7, 0)))
    assert (found.tokens_5m, found.tokens_1h) == (107, 50)


def test_ephemeral_tokens_are_taken_where_they_stand_even_if_the_whole_says_otherwise() -> None:
    found = of(user("a"), assistant("Yes", usage=usage(100, 50, whole=0)))
    assert (found.tokens_5m, found.tokens_1h) == (100, 50)


def test_of_the_lines_of_a_message_the_one_with_the_most_output_counts() -> None:
    first = session(assistant("a", usage=usage(1, 0, output=5))).records
    better = session(assistant("a", usage=usage(3, 1, output=9))).records
    worse = session(assistant("a", usage=usage(70, 70, output=2))).records
    found = about([*first, *better, *worse])
    assert (found.tokens_5m, found.tokens_1h) == (3, 1)


def test_the_program_itself_is_not_billed() -> None:
    assert of(assistant("x", model="<synthetic>", usage=usage(9, 9))).tokens_5m == 0


def row(root: Path, path: Path | None = None) -> BoardRow:
    board = Board(root, root / "signals", clock=lambda: datetime(2026, 1, 5, 9, 0, 20, tzinfo=UTC))
    board.refresh(None)
    rows = board.rows(datetime(2026, 1, 5, 9, 0, 20, tzinfo=UTC))
    return next(one for one in rows if path is None or one.path == str(path))


def test_project_name_is_the_last_part_of_cwd_and_project_hash_the_folder(tmp_path: Path) -> None:
    session(user("a"), cwd="/home/me/shop").save(tmp_path)
    found = row(tmp_path)
    assert (found.project, found.project_hash) == ("shop", "-home-me-shop")


def test_pending_tool_use_is_the_last_one_without_a_result(tmp_path: Path) -> None:
    calls = assistant(tool_use("Read", id="t1"), tool_use("Bash", id="t2", command="make"), tool_use("Grep", id="t3"))
    session(user("a"), calls, tool_result("ok", id="t3")).save(tmp_path)
    pending = row_to_json(row(tmp_path), datetime.now(UTC))["pendingToolUse"]
    assert pending == {"id": "t2", "name": "Bash", "input": {"command": "make"}}


def test_is_subagent_by_the_path_or_by_the_name() -> None:
    places = [f"{ID}/subagents/agent-a1b2c3d.jsonl", "agent-a1b2c3d.jsonl", f"{ID}.jsonl", "notes.md"]
    names = [parse_session_path(f"/c/projects/-p/{place}", "/c/projects") for place in places]
    assert names == [
        SessionFileName(ID, "a1b2c3d", "-p"),
        SessionFileName(None, "a1b2c3d", "-p"),
        SessionFileName(ID, None, "-p"),
        None,
    ]
    assert [name.is_agent for name in names if name] == [True, True, False]


def test_is_subagent_by_the_agent_id_of_its_lines(tmp_path: Path) -> None:
    session(user("Look around"), assistant(tool_use("Read")), agent="a1b2c3d").save(tmp_path)
    found = row(tmp_path)
    assert (found.agent_id, found.goal, found.status) == ("a1b2c3d", "Look around", SessionStatus.APPROVAL)


def test_sub_agents_have_rows_of_their_own(tmp_path: Path) -> None:
    main = session(user("a"), assistant(tool_use("Agent", description="Look", prompt="Look around"))).save(tmp_path)
    path = main.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(user("Look around"), assistant(tool_use("Read", file_path="a")), agent="a1b2c3d").data)
    agent, own = row(tmp_path, path), row(tmp_path, main)
    assert (agent.session_id, agent.agent_id, agent.goal) == (ID, "a1b2c3d", "Look around")
    assert row_to_json(agent, datetime.now(UTC))["isSubagent"] is True
    assert (own.agent_id, own.agents, own.verdict.activity.count) == (None, 1, 1)


# What the board wants besides


def test_a_title_is_a_persons_then_a_models_then_a_summary_of_this_file_then_the_goal() -> None:
    leaf = session(user("Fix it"), assistant("Done.")).records[-1].uuid
    steps = [user("Fix it"), assistant("Done.")]
    assert of(*steps).title == "Fix it"
    assert of(*steps, note("summary", summary="Of another file", leafUuid="x")).title == "Fix it"
    assert of(*steps, note("summary", summary="Fixed", leafUuid=leaf)).title == "Fixed"
    assert of(*steps, note("ai-title", aiTitle="Fixing")).title == "Fixing"
    assert of(*steps, note("custom-title", customTitle="Mine"), note("ai-title", aiTitle="Fixing")).title == "Mine"


def test_the_context_is_the_prompt_of_the_last_request_and_what_a_compaction_left() -> None:
    full = {"input_tokens": 4, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 96}
    steps = [user("a"), assistant("b", usage=full), assistant("c", usage={"input_tokens": 9}, isSidechain=True)]
    assert of(*steps).context_tokens == 1100
    assert of(*steps, compaction("short", postTokens=700)).context_tokens == 700
    assert of(*steps, compaction("short")).context_tokens is None


def test_a_prompt_that_waited_in_the_queue_is_the_goal_if_there_is_no_other() -> None:
    assert of(queued("Do it then")).title == "Do it then"


@given(st.integers(0, 30))
def test_lines_in_two_goes_are_about_the_same(cut: int) -> None:
    lines = session(user("a"), assistant("b", tool_use("Bash")), tool_result("c"), queued("d"), compaction("e")).records
    whole, part = about(lines), about(lines[:cut])
    for record in lines[cut:]:
        part.add_record(record)
    assert part == whole
