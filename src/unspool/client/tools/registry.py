"""The list of built-in tools, their definitions for a request, and the runner that turns every failure into an outcome.

Rules
  1. Every exception becomes an outcome with words for the model. Only a cancellation passes: the loop asked for it.
  2. What comes out can be written to the session: no lone surrogates, as names of files may have; no empty error.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, InvalidToolCall, Json, ToolFailed, ToolOutcome
from unspool.errors import UnspoolError
from unspool.format import replace_surrogates

if TYPE_CHECKING:
    from unspool.client.prompt.agent_definitions import AgentDefinition


def built_in_tools(agents: Sequence[AgentDefinition] | None = None) -> tuple[Tool, ...]:
    """Return the tools, with the agents that can be started; None: the built-in agents."""
    # Imported here, so that who only runs a tool or formats definitions does not load all of them.
    from unspool.client.prompt.agent_definitions import BUILT_IN_AGENTS
    from unspool.client.tools.files.edit import EditTool
    from unspool.client.tools.files.notebook import NotebookEditTool
    from unspool.client.tools.files.read import ReadTool
    from unspool.client.tools.files.write import WriteTool
    from unspool.client.tools.plan import EnterPlanModeTool, ExitPlanModeTool
    from unspool.client.tools.question import AskUserQuestionTool
    from unspool.client.tools.search.glob import GlobTool
    from unspool.client.tools.search.grep import GrepTool
    from unspool.client.tools.shell.background import TaskOutputTool, TaskStopTool
    from unspool.client.tools.shell.bash import BashTool
    from unspool.client.tools.task import TaskTool
    from unspool.client.tools.todo import TodoWriteTool
    from unspool.client.tools.web import WebFetchTool, WebSearchTool

    files = (ReadTool(), WriteTool(), EditTool(), NotebookEditTool(), GlobTool(), GrepTool())
    commands = (BashTool(), TaskOutputTool(), TaskStopTool())
    others = (TaskTool(BUILT_IN_AGENTS if agents is None else agents), TodoWriteTool(), WebFetchTool(), WebSearchTool())
    return (*files, *commands, *others, AskUserQuestionTool(), EnterPlanModeTool(), ExitPlanModeTool())


def with_former_names(offered: Sequence[Tool], agents: Sequence[AgentDefinition]) -> tuple[Tool, ...]:
    """Return the tools that are offered, also under the names that other versions of Claude Code have for them."""
    from unspool.client.tools.shell.background import TaskOutputTool, TaskStopTool
    from unspool.client.tools.task import TaskTool

    former: tuple[Tool, ...] = (
        *(TaskOutputTool(name) for name in ("BashOutput", "AgentOutputTool")),
        *(TaskStopTool(name) for name in ("KillShell", "KillBash")),
        TaskTool(agents, "Agent"),
    )
    types = {type(tool) for tool in offered}
    return (*(tool for tool in former if type(tool) in types), *offered)


def tool_definitions(tools: Iterable[Tool]) -> list[Json]:
    """Return the definitions of tools for a request."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]


async def run_tool(tool: Tool, input: Any, context: ToolContext, call_id: str) -> ToolOutcome:
    """Make a call, and return its outcome whatever happens."""
    try:
        outcome = await tool.run(input, context, call_id)
    except Exception as problem:  # a tool that breaks is no reason to lose a session
        outcome = _failed_call(tool, problem)
    return _make_encodable(outcome)


def preview_call(tool: Tool, input: Json, context: ToolContext, call_id: str) -> FileChange | ToolOutcome | None:
    """Return what a call would change in a file, or its outcome if it cannot be made; None: it changes no file."""
    try:
        return tool.preview(input, context, call_id)
    except Exception as problem:  # as in `run_tool`
        return _make_encodable(_failed_call(tool, problem))


def _failed_call(tool: Tool, problem: Exception) -> ToolOutcome:
    """Return the outcome of a call that raised an exception."""
    match problem:
        case InvalidToolCall():
            return _invalid_call(problem)
        case ToolFailed():
            return _failure(str(problem))
        case UnspoolError():
            return _failure(f"{problem.message} ({problem.hint})" if problem.hint else problem.message)
        case OSError():
            return _failure(_describe_system_error(problem))
        case _:
            return _failure(f"{tool.name} broke: {type(problem).__name__}: {problem}")


def check_input(tool: Tool, input: Json) -> ToolOutcome | None:
    """Return the outcome of a call whose input does not fit its tool; None if it fits."""
    try:
        tool.check(input)
    except InvalidToolCall as problem:
        return _make_encodable(_invalid_call(problem))
    return None


def _invalid_call(problem: InvalidToolCall) -> ToolOutcome:
    content = f"<tool_use_error>{problem}</tool_use_error>"
    return ToolOutcome(content=content, result=f"{problem.result_prefix}{problem}", is_error=True)


def _describe_system_error(problem: OSError) -> str:
    """Return an error of the system as Claude Code words it: `EACCES: permission denied, '/etc/shadow'`."""
    name = errno.errorcode.get(problem.errno or 0, "EIO")
    where = f", '{problem.filename}'" if problem.filename is not None else ""
    return f"{name}: {(problem.strerror or str(problem)).lower()}{where}"


def _failure(text: str) -> ToolOutcome:
    # The API refuses an error with empty content.
    text = text.strip() or "The tool failed without saying why."
    return ToolOutcome(content=text, result=f"Error: {text}", is_error=True)


def _make_encodable(outcome: ToolOutcome) -> ToolOutcome:
    try:
        msgspec.json.encode([outcome.content, outcome.result, outcome.extra, outcome.mcp_meta])
    except UnicodeEncodeError:
        parts = [outcome.content, outcome.result, outcome.extra, outcome.mcp_meta]
        content, result, extra, meta = replace_surrogates(parts)
        return msgspec.structs.replace(outcome, content=content, result=result, extra=tuple(extra), mcp_meta=meta)
    return outcome
