"""What a session is doing: by its process, by hooks, by its lines; and what each is worth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.live.approval import Rules
from unspool.live.evidence import Evidence, Life, Running, Signal
from unspool.live.model import Detail, Group, Kind, Source, Verdict, elapsed, say
from unspool.live.status import State, after
from unspool.live.verdict import group_of, verdict
from unspool.testing.build import (
    Step,
    assistant,
    progress,
    session,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

ID = "00000000-0000-4000-8000-000000000001"
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BASH = tool_use("Bash", id="t1", command="touch a")
PLAN = tool_use("ExitPlanMode", plan="x")
FAILED = assistant("API Error: 529", model="<synthetic>", isApiErrorMessage=True)
RETRIES = system("api_error", error={"status": 529}, retryAttempt=1, maxRetries=10)
QUESTION = tool_use("AskUserQuestion", id="t1", questions=[{"question": "Which colour?"}])


def state(*steps: Step, version: str = "2.1.325", agent: str | None = None) -> State:
    found = State(is_agent=agent is not None)
    for record in session(*steps, version=version, agent=agent).records:
        found = after(found, record, START)
    return found


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lines(*steps: Step, seconds: float = 10, **known: Any) -> Verdict:
    return verdict(Evidence(state(*steps), **known), at(seconds))


def process(status: str | None = None, waiting_for: str | None = None, life: Life = Life.LIVES) -> Running:
    return Running(7, ID, life, status, waiting_for, since=at(2), updated=at(2))


def signal(event: str, seconds: float, **said: Any) -> Signal:
    return Signal(event, at(seconds), **said)


def told(*signals: Signal) -> dict[str, Signal]:
    return {one.event: one for one in signals}


# By the process


@pytest.mark.parametrize(
    ("steps", "status", "waiting_for", "words"),
    [
        ((user("a"),), "busy", None, "thinking"),
        ((user("a"), assistant(BASH)), "busy", None, "running Bash 9 s: touch a"),
        ((user("a"), assistant(BASH)), "waiting", "permission prompt", "asking permission for Bash touch a"),
        ((user("a"),), "waiting", "permission prompt", "asking permission"),
        ((user("a"), assistant(QUESTION)), "waiting", "input needed", "asking a question: Which colour?"),
        ((user("a"), assistant(QUESTION)), "waiting", "permission prompt", "asking a question: Which colour?"),
        ((user("a"), assistant(PLAN)), "waiting", "permission prompt", "asking to approve the plan"),
        ((user("a"), assistant("Done.")), "idle", None, "waiting"),
        ((user("a"), assistant(BASH), user(text("[Request interrupted by user]"))), "idle", None, "interrupted"),
        ((user("a"), FAILED), "idle", None, "error: API Error: 529"),
        ((user("a"), assistant(tool_use("Agent", id="a"), tool_use("Agent", id="b"))), "busy", None, "sub-agents 2"),
        ((user("a"), RETRIES), "busy", None, "retrying: API error 529 (1 of 10)"),
    ],
)  # fmt: skip
def test_a_living_process_says_what_it_does(
    steps: tuple[Step, ...], status: str, waiting_for: str | None, words: str
) -> None:
    found = lines(*steps, running=process(status, waiting_for))
    assert say(found, at(10)) == words
    assert (found.source, found.probably) == (Source.REGISTRY, False)


def test_a_dead_process_never_needs_approval() -> None:
    for life, status in ((Life.DEAD, "waiting"), (Life.DEAD, None)):
        found = lines(user("a"), assistant(BASH), running=process(status, "permission prompt", life))
        assert (found.detail.kind, found.source, found.probably) == (Kind.ENDED, Source.REGISTRY, False)


def test_a_process_that_was_seen_and_is_gone_has_ended_its_session() -> None:
    found = lines(user("a"), assistant(BASH), was_seen=True)
    assert (found.detail.kind, found.probably) == (Kind.ENDED, False)


def test_a_version_that_always_registers_and_has_not_is_probably_over() -> None:
    assert lines(user("a"), assistant(BASH), is_registered=True, seconds=60).detail.kind is Kind.ENDED
    assert lines(user("a"), assistant(BASH), is_registered=True, seconds=60).probably
    assert lines(user("a"), assistant(BASH), is_registered=True, seconds=8000).detail.kind is Kind.IDLE


def test_a_session_that_has_just_begun_need_not_be_registered_yet() -> None:
    assert lines(user("a"), is_registered=True, seconds=3).detail.kind is Kind.THINKING


def test_a_process_elsewhere_is_believed_for_a_while_and_only_probably() -> None:
    far = process("waiting", "permission prompt", Life.ELSEWHERE)
    assert lines(user("a"), assistant(BASH), running=far).probably
    assert lines(user("a"), assistant(BASH), running=far, seconds=8000).detail.kind is Kind.IDLE


def test_a_process_that_says_nothing_lets_hooks_and_lines_speak() -> None:
    hooks = told(signal("Stop", 5))
    assert lines(user("a"), assistant("Done."), running=process()).source is Source.TRANSCRIPT
    assert lines(user("a"), assistant("Done."), running=process(), signals=hooks).source is Source.HOOK
    assert lines(user("a"), running=process(), seconds=100_000).detail.kind is Kind.THINKING


def test_a_process_waits_for_the_call_of_its_agent() -> None:
    inner = state(user("b"), assistant(BASH), agent="a1").open
    outer = assistant(tool_use("Agent", description="b"))
    found = lines(user("a"), outer, running=process("waiting", "permission prompt"), calls=inner, agents=1)
    assert (found.detail.kind, found.detail.target) == (Kind.PERMISSION, "touch a")


def test_a_turn_that_is_over_with_agents_at_work_is_in_the_background() -> None:
    found = lines(user("a"), assistant("Started."), running=process("busy"), agents=2)
    assert (say(found, at(10)), group_of(found, state(user("a"), assistant("x")))) == ("sub-agents 2", Group.BACKGROUND)


# By hooks


def test_a_request_for_permission_stands_until_the_call_has_a_result() -> None:
    hooks = told(
        signal("PreToolUse", 1.1, tool="Bash"),
        signal("PermissionRequest", 1.2, tool="Bash", input={"command": "touch a"}),
    )
    found = lines(user("a"), assistant(BASH), signals=hooks)
    assert (say(found, at(10)), found.source, found.probably) == (
        "asking permission for Bash touch a",
        Source.HOOK,
        False,
    )
    assert lines(user("a"), assistant(BASH), tool_result("ok"), signals=hooks).detail.kind is Kind.THINKING
    assert (
        lines(user("a"), assistant(BASH), progress("bash_progress", tool="t1"), signals=hooks).detail.kind
        is Kind.RUNNING
    )


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact"])
def test_a_request_for_permission_is_over_when_the_turn_is(event: str) -> None:
    hooks = told(signal("PermissionRequest", 1.2, tool="Bash"), signal(event, 5))
    assert lines(user("a"), assistant(BASH), signals=hooks).detail.kind is not Kind.PERMISSION


def test_a_request_survives_the_result_of_another_call() -> None:
    calls = assistant(tool_use("Read", id="t0"), BASH)
    hooks = told(signal("PermissionRequest", 2.2, tool="Bash"), signal("PostToolUse", 3.1, tool="Read", call="t0"))
    found = lines(user("a"), calls, tool_result("ok", id="t0"), signals=hooks)
    assert (found.detail.kind, found.detail.tool) == (Kind.PERMISSION, "Bash")


def test_an_interrupt_that_no_hook_tells_of_is_seen_in_the_lines() -> None:
    hooks = told(signal("PermissionRequest", 1.2, tool="Bash"))
    found = lines(user("a"), assistant(BASH), user(text("[Request interrupted by user]")), signals=hooks)
    assert (found.detail.kind, found.source) == (Kind.INTERRUPTED, Source.TRANSCRIPT)


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (signal("UserPromptSubmit", 5), "thinking"),
        (signal("PostToolUse", 5, tool="Bash", call="t1"), "thinking"),
        (signal("PreToolUse", 5, tool="Bash", input={"command": "ls"}), "running Bash 5 s: ls"),
        (signal("PreToolUse", 5, tool="AskUserQuestion"), "asking a question"),
        (signal("PreToolUse", 5, tool="Agent"), "sub-agents 1"),
        (signal("Stop", 5), "waiting"),
        (signal("Stop", 5, agents=2), "sub-agents 2"),
        (signal("SessionStart", 5), "waiting"),
        (signal("Notification", 5, kind="idle_prompt"), "waiting"),
        (signal("Notification", 5, message="Claude needs your permission to use Bash"), "asking permission"),
        (signal("PreCompact", 5), "compacting"),
        (signal("SessionEnd", 5), "ended"),
    ],
)
def test_the_newest_signal_says_what_happens(newest: Signal, words: str) -> None:
    found = lines(
        user("a"),
        signals=told(signal("SessionStart", -1), newest),
        rules=Rules(signals=frozenset({"PermissionRequest"})),
    )
    assert say(found, at(10)) == words
    assert found.source is Source.HOOK


def test_a_line_that_is_newer_than_all_signals_is_believed() -> None:
    found = lines(user("a"), assistant("Done."), signals=told(signal("UserPromptSubmit", 0.5)))
    assert (found.detail.kind, found.source) == (Kind.WAITING, Source.TRANSCRIPT)


def test_signals_of_agents_are_not_the_sessions() -> None:
    hooks = told(
        signal("UserPromptSubmit", 1),
        signal("PreToolUse", 5, tool="Bash", agent="a1"),
        signal("SubagentStop", 6, agent="a1"),
    )
    assert lines(user("a"), signals=hooks).detail.kind is Kind.THINKING


# By lines alone


def test_an_open_call_asks_only_if_it_may_and_only_after_a_moment() -> None:
    assert say(lines(user("a"), assistant(BASH), seconds=1.1), at(1.1)) == "probably running Bash 0 s: touch a"
    assert say(lines(user("a"), assistant(BASH)), at(10)) == "probably asking permission for Bash touch a"
    assert lines(user("a"), assistant(tool_use("Read", file_path="/a"))).detail.kind is Kind.RUNNING
    for mode in ("auto", "bypassPermissions", "dontAsk"):
        assert lines(user("a", permissionMode=mode), assistant(BASH)).detail.kind is Kind.RUNNING
    assert lines(user("a"), assistant(BASH), rules=Rules(allow=("Bash(touch:*)",))).detail.kind is Kind.RUNNING
    assert lines(user("a"), assistant(BASH), progress("bash_progress", tool="t1")).detail.kind is Kind.RUNNING


def test_a_question_is_asked_in_every_mode() -> None:
    found = lines(user("a", permissionMode="bypassPermissions"), assistant(QUESTION))
    assert say(found, at(10)) == "probably asking a question: Which colour?"


def test_where_hooks_tell_of_requests_a_call_without_one_runs() -> None:
    hooks = told(signal("UserPromptSubmit", 0.5))
    rules = Rules(signals=frozenset({"PermissionRequest"}))
    assert lines(user("a"), assistant(BASH), signals=hooks, rules=rules).detail.kind is Kind.RUNNING


def test_nobody_asks_for_longer_than_an_hour_or_thinks_for_longer_than_ten_minutes() -> None:
    assert lines(user("a"), assistant(BASH), seconds=3500).detail.kind is Kind.PERMISSION
    assert lines(user("a"), assistant(BASH), seconds=3700).detail.kind is Kind.IDLE
    assert lines(user("a"), seconds=500).detail.kind is Kind.THINKING
    assert lines(user("a"), seconds=700).detail.kind is Kind.IDLE
    assert lines(user("a"), assistant("Done."), seconds=700).detail.kind is Kind.WAITING


def test_a_text_without_a_stop_reason_is_the_end_when_nothing_follows() -> None:
    said = state(user("a"), assistant("Done."), version="2.0.60")
    assert verdict(Evidence(said), at(2)).detail.kind is Kind.THINKING
    assert say(verdict(Evidence(said), at(5)), at(5)) == "probably waiting"


def test_what_lines_state_is_certain_and_what_they_suggest_is_not() -> None:
    assert not lines(user("a"), assistant("Done.")).probably
    assert lines(user("a")).probably
    assert verdict(Evidence(state(user("a"), assistant(thinking("hm")), version="2.0.60")), at(10)).probably


def test_compacting_is_seen_by_the_agent_that_does_it() -> None:
    assert lines(user("a"), assistant("Done."), compacts=True).detail.kind is Kind.COMPACTING


# Sub-agents


def test_a_sub_agent_ends_with_its_answer_or_with_its_session() -> None:
    done = state(user("a"), assistant("It is so."), agent="a1")
    works = state(user("a"), assistant(tool_use("Read", file_path="/a")), agent="a1")
    assert verdict(Evidence(done), at(10)).detail.kind is Kind.ENDED
    assert verdict(Evidence(works), at(10)).detail.kind is Kind.RUNNING
    assert verdict(Evidence(works, is_over=True), at(10)).detail.kind is Kind.ENDED
    assert verdict(Evidence(works), at(8000)).detail.kind is Kind.ENDED
    assert group_of(verdict(Evidence(works), at(10)), works) is Group.BACKGROUND


def test_a_sub_agent_that_was_stopped_or_failed_is_over_and_says_why() -> None:
    stopped = state(user("a"), assistant(BASH), user(text("[Request interrupted by user]")), agent="a1")
    failed = state(user("a"), FAILED, agent="a1")
    assert say(verdict(Evidence(stopped), at(10)), at(10)) == "ended: interrupted"
    assert say(verdict(Evidence(failed), at(10)), at(10)) == "ended: API Error: 529"


def test_a_sub_agent_of_a_busy_process_does_not_ask() -> None:
    asks = state(user("a"), assistant(BASH), agent="a1")
    assert verdict(Evidence(asks), at(10)).detail.kind is Kind.PERMISSION
    assert verdict(Evidence(asks, process("busy")), at(10)).detail.kind is Kind.RUNNING


# Groups and words


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (Kind.PERMISSION, Group.NEEDS_YOU), (Kind.QUESTION, Group.NEEDS_YOU), (Kind.ERROR, Group.NEEDS_YOU),
        (Kind.RUNNING, Group.WORKING), (Kind.THINKING, Group.WORKING), (Kind.RETRYING, Group.WORKING),
        (Kind.COMPACTING, Group.WORKING), (Kind.AGENTS, Group.BACKGROUND), (Kind.WAITING, Group.WAITING),
        (Kind.INTERRUPTED, Group.WAITING), (Kind.ENDED, Group.ENDED), (Kind.IDLE, Group.IDLE),
    ],
)  # fmt: skip
def test_every_kind_has_its_group(kind: Kind, group: Group) -> None:
    assert group_of(Verdict(Detail(kind)), State()) is group


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (3900, "1 h 5 min"), (90_000, "1 d")],
)
def test_elapsed_time_in_words(seconds: float, words: str) -> None:
    assert elapsed(START, at(seconds)) == words
    assert elapsed(None, at(seconds)) == ""
    assert elapsed(at(seconds + 5), at(seconds)) == "0 s"


_steps = [user("a"), assistant("b"), assistant(BASH), tool_result("c", id="t1"), assistant(QUESTION)]
_statuses = ("busy", "idle", "waiting", "odd", None)
_events = ("Stop", "PreToolUse", "PermissionRequest", "SessionEnd", "PreCompact")
_signals = st.builds(signal, st.sampled_from(_events), st.floats(0, 20), tool=st.sampled_from(["Bash", None]))


@given(
    st.lists(st.sampled_from(_steps), max_size=6),
    st.sampled_from([None, *(process(status, life=life) for status in _statuses for life in Life)]),
    st.lists(_signals, max_size=4),
    st.floats(0, 20_000),
)
def test_there_is_always_a_verdict_and_a_dead_process_never_asks(
    steps: list[Step], running: Running | None, signals: list[Signal], seconds: float
) -> None:
    found = verdict(Evidence(state(*steps), running, told(*signals)), at(seconds))
    assert say(found, at(seconds))
    if running is not None and running.life is Life.DEAD:
        assert group_of(found, state(*steps)) is Group.ENDED
