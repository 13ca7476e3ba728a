"""All tools there are, and what a model is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from unspool.client.tools.tool import Tool

if TYPE_CHECKING:
    from unspool.client.agents import Agent

Json: TypeAlias = dict[str, Any]


def tools(agents: Sequence[Agent] | None = None) -> tuple[Tool, ...]:
    """Return the tools, with the agents that can be sent; None: those that are built in."""
    from unspool.client.agents import BUILT_IN
    from unspool.client.tools.bash import Bash
    from unspool.client.tools.edit import Edit
    from unspool.client.tools.glob import Glob
    from unspool.client.tools.grep import Grep
    from unspool.client.tools.kill import TaskStop
    from unspool.client.tools.notebook import NotebookEdit
    from unspool.client.tools.output import TaskOutput
    from unspool.client.tools.plan import EnterPlanMode, ExitPlanMode
    from unspool.client.tools.question import AskUserQuestion
    from unspool.client.tools.read import Read
    from unspool.client.tools.task import Task
    from unspool.client.tools.todo import TodoWrite
    from unspool.client.tools.web import WebFetch, WebSearch
    from unspool.client.tools.write import Write

    files = (Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep())
    commands = (Bash(), TaskOutput(), TaskStop())
    others = (Task(BUILT_IN if agents is None else agents), TodoWrite(), WebFetch(), WebSearch())
    return (*files, *commands, *others, AskUserQuestion(), EnterPlanMode(), ExitPlanMode())


def understood(offered: Sequence[Tool], agents: Sequence[Agent]) -> tuple[Tool, ...]:
    """Return the tools that are offered, also under the names that other versions have for them."""
    from unspool.client.tools.kill import TaskStop
    from unspool.client.tools.output import TaskOutput
    from unspool.client.tools.task import Task

    others = (TaskOutput("BashOutput"), TaskOutput("AgentOutputTool"), TaskStop("KillShell"), TaskStop("KillBash"))
    kinds = {type(tool) for tool in offered}
    return (*(other for other in (*others, Task(agents, "Agent")) if type(other) in kinds), *offered)


def definitions(tools: Iterable[Tool]) -> list[Json]:
    """Return what a request says of tools."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
