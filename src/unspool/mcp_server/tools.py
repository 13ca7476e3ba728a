"""The list of tools: the name, the description, the arguments and the function of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from unspool.errors import Unreadable, UnspoolError, UsageError
from unspool.files import error_reason
from unspool.mcp_server.arguments import (
    FileArguments,
    ReadArguments,
    RecallArguments,
    RunningArguments,
    SearchArguments,
    SqlArguments,
    UsageArguments,
    describe_arguments,
    parse_arguments,
)
from unspool.mcp_server.figures import list_running, report_costs, run_sql
from unspool.mcp_server.file_history import find_file_history
from unspool.mcp_server.history import History
from unspool.mcp_server.search import recall_decisions, search_sessions
from unspool.mcp_server.sessions import read_session


class HistoryTool(NamedTuple):
    """A tool that reads the history."""

    title: str
    description: str
    arguments: type[msgspec.Struct]
    answer: Callable[[History, Any], str]


TOOLS: Final = {
    "search_sessions": HistoryTool(
        "Search sessions",
        "Find earlier Claude Code sessions: search prompts, answers, tool calls and results, or, without a query, list "
        "sessions by time. Each hit names its session and turn for read_session.",
        SearchArguments,
        search_sessions,
    ),
    "read_session": HistoryTool(
        "Read a session",
        "Read an earlier session. Without turn: its outline, with facts and prompts. With turn: the steps of that "
        "turn. With turn and step: all text of that step, such as the output of a command.",
        ReadArguments,
        read_session,
    ),
    "find_file_history": HistoryTool(
        "History of a file",
        "Find the reasons behind a file: which sessions changed it, when, the prompts behind the changes, and the "
        "diff of each session. Covers changes by Claude Code, not by others: use git for those.",
        FileArguments,
        find_file_history,
    ),
    "recall_decisions": HistoryTool(
        "Recall decisions",
        "Recall what was decided about a topic, and why: plans, summaries and answers of earlier sessions around it, "
        "best first. Takes plain words.",
        RecallArguments,
        recall_decisions,
    ),
    "usage": HistoryTool(
        "Usage and costs",
        "Report tokens and costs of Claude Code by day, week, month, session, model, project, branch, agent or 5-hour "
        "block.",
        UsageArguments,
        report_costs,
    ),
    "sql": HistoryTool(
        "SQL",
        "Run a read-only SQL query (DuckDB) over the history, for questions that count or compare. Tables: sessions, "
        "messages, tool_calls, turns, usage, files and more: SHOW TABLES, DESCRIBE sessions.",
        SqlArguments,
        run_sql,
    ),
    "list_running": HistoryTool(
        "Running sessions",
        "List the sessions of Claude Code that work now, wait for an answer or need permission.",
        RunningArguments,
        list_running,
    ),
}


def describe_tools() -> list[dict[str, Any]]:
    """Return the tools as `tools/list` has them."""
    return [
        {
            "name": name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": describe_arguments(tool.arguments),
            "annotations": {"readOnlyHint": True, "openWorldHint": False, "idempotentHint": True},
        }
        for name, tool in TOOLS.items()
    ]


def call_tool(history: History, name: str, arguments: dict[str, Any] | None) -> tuple[str, bool]:
    """Return the answer of a tool, and whether the call failed; a wrong request is an answer too, with a hint."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            raise UsageError("no such tool", hint=f"use one of: {', '.join(TOOLS)}")
        given = parse_arguments(tool.arguments, arguments)
        return tool.answer(history, given), False
    except UnspoolError as error:
        return describe_error(history, error), True
    except OSError as error:
        return describe_error(history, Unreadable(f"cannot read the history: {error_reason(error)}")), True


def describe_error(history: History, error: UnspoolError) -> str:
    """Return an error as an answer; its message may quote what a transcript says, so it stands between marks."""
    answer = history.begin_answer(500, updated=False)
    answer.add(error.message, most=answer.left - 4)
    if error.hint:
        answer.add(f"hint: {error.hint}", most=max(answer.left - 4, 0))
    return answer.finish()
