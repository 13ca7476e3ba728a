"""Decides what a session is doing, from all that is known of it at a given time.

Rules, of which the first that yields an answer counts
  1. A process that died has ended its session, whatever it left open. So has a process that is missing from the
     registry, if its version always registers (2.1.200 and later).
  2. A living process says itself whether it is idle, busy, waiting, or idle with commands in the background; its lines
     say for what, and which.
  3. Hooks say what happened last, unless a line is newer. A permission request stands until its call has a result or is
     seen to run, or until the turn is over: nothing reports that the user said yes.
  4. Lines alone: an open call asks or runs, by its permission mode and rules; without one the phase decides. What this
     claims about a process is only probable, and after an hour (thinking: ten minutes) nobody is assumed to be there.

A sub-agent has no process and no hooks of its own, and what it waits for its session waits for. Its calls are therefore
among the session's calls that may ask, and the number of working agents is part of what the session is doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from unspool.format import parse_version
from unspool.format.tools import AGENT_TOOLS
from unspool.graph import describe_target
from unspool.live.state.approval import ApprovalRules, may_need_approval
from unspool.live.state.model import (
    QUESTION_TOOLS,
    Activity,
    BoardGroup,
    EvidenceSource,
    HookSignal,
    Liveness,
    PendingCall,
    SessionProcess,
    Verdict,
    needs_user,
)
from unspool.live.state.model import ActivityKind as Kind
from unspool.live.state.status import Phase, SessionState

ASK_DELAY = timedelta(seconds=0.3)
"""How long a call is open before it is taken to ask: most calls have a result sooner."""
END_OF_TURN_DELAY = timedelta(seconds=3)
"""How long nothing follows a text before it is taken for the end of a turn, where no stop reason is written."""
MAX_THINKING = timedelta(minutes=10)
MAX_SILENCE = timedelta(hours=1)
MAX_SIGNAL_AGE = timedelta(hours=12)
LONG_AGO = timedelta(days=1)
"""After which the board reads no session, unless its process lives: whatever it was doing, it is idle."""
REGISTRATION_GRACE = timedelta(seconds=10)
"""How long a session may have lines before its process is in the registry."""
_ALWAYS_REGISTERS_SINCE = (2, 1, 200)
_TURN_EVENTS = frozenset({"Stop", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact"})
"""Hook events after which no earlier permission request stands."""
_ActivitySince: TypeAlias = tuple[Activity, datetime | None]


class Evidence(msgspec.Struct, frozen=True):
    """All that is known of a session, or of one sub-agent."""

    state: SessionState
    process: SessionProcess | None = None
    signals: Mapping[str, HookSignal] = {}
    """The last signal of each hook event."""
    rules: ApprovalRules = ApprovalRules()
    agents: int = 0
    """How many of its sub-agents are working."""
    agent_calls: tuple[PendingCall, ...] = ()
    """The open calls of those agents."""
    has_registry: bool = False
    """Whether Claude Code keeps a process registry in this config folder."""
    was_seen: bool = False
    """Whether its process was seen alive before."""
    is_over: bool = False
    """For a sub-agent: whether its session has ended or is idle."""
    is_compacting: bool = False
    """Whether Claude Code's own agent for compactions is working."""


def decide(evidence: Evidence, now: datetime) -> Verdict:
    """Return what a session, or a sub-agent, is doing at a time."""
    if evidence.state.is_agent:
        return _decide_agent(evidence, now)
    process = evidence.process
    if process is not None and process.life is Liveness.DEAD:
        last = evidence.state.last_line_at or process.updated
        # Nobody reads what has not changed for so long: everywhere it is idle, not only where it is read.
        if not evidence.was_seen and (last is None or now - last >= LONG_AGO):
            return Verdict(Activity(Kind.IDLE), EvidenceSource.REGISTRY, last)
        died = Activity(Kind.ENDED, message="its process has exited")
        return Verdict(died, EvidenceSource.REGISTRY, last)
    if process is None and _process_is_gone(evidence, now):
        return _decide_without_process(evidence, now)
    if process is not None and (found := _decide_by_registry(evidence, process, now)):
        return found
    if by_hooks := _activity_by_hooks(evidence, now):
        return Verdict(by_hooks[0], EvidenceSource.HOOK, by_hooks[1])
    return _decide_by_lines(evidence, now)


def board_group(verdict: Verdict, state: SessionState) -> BoardGroup:
    """Return the heading under which the board lists a session."""
    kind = verdict.activity.kind
    if kind is Kind.ENDED:
        return BoardGroup.ENDED
    if kind is Kind.IDLE:
        return BoardGroup.IDLE
    if state.is_agent:
        return BoardGroup.BACKGROUND
    if needs_user(verdict.activity):
        return BoardGroup.NEEDS_YOU
    if kind is Kind.BACKGROUND or (kind is Kind.AGENTS and not state.open_calls):
        return BoardGroup.BACKGROUND
    return BoardGroup.WAITING if kind in (Kind.WAITING, Kind.INTERRUPTED) else BoardGroup.WORKING


