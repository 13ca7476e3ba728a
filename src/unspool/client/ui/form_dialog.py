"""Asks the user what an MCP server wants to know: a form field by field, or an address to open.

Rules
  1. Each question names the server that gets the answer. Nothing is sent before it was shown together and confirmed.
  2. Esc cancels the whole form. Declining may hold for all further questions of the server.
  3. A form that seems to ask for a secret says that forms must not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from unspool.client.mcp.elicitation import (
    FieldValue,
    FormAnswer,
    FormField,
    ServerAddress,
    ServerForm,
    find_count_problem,
    parse_answer,
)
from unspool.client.ui.choice import MAX_ROWS, ChoiceOption, ChoicePrompt
from unspool.display import clean_line

if TYPE_CHECKING:
    from unspool.client.ui.render import ChatRenderer
    from unspool.client.ui.terminal import Surface

_NO = ChoiceOption("No", key="n")
_NEVER = ChoiceOption("No, and no more questions of this server in this session", key="d")
_REFUSALS = {1: FormAnswer("decline"), 2: FormAnswer("decline", is_final=True)}
_LEAVE_OUT = ChoiceOption("Leave it out", key="l")
_MAX_SHOWN = 200


class _Left(Exception):
    """The user has left the form."""


class FormDialog:
    """Asks for one form after the other."""

    def __init__(self, surface: Surface, renderer: Callable[[], ChatRenderer]) -> None:
        self._surface, self._renderer = surface, renderer
        self._lock = asyncio.Lock()
        """Held for a whole form: servers may ask at the same time."""

    async def ask(self, request: ServerForm | ServerAddress) -> FormAnswer:
        """Show what a server asks, and return the answer."""
        async with self._lock:
            self._show(f"The MCP server {request.server} asks:\n{request.message}")
            try:
                if isinstance(request, ServerAddress):
                    return await self._ask_address(request)
                return await self._ask_form(request)
            except _Left:
                return FormAnswer("cancel")

    def tell(self, line: str) -> None:
        """Show one line."""
        self._surface.show(self._renderer().notice(line))

    async def _ask_address(self, request: ServerAddress) -> FormAnswer:
        self._show(f"It wants you to open this address of {request.host}:\n{request.address}")
        self._show(f"Open it yourself, if you trust {request.host}.")
        title = f"Do you open the address for the MCP server {request.server}?"
        chosen = await self._choose(title, [ChoiceOption("Yes, I open it", key="y"), _NO, _NEVER], cursor=1)
        return _REFUSALS.get(chosen, FormAnswer("accept"))

    async def _ask_form(self, form: ServerForm) -> FormAnswer:
        if form.wants_secret:
            self.tell("It seems to ask for a secret. Servers must not do that in a form: answer only if you are sure.")
        count = len(form.fields)
        detail = f"{count} {'field' if count == 1 else 'fields'}" if count else ""
        title = f"Answer the MCP server {form.server}?"
        chosen = await self._choose(title, [ChoiceOption("Yes", detail, key="y"), _NO, _NEVER], cursor=1)
        if chosen in _REFUSALS:
            return _REFUSALS[chosen]
        while form.fields:
            content: dict[str, FieldValue] = {}
            for number, field in enumerate(form.fields, 1):
                title = f"{form.server} asks ({number} of {count}): {field.title}"
                value = await self._ask_field(title, field)
                if value is not None:
                    content[field.name] = value
            self._show("\n".join(_describe(field, content.get(field.name)) for field in form.fields))
            sends = [ChoiceOption("Yes", key="y"), _NO, ChoiceOption("Change the answers", key="c")]
            chosen = await self._choose(f"Send this to the MCP server {form.server}?", sends)
            if chosen != 2:
                return FormAnswer("accept", content) if chosen == 0 else FormAnswer("decline")
        return FormAnswer("accept", {})

    async def _ask_field(self, title: str, field: FormField) -> FieldValue | None:
        """Return the value of a field; None if it is left out."""
        if field.description:  # above the question: it is wrapped there
            self._show(f"{field.title}: {field.description}")
        match field.kind:
            case "boolean":
                return await self._ask_boolean(title, field)
            case "choice" | "choices":
                return await self._ask_choice(title, field)
            case _:
                return await self._ask_text(title, field)

    async def _ask_boolean(self, title: str, field: FormField) -> bool | None:
        options = [ChoiceOption("Yes", key="y"), _NO, *([] if field.is_required else [_LEAVE_OUT])]
        chosen = await self._choose(title, options, cursor=1 if field.default is False else 0)
        return None if chosen == 2 else chosen == 0

    async def _ask_choice(self, title: str, field: FormField) -> str | list[str] | None:
        labels = [ChoiceOption(label) for _, label in field.options]
        options = [*labels, *([] if field.is_required else [ChoiceOption("Leave it out")])]
        values = [value for value, _ in field.options]
        several = field.kind == "choices"
        cursor = values.index(field.default) if isinstance(field.default, str) else 0
        while True:
            prompt = ChoicePrompt(title, options, multiple=several, cursor=cursor, filters=len(options) > MAX_ROWS)
            if several and isinstance(field.default, list):
                prompt.marked = {values.index(value) for value in field.default}
            chosen = await self._surface.choose(prompt)
            if chosen is None:
                raise _Left
            if any(index >= len(values) for index in chosen.indices):
                return None
            if not several:
                return values[chosen.first]
            if not (problem := find_count_problem(field, len(chosen.indices))):
                return [values[index] for index in chosen.indices]
            self.tell(f"{field.title}: {problem}")

    async def _ask_text(self, title: str, field: FormField) -> str | float | None:
        answers: list[tuple[ChoiceOption, FieldValue | None]] = [
            (ChoiceOption("Type an answer", key="t", text_prompt=f"{field.title}?"), None)
        ]
        if field.default is not None:
            answers.append((ChoiceOption(f"Take {_show_value(field.default)}", key="d"), field.default))
        if not field.is_required:
            answers.append((_LEAVE_OUT, None))
        while True:
            chosen = await self._surface.choose(ChoicePrompt(title, [option for option, _ in answers]))
            if chosen is None:
                raise _Left
            if chosen.first > 0:
                given = answers[chosen.first][1]
                return None if isinstance(given, list) else given
            value, problem = parse_answer(field, chosen.text)
            if not problem:
                return value
            self.tell(f"{field.title}: {problem}")

    async def _choose(self, title: str, options: list[ChoiceOption], *, cursor: int = 0) -> int:
        chosen = await self._surface.choose(ChoicePrompt(title, options, cursor=cursor))
        if chosen is None:
            raise _Left
        return chosen.first

    def _show(self, text: str) -> None:
        self._surface.show(self._renderer().text(text) + "\n")


def _describe(field: FormField, value: FieldValue | None) -> str:
    return f"{field.title}: {'(left out)' if value is None else _show_value(value)}"


def _show_value(value: FieldValue) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            text = ", ".join(value)
        case _:
            text = str(value)
    shown = clean_line(text)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}… ({len(shown):,} characters)"
