"""Builds the system prompts of one session, with the instructions of the user and the project (`CLAUDE.md`).

Rules
  1. Files are read once, so that the prompt stays the same and the API can cache it.
  2. The instructions of a sub-folder are added when a file in it has been read, and then stay.
"""

from __future__ import annotations

from pathlib import Path

from unspool.client.prompt.instructions import (
    Instruction,
    Instructions,
    InstructionScope,
    format_instructions,
    load_instructions,
    load_nested_instructions,
)
from unspool.client.prompt.output_styles import OutputStyle
from unspool.client.prompt.text.system_prompt_text import PROMPT_WITHOUT_STYLE, PromptEnvironment, build_system_prompt
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json


class SystemPrompt:
    """The system prompt of one session."""

    def __init__(
        self,
        scope: InstructionScope,
        environment: PromptEnvironment,
        *,
        replaced: str | None = None,
        appended: str | None = None,
        style: OutputStyle | None = None,
    ) -> None:
        self._scope = scope
        self._environment = environment
        self._replaced, self._appended, self._style = replaced, appended, style
        self._instructions = load_instructions(scope)
        self._visited: set[Path] = set()
        self._taken = 0
        """How many of the instructions `take_loaded` has returned."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The files that could not be read, or were not."""
        return self._instructions.problems

    def take_loaded(self, context: ToolContext) -> tuple[Instruction, ...]:
        """Return the instructions that were loaded since the last call, also for files that were read by now."""
        self._add_nested(context)
        texts = self._instructions.texts
        start, self._taken = self._taken, len(texts)
        return texts[start:]

    def blocks(self, context: ToolContext, model: str, agent_prompt: str | None = None) -> list[Json]:
        """Return the system prompt as blocks; the prompt of a subagent replaces the base prompt."""
        self._add_nested(context)
        # Only the session's own agent talks to the user: a style is not for subagents.
        style = self._style if agent_prompt is None else None
        appended = "\n\n".join(filter(None, (style.section if style else "", self._appended)))
        replaced = self._replaced if agent_prompt is None else agent_prompt
        if replaced is None and style is not None and not style.keeps_instructions:
            replaced = PROMPT_WITHOUT_STYLE
        return build_system_prompt(
            self._environment._replace(model=model),
            format_instructions(self._instructions),
            replaced=replaced,
            appended=appended,
        )

    def _add_nested(self, context: ToolContext) -> None:
        for path in context.known_files.paths():
            if path.parent not in self._visited:
                self._visited.add(path.parent)
                known = self._instructions
                used = sum(len(instruction.text) for instruction in known.texts)
                scope = self._scope._replace(limit=max(0, self._scope.limit - used))
                more = load_nested_instructions(scope, path, known.paths)
                self._instructions = Instructions((*known.texts, *more.texts), (*known.problems, *more.problems))
