"""All tools there are, and what a model is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from unspool.client.tools.tool import Tool

Json: TypeAlias = dict[str, Any]


def tools() -> tuple[Tool, ...]:
    """Return the tools."""
    from unspool.client.tools.edit import Edit
    from unspool.client.tools.glob import Glob
    from unspool.client.tools.grep import Grep
    from unspool.client.tools.notebook import NotebookEdit
    from unspool.client.tools.read import Read
    from unspool.client.tools.todo import TodoWrite
    from unspool.client.tools.write import Write

    return (Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep(), TodoWrite())


def definitions(tools: Iterable[Tool]) -> list[Json]:
    """Return what a request says of tools."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
