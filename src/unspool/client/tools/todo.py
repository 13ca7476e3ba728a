"""TodoWrite: a list of things to do in, the list that is kept out.

Rules
  1. The list is on the desk; where all is done, it is empty again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Outcome, parse, schema

Json: TypeAlias = dict[str, Any]


class Todo(Asked, frozen=True, rename="camel"):
    """One thing to do."""

    content: Annotated[str, Meta(min_length=1)]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[str, Meta(min_length=1, description='As "Running tests"')]


class TodoWriteInput(Asked, frozen=True):
    """Replace the list."""

    todos: list[Todo]


class TodoWrite:
    """The tool."""

    name = "TodoWrite"
    description = "Keep a list of the steps of a longer task: the whole list each time, one item in_progress."
    is_concurrent = False

    def __init__(self) -> None:
        self.input_schema = schema(TodoWriteInput)

    def target(self, input: Json) -> str:
        """Return what is being done, or how many there are."""
        try:
            todos = parse(self.name, input, TodoWriteInput).todos
        except BadCall:
            return ""
        doing = [todo.active_form for todo in todos if todo.status == "in_progress"]
        return doing[0] if doing else f"{len(todos)} todos"

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Keep it."""
        asked = parse(self.name, input, TodoWriteInput)
        new: list[Json] = msgspec.to_builtins(asked.todos)
        old, desk.todos = desk.todos, [] if all(todo["status"] == "completed" for todo in new) else new
        return Outcome(
            content="Todos have been modified successfully. Ensure that you continue to use the todo list to track "
            "your progress. Please proceed with the current tasks if applicable",
            result={"oldTodos": old, "newTodos": new},
        )
