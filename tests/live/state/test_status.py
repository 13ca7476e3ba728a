"""The four statuses: the derivation table row by row, every combination, and what real files do to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.format.codec import decode
from unspool.format.records import AnyRecord, Entry
from unspool.graph import find_tool_calls
from unspool.live.state.model import SessionStatus
from unspool.live.state.status import IDLE_AFTER, Phase, SessionState, next_state, status_at
from unspool.testing.build import (
    Step,
    assistant,
    attachment,
    compaction,
    note,
    progress,
    queued,
    raw,
    records,
    result_block,
    session,
    snapshot,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

NOW = datetime(2026, 1, 5, 9, 0, 30, tzinfo=UTC)
OLD = "2.0.60"
"""A version that writes no stop reasons."""


def run(lines: Iterable[AnyRecord], state: SessionState | None = None) -> SessionState:
    state = state or SessionState()
    for record in lines:
        state = next_state(state, record, NOW)
    return state


def old(*steps: Step, **fields: Any) -> SessionState:
    return run(session(*steps, version=OLD).records, SessionState(**fields))


def new(*steps: Step, **fields: Any) -> SessionState:
    return run(records(*steps), SessionState(**fields))


# The derivation table


def test_an_assistant_message_with_a_tool_use_waits_for_approval() -> None:
    assert old(user("a"), assistant(tool_use("Bash", command="make"))).status is SessionStatus.APPROVAL


def test_an_assistant_message_with_text_is_working() -> None:
    assert old(user("a"), assistant("I am on it.")).status is SessionStatus.WORKING


def test_an_assistant_message_with_a_stop_reason_waits_for_input() -> None:
    assert new(user("a"), assistant("Done.")).status is SessionStatus.INPUT


def test_a_stop_reason_does_not_end_waiting_for_approval() -> None:
    assert new(user("a"), assistant(tool_use("Bash", command="make"))).status is SessionStatus.APPROVAL


def test_a_summary_is_idle() -> None:
    assert (
        new(user("a"), assistant("Done."), note("summary", summary="A title", leafUuid="x")).status
        is SessionStatus.IDLE
    )


def test_five_minutes_without_events_are_idle() -> None:
    state = new(user("a"))
    assert state.last_event_at is not None
    assert status_at(state, state.last_event_at + IDLE_AFTER - timedelta(milliseconds=1)) is SessionStatus.WORKING
    assert status_at(state, state.last_event_at + IDLE_AFTER) is SessionStatus.IDLE
    assert timedelta(minutes=5) == IDLE_AFTER


def test_an_event_starts_the_five_minutes_again() -> None:
    state = run(session(user("b"), start="2026-01-05T09:04:00.000Z").records, new(user("a")))
    assert status_at(state, datetime(2026, 1, 5, 9, 8, tzinfo=UTC)) is SessionStatus.WORKING


def test_a_tool_use_takes_precedence_over_text() -> None:
    assert old(user("a"), assistant("I look.", tool_use("Bash", command="make"))).status is SessionStatus.APPROVAL
    assert old(user("a"), assistant(tool_use("Bash", command="make"), "I look.")).status is SessionStatus.APPROVAL


@pytest.mark.parametrize("before", [old(user("a")), new(user("a"), assistant("Done.")), SessionState()])
def test_thinking_changes_nothing(before: SessionState) -> None:
    line = session(assistant(thinking("hm")), version=OLD).records
    assert run(line, before).status is before.status


@pytest.mark.parametrize(
    "step",
    [
        progress("bash_progress", tool="toolu_1", output="x"),
        progress("hook_progress", tool="toolu_1", hookEvent="PreToolUse"),
        snapshot(),
        note("last-prompt", lastPrompt="a"),
        note("a-type-of-tomorrow", value=1),
        attachment("task_reminder"),
        queued("and then?", taken=False),
    ],
)
def test_progress_snapshots_notes_and_what_is_unknown_change_nothing(step: Step) -> None:
    before = new(user("a"), assistant(tool_use("Bash", id="toolu_2", command="make")))
    (*_, line) = session(step, start="2026-01-05T09:10:00.000Z").records
    now = run([line], before)
    assert (now.status, now.last_event_at) == (before.status, before.last_event_at)


# Every combination of what a message contains


def expected(*, has_text: bool, has_call: bool, has_stop: bool) -> SessionStatus:
    if has_call:
        return SessionStatus.APPROVAL
    if has_stop:
        return SessionStatus.INPUT
    return SessionStatus.WORKING if has_text else SessionStatus.IDLE


@pytest.mark.parametrize("apart", [False, True], ids=["one line", "a line for each block"])
@pytest.mark.parametrize(("has_thinking", "has_text", "has_call", "has_stop"), list(product([False, True], repeat=4)))
def test_every_combination(has_thinking: bool, has_text: bool, has_call: bool, has_stop: bool, apart: bool) -> None:
    blocks = [
        *([thinking("hm")] if has_thinking else []),
        *([text("I look.")] if has_text else []),
        *([tool_use("Bash", id="toolu_1", command="make")] if has_call else []),
    ]
    reason = ("tool_use" if has_call else "end_turn") if has_stop else None
    parts = [[block] for block in blocks] if apart and blocks else [blocks]
    lines: list[bytes] = []
    for part in parts:
        built = session(assistant(*part, version=OLD)) if part else session(assistant())
        lines += [_with(line, part, reason) for line in built.lines[:1]] or [_with(b"{}", part, reason)]
    state = run(item.record for line in lines for item in decode(line) if isinstance(item, Entry))
    assert state.status is expected(has_text=has_text, has_call=has_call, has_stop=has_stop)


def _with(line: bytes, content: list[dict[str, Any]], reason: str | None) -> bytes:
    import json

    value = json.loads(line)
    message = {"id": "msg_1", "role": "assistant", "model": "m", "content": content, "stop_reason": reason}
    return json.dumps({**value, "type": "assistant", "message": message}).encode() + b"\n"


# Prompts and results


def test_a_prompt_is_working() -> None:
    assert new(user("a"), assistant("Done."), user("b")).status is SessionStatus.WORKING


def test_a_prompt_of_blocks_is_working() -> None:
    assert new(user({"type": "text", "text": "a"}, {"type": "image", "source": {}})).status is SessionStatus.WORKING


def test_the_last_result_is_working() -> None:
    assert new(user("a"), assistant(tool_use("Bash")), tool_result("ok")).status is SessionStatus.WORKING


def test_of_parallel_calls_each_needs_its_own_result() -> None:
    calls = (user("a"), assistant(tool_use("Read", id="t1"), tool_use("Bash", id="t2")))
    assert new(*calls, tool_result("ok", id="t2")).status is SessionStatus.APPROVAL
    assert [call.name for call in new(*calls, tool_result("ok", id="t2")).open_calls] == ["Read"]
    assert new(*calls, tool_result("ok", id="t2"), tool_result("ok", id="t1")).status is SessionStatus.WORKING


def test_a_result_may_lie_between_the_lines_of_its_message() -> None:
    built = session(
        user("a"), assistant(tool_use("Read", id="t1"), tool_use("Bash", id="t2")), tool_result("ok", id="t1")
    )
    first, call, other, result = built.records
    assert run([first, call, result]).status is SessionStatus.WORKING
    assert run([first, call, result, other]).status is SessionStatus.APPROVAL


def test_a_result_may_come_before_its_call() -> None:
    built = session(user("a"), assistant(tool_use("Read", id="t1")), tool_result("ok", id="t1"))
    first, call, result = built.records
    assert run([first, result, call]).open_calls == ()


def test_a_result_in_an_assistant_line_answers_too() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    assert new(user("a"), assistant(tool_use("Read", id="t1")), assistant(block)).open_calls == ()


def test_a_call_that_is_written_twice_is_one_call() -> None:
    lines = records(user("a"), assistant(tool_use("Read", id="t1")))
    assert len(run([*lines, *lines[1:]]).open_calls) == 1


def test_a_new_prompt_abandons_what_was_open() -> None:
    state = new(user("a"), assistant(tool_use("Bash")), user("never mind"))
    assert (state.status, state.open_calls) == (SessionStatus.WORKING, ())


@pytest.mark.parametrize("words", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
def test_an_interrupt_waits_for_input(words: str) -> None:
    state = new(user("a"), assistant(tool_use("Bash")), user(text(words)))
    assert (state.status, state.phase, state.open_calls) == (SessionStatus.INPUT, Phase.INTERRUPTED, ())


def test_lines_of_a_sub_agent_in_the_file_of_its_session_are_not_the_sessions() -> None:
    before = new(user("a"), assistant("Done."))
    side = session(user("look", isSidechain=True), assistant(tool_use("Bash"), isSidechain=True)).records
    assert run(side, before).status is SessionStatus.INPUT
    assert run(side, before).phase is Phase.DONE


def test_in_the_file_of_a_sub_agent_they_count() -> None:
    built = session(user("look"), assistant(tool_use("Bash")), agent="a1b2c3d")
    assert run(built.records, SessionState(is_agent=True)).status is SessionStatus.APPROVAL


# What the detail is made of


def phase(*steps: Step) -> Phase:
    return new(*steps).phase


def test_the_phase_after_each_kind_of_line() -> None:
    error = assistant("API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True)
    assert phase(user("a")) is Phase.PROMPTED
    assert phase(user("a"), assistant("Done.")) is Phase.DONE
    assert phase(user("a"), assistant("First", stop_reason="tool_use")) is Phase.CONTINUES
    assert phase(user("a"), error) is Phase.FAILED
    assert new(user("a"), error).message == "API Error: 529 overloaded"
    assert phase(user("a"), system("api_error", error={"status": 529}, retryAttempt=2, maxRetries=10)) is Phase.RETRYING
    assert phase(user("a"), assistant("Done."), compaction("short", trigger="manual")) is Phase.DONE
    assert phase(user("a"), assistant("Done."), compaction("short", trigger="auto")) is Phase.PROMPTED
    assert phase(user("<bash-input>make</bash-input>")) is Phase.SHELL
    assert phase(user("<bash-input>make</bash-input>"), user("<bash-stdout>ok</bash-stdout>")) is Phase.DONE
    assert phase(user("<command-name>/cost</command-name>")) is Phase.NEW
    assert phase(user("<command-name>/greet</command-name>"), user(text("Greet me"), isMeta=True)) is Phase.PROMPTED
    assert phase(user("<task-notification>done</task-notification>")) is Phase.PROMPTED


def test_a_text_without_a_stop_reason_may_be_the_end() -> None:
    assert old(user("a"), assistant("Done.")).phase is Phase.ANSWERED
    assert old(user("a"), assistant("Done."), system("turn_duration", durationMs=1)).phase is Phase.DONE


def test_what_the_program_says_in_the_models_place_is_no_error_by_itself() -> None:
    assert new(user("a"), assistant("No response requested.", model="<synthetic>")).phase is Phase.DONE


def test_a_call_is_seen_to_run_by_its_progress_but_not_by_that_of_a_hook() -> None:
    call = (user("a"), assistant(tool_use("Bash", id="t1", command="make")))
    assert [
        one.is_running for one in new(*call, progress("hook_progress", tool="t1", hookEvent="PreToolUse")).open_calls
    ] == [False]
    assert [one.is_running for one in new(*call, progress("bash_progress", tool="t1")).open_calls] == [True]


def test_an_open_call_knows_its_target_its_time_and_no_more_of_its_input_than_is_needed() -> None:
    state = new(
        user("a"), assistant(tool_use("Write", id="t1", file_path="/home/me/project/a.py", content="x" * 90_000))
    )
    (call,) = state.open_calls
    assert (call.name, call.target, call.opened_at) == ("Write", "a.py", datetime(2026, 1, 5, 9, 0, 1, tzinfo=UTC))
    assert 20_000 < len(call.input["content"]) < 20_100


def test_a_question_is_kept_in_its_words() -> None:
    asked = tool_use("AskUserQuestion", questions=[{"question": "Which\ncolour?", "options": []}])
    assert new(user("a"), assistant(asked)).open_calls[0].question == "Which colour?"


def test_the_permission_mode_is_that_of_the_last_line_that_tells() -> None:
    state = new(user("a", permissionMode="plan"), note("permission-mode", permissionMode="acceptEdits"))
    assert state.permission_mode == "acceptEdits"
    assert run(records(user("b", permissionMode="auto")), state).permission_mode == "auto"


# Whatever the lines

steps = st.lists(
    st.sampled_from(
        [
            user("a"),
            user(text("[Request interrupted by user]")),
            assistant("Yes."),
            assistant(thinking("hm"), "I look.", tool_use("Bash", id="t1", command="make")),
            assistant(tool_use("Read", id="t2"), tool_use("Task", id="t3")),
            tool_result("ok", id="t1"),
            tool_result("ok", id="t2"),
            tool_result("no", id="t3", error=True),
            note("summary", summary="x"),
            compaction("short"),
            progress("bash_progress", tool="t1"),
            system("api_error"),
            raw(b'{"type":"user","message":{"content":7}}\n'),
            raw(b'{"type":"assistant","message":{"content":[null,{"type":"tool_use"}]}}\n'),
        ]
    ),
    max_size=12,
)


@given(steps, st.integers(0, 40))
def test_lines_one_by_one_or_in_two_goes_are_the_same(chosen: list[Step], cut: int) -> None:
    lines = session(*chosen, version=OLD).records
    assert run(lines[cut:], run(lines[:cut])) == run(lines)


@given(steps)
def test_a_session_with_an_open_call_waits_for_approval_and_no_other_does(chosen: list[Step]) -> None:
    state = run(record for record in session(*chosen).records if type(record).__name__ != "Summary")
    assert (state.status is SessionStatus.APPROVAL) == bool(state.open_calls)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["call", "result"])), max_size=12))
def test_the_calls_without_a_result_are_open_in_whatever_order_they_come(blocks: list[tuple[str, str]]) -> None:
    lines = [
        assistant(tool_use("Bash", id=id)) if kind == "call" else user(result_block(id, "x")) for id, kind in blocks
    ]
    built = session(user("go"), *lines)
    waiting = {call.id for call in find_tool_calls(built.entries) if call.result is None}
    assert {call.id for call in run(built.records).open_calls} == waiting


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_input_of_a_tool_is_kept_small(value: Any) -> None:
    state = new(user("a"), assistant({"type": "tool_use", "id": "t", "name": "AskUserQuestion", "input": value}))
    assert len(state.open_calls) == 1
