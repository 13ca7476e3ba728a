"""What a session is doing: by its process, by hooks, by its lines; and what each is worth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.state.test_approval import rules_of
from unspool.live.state.approval import ApprovalRules
from unspool.live.state.model import (
    Activity,
    ActivityKind,
    BoardGroup,
    EvidenceSource,
    HookSignal,
    Liveness,
    SessionProcess,
    Verdict,
    describe_verdict,
    format_elapsed,
)
from unspool.live.state.status import SessionState, next_state
from unspool.live.state.verdict import Evidence, board_group, decide
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


def state(*steps: Step, version: str = "2.1.325", agent: str | None = None) -> SessionState:
    found = SessionState(is_agent=agent is not None)
    for record in session(*steps, version=version, agent=agent).records:
        found = next_state(found, record, START)
    return found


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lines(*steps: Step, seconds: float = 10, **known: Any) -> Verdict:
    return decide(Evidence(state(*steps), **known), at(seconds))


def process(
    status: str | None = None, waiting_for: str | None = None, life: Liveness = Liveness.LIVES
) -> SessionProcess:
    return SessionProcess(7, ID, life, status, waiting_for, since=at(2), updated=at(2))


def signal(event: str, seconds: float, **said: Any) -> HookSignal:
    return HookSignal(event, at(seconds), **said)


def told(*signals: HookSignal) -> dict[str, HookSignal]:
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
    found = lines(*steps, process=process(status, waiting_for))
    assert describe_verdict(found, at(10)) == words
    assert (found.source, found.probably) == (EvidenceSource.REGISTRY, False)


def test_a_dead_process_never_needs_approval() -> None:
    for life, status in ((Liveness.DEAD, "waiting"), (Liveness.DEAD, None)):
        found = lines(user("a"), assistant(BASH), process=process(status, "permission prompt", life))
        assert (found.activity.kind, found.source, found.probably) == (
            ActivityKind.ENDED,
            EvidenceSource.REGISTRY,
            False,
        )


def test_a_process_that_was_seen_and_is_gone_has_ended_its_session() -> None:
    found = lines(user("a"), assistant(BASH), was_seen=True)
    assert (found.activity.kind, found.probably) == (ActivityKind.ENDED, False)


def test_a_version_that_always_registers_and_has_not_is_probably_over() -> None:
    assert lines(user("a"), assistant(BASH), has_registry=True, seconds=60).activity.kind is ActivityKind.ENDED
    assert lines(user("a"), assistant(BASH), has_registry=True, seconds=60).probably
    assert lines(user("a"), assistant(BASH), has_registry=True, seconds=8000).activity.kind is ActivityKind.IDLE


def test_a_session_that_has_just_begun_need_not_be_registered_yet() -> None:
    assert lines(user("a"), has_registry=True, seconds=3).activity.kind is ActivityKind.THINKING


def test_a_process_elsewhere_is_believed_for_a_while_and_only_probably() -> None:
    far = process("waiting", "permission prompt", Liveness.ELSEWHERE)
    assert lines(user("a"), assistant(BASH), process=far).probably
    assert lines(user("a"), assistant(BASH), process=far, seconds=8000).activity.kind is ActivityKind.IDLE


def test_a_process_that_says_nothing_lets_hooks_and_lines_speak() -> None:
    hooks = told(signal("Stop", 5))
    assert lines(user("a"), assistant("Done."), process=process()).source is EvidenceSource.TRANSCRIPT
    assert lines(user("a"), assistant("Done."), process=process(), signals=hooks).source is EvidenceSource.HOOK
    assert lines(user("a"), process=process(), seconds=100_000).activity.kind is ActivityKind.THINKING


def test_a_process_waits_for_the_call_of_its_agent() -> None:
    inner = state(user("b"), assistant(BASH), agent="a1").open_calls
    outer = assistant(tool_use("Agent", description="b"))
    found = lines(user("a"), outer, process=process("waiting", "permission prompt"), agent_calls=inner, agents=1)
    assert (found.activity.kind, found.activity.target) == (ActivityKind.PERMISSION, "touch a")


def test_a_turn_that_is_over_with_agents_at_work_is_in_the_background() -> None:
    found = lines(user("a"), assistant("Started."), process=process("busy"), agents=2)
    assert (describe_verdict(found, at(10)), board_group(found, state(user("a"), assistant("x")))) == (
        "sub-agents 2",
        BoardGroup.BACKGROUND,
    )


# By hooks


def test_a_request_for_permission_stands_until_the_call_has_a_result() -> None:
    hooks = told(
        signal("PreToolUse", 1.1, tool="Bash"),
        signal("PermissionRequest", 1.2, tool="Bash", input={"command": "touch a"}),
    )
    found = lines(user("a"), assistant(BASH), signals=hooks)
    assert (describe_verdict(found, at(10)), found.source, found.probably) == (
        "asking permission for Bash touch a",
        EvidenceSource.HOOK,
        False,
    )
    assert lines(user("a"), assistant(BASH), tool_result("ok"), signals=hooks).activity.kind is ActivityKind.THINKING
    assert (
        lines(user("a"), assistant(BASH), progress("bash_progress", tool="t1"), signals=hooks).activity.kind
        is ActivityKind.RUNNING
    )


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact"])
def test_a_request_for_permission_is_over_when_the_turn_is(event: str) -> None:
    hooks = told(signal("PermissionRequest", 1.2, tool="Bash"), signal(event, 5))
    assert lines(user("a"), assistant(BASH), signals=hooks).activity.kind is not ActivityKind.PERMISSION


def test_a_request_survives_the_result_of_another_call() -> None:
    calls = assistant(tool_use("Read", id="t0"), BASH)
    hooks = told(signal("PermissionRequest", 2.2, tool="Bash"), signal("PostToolUse", 3.1, tool="Read", call="t0"))
    found = lines(user("a"), calls, tool_result("ok", id="t0"), signals=hooks)
    assert (found.activity.kind, found.activity.tool) == (ActivityKind.PERMISSION, "Bash")


def test_an_interrupt_that_no_hook_tells_of_is_seen_in_the_lines() -> None:
    hooks = told(signal("PermissionRequest", 1.2, tool="Bash"))
    found = lines(user("a"), assistant(BASH), user(text("[Request interrupted by user]")), signals=hooks)
    assert (found.activity.kind, found.source) == (ActivityKind.INTERRUPTED, EvidenceSource.TRANSCRIPT)


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
def test_the_newest_signal_says_what_happens(newest: HookSignal, words: str) -> None:
    found = lines(
        user("a"),
        signals=told(signal("SessionStart", -1), newest),
        rules=ApprovalRules(signals=frozenset({"PermissionRequest"})),
    )
    assert describe_verdict(found, at(10)) == words
    assert found.source is EvidenceSource.HOOK


def test_a_line_that_is_newer_than_all_signals_is_believed() -> None:
    found = lines(user("a"), assistant("Done."), signals=told(signal("UserPromptSubmit", 0.5)))
    assert (found.activity.kind, found.source) == (ActivityKind.WAITING, EvidenceSource.TRANSCRIPT)


def test_signals_of_agents_are_not_the_sessions() -> None:
    hooks = told(
        signal("UserPromptSubmit", 1),
        signal("PreToolUse", 5, tool="Bash", agent="a1"),
        signal("SubagentStop", 6, agent="a1"),
    )
    assert lines(user("a"), signals=hooks).activity.kind is ActivityKind.THINKING


# By lines alone


def test_an_open_call_asks_only_if_it_may_and_only_after_a_moment() -> None:
    assert (
        describe_verdict(lines(user("a"), assistant(BASH), seconds=1.1), at(1.1))
        == "probably running Bash 0 s: touch a"
    )
    assert describe_verdict(lines(user("a"), assistant(BASH)), at(10)) == "probably asking permission for Bash touch a"
    assert lines(user("a"), assistant(tool_use("Read", file_path="/a"))).activity.kind is ActivityKind.RUNNING
    for mode in ("auto", "bypassPermissions", "dontAsk"):
        assert lines(user("a", permissionMode=mode), assistant(BASH)).activity.kind is ActivityKind.RUNNING
    assert (
        lines(user("a"), assistant(BASH), rules=rules_of(allow=["Bash(touch:*)"])).activity.kind is ActivityKind.RUNNING
    )
    assert lines(user("a"), assistant(BASH), progress("bash_progress", tool="t1")).activity.kind is ActivityKind.RUNNING


def test_a_question_is_asked_in_every_mode() -> None:
    found = lines(user("a", permissionMode="bypassPermissions"), assistant(QUESTION))
    assert describe_verdict(found, at(10)) == "probably asking a question: Which colour?"


def test_where_hooks_tell_of_requests_a_call_without_one_runs() -> None:
    hooks = told(signal("UserPromptSubmit", 0.5))
    rules = ApprovalRules(signals=frozenset({"PermissionRequest"}))
    assert lines(user("a"), assistant(BASH), signals=hooks, rules=rules).activity.kind is ActivityKind.RUNNING


def test_nobody_asks_for_longer_than_an_hour_or_thinks_for_longer_than_ten_minutes() -> None:
    assert lines(user("a"), assistant(BASH), seconds=3500).activity.kind is ActivityKind.PERMISSION
    assert lines(user("a"), assistant(BASH), seconds=3700).activity.kind is ActivityKind.IDLE
    assert lines(user("a"), seconds=500).activity.kind is ActivityKind.THINKING
    assert lines(user("a"), seconds=700).activity.kind is ActivityKind.IDLE
    assert lines(user("a"), assistant("Done."), seconds=700).activity.kind is ActivityKind.WAITING


def test_a_text_without_a_stop_reason_is_the_end_when_nothing_follows() -> None:
    said = state(user("a"), assistant("Done."), version="2.0.60")
    assert decide(Evidence(said), at(2)).activity.kind is ActivityKind.THINKING
    assert describe_verdict(decide(Evidence(said), at(5)), at(5)) == "probably waiting"


def test_what_lines_state_is_certain_and_what_they_suggest_is_not() -> None:
    assert not lines(user("a"), assistant("Done.")).probably
    assert lines(user("a")).probably
    assert decide(Evidence(state(user("a"), assistant(thinking("hm")), version="2.0.60")), at(10)).probably


def test_compacting_is_seen_by_the_agent_that_does_it() -> None:
    assert lines(user("a"), assistant("Done."), is_compacting=True).activity.kind is ActivityKind.COMPACTING


# Sub-agents


def test_a_sub_agent_ends_with_its_answer_or_with_its_session() -> None:
    done = state(user("a"), assistant("It is so."), agent="a1")
    works = state(user("a"), assistant(tool_use("Read", file_path="/a")), agent="a1")
    assert decide(Evidence(done), at(10)).activity.kind is ActivityKind.ENDED
    assert decide(Evidence(works), at(10)).activity.kind is ActivityKind.RUNNING
    assert decide(Evidence(works, is_over=True), at(10)).activity.kind is ActivityKind.ENDED
    assert decide(Evidence(works), at(8000)).activity.kind is ActivityKind.ENDED
    assert board_group(decide(Evidence(works), at(10)), works) is BoardGroup.BACKGROUND


def test_a_sub_agent_that_was_stopped_or_failed_is_over_and_says_why() -> None:
    stopped = state(user("a"), assistant(BASH), user(text("[Request interrupted by user]")), agent="a1")
    failed = state(user("a"), FAILED, agent="a1")
    assert describe_verdict(decide(Evidence(stopped), at(10)), at(10)) == "ended: interrupted"
    assert describe_verdict(decide(Evidence(failed), at(10)), at(10)) == "ended: API Error: 529"


def test_a_sub_agent_of_a_busy_process_does_not_ask() -> None:
    asks = state(user("a"), assistant(BASH), agent="a1")
    assert decide(Evidence(asks), at(10)).activity.kind is ActivityKind.PERMISSION
    assert decide(Evidence(asks, process("busy")), at(10)).activity.kind is ActivityKind.RUNNING


# Groups and words


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (ActivityKind.PERMISSION, BoardGroup.NEEDS_YOU),
        (ActivityKind.QUESTION, BoardGroup.NEEDS_YOU),
        (ActivityKind.ERROR, BoardGroup.NEEDS_YOU),
        (ActivityKind.RUNNING, BoardGroup.WORKING),
        (ActivityKind.THINKING, BoardGroup.WORKING),
        (ActivityKind.RETRYING, BoardGroup.WORKING),
        (ActivityKind.COMPACTING, BoardGroup.WORKING),
        (ActivityKind.AGENTS, BoardGroup.BACKGROUND),
        (ActivityKind.BACKGROUND, BoardGroup.BACKGROUND),
        (ActivityKind.WAITING, BoardGroup.WAITING),
        (ActivityKind.INTERRUPTED, BoardGroup.WAITING),
        (ActivityKind.ENDED, BoardGroup.ENDED),
        (ActivityKind.IDLE, BoardGroup.IDLE),
    ],
)
def test_every_kind_has_its_group(kind: ActivityKind, group: BoardGroup) -> None:
    assert board_group(Verdict(Activity(kind)), SessionState()) is group


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (3900, "1 h 5 min"), (90_000, "1 d")],
)
def test_elapsed_time_in_words(seconds: float, words: str) -> None:
    assert format_elapsed(START, at(seconds)) == words
    assert format_elapsed(None, at(seconds)) == ""
    assert format_elapsed(at(seconds + 5), at(seconds)) == "0 s"


_steps = [user("a"), assistant("b"), assistant(BASH), tool_result("c", id="t1"), assistant(QUESTION)]
_statuses = ("busy", "idle", "waiting", "odd", None)
_events = ("Stop", "PreToolUse", "PermissionRequest", "SessionEnd", "PreCompact")
_signals = st.builds(signal, st.sampled_from(_events), st.floats(0, 20), tool=st.sampled_from(["Bash", None]))


@given(
    st.lists(st.sampled_from(_steps), max_size=6),
    st.sampled_from([None, *(process(status, life=life) for status in _statuses for life in Liveness)]),
    st.lists(_signals, max_size=4),
    st.floats(0, 20_000),
)
def test_there_is_always_a_verdict_and_a_dead_process_never_asks(
    steps: list[Step], running: SessionProcess | None, signals: list[HookSignal], seconds: float
) -> None:
    found = decide(Evidence(state(*steps), running, told(*signals)), at(seconds))
    assert describe_verdict(found, at(seconds))
    if running is not None and running.life is Liveness.DEAD:
        assert board_group(found, state(*steps)) is BoardGroup.ENDED
