"""Defines how a chat is configured: which session, which settings, and the runtime it is given. Data only."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from unspool.api import retry_delay
from unspool.client.command_sandbox import SandboxMode
from unspool.client.protocols import Model

_SHORT_ANSWERS = re.compile(r"claude-(instant|2|3-(opus|sonnet|haiku)|3-5)")
"""Models that answer with at most 8,000 tokens."""


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn may use; None: no limit."""

    steps: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    seconds: float | None = None


class SessionStart(msgspec.Struct, frozen=True, kw_only=True):
    """Which session a chat opens: a new one, or one to resume."""

    session_id: str | None = None
    """Of a new session, or of the copy; None: a new id."""
    resume: Path | None = None
    """The file of a session to resume."""
    leaf: str | None = None
    """The uuid of the line to resume from; None: where it was left."""
    fork: bool = False
    """Whether to resume a copy."""
    force: bool = False
    """Whether to resume a session that another process seems to use."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a chat."""

    model: str
    keeps_model: bool = False
    """Whether a resumed session keeps its model, where that is still offered."""
    mode: str | None = None
    """The permission mode; None: as the session had it, `default` in a new one."""
    max_steps: int | None = None
    max_total_tokens: int | None = None
    max_cost_micros: int | None = None
    max_seconds: float | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    added: tuple[Path, ...] = ()
    window: int | None = None
    thinking: int | None = None
    """A budget in tokens; 0: no thinking; None: as the model does by itself."""
    max_answer_tokens: int | None = None
    """Of one response; None: as the model and its window allow."""
    trusted: bool = False
    sandbox: SandboxMode | None = None
    """Which commands run in a sandbox; None: as the settings say, else those that nobody approved."""
    tools: tuple[str, ...] | None = None
    setting_sources: tuple[str, ...] | None = None
    """Which settings files act: user, project, local; None: all."""
    skills: tuple[str, ...] | None = None
    """The skills that the model may use; None: all."""
    plugin_folders: tuple[Path, ...] = ()
    """Folders of plugins that the command line names."""
    given_settings: bytes | None = None
    """Settings of the command line, as JSON."""
    effort: str | None = None
    """How hard the model works (`output_config.effort`); None: as it does by itself."""
    betas: tuple[str, ...] = ()
    """Beta features to ask for, besides those that a request needs."""
    fallback_model: str | None = None
    """The model to continue with when the first one is overloaded or not offered."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema of the answer, which the model gives by a tool call."""
    only_model: bool = False
    """Whether the endpoint is not Anthropic's: `opus`, `sonnet` and `haiku` then mean the chat's own model."""
    mcp_configs: tuple[str, ...] = ()
    """MCP servers of the command line: files, or JSON objects."""
    strict_mcp: bool = False
    """Whether only the MCP servers of the command line are used."""
    interactive: bool = False
    """Whether a user types the prompts: then they are added to `history.jsonl`."""

    @property
    def limits(self) -> TurnLimits:
        """What one turn of the session may use."""
        return TurnLimits(
            steps=self.max_steps,
            tokens=self.max_total_tokens,
            cost_micros=self.max_cost_micros,
            seconds=self.max_seconds,
        )

    @property
    def answer_tokens(self) -> int:
        """The most tokens that a response may have."""
        if self.max_answer_tokens is not None:
            return self.max_answer_tokens
        usual = 8_000 if _SHORT_ANSWERS.match(self.model) else 32_000
        # A quarter of a small window: else the longest response alone would fill it.
        return max(1, min(usual, self.window // 4)) if self.window else usual


class ChatOptions(NamedTuple):
    """What the command line asks for: which chat, with which settings, and how it is shown."""

    start: SessionStart
    settings: ChatSettings
    config: Path
    cwd: Path
    prompt: str | None
    output: str = "text"
    streams_in: bool = False
    """Whether prompts come as lines of JSON."""
    partial: bool = False
    replay: bool = False
    hook_events: bool = False
    """Whether the calls of all hooks are printed, not only those at the start."""
    asks: bool = False
    """Whether the program at the other end is asked for permission."""
    agents: dict[str, Any] | None = None
    """Agents that the command line defines, by name."""


class ChatRuntime(NamedTuple):
    """What a chat runs on: the model, folders, environment variables, clocks and ids."""

    model: Model
    config: Path
    cwd: Path
    environment: Mapping[str, str]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = lambda: str(uuid4())
    pause: Callable[[int], float] = lambda attempt: retry_delay(attempt, {}, 0.5)
    """How many seconds to wait before a response that broke off so many times is requested again."""
