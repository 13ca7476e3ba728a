"""What each wish takes away, and what it leaves alone."""

from __future__ import annotations

import msgspec
import pytest

from tests.edit.sessions import LONG, NEW, ids, manuscript, open_loop, work
from unspool.edit.planning.plan import Trim, TrimTo
from unspool.edit.planning.planner import PreparedEdit, prepare_edit
from unspool.edit.planning.shrink import STUB_PREFIX
from unspool.edit.session_text import SessionText
from unspool.edit.verify.verify import verify_edit
from unspool.errors import Refused
from unspool.format.records import Assistant
from unspool.graph.turns import find_prompts
from unspool.testing.build import Built, assistant, attachment, queued, session, tool_result, tool_use, user

WORDS = LONG.partition("\n")[0]


def trimmed(built: Built, wish: Trim | TrimTo, *, in_place: bool = True) -> PreparedEdit:
    source = manuscript(built)
    prepared = prepare_edit(source, wish, ids(source.id if in_place else NEW))
    assert verify_edit(prepared).faults == ()
    return prepared


def sent(prepared: PreparedEdit) -> str:
    return msgspec.json.encode([message.json for message in prepared.after.messages]).decode()


def said(text: SessionText) -> list[str]:
    return [text for _, _, text in find_prompts(text.entries)]


@pytest.mark.parametrize("version", ["2.0.76", "2.1.29", "2.1.325"])
def test_results_become_stubs_that_say_what_was_there(version: str) -> None:
    prepared = trimmed(work(version), Trim(results=True))
    assert sent(prepared).count(STUB_PREFIX) == 3
    assert "result of Read /home/me/project/a.py, 2," in sent(prepared)
    assert WORDS not in sent(prepared)
    assert prepared.plan.removed == {"result": 3}
    assert said(prepared.result) == said(prepared.source)


def test_a_copy_says_which_session_has_the_whole_of_it() -> None:
    prepared = trimmed(work(), Trim(results=True), in_place=False)
    assert f"the original is in session {prepared.source.id}: `unspool show 00000000 --turn 1`" in sent(prepared)


def test_a_stub_is_never_trimmed_again() -> None:
    once = trimmed(work(), Trim(results=True))
    with pytest.raises(Refused):
        prepare_edit(once.result, Trim(results=True, larger_than=0), ids(once.result.id))


def test_small_and_young_results_stay() -> None:
    assert trimmed(work(), Trim(results=True, older_than=4)).plan.removed == {"result": 1}
    with pytest.raises(Refused, match="nothing to trim"):
        trimmed(work(), Trim(results=True, larger_than=10_000))


def test_a_file_that_was_changed_or_read_again_later_is_superseded() -> None:
    prepared = trimmed(work(), Trim(superseded_reads=True))
    assert [change.reason for change in prepared.plan.changes] == ["the file was read again later"]
    assert sent(prepared).count(f'"{WORDS}') == 2  # the shell's, and the file as it was read last


def test_another_part_of_a_file_supersedes_nothing() -> None:
    built = session(
        user("Read."),
        assistant(tool_use("Read", id="toolu_1", file_path="/a", offset=1, limit=10)),
        tool_result(LONG, id="toolu_1"),
        assistant(tool_use("Read", id="toolu_2", file_path="/a", offset=50, limit=10)),
        tool_result(LONG, id="toolu_2"),
        assistant("Read."),
    )
    with pytest.raises(Refused, match="nothing to trim"):
        trimmed(built, Trim(superseded_reads=True))


@pytest.mark.parametrize("version", ["2.0.76", "2.1.325"])
def test_calls_go_with_their_results_and_answers_stay(version: str) -> None:
    prepared = trimmed(work(version), Trim(tools=()))
    assert "tool_use" not in sent(prepared)
    assert "tool_result" not in sent(prepared)
    assert "I look." in sent(prepared)
    assert prepared.plan.removed["tool call"] == 5
    assert said(prepared.result) == said(prepared.source)


def test_all_calls_of_an_answer_go_or_none() -> None:
    prepared = trimmed(work(), Trim(tools=("Bash", "Read")))
    assert "toolu_2" in sent(prepared)  # the other call of that answer is a Grep
    assert "toolu_1" not in sent(prepared)


