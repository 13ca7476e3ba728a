"""The documents of `compare`."""

from __future__ import annotations

from typing import TypeAlias

from unspool.cli.documents.base import Counts, JsonDocument, JsonListDocument, JsonObject

Figures: TypeAlias = dict[str, int | float | None]
"""Figures by name; null where one is not known."""


class ComparedSessionData(JsonObject):
    """A session or a branch of one."""

    session_id: str
    """The session."""
    branch: int | None
    """The number of the branch in the session; null: all of it."""
    title: str
    """Its title."""
    model: str
    """The models that answered."""
    version: str
    """Versions of Claude Code."""
    project: str
    """The project's name."""
    git_branch: str
    """The branch of git."""
    figures: Figures
    """Turns, requests, tokens, cost, context, calls, errors, files and times."""
    outside_turns: Counts
    """Requests, their cost, and tool calls before the first prompt, or of agents that no call started."""
    first_prompt: str
    """Its first prompt."""
    result: str
    """Its last answer."""
    ended: str
    """The stop reason of its last answer."""


class ComparedFigure(JsonObject):
    """A figure of both sessions."""

    figure: str
    """Its name."""
    a: int | float | None
    """Of the first session."""
    b: int | float | None
    """Of the second session."""
    difference: int | float | None
    """The second less the first."""


class ComparedSetting(JsonObject):
    """A setting of both sessions."""

    setting: str
    """`model`, `version`, `project` or `branch`."""
    a: str
    """Of the first session."""
    b: str
    """Of the second session."""


class ComparedContext(JsonObject):
    """How much of the context is of one kind."""

    kind: str
    """The kind of content."""
    a: int
    """Bytes in the first session."""
    b: int
    """Bytes in the second session."""


class ComparedFile(JsonObject):
    """A file that a session changed."""

    path: str
    """The file."""
    a: Counts | None
    """Lines added and removed in the first session; null if it did not change the file."""
    b: Counts | None
    """The same for the second session."""


class ComparedTurnData(JsonObject):
    """A turn of one session."""

    turn: int
    """Its number."""
    prompt: str
    """Its prompt."""
    requests: int
    """Billed requests, with those of agents that it started."""
    cost_micros: int
    """What they cost, in millionths of a US dollar."""
    unpriced_tokens: int
    """Tokens of models without a price."""
    seconds: float
    """From its first to its last line."""
    answer: str
    """Its last answer."""


class ComparedCallData(JsonObject):
    """A tool call of one session."""

    name: str
    """The tool."""
    target: str
    """What it is aimed at."""
    failed: bool
    """Whether its result is an error."""
    step: str
    """Where the call's line begins in the file, in bytes."""


class ComparedCallPair(JsonObject):
    """Two tool calls beside each other."""

    same: bool
    """Whether tool and target are the same."""
    a: ComparedCallData | None
    """The call of the first session."""
    b: ComparedCallData | None
    """The call of the second session."""


class ComparedTurnPair(JsonObject):
    """Two turns beside each other."""

    same_prompt: bool
    """Whether the prompts are the same."""
    a: ComparedTurnData | None
    """The turn of the first session."""
    b: ComparedTurnData | None
    """The turn of the second session."""
    calls: list[ComparedCallPair]
    """Their tool calls."""


class CompareDocument(JsonDocument):
    """Two sessions side by side (`compare A B`)."""

    a: ComparedSessionData
    """The first session."""
    b: ComparedSessionData
    """The second session."""
    figures: list[ComparedFigure]
    """The figures of both."""
    settings: list[ComparedSetting]
    """The settings of both."""
    context: list[ComparedContext]
    """What the context of both is made of."""
    files: list[ComparedFile]
    """The files that one of them changed."""
    turns: list[ComparedTurnPair]
    """Their turns, aligned by prompts."""


class CompareMessagesDocument(JsonDocument):
    """The difference of two requests (`compare A B --messages`)."""

    a: str
    """The first session."""
    b: str
    """The second session."""
    messages: list[int]
    """How many messages each would send."""
    same_messages: int
    """How many of the first ones are the same."""
    difference: list[str]
    """The difference of the others, as lines of a unified diff."""


class CompareGroup(JsonObject):
    """Sessions that have something in common."""

    group: str
    """What they have in common."""
    sessions: int
    """How many they are."""
    medians: Figures
    """The medians of their figures."""


class CompareGroupsDocument(JsonListDocument):
    """Groups of sessions (`compare --by`)."""

    by: str
    """What they are grouped by."""
    items: list[CompareGroup]
    """The groups."""
    sessions: list[ComparedSessionData]
    """All sessions."""
