"""Holds the hooks of a chat, calls those that match an event, and puts their answers together to one verdict.

Rules
  1. The hooks of an event run in parallel. Deny goes before ask, ask before allow.
  2. `PreToolUse` and `PermissionRequest` fail closed: a hook that gives no answer denies the call. Claude Code 2.1.325
     lets the call run after a timeout, a missing program or nonsense (measured). `onFailure: continue` does so here.
  3. A hook of a kind that is not supported gives no answer, so it denies where it could have denied.
  4. A hook that is not waited for (`async`) changes nothing about its event. What it tells the model is told with the
     next request; one that wakes (`asyncRewake`) may also begin a turn. What still runs ends with the chat.
  5. Each call leaves an attachment about its outcome, as Claude Code writes it, but for those that a reader would send
     to the model: that text stands on a line that every version sends (`loop/agent_hooks.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from unspool.client.hooks.answers import HookCall, HookReply
from unspool.client.hooks.event_names import GUARD_EVENTS
from unspool.client.tool_result import Json

if TYPE_CHECKING:
    from unspool.client.hooks.condition import CallCondition

_PLAIN_TEXT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})
"""The events whose plain output the model is told."""
_NAMES = re.compile(r"[A-Za-z0-9_|]+")
_ORDER = ("deny", "ask", "allow")
HookTiming: TypeAlias = Literal["waited", "beside", "wakes"]
"""Whether an event waits for a hook; `wakes`: it does not, and an exit code of 2 wakes the model."""


class Hook(Protocol):
    """One hook that can be called."""

    @property
    def label(self) -> str:
        """What it is, for messages: its command."""

    @property
    def timeout(self) -> float:
        """After how many seconds it is given up."""

    async def call(self, call: HookCall) -> HookReply:
        """Call it, and return how that ended; never raises but when it is cancelled."""


class UnsupportedHook:
    """A hook of a kind that cannot be called here."""

    timeout = 0.0

    def __init__(self, label: str, failure: str) -> None:
        self.label = label
        self._failure = failure

    async def call(self, call: HookCall) -> HookReply:
        """Answer nothing, and say why."""
        return HookReply(failure=self._failure)


class RegisteredHook(NamedTuple):
    """A hook, and what it is called for."""

    event: str
    hook: Hook
    matcher: str = ""
    on_failure: str | None = None
    """`continue` or `block`, where it is said."""
    condition: CallCondition | None = None
    """The calls that it is called for, where it says so."""
    timing: HookTiming = "waited"
    is_observed: bool = False
    """Whether observers are told of its calls: those of settings."""

    def matches(self, subject: str) -> bool:
        """Tell whether the hook is called for a tool, or for whatever else the event is about."""
        if self.matcher in ("", "*"):
            return True
        if _NAMES.fullmatch(self.matcher):
            return subject in self.matcher.split("|")
        try:
            return re.search(self.matcher, subject) is not None
        except re.error:
            return True  # it may be meant to deny: it is called too often rather than never

    def is_wanted(self, call: HookCall) -> bool:
        """Tell whether the condition of the hook holds."""
        return self.condition is None or self.condition.holds(call)

    @property
    def blocks_on_failure(self) -> bool:
        """Whether a failure counts as a refusal."""
        return self.on_failure != "continue" and (self.event in GUARD_EVENTS or self.on_failure is not None)


class HookCallProgress(NamedTuple):
    """The begin or the end of one call of a hook, for observers."""

    id: str
    """The same for both."""
    name: str
    event: str
    reply: HookReply | None = None
    """None: it begins."""


class HookVerdict(NamedTuple):
    """What the hooks of one event say together."""

    permission: Literal["allow", "deny", "ask"] | None = None
    reason: str = ""
    """Of the permission."""
    updated_input: Json | None = None
    contexts: tuple[str, ...] = ()
    """What the model is told, without tags."""
    blocks: tuple[str, ...] = ()
    """Why the event is blocked."""
    stops: str | None = None
    """Why the turn ends; None: it does not."""
    interrupts: bool = False
    records: tuple[Json, ...] = ()
    """Attachments for the session file."""
    notices: tuple[str, ...] = ()
    """What the user is told."""
    calls: tuple[Json, ...] = ()
    """The commands that ran, as a stop hook summary has them."""
    errors: tuple[str, ...] = ()
    usages: tuple[tuple[str | None, Json], ...] = ()
    """The models that hooks asked, each with the usage of the response."""


class HookRegistry:
    """The hooks of one chat."""

    def __init__(self, hooks: Iterable[RegisteredHook] = (), new_id: Callable[[], str] = str) -> None:
        self._hooks = [*hooks]
        self._new_id = new_id
        self._beside: set[asyncio.Task[None]] = set()
        """The calls that run beside the turn."""
        self._late: list[HookVerdict] = []
        """What such calls said that nobody has taken."""
        self._is_woken = False
        self._listeners: list[Callable[[], None]] = []
        self._observers: list[Callable[[HookCallProgress], None]] = []

    def add(self, hooks: Iterable[RegisteredHook]) -> None:
        """Add hooks: those that a program registers when it connects."""
        self._hooks += hooks

    def has(self, event: str) -> bool:
        """Tell whether there are hooks for an event."""
        return any(hook.event == event for hook in self._hooks)

    def list_all(self) -> list[RegisteredHook]:
        """Return all hooks."""
        return [*self._hooks]

    async def run(self, call: HookCall, subject: str, *, most_seconds: float | None = None) -> HookVerdict:
        """Call the hooks of an event that match a subject, in parallel, and return what they say together."""
        event = call.event
        chosen = [
            hook for hook in self._hooks if hook.event == event and hook.matches(subject) and hook.is_wanted(call)
        ]
        name = f"{event}:{subject}" if subject else event
        # At the end of a session there is nothing beside which a hook could run.
        beside = [hook for hook in chosen if hook.timing != "waited" and event != "SessionEnd"]
        for hook in beside:
            task = asyncio.ensure_future(self._run_beside(hook, call, name))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
        chosen = [hook for hook in chosen if hook not in beside]
        if not chosen:
            return HookVerdict()
        replies = await asyncio.gather(*(self._call(hook, call, name, most_seconds) for hook in chosen))
        parts = [
            _judge(hook, reply, name, call.call_id or self._new_id())
            for hook, reply in zip(chosen, replies, strict=True)
        ]
        return _merge(parts)

    def observe(self, observer: Callable[[HookCallProgress], None]) -> None:
        """Call a function whenever the call of a hook of settings begins or ends."""
        self._observers.append(observer)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function whenever a hook that ran beside the turn has said something."""
        self._listeners.append(listener)

    @property
    def wakes(self) -> bool:
        """Whether a hook wants the model to be told now what it said, and nobody has taken it."""
        return self._is_woken

    def take_late(self) -> list[HookVerdict]:
        """Return what hooks that ran beside the turn have said since the last call."""
        late, self._late, self._is_woken = self._late, [], False
        return late

    async def stop(self) -> None:
        """End the hooks that run beside the turn."""
        tasks = [*self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _call(
        self, registered: RegisteredHook, call: HookCall, name: str, most_seconds: float | None
    ) -> HookReply:
        progress = HookCallProgress(self._new_id(), name, registered.event)
        self._tell_observers(registered, progress)
        try:
            async with asyncio.timeout(most_seconds):
                reply = await registered.hook.call(call)
        except TimeoutError:
            reply = HookReply(failure=f"it did not answer within {most_seconds:g} s", timed_out=True)
        self._tell_observers(registered, progress._replace(reply=reply))
        return reply

    def _tell_observers(self, registered: RegisteredHook, progress: HookCallProgress) -> None:
        for observer in self._observers if registered.is_observed else ():
            observer(progress)

    async def _run_beside(self, hook: RegisteredHook, call: HookCall, name: str) -> None:
        reply = await self._call(hook, call, name, None)
        verdict = _judge(hook, reply, name, call.call_id or self._new_id())
        wakes = hook.timing == "wakes" and reply.blocked is not None
        self._late.append(_as_late(verdict, name, reply, wakes=wakes))
        self._is_woken = self._is_woken or wakes
        for listener in self._listeners:
            listener()


def _as_late(verdict: HookVerdict, name: str, reply: HookReply, *, wakes: bool) -> HookVerdict:
    """Return what is left of the verdict of a hook whose event has gone on without it."""
    contexts, notices, refusal = verdict.contexts, verdict.notices, verdict.reason or "\n".join(verdict.blocks)
    if wakes:
        contexts = (f"{name} hook feedback:\n{reply.blocked or ''}",)
    elif verdict.permission == "deny" or verdict.blocks:
        contexts = ()
        if reply.failure is None:
            notices = (*notices, f"{name} hook: {refusal.strip()} (it is `async`, so nothing was held up)")
    if message := reply.answer.system_message:
        contexts = (*contexts, message)  # Claude Code 2.1.327 tells it to the model as well
    return HookVerdict(contexts=contexts, records=verdict.records, notices=notices, usages=verdict.usages)


def _judge(registered: RegisteredHook, reply: HookReply, name: str, id: str) -> HookVerdict:
    """Return what one hook says."""
    return _judge_reply(registered, reply, name, id)._replace(usages=reply.usages)


def _judge_reply(registered: RegisteredHook, reply: HookReply, name: str, id: str) -> HookVerdict:
    event, label = registered.event, registered.hook.label
    head = {"hookName": name, "toolUseID": id, "hookEvent": event}
    duration = {"durationMs": reply.milliseconds}
    call = {"command": label, **duration}
    if reply.failure is not None:
        return _judge_failure(registered, reply, name, head)
    if reply.error is not None:
        record = {
            "type": "hook_non_blocking_error", **head, "stderr": reply.error, "stdout": reply.stdout,
            "exitCode": reply.exit_code, "command": label, **duration,
        }  # fmt: skip
        notice = f"{name} hook `{label}` failed: {reply.stderr.strip() or reply.error}"
        return HookVerdict(records=(record,), notices=(notice,), calls=(call,), errors=(reply.error,))
    if reply.blocked is not None:
        return _block(event, name, label, f"[{label}]: {reply.blocked}")._replace(calls=(call,), stops=reply.stops)
    verdict = _judge_answer(registered, reply, name)
    # Claude Code writes none for a denied call, nor for callbacks of the SDK.
    if reply.exit_code is not None and verdict.permission != "deny" and not verdict.blocks:
        # What plain output tells the model stands on a line of its own.
        shown = "" if event in _PLAIN_TEXT_EVENTS else reply.text
        success = {
            "type": "hook_success", **head, "content": shown, "stdout": reply.stdout, "stderr": reply.stderr,
            "exitCode": reply.exit_code, "command": label, **duration,
        }  # fmt: skip
        verdict = verdict._replace(records=(success, *verdict.records))
    return verdict._replace(calls=(call,))


def _judge_failure(registered: RegisteredHook, reply: HookReply, name: str, head: Json) -> HookVerdict:
    event, label, failure = registered.event, registered.hook.label, reply.failure or ""
    duration = {"durationMs": reply.milliseconds}
    record: Json = {"type": "hook_non_blocking_error", **head, "stderr": failure, "stdout": reply.stdout}
    record |= {"exitCode": 1 if reply.exit_code is None else reply.exit_code, "command": label, **duration}
    if reply.timed_out:
        late = {"timedOut": True, "timeoutMs": round(registered.hook.timeout * 1000)}
        record = {"type": "hook_cancelled", **head, "command": label, **duration, **late}
    verdict = HookVerdict(
        records=(record,),
        notices=(f"{name} hook `{label}`: {failure}",),
        calls=({"command": label},),
        errors=(failure,),
    )
    if not registered.blocks_on_failure:
        return verdict
    blocked = _block(event, name, label, f"[{label}]: {failure}")
    return blocked._replace(records=(record, *blocked.records), notices=verdict.notices, calls=verdict.calls)


def _judge_answer(registered: RegisteredHook, reply: HookReply, name: str) -> HookVerdict:
    event, label, answer = registered.event, registered.hook.label, reply.answer
    specific = answer.specific
    verdict = HookVerdict(notices=(answer.system_message,) if answer.system_message else ())
    if answer.continues is False:
        why = answer.stop_reason or answer.reason or "a hook ended the turn"
        verdict = verdict._replace(stops=why)
    contexts = []
    if specific.additional_context:
        # Events that are about no tool call are named alone here, as Claude Code words it.
        teller = event if event in _PLAIN_TEXT_EVENTS else name
        contexts.append(f"{teller} hook additional context: {specific.additional_context}")
    if event in _PLAIN_TEXT_EVENTS and reply.text:
        contexts.append(f"{name} hook success: {reply.text}")
    elif event == "PreCompact" and reply.text:
        contexts.append(reply.text)
    verdict = verdict._replace(contexts=tuple(contexts))
    if event == "PreToolUse":
        permission, reason = _permission_of(reply)
        return verdict._replace(permission=permission, reason=reason, updated_input=specific.updated_input)
    if event == "PermissionRequest" and (decision := specific.decision) is not None:
        return verdict._replace(
            permission=decision.behavior,
            reason=decision.message or "a hook denied it",
            updated_input=decision.updated_input,
            interrupts=bool(decision.interrupt),
        )
    if answer.decision == "block":
        blocked = _block(event, name, label, answer.reason or "Blocked by hook")
        contexts = [*contexts, *blocked.contexts]
        return blocked._replace(contexts=tuple(contexts), notices=verdict.notices, stops=verdict.stops)
    return verdict


def _permission_of(reply: HookReply) -> tuple[Literal["allow", "deny", "ask"] | None, str]:
    """Return the decision of a `PreToolUse` hook and its reason, in its present or its former words."""
    answer, specific = reply.answer, reply.answer.specific
    reason = specific.permission_decision_reason or answer.reason or ""
    match specific.permission_decision:
        case "defer":
            return "deny", "the hook answers `defer`, which is not supported"
        case "allow" | "deny" | "ask" as decision:
            return decision, reason or "Blocked by hook"
        case _:
            former: dict[str | None, Literal["allow", "deny"]] = {"approve": "allow", "block": "deny"}
            return former.get(answer.decision), reason or "Blocked by hook"


def _block(event: str, name: str, label: str, reason: str) -> HookVerdict:
    """Return the verdict of a hook that blocks."""
    if event in GUARD_EVENTS:
        return HookVerdict(permission="deny", reason=reason)
    context = f'{name} hook blocking error from command: "{label}": {reason}'
    is_told = event in ("PostToolUse", "PostToolUseFailure")
    return HookVerdict(blocks=(reason,), contexts=(context,) if is_told else (), errors=(reason,))


def _merge(parts: Iterable[HookVerdict]) -> HookVerdict:
    merged = HookVerdict()
    for part in parts:
        stronger = part if _rank(part.permission) < _rank(merged.permission) else merged
        merged = HookVerdict(
            permission=stronger.permission,
            reason=stronger.reason,
            updated_input=part.updated_input if part.updated_input is not None else merged.updated_input,
            contexts=merged.contexts + part.contexts,
            blocks=merged.blocks + part.blocks,
            stops=merged.stops if merged.stops is not None else part.stops,
            interrupts=merged.interrupts or part.interrupts,
            records=merged.records + part.records,
            notices=merged.notices + part.notices,
            calls=merged.calls + part.calls,
            errors=merged.errors + part.errors,
            usages=merged.usages + part.usages,
        )
    return merged


def _rank(permission: str | None) -> int:
    return len(_ORDER) if permission is None else _ORDER.index(permission)