def is_later(time: datetime | None, than: datetime) -> bool:
    """Return whether a time is known and later than another."""
    return time is not None and time > than


# By the process registry


def _process_is_gone(evidence: Evidence, now: datetime) -> bool:
    if evidence.was_seen:
        return True
    state = evidence.state
    version = parse_version(state.version)
    is_new = state.last_line_at is not None and now - state.last_line_at < REGISTRATION_GRACE
    return evidence.has_registry and version >= _ALWAYS_REGISTERS_SINCE and not is_new


def _decide_without_process(evidence: Evidence, now: datetime) -> Verdict:
    last = evidence.state.last_line_at
    # Of a session that ended long ago, and that nobody watched, the end is no news: it is just idle.
    if not evidence.was_seen and (last is None or now - last >= MAX_SILENCE):
        return Verdict(Activity(Kind.IDLE), EvidenceSource.REGISTRY, last)
    return Verdict(Activity(Kind.ENDED), EvidenceSource.REGISTRY, last, probably=not evidence.was_seen)


def _decide_by_registry(evidence: Evidence, process: SessionProcess, now: datetime) -> Verdict | None:
    # A process on another machine cannot be checked: a dead one would say `busy` for ever.
    is_elsewhere = process.life is Liveness.ELSEWHERE
    if process.status is None or (is_elsewhere and process.updated is not None and now - process.updated > MAX_SILENCE):
        return None
    state = evidence.state
    since = process.since
    match process.status:
        case "waiting":
            activity = _awaited(evidence, process)
        case "busy" if _is_compacting(evidence):
            activity = Activity(Kind.COMPACTING)
        case "busy":
            activity, since = _busy_activity(evidence, process)
        case "idle" if state.phase is Phase.INTERRUPTED:
            activity = Activity(Kind.INTERRUPTED)
        case "idle" | "shell" if state.phase is Phase.FAILED:
            activity = Activity(Kind.ERROR, message=state.message)
        case "shell":
            activity, since = _background_activity(evidence, since)
        case "idle":
            activity = Activity(Kind.WAITING)
        case _:
            return None
    return Verdict(activity, EvidenceSource.REGISTRY, since, probably=process.life is not Liveness.LIVES)


def _awaited(evidence: Evidence, process: SessionProcess) -> Activity:
    """Return what a process waits for: of its open calls the first that may ask is the one that asks."""
    calls = (*evidence.state.open_calls, *evidence.agent_calls)
    question = next((call for call in calls if call.name in QUESTION_TOOLS), None)
    # The process says itself that something asks, so the permission mode is left out of the question.
    asking = [call for call in calls if may_need_approval(call, "default", evidence.rules)]
    # For a question 2.1.325 writes `input needed`; 2.1.200 writes `permission prompt`, as for every other call.
    if process.waiting_for == "input needed" or (question is not None and asking[:1] == [question]):
        return Activity(Kind.QUESTION, message=question.question if question else "")
    call = next((call for call in (*asking, *calls) if call.name not in AGENT_TOOLS), None)
    if call is None:
        message = "" if process.waiting_for == "permission prompt" else process.waiting_for or ""
        return Activity(Kind.PERMISSION, message=message)
    return Activity(Kind.PERMISSION, call.name, call.target)


def _busy_activity(evidence: Evidence, process: SessionProcess) -> _ActivitySince:
    state = evidence.state
    if state.open_calls:
        return _running_activity(evidence, state.open_calls)
    match state.phase:
        case Phase.SHELL:
            return Activity(Kind.RUNNING, "Bash", state.message), state.since
        case Phase.RETRYING:
            return Activity(Kind.RETRYING, message=state.message), state.since
        case Phase.PROMPTED | Phase.CONTINUES:
            return Activity(Kind.THINKING), state.since
        case _ if evidence.agents:
            return Activity(Kind.AGENTS, count=evidence.agents), state.since
        case _:
            return Activity(Kind.THINKING), process.since


def _running_activity(evidence: Evidence, calls: tuple[PendingCall, ...]) -> _ActivitySince:
    """Return the activity of open calls, given that they run."""
    call = next((call for call in calls if call.name not in AGENT_TOOLS), None)
    if call is None:
        return Activity(Kind.AGENTS, count=max(evidence.agents, len(calls))), calls[0].opened_at
    return Activity(Kind.RUNNING, call.name, call.target), call.opened_at


