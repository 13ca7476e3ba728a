"""Defines the two interfaces that a chat calls: the user interface that it asks, and the model that answers.

A front end implements `UserInterface`: it is asked whether a tool call may run, which answer to a question is meant,
whether a plan is approved. In a headless run there is `NoUser`: what no rule allows is refused, and questions stay
unanswered. A `Model` is a connection to the API (`unspool.api.connection.Connection`), or a script in this process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from unspool.api import AnyEvent
from unspool.client.tool_result import FileChange, Json
from unspool.permissions import RuleDecision

if TYPE_CHECKING:
    from unspool.api import TokenCount


class PermissionRequest(msgspec.Struct, frozen=True):
    """A tool call that needs the user's permission."""

    call_id: str
    tool: str
    input: Json
    target: str
    """What it acts on, in a few words."""
    agent: str | None = None
    """The kind of subagent that makes the call; None: the session's own agent."""
    change: FileChange | None = None
    """What it would change in a file, compared with the file on disk."""
    problem: str | None = None
    """Why the change cannot be made, where the model is not to learn it without permission."""
    rule_file: str | None = None
    """The file that a rule is written to which is kept for good (`keep="local"`); None: there is none."""
    sandboxed_rule_file: str | None = None
    """The same of a rule whose commands run in the sandbox; None: the call cannot run in one."""


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The user's answer to a permission request."""

    allowed: bool
    rule: str | None = None
    """A rule to keep, so that the same is not asked again."""
    keep: Literal["once", "session", "local"] = "once"
    sandboxed: bool = False
    """Whether the command, and those that the rule allows, run in the sandbox."""
    words: str = ""
    """What the model is told instead, if it is not allowed."""
    mode: str | None = None
    """Another permission mode from now on."""
    stops: bool = False
    """Whether the turn ends here, if it is not allowed."""
    input: Json | None = None
    """Another input for the call, if it is allowed; None: as the model wants it."""


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the `AskUserQuestion` tool."""

    question: str
    header: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Label and description."""
    several: bool = False


class UserInterface(Protocol):
    """A front end that can ask its user."""

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Return whether a tool call may run."""

    async def ask_questions(self, questions: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        """Return the answers by question; None: the user did not answer."""

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        """Return whether a plan is approved; `mode` is the permission mode to carry it out in."""


class NoUser:
    """The user interface of a headless run: it allows, answers and approves nothing."""

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Allow nothing."""
        return PermissionAnswer(allowed=False)

    async def ask_questions(self, questions: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        """Answer nothing."""
        return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        """Approve nothing."""
        return PermissionAnswer(allowed=False)


class Model(Protocol):
    """Answers requests to `/v1/messages`."""

    def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Stream a response until it ends or breaks off (`StreamBroken`); `ApiFailed` if there is none."""

    async def count(self, body: Json, betas: Iterable[str] = ()) -> TokenCount:
        """Return how many input tokens a request has; an estimate that says so, where the endpoint cannot count."""
