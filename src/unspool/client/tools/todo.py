"""The TodoWrite tool: replaces the session's list of things to do.

Rules
  1. The list is in the context of the call; where all is done, it is empty again.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments, parse_arguments


# Its docstring is a description in the schema that the model gets.
class TodoItem(ToolArguments, frozen=True, rename="camel"):
    """One thing to do."""

    content: Annotated[str, Meta(min_length=1)]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[str, Meta(min_length=1, description='As "Running tests"')]


class TodoWriteArguments(ToolArguments, frozen=True):
    """The whole new list."""

    todos: list[TodoItem]


class TodoWriteTool(BuiltInTool[TodoWriteArguments]):
    """Replace the list of things to do."""

    name = "TodoWrite"
    description = "Keep a list of the steps of a longer task: the whole list each time, one item in_progress."
    arguments = TodoWriteArguments

    def target(self, input: Json) -> str:
        """Return what is being done, or how many items there are."""
        try:
            todos = parse_arguments(self.name, input, TodoWriteArguments).todos
        except InvalidToolCall:
            return ""
        doing = [todo.active_form for todo in todos if todo.status == "in_progress"]
        return doing[0] if doing else f"{len(todos)} todos"

    async def execute(self, arguments: TodoWriteArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Keep the list."""
        new: list[Json] = msgspec.to_builtins(arguments.todos)
        old, context.todos = context.todos, [] if all(todo["status"] == "completed" for todo in new) else new
        return ToolOutcome(
            content="Todos have been modified successfully. Ensure that you continue to use the todo list to track "
            "your progress. Please proceed with the current tasks if applicable",
            result={"oldTodos": old, "newTodos": new},
        )