def _background_activity(evidence: Evidence, since: datetime | None = None, count: int | None = None) -> _ActivitySince:
    """Return the activity of a session whose turn is over while commands run in the background."""
    commands = evidence.state.background
    last = commands[-1] if commands else PendingCall("", "Bash")
    count = max(len(commands), 1) if count is None else count
    return Activity(Kind.BACKGROUND, last.name, last.target, count), last.opened_at or since


def _is_compacting(evidence: Evidence) -> bool:
    begun = evidence.signals.get("PreCompact")
    if begun is None:
        return evidence.is_compacting
    has_later_signal = any(signal.at > begun.at for signal in evidence.signals.values())
    return not has_later_signal and not is_later(evidence.state.last_event_at, begun.at)


# By hook signals


def _activity_by_hooks(evidence: Evidence, now: datetime) -> _ActivitySince | None:
    request = _standing_request(evidence)
    if request is not None:
        call = _requested_call(request, evidence)
        if request.tool in QUESTION_TOOLS:
            return Activity(Kind.QUESTION, message=call.question if call else ""), request.at
        target = call.target if call else describe_target(request.tool or "", request.input, evidence.state.cwd)
        return Activity(Kind.PERMISSION, request.tool or (call.name if call else None), target), request.at
    # Signals of a sub-agent say nothing about what the session itself does.
    own = [signal for signal in evidence.signals.values() if signal.event != "SubagentStop" and signal.agent is None]
    newest = max(own, key=lambda signal: signal.at, default=None)
    if newest is None or now - newest.at > MAX_SIGNAL_AGE:
        return None
    last_event_at = evidence.state.last_event_at
    # A line that follows at once belongs to the end; only a later one shows that the session was resumed.
    if newest.event == "SessionEnd" and not is_later(last_event_at, newest.at + timedelta(seconds=2)):
        return Activity(Kind.ENDED), newest.at
    if is_later(last_event_at, newest.at):
        return None
    if _is_compacting(evidence):
        return Activity(Kind.COMPACTING), newest.at
    return _activity_by_newest(evidence, newest)


def _standing_request(evidence: Evidence) -> HookSignal | None:
    """Return the permission request that is not answered yet."""
    signals = evidence.signals
    notified = signals.get("Notification")
    if notified is not None and not (notified.kind == "permission_prompt" or "permission" in notified.message.lower()):
        notified = None
    requests = [signal for signal in (signals.get("PermissionRequest"), notified) if signal]
    request = max(requests, key=lambda signal: signal.at, default=None)
    if request is None or any(
        signal.at > request.at for signal in signals.values() if signal.event in _TURN_EVENTS and signal.agent is None
    ):
        return None
    done = signals.get("PostToolUse")
    if done is not None and done.at > request.at and request.tool in (None, done.tool):
        return None
    call = _requested_call(request, evidence)
    if call is not None:
        return None if call.is_running else request
    return None if is_later(evidence.state.last_event_at, request.at) else request


def _requested_call(request: HookSignal, evidence: Evidence) -> PendingCall | None:
    """Return the open call that a signal is about."""
    all_calls = (*evidence.state.open_calls, *evidence.agent_calls)
    calls = [call for call in all_calls if request.tool in (None, call.name)]
    target = describe_target(request.tool, request.input, evidence.state.cwd) if request.tool else ""
    same = [call for call in calls if target and call.target == target]
    return next(iter(same or calls), None)


def _activity_by_newest(evidence: Evidence, newest: HookSignal) -> _ActivitySince | None:
    state = evidence.state
    match newest.event:
        case "PreToolUse" if newest.tool in QUESTION_TOOLS:
            open_call = _requested_call(newest, evidence)
            return Activity(Kind.QUESTION, message=open_call.question if open_call else ""), newest.at
        case "PreToolUse" if newest.tool in AGENT_TOOLS:
            return Activity(Kind.AGENTS, count=max(evidence.agents, 1)), newest.at
        case "PreToolUse":
            call = PendingCall(
                "", newest.tool or "", describe_target(newest.tool or "", newest.input, state.cwd), newest.input
            )
            # Without a hook for requests (before 2.0.76) the call may wait for approval: the lines decide.
            if "PermissionRequest" not in evidence.rules.signals and may_need_approval(
                call, newest.mode, evidence.rules
            ):
                return None
            return Activity(Kind.RUNNING, newest.tool, call.target), newest.at
        case "UserPromptSubmit" | "PostToolUse":
            left = tuple(call for call in state.open_calls if call.id != newest.call)
            if left and newest.event == "PostToolUse":
                return _running_activity(evidence, left)
            return Activity(Kind.THINKING), newest.at
        case "Stop" if newest.agents or evidence.agents:
            return Activity(Kind.AGENTS, count=evidence.agents or newest.agents), newest.at
        case "Stop" if newest.commands if newest.commands is not None else state.background:
            return _background_activity(evidence, newest.at, newest.commands)
        case "Notification" if state.phase in (Phase.INTERRUPTED, Phase.FAILED):
            return None
        case "Notification" if state.background:
            return _background_activity(evidence, newest.at)
        case "Stop" | "SessionStart" | "Notification":
            return Activity(Kind.WAITING), newest.at
        case _:
            return None


