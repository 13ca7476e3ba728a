"""The arguments of the tools, as types: schemas for clients and the check of each call are made of them. Pure."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from unspool.errors import UsageError
from unspool.mcp_server.answer import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET

Words = Annotated[str, Meta(max_length=2_000)]
Number = Annotated[int, Meta(ge=0, le=10_000_000)]
Budget = Annotated[
    int, Meta(ge=MIN_BUDGET, le=MAX_BUDGET, description="Most tokens of the answer; raise it to read more at once")
]
Project = Annotated[Words | None, Meta(description="Only this project: its name, or a part of its path")]
Since = Annotated[Words | None, Meta(description="Only since this time: a date, an age like 12h or 7d, or `last week`")]
Until = Annotated[Words | None, Meta(description="Only until this time; a date means the end of that day")]
Offset = Annotated[int, Meta(ge=0, le=1_000_000, description="Skip so many results")]

T = TypeVar("T", bound=msgspec.Struct)


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `search_sessions` takes."""

    query: Annotated[
        Words,
        Meta(
            description='Words that occur in one text; "two words" is a phrase, word* the start of a word. '
            "Leave it out to list sessions, newest first"
        ),
    ] = ""
    project: Project = None
    since: Since = None
    until: Until = None
    kinds: Annotated[
        str | None,
        Meta(
            description="Only in these, with commas: prompt, answer, thinking, tool, result, summary, title, todo, plan"
        ),
    ] = None
    file: Annotated[Words | None, Meta(description="Only tool calls on files like this: *.py, src/*, README.md")] = None
    session: Annotated[Words | None, Meta(description="Only in this session: its id or the beginning of it")] = None
    errors: Annotated[bool, Meta(description="Only failed tool calls and API errors")] = False
    everything: Annotated[
        bool, Meta(description="Also search the middle of long results, byte by byte: complete, but slow")
    ] = False
    offset: Offset = 0
    token_budget: Budget = DEFAULT_BUDGET


class ReadArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `read_session` takes."""

    session: Annotated[Words, Meta(description="Id of the session, the beginning of it, or its title")]
    turn: Annotated[Number | None, Meta(description="A turn of the outline: shows its steps")] = None
    step: Annotated[Number | None, Meta(description="A step of the turn: shows all of it")] = None
    agent: Annotated[Words | None, Meta(description="Id of a sub-agent: reads its transcript")] = None
    start: Annotated[
        int, Meta(ge=0, le=2_000_000, description="Where to read on: the first turn, step, or character to show")
    ] = 0
    token_budget: Budget = DEFAULT_BUDGET


class FileArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `find_file_history` takes."""

    path: Annotated[Words, Meta(min_length=1, description="Path of a file, or a part of it: src/app.py, app.py")]
    since: Since = None
    offset: Offset = 0
    token_budget: Budget = DEFAULT_BUDGET


class RecallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `recall_decisions` takes."""

    topic: Annotated[Words, Meta(min_length=1, description="What the decision is about, in a few words")]
    project: Project = None
    since: Since = None
    until: Until = None
    offset: Offset = 0
    token_budget: Budget = DEFAULT_BUDGET


class UsageArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `usage` takes."""

    period: Annotated[
        str, Meta(description="daily, weekly, monthly, session, model, project, branch, agent, or blocks of 5 hours")
    ] = "daily"
    project: Project = None
    since: Since = None
    until: Until = None
    token_budget: Budget = DEFAULT_BUDGET


class SqlArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `sql` takes."""

    query: Annotated[str, Meta(max_length=20_000, description="One SELECT, DESCRIBE or SHOW, in DuckDB's dialect")]
    offset: Offset = 0
    token_budget: Budget = DEFAULT_BUDGET


class RunningArguments(msgspec.Struct, forbid_unknown_fields=True):
    """What `list_running` takes."""

    all: Annotated[bool, Meta(description="Also sessions that have ended or are idle since a day")] = False
    token_budget: Budget = DEFAULT_BUDGET


def parse_arguments(kind: type[T], given: dict[str, Any] | None) -> T:
    """Return the arguments of a call; raise `UsageError` for what is missing, unknown or of a wrong type."""
    try:
        return msgspec.convert(given or {}, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"wrong arguments: {error}", hint=f"use: {', '.join(kind.__struct_fields__)}") from None


def describe_arguments(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, as `tools/list` has it."""
    _, components = msgspec.json.schema_components([kind])
    schema = dict(components[kind.__name__])
    schema.pop("title", None)
    schema.pop("description", None)
    return schema