def test_a_prompt_that_hangs_on_results_keeps_them() -> None:
    built = session(
        user("Go."),
        assistant(tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("x", id="toolu_1"),
        queued("Stop that."),
        assistant("Stopped."),
        user("Next."),
        assistant(tool_use("Bash", id="toolu_2", command="ls")),
        tool_result("x", id="toolu_2"),
        attachment("hook_additional_context", content=["beside"], hookName="PostToolUse"),
        assistant("Done."),
    )
    prepared = trimmed(built, Trim(tools=()))
    assert "Stop that." in sent(prepared)
    assert "toolu_1" in sent(prepared)
    assert "toolu_2" not in sent(prepared)
    assert "beside" not in sent(prepared)


def test_thinking_goes_but_not_since_the_last_prompt() -> None:
    prepared = trimmed(work(), Trim(thinking=True))
    left = [line for line in prepared.result.data.splitlines() if b'"thinking":"' in line]
    assert [b"A thank-you." in line for line in left] == [True]


def test_an_open_tool_loop_keeps_its_thinking_and_what_was_not_answered() -> None:
    prepared = trimmed(open_loop(), Trim(thinking=True, results=True, tools=()))
    text = prepared.result.data.decode()
    assert '"thinking":"New."' in text
    assert '"thinking":"Newer."' in text
    assert '"thinking":"Old."' not in text
    assert sent(prepared).count(f'"{WORDS}') == 1


def test_pictures_become_stubs() -> None:
    prepared = trimmed(work(), Trim(images=True))
    assert '"type":"image"' not in sent(prepared)
    assert f"{STUB_PREFIX}image image/png" in sent(prepared)


def test_turns_go_with_all_they_hold() -> None:
    prepared = trimmed(work(), Trim(turns=range(2, 4)))
    assert said(prepared.result) == ["Read the file.", "Change the file.", "Thanks."]
    assert "Both done." not in sent(prepared)


def test_only_the_last_turns_stay() -> None:
    prepared = trimmed(work(), Trim(keep_last=2), in_place=False)
    assert said(prepared.result) == ["Change the file.", "Thanks."]
    assert prepared.plan.lines.after < prepared.plan.lines.before


def test_nothing_is_left_is_refused() -> None:
    with pytest.raises(Refused, match="remove the whole conversation"):
        trimmed(work(), Trim(turns=range(1, 6)))


def test_in_place_what_answers_used_is_never_lost() -> None:
    prepared = trimmed(work(), Trim(keep_last=1, tools=()))
    assert used(prepared.result) == used(prepared.source)


def used(text: SessionText) -> set[str | None]:
    return {entry.record.message.id for entry in text.entries if isinstance(entry.record, Assistant)}


def test_a_ladder_ends_where_it_fits() -> None:
    half = trimmed(work(), TrimTo(percent=50))
    assert half.plan.context_tokens.after <= half.plan.context_tokens.before / 2
    assert said(half.result) == said(half.source)
    little = trimmed(work(), TrimTo(tokens=60), in_place=False)
    assert little.plan.context_tokens.after <= 60
    with pytest.raises(Refused, match="the minimum is"):
        trimmed(work(), TrimTo(tokens=1))


def test_lines_that_are_not_touched_keep_every_byte() -> None:
    prepared = trimmed(work(), Trim(results=True, thinking=True))
    changed = {change.entry for change in prepared.plan.changes}
    lines = set(prepared.result.data.splitlines())
    moved = [e for e in prepared.source.entries if e.offset not in changed and bytes(e.raw).rstrip() not in lines]
    assert all(entry.record.parent_uuid in prepared.plan.kept_ancestors for entry in moved)


def test_a_copy_is_not_taken_for_as_large_as_its_source() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 180_000, "cache_creation_input_tokens": 900}
    built = session(
        user("Go."),
        assistant(tool_use("Bash", id="toolu_1", command="ls"), usage=usage),
        tool_result(LONG, id="toolu_1"),
        assistant("Done.", usage=usage),
    )
    prepared = trimmed(built, Trim(results=True), in_place=False)
    last = msgspec.json.decode(prepared.result.data.splitlines()[-1])
    assert last["message"]["usage"]["cache_read_input_tokens"] < 2000
    assert last["unspool"]["usage"]["cache_read_input_tokens"] == 180_000
    assert last["message"]["usage"]["output_tokens"] == last["unspool"]["usage"]["output_tokens"]
