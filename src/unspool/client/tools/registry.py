"""All tools there are, and what a model is told of them.

[merged: run.py] The tool runner: a tool and what it is called with in, what came of it out.

Rules
  1. Every exception becomes an outcome with words for the model. Only a cancellation passes: the loop asked for it.
  2. What comes out can be written down: no lone surrogates, as names of files may have; an error says something.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from unspool.client.tool_context import Desk
from unspool.client.tools.base import BadCall, Outcome, Tool, ToolFailed
from unspool.errors import UnspoolError

if TYPE_CHECKING:
    from unspool.client.agent_definitions import Agent

Json: TypeAlias = dict[str, Any]


def tools(agents: Sequence[Agent] | None = None) -> tuple[Tool, ...]:
    """Return the tools, with the agents that can be sent; None: those that are built in."""
    from unspool.client.agent_definitions import BUILT_IN
    from unspool.client.tools.files.edit import Edit
    from unspool.client.tools.files.notebook import NotebookEdit
    from unspool.client.tools.files.read import Read
    from unspool.client.tools.files.write import Write
    from unspool.client.tools.plan import EnterPlanMode, ExitPlanMode
    from unspool.client.tools.question import AskUserQuestion
    from unspool.client.tools.search.glob import Glob
    from unspool.client.tools.search.grep import Grep
    from unspool.client.tools.shell.background import TaskOutput, TaskStop
    from unspool.client.tools.shell.bash import Bash
    from unspool.client.tools.task import Task
    from unspool.client.tools.todo import TodoWrite
    from unspool.client.tools.web import WebFetch, WebSearch

    files = (Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep())
    commands = (Bash(), TaskOutput(), TaskStop())
    others = (Task(BUILT_IN if agents is None else agents), TodoWrite(), WebFetch(), WebSearch())
    return (*files, *commands, *others, AskUserQuestion(), EnterPlanMode(), ExitPlanMode())


def understood(offered: Sequence[Tool], agents: Sequence[Agent]) -> tuple[Tool, ...]:
    """Return the tools that are offered, also under the names that other versions have for them."""
    from unspool.client.tools.shell.background import TaskOutput, TaskStop
    from unspool.client.tools.task import Task

    others = (TaskOutput("BashOutput"), TaskOutput("AgentOutputTool"), TaskStop("KillShell"), TaskStop("KillBash"))
    kinds = {type(tool) for tool in offered}
    return (*(other for other in (*others, Task(agents, "Agent")) if type(other) in kinds), *offered)


def definitions(tools: Iterable[Tool]) -> list[Json]:
    """Return what a request says of tools."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]


async def run(tool: Tool, input: Any, desk: Desk, call_id: str) -> Outcome:
    """Make a call."""
    try:
        outcome = await tool.run(input, desk, call_id)
    except BadCall as problem:
        outcome = _refused(str(problem), problem.result_prefix)
    except ToolFailed as problem:
        outcome = _failed(str(problem))
    except UnspoolError as problem:
        outcome = _failed(f"{problem.message} ({problem.hint})" if problem.hint else problem.message)
    except OSError as problem:
        outcome = _failed(system_words(problem))
    except Exception as problem:  # a tool that breaks is no reason to lose a conversation
        outcome = _failed(f"{tool.name} broke: {type(problem).__name__}: {problem}")
    return _sound(outcome)


def system_words(problem: OSError) -> str:
    """Return what the system said, as the program words it: `EACCES: permission denied, '/etc/shadow'`."""
    name = errno.errorcode.get(problem.errno or 0, "EIO")
    where = f", '{problem.filename}'" if problem.filename is not None else ""
    return f"{name}: {(problem.strerror or str(problem)).lower()}{where}"


def _failed(text: str) -> Outcome:
    text = text.strip() or "The tool failed without saying why."
    return Outcome(content=text, result=f"Error: {text}", is_error=True)


def _refused(text: str, prefix: str) -> Outcome:
    return Outcome(content=f"<tool_use_error>{text}</tool_use_error>", result=f"{prefix}{text}", is_error=True)


def _sound(outcome: Outcome) -> Outcome:
    try:
        msgspec.json.encode([outcome.content, outcome.result, outcome.extra])
    except UnicodeEncodeError:
        return Outcome(
            content=_mended(outcome.content),
            result=_mended(outcome.result),
            is_error=outcome.is_error,
            extra=_mended(outcome.extra),
        )
    return outcome


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(key): _mended(part) for key, part in value.items()}
        case list():
            return [_mended(part) for part in value]
        case tuple():
            return tuple(_mended(part) for part in value)
        case _:
            return value
