"""What a session is doing: all that is known of it and a time in, a verdict out. Pure.

Rules, the first that has something to say counts
  1. A process that has died has ended its session, whatever it left open. So has one that is not in the registry, of a
     version that always is (2.1.200 on).
  2. A living process says itself whether it is idle, busy or waiting; its lines tell what for.
  3. Hooks say what happened last, unless a line is newer. A request for permission stands until its call has a result
     or is seen to run, or the turn is over: nothing tells that somebody said yes.
  4. Lines alone: an open call asks, by its permission mode and rules, or it runs; else the phase says it. What that
     claims of a process is only probable, and after an hour (thinking: ten minutes) nobody is there any more.

[merged: judging.py] A session and its sub-agents judged together: files and what is known besides in, a verdict on each out.

An agent has no process of its own, and what it waits for the session waits for: so its calls are among those that may
ask, and how many agents work is a part of what the session is doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from unspool.graph.tool_calls import aim
from unspool.live.approval import Rules, may_ask
from unspool.live.evidence import Evidence, Life, Running, Signal
from unspool.live.followed_file import RESTING, Followed
from unspool.live.model import AGENT_TOOLS, QUESTION_TOOLS, Detail, Group, Kind, Pending, Source, Verdict, needs_you
from unspool.live.status import Phase, State

SETTLES = timedelta(seconds=0.3)
"""How long a call is open before it is said to ask: most are answered sooner."""
SILENCE = timedelta(seconds=3)
"""How long nothing follows a text before it is taken for the end of a turn, where no stop reason is written."""
THINKS = timedelta(minutes=10)
STAYS = timedelta(hours=1)
SIGNALLED = timedelta(hours=12)
GRACE = timedelta(seconds=10)
"""How long a session may have lines before its process is in the registry."""
_REGISTERED_SINCE = (2, 1, 200)
_NOT_HIS = frozenset({"SubagentStop"})
_OVER = frozenset({"Stop", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact"})


def verdict(evidence: Evidence, now: datetime) -> Verdict:
    """Return what a session is doing at a time."""
    if evidence.state.is_agent:
        return _of_agent(evidence, now)
    running = evidence.running
    if running is not None and running.life is Life.DEAD:
        died = Detail(Kind.ENDED, words="its process died")
        return Verdict(died, Source.REGISTRY, evidence.state.last or running.updated)
    if running is None and _has_gone(evidence, now):
        return _ended(evidence, now)
    if running is not None and (found := _by_registry(evidence, running, now)):
        return found
    return _by_hooks(evidence, now) or _by_lines(evidence, now)


def group_of(found: Verdict, state: State) -> Group:
    """Return where the board has a session."""
    kind = found.detail.kind
    if kind is Kind.ENDED:
        return Group.ENDED
    if kind is Kind.IDLE:
        return Group.IDLE
    if state.is_agent:
        return Group.BACKGROUND
    if needs_you(found.detail):
        return Group.NEEDS_YOU
    if kind is Kind.AGENTS and not state.open:
        return Group.BACKGROUND
    return Group.WAITING if kind in (Kind.WAITING, Kind.INTERRUPTED) else Group.WORKING


def _has_gone(evidence: Evidence, now: datetime) -> bool:
    if evidence.was_seen:
        return True
    state = evidence.state
    numbers = tuple(int(part) for part in (state.version or "").split(".") if part.isdigit())
    is_new = state.last is not None and now - state.last < GRACE
    return evidence.is_registered and numbers >= _REGISTERED_SINCE and not is_new


def _ended(evidence: Evidence, now: datetime) -> Verdict:
    """Return the verdict on a session without a process; nobody asks for long how one ended that nobody watched."""
    last = evidence.state.last
    if not evidence.was_seen and (last is None or now - last >= STAYS):
        return Verdict(Detail(Kind.IDLE), Source.REGISTRY, last)
    return Verdict(Detail(Kind.ENDED), Source.REGISTRY, last, probably=not evidence.was_seen)


def _by_registry(evidence: Evidence, running: Running, now: datetime) -> Verdict | None:
    is_far = running.life is Life.ELSEWHERE
    if running.status is None or (is_far and running.updated is not None and now - running.updated > STAYS):
        return None
    state = evidence.state
    since = running.since
    match running.status:
        case "waiting":
            detail = _waiting_for(evidence, running)
        case "busy" if _compacts(evidence):
            detail = Detail(Kind.COMPACTING)
        case "busy":
            detail, since = _busy(evidence, running)
        case "idle" if state.phase is Phase.INTERRUPTED:
            detail = Detail(Kind.INTERRUPTED)
        case "idle" if state.phase is Phase.FAILED:
            detail = Detail(Kind.ERROR, words=state.words)
        case "idle":
            detail = Detail(Kind.WAITING)
        case _:
            return None
    return Verdict(detail, Source.REGISTRY, since, probably=running.life is not Life.LIVES)


def _waiting_for(evidence: Evidence, running: Running) -> Detail:
    """Return what a process waits for: the call that asks is the first one that may."""
    calls = (*evidence.state.open, *evidence.calls)
    question = next((call for call in calls if call.name in QUESTION_TOOLS), None)
    asks = [call for call in calls if may_ask(call, None, replace(evidence.rules, mode=None))]
    if running.waiting_for == "input needed" or (question is not None and asks[:1] == [question]):
        return Detail(Kind.QUESTION, words=question.words if question else "")
    call = next((call for call in (*asks, *calls) if call.name not in AGENT_TOOLS), None)
    if call is None:
        return Detail(
            Kind.PERMISSION, words="" if running.waiting_for == "permission prompt" else running.waiting_for or ""
        )
    return Detail(Kind.PERMISSION, call.name, call.target)


def _busy(evidence: Evidence, running: Running) -> tuple[Detail, datetime | None]:
    state = evidence.state
    if state.open:
        return _at_work(evidence)
    match state.phase:
        case Phase.SHELL:
            return Detail(Kind.RUNNING, "Bash", state.words), state.since
        case Phase.RETRYING:
            return Detail(Kind.RETRYING, words=state.words), state.since
        case Phase.ASKED | Phase.MORE:
            return Detail(Kind.THINKING), state.since
        case _ if evidence.agents:
            return Detail(Kind.AGENTS, count=evidence.agents), state.since
        case _:
            return Detail(Kind.THINKING), running.since


def _at_work(evidence: Evidence) -> tuple[Detail, datetime | None]:
    """Return what open calls are doing."""
    calls = evidence.state.open
    call = next((call for call in calls if call.name not in AGENT_TOOLS), None)
    if call is None:
        return Detail(Kind.AGENTS, count=max(evidence.agents, len(calls))), calls[0].at
    return Detail(Kind.RUNNING, call.name, call.target), call.at


def _compacts(evidence: Evidence) -> bool:
    begun = evidence.signals.get("PreCompact")
    if begun is None:
        return evidence.compacts
    later = [signal for signal in evidence.signals.values() if signal.at > begun.at]
    return not later and not _is_after(evidence.state.event, begun.at)


def _by_hooks(evidence: Evidence, now: datetime) -> Verdict | None:
    own = [signal for signal in evidence.signals.values() if signal.event not in _NOT_HIS and signal.agent is None]
    newest = max(own, key=lambda signal: signal.at, default=None)
    asked = _request(evidence)
    if asked is not None:
        call = _call_of(asked, evidence)
        target = call.target if call else aim(asked.tool or "", asked.input, evidence.state.cwd)
        if asked.tool in QUESTION_TOOLS:
            detail = Detail(Kind.QUESTION, words=call.words if call else "")
        else:
            detail = Detail(Kind.PERMISSION, asked.tool or (call.name if call else None), target)
        return Verdict(detail, Source.HOOK, asked.at)
    if newest is None or now - newest.at > SIGNALLED:
        return None
    if newest.event == "SessionEnd" and not _is_after(evidence.state.event, newest.at + timedelta(seconds=2)):
        return Verdict(Detail(Kind.ENDED), Source.HOOK, newest.at)
    if _is_after(evidence.state.event, newest.at):
        return None
    if _compacts(evidence):
        return Verdict(Detail(Kind.COMPACTING), Source.HOOK, newest.at)
    return _by_event(evidence, newest)


def _request(evidence: Evidence) -> Signal | None:
    """Return the request for permission that still stands."""
    signals = evidence.signals
    told = signals.get("Notification")
    if told is not None and not (told.kind == "permission_prompt" or "permission" in told.message.lower()):
        told = None
    asked = max((one for one in (signals.get("PermissionRequest"), told) if one), key=lambda s: s.at, default=None)
    if asked is None or any(one.at > asked.at for one in signals.values() if one.event in _OVER and one.agent is None):
        return None
    done = signals.get("PostToolUse")
    if done is not None and done.at > asked.at and asked.tool in (None, done.tool):
        return None
    call = _call_of(asked, evidence)
    if call is not None:
        return None if call.runs else asked
    return None if _is_after(evidence.state.event, asked.at) else asked


def _call_of(asked: Signal, evidence: Evidence) -> Pending | None:
    """Return the open call that a request is for."""
    calls = [call for call in (*evidence.state.open, *evidence.calls) if asked.tool in (None, call.name)]
    target = aim(asked.tool, asked.input, evidence.state.cwd) if asked.tool else ""
    same = [call for call in calls if target and call.target == target]
    return next(iter(same or calls), None)


def _by_event(evidence: Evidence, newest: Signal) -> Verdict | None:
    state = evidence.state
    match newest.event:
        case "PreToolUse" if newest.tool in QUESTION_TOOLS:
            call = _call_of(newest, evidence)
            return Verdict(Detail(Kind.QUESTION, words=call.words if call else ""), Source.HOOK, newest.at)
        case "PreToolUse" if newest.tool in AGENT_TOOLS:
            return Verdict(Detail(Kind.AGENTS, count=max(evidence.agents, 1)), Source.HOOK, newest.at)
        case "PreToolUse":
            call = Pending("", newest.tool or "", aim(newest.tool or "", newest.input, state.cwd), newest.input)
            if "PermissionRequest" not in evidence.rules.signals and may_ask(call, newest.mode, evidence.rules):
                return None
            return Verdict(Detail(Kind.RUNNING, newest.tool, call.target), Source.HOOK, newest.at)
        case "UserPromptSubmit" | "PostToolUse":
            left = tuple(call for call in state.open if call.id != newest.call)
            if left and newest.event == "PostToolUse":
                return Verdict(*_sourced(_at_work(_with_open(evidence, left)), Source.HOOK))
            return Verdict(Detail(Kind.THINKING), Source.HOOK, newest.at)
        case "Stop" if newest.agents or evidence.agents:
            return Verdict(Detail(Kind.AGENTS, count=evidence.agents or newest.agents), Source.HOOK, newest.at)
        case "Notification" if state.phase in (Phase.INTERRUPTED, Phase.FAILED):
            return None
        case "Stop" | "SessionStart" | "Notification":
            return Verdict(Detail(Kind.WAITING), Source.HOOK, newest.at)
        case _:
            return None


def _sourced(found: tuple[Detail, datetime | None], source: Source) -> tuple[Detail, Source, datetime | None]:
    return found[0], source, found[1]


def _with_open(evidence: Evidence, calls: tuple[Pending, ...]) -> Evidence:
    return replace(evidence, state=replace(evidence.state, open=calls))


def _is_after(one: datetime | None, other: datetime) -> bool:
    return one is not None and one > other


def _by_lines(evidence: Evidence, now: datetime) -> Verdict:
    state = evidence.state
    lives = evidence.running is not None and evidence.running.life in (Life.LIVES, Life.LIKELY)
    quiet = now - state.last if state.last else STAYS
    if not lives and quiet >= STAYS:
        return Verdict(Detail(Kind.IDLE), since=state.last)
    if evidence.compacts:
        return Verdict(Detail(Kind.COMPACTING), since=state.last, probably=True)
    if state.open:
        return _by_calls(evidence, now)
    if not lives and quiet >= THINKS and state.phase in (Phase.ASKED, Phase.MORE, Phase.RETRYING):
        return Verdict(Detail(Kind.IDLE), since=state.last)
    return _by_phase(evidence, now)


def _by_calls(evidence: Evidence, now: datetime) -> Verdict:
    state = evidence.state
    calls = [call for call in (*state.open, *evidence.calls) if not call.runs]
    asks = next((call for call in calls if may_ask(call, state.mode, evidence.rules)), None)
    if asks is not None and asks.name in QUESTION_TOOLS:
        return Verdict(Detail(Kind.QUESTION, words=asks.words), since=asks.at, probably=True)
    is_signalled = "PermissionRequest" in evidence.rules.signals and bool(evidence.signals)
    if asks is not None and not is_signalled and (asks.at is None or now - asks.at >= SETTLES):
        return Verdict(Detail(Kind.PERMISSION, asks.name, asks.target), since=asks.at, probably=True)
    detail, since = _at_work(evidence)
    return Verdict(detail, since=since, probably=True)


def _by_phase(evidence: Evidence, now: datetime) -> Verdict:
    state = evidence.state
    match state.phase:
        case Phase.INTERRUPTED:
            return Verdict(Detail(Kind.INTERRUPTED), since=state.since)
        case Phase.FAILED:
            return Verdict(Detail(Kind.ERROR, words=state.words), since=state.since)
        case Phase.RETRYING:
            return Verdict(Detail(Kind.RETRYING, words=state.words), since=state.since, probably=True)
        case Phase.SHELL:
            return Verdict(Detail(Kind.RUNNING, "Bash", state.words), since=state.since, probably=True)
        case Phase.DONE if evidence.agents:
            return Verdict(Detail(Kind.AGENTS, count=evidence.agents), since=state.since, probably=True)
        case Phase.DONE | Phase.NEW:
            return Verdict(Detail(Kind.WAITING), since=state.since or state.last)
        case Phase.SAID if state.since is None or now - state.since >= SILENCE:
            return Verdict(Detail(Kind.WAITING), since=state.since, probably=True)
        case _:
            return Verdict(Detail(Kind.THINKING), since=state.since, probably=True)


def _of_agent(evidence: Evidence, now: datetime) -> Verdict:
    """Return what a sub-agent is doing: it has no process and no hooks of its own, and ends with its answer."""
    state = evidence.state
    over = Verdict(Detail(Kind.ENDED), since=state.last)
    status = evidence.running.status if evidence.running else None
    may_wait = status == "waiting" and bool(state.open)
    is_quiet = state.last is not None and now - state.last >= THINKS
    if evidence.is_over or state.phase is Phase.NEW or (is_quiet and not may_wait):
        return over
    found = _by_calls(evidence, now) if state.open else _by_phase(evidence, now)
    if found.detail.kind is Kind.PERMISSION and status == "busy":
        return replace(found, detail=replace(found.detail, kind=Kind.RUNNING))
    if found.detail.kind in (Kind.INTERRUPTED, Kind.ERROR):
        return replace(over, detail=Detail(Kind.ENDED, words=found.detail.words or found.detail.kind.value))
    return replace(over, probably=found.probably) if found.detail.kind is Kind.WAITING else found


class Known(NamedTuple):
    """What is known of a session besides its lines."""

    running: Running | None = None
    signals: Mapping[str, Signal] = {}
    rules: Rules = Rules()
    is_registered: bool = False


def judged(file: Followed, agents: list[Followed], known: Known, now: datetime) -> list[tuple[Followed, Verdict]]:
    """Return verdicts on a session and on its agents."""
    if known.running is not None and known.running.life is Life.LIVES:
        file.seen = now
    found = {agent.path: _of_agent_judging(agent, known, now) for agent in agents}
    working = [agent for agent in agents if found[agent.path].detail.kind not in RESTING]
    evidence = Evidence(
        state=file.state,
        running=known.running,
        signals=known.signals,
        rules=known.rules,
        agents=sum(1 for agent in working if not agent.is_special),
        calls=tuple(call for agent in working if not agent.is_special for call in agent.state.open),
        is_registered=known.is_registered,
        was_seen=file.seen is not None and not _goes_on(file, file.seen),
        compacts=any((agent.name.agent_id or "").startswith("acompact") for agent in working),
    )
    own = verdict(evidence, now)
    if own.detail.kind in RESTING:
        found = {agent.path: _of_agent_judging(agent, known, now, is_over=True) for agent in agents}
    return [(file, own), *((agent, found[agent.path]) for agent in agents)]


def orphan(agent: Followed, known: Known, now: datetime) -> Verdict:
    """Return the verdict on an agent whose session is not there."""
    return _of_agent_judging(agent, known, now)


def _of_agent_judging(agent: Followed, known: Known, now: datetime, *, is_over: bool = False) -> Verdict:
    stop = known.signals.get("SubagentStop")
    if stop is not None and stop.agent == agent.name.agent_id and not _is_after_judging(agent.state.event, stop.at):
        return Verdict(Detail(Kind.ENDED), Source.HOOK, stop.at)
    return verdict(Evidence(agent.state, known.running, rules=known.rules, is_over=is_over), now)


def _is_after_judging(one: datetime | None, other: datetime) -> bool:
    return one is not None and one > other


def _goes_on(file: Followed, seen: datetime) -> bool:
    """Tell whether lines came long after the process was last seen: then one that is in no registry writes them."""
    return file.state.event is not None and file.state.event > seen + GRACE