# By lines alone


def _decide_by_lines(evidence: Evidence, now: datetime) -> Verdict:
    state, process = evidence.state, evidence.process
    is_alive = process is not None and process.life in (Liveness.LIVES, Liveness.LIKELY)
    silence = now - state.last_line_at if state.last_line_at else MAX_SILENCE
    if not is_alive and silence >= MAX_SILENCE:
        return Verdict(Activity(Kind.IDLE), since=state.last_line_at)
    if evidence.is_compacting:
        return Verdict(Activity(Kind.COMPACTING), since=state.last_line_at, probably=True)
    if state.open_calls:
        return _decide_by_calls(evidence, now)
    if not is_alive and silence >= MAX_THINKING and state.phase in (Phase.PROMPTED, Phase.CONTINUES, Phase.RETRYING):
        return Verdict(Activity(Kind.IDLE), since=state.last_line_at)
    return _decide_by_phase(evidence, now)


def _decide_by_calls(evidence: Evidence, now: datetime) -> Verdict:
    state = evidence.state
    waiting = (call for call in (*state.open_calls, *evidence.agent_calls) if not call.is_running)
    call = next((call for call in waiting if may_need_approval(call, state.permission_mode, evidence.rules)), None)
    if call is not None and call.name in QUESTION_TOOLS:
        return Verdict(Activity(Kind.QUESTION, message=call.question), since=call.opened_at, probably=True)
    # With our hooks installed a request would have been signalled; without a signal the call runs.
    has_request_hook = "PermissionRequest" in evidence.rules.signals and bool(evidence.signals)
    if call is not None and not has_request_hook and (call.opened_at is None or now - call.opened_at >= ASK_DELAY):
        return Verdict(Activity(Kind.PERMISSION, call.name, call.target), since=call.opened_at, probably=True)
    activity, since = _running_activity(evidence, state.open_calls)
    return Verdict(activity, since=since, probably=True)


def _decide_by_phase(evidence: Evidence, now: datetime) -> Verdict:
    state = evidence.state
    since = state.since
    match state.phase:
        case Phase.INTERRUPTED:
            return Verdict(Activity(Kind.INTERRUPTED), since=since)
        case Phase.FAILED:
            return Verdict(Activity(Kind.ERROR, message=state.message), since=since)
        case Phase.RETRYING:
            return Verdict(Activity(Kind.RETRYING, message=state.message), since=since, probably=True)
        case Phase.SHELL:
            return Verdict(Activity(Kind.RUNNING, "Bash", state.message), since=since, probably=True)
        case Phase.DONE if evidence.agents:
            return Verdict(Activity(Kind.AGENTS, count=evidence.agents), since=since, probably=True)
        case Phase.DONE if state.background:
            activity, since = _background_activity(evidence, since)
            return Verdict(activity, since=since, probably=True)
        case Phase.DONE | Phase.NEW:
            return Verdict(Activity(Kind.WAITING), since=since or state.last_line_at)
        case Phase.ANSWERED if since is None or now - since >= END_OF_TURN_DELAY:
            if state.background:
                activity, since = _background_activity(evidence, since)
                return Verdict(activity, since=since, probably=True)
            return Verdict(Activity(Kind.WAITING), since=since, probably=True)
        case _:
            return Verdict(Activity(Kind.THINKING), since=since, probably=True)


def _decide_agent(evidence: Evidence, now: datetime) -> Verdict:
    """Return what a sub-agent is doing: it has no process and no hooks of its own, and ends with its answer."""
    state = evidence.state
    ended = Verdict(Activity(Kind.ENDED), since=state.last_line_at)
    status = evidence.process.status if evidence.process else None
    may_wait = status == "waiting" and bool(state.open_calls)
    is_quiet = state.last_line_at is not None and now - state.last_line_at >= MAX_THINKING
    if evidence.is_over or state.phase is Phase.NEW or (is_quiet and not may_wait):
        return ended
    found = _decide_by_calls(evidence, now) if state.open_calls else _decide_by_phase(evidence, now)
    kind = found.activity.kind
    if kind is Kind.PERMISSION and status == "busy":
        return replace(found, activity=replace(found.activity, kind=Kind.RUNNING))
    if kind in (Kind.INTERRUPTED, Kind.ERROR):
        return replace(ended, activity=Activity(Kind.ENDED, message=found.activity.message or kind.value))
    # What it left in the background is the session's.
    return replace(ended, probably=found.probably) if kind in (Kind.WAITING, Kind.BACKGROUND) else found
