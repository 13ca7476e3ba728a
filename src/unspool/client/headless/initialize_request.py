"""Parses the request `initialize`, with which a program of the Agent SDK begins: its hooks and its agents.

Rules
  1. What is asked for is done, or refused with its name before the first prompt. Nothing is dropped.
  2. A hook is called with the request `hook_callback`. If the program cannot be reached, raises, takes too long or
     answers nonsense, the hook has given no answer: `PreToolUse` and `PermissionRequest` deny then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from unspool.client.headless.control_protocol import ControlChannel
from unspool.client.hooks.answers import HookCall, HookReply, parse_answer
from unspool.client.hooks.event_names import EVENTS, why_absent
from unspool.client.hooks.registry import RegisteredHook
from unspool.client.prompt.agent_definitions import AgentDefinition, parse_agents
from unspool.client.tool_result import Json
from unspool.errors import UsageError

CALLBACK_TIMEOUT = 60.0
"""In seconds, as the SDK documents it for its callbacks."""
_UNDERSTOOD = frozenset({"subtype", "hooks", "agents", "skills", "forwardSubagentText"})
"""Fields of the request; what subagents say is always forwarded."""


class Initialization(NamedTuple):
    """What a program registers when it connects."""

    hooks: tuple[RegisteredHook, ...] = ()
    agents: tuple[AgentDefinition, ...] = ()
    skills: tuple[str, ...] | None = None
    """The skills that the model may use; None: all."""


class CallbackHook:
    """A hook that is a function of the program at the other end."""

    def __init__(self, id: str, timeout: float, channel: ControlChannel) -> None:
        self.label = f"callback {id}"
        self.timeout = timeout
        self._id = id
        self._channel = channel

    async def call(self, call: HookCall) -> HookReply:
        """Call the function, and return what it answered."""
        began = time.monotonic()
        fields = {"callback_id": self._id, "input": call.input, "tool_use_id": call.call_id}
        request = {"subtype": "hook_callback", **fields}
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._channel.send(request)
        except TimeoutError:
            reply = HookReply(failure=f"it did not answer within {self.timeout:g} s", timed_out=True)
        else:
            answer = parse_answer(response.response, call.event)
            if response.error is not None:
                reply = HookReply(failure=response.error)
            else:
                reply = HookReply(failure=answer) if isinstance(answer, str) else HookReply(answer=answer)
        return reply._replace(milliseconds=round((time.monotonic() - began) * 1000))


def parse_initialization(request: Json, channel: ControlChannel) -> Initialization:
    """Return what a program registers; a `UsageError` names what cannot be done."""
    for name, value in request.items():
        if name not in _UNDERSTOOD and value not in (None, False, [], {}, ""):
            raise UsageError(f"`{name}` is not supported", hint="leave the option out")
    skills = request.get("skills")
    if skills is not None and not (isinstance(skills, list) and all(isinstance(name, str) for name in skills)):
        raise UsageError("`skills` is not a list of names")
    return Initialization(
        tuple(_parse_hooks(request.get("hooks"), channel)),
        tuple(parse_agents(request.get("agents"))),
        None if skills is None else tuple(skills),
    )


def _parse_hooks(value: Any, channel: ControlChannel) -> Iterator[RegisteredHook]:
    if value is None:
        return
    if not isinstance(value, dict):
        raise UsageError("`hooks` is not an object")
    for event, groups in value.items():
        if event not in EVENTS:
            why = f"hooks for `{str(event)[:40]}` are not supported: {why_absent(event)}"
            raise UsageError(why, hint=f"use one of: {', '.join(EVENTS)}")
        for group in groups if isinstance(groups, list) else [groups]:
            yield from _parse_group(event, group, channel)


def _parse_group(event: str, group: Any, channel: ControlChannel) -> Iterator[RegisteredHook]:
    match group:
        case {"hookCallbackIds": [*ids], **rest} if all(isinstance(id, str) for id in ids):
            matcher, seconds, on_failure = rest.get("matcher"), rest.get("timeout"), rest.get("onFailure")
        case _:
            raise UsageError(f"a hook for `{event}` has no `hookCallbackIds`")
    if matcher is not None and not isinstance(matcher, str):
        raise UsageError(f"the `matcher` of a hook for `{event}` is not a string")
    if seconds is not None and (not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0):
        raise UsageError(f"the `timeout` of a hook for `{event}` is not a number of seconds")
    for id in ids:
        hook = CallbackHook(id, CALLBACK_TIMEOUT if seconds is None else float(seconds), channel)
        # An unknown word means `block`, as the SDK says.
        yield RegisteredHook(event, hook, matcher or "", None if on_failure is None else str(on_failure))
