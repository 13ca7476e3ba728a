"""Gives tool inputs and structured tool results the struct of their tool.

The structs are in `shell.py`, `files.py`, `agents.py`, `plans.py` and `web.py`.

Rules
  1. Nothing raises. The input of an unknown tool, and one that does not fit its tool, is an `OtherInput`. A result that
     does not fit is an `OtherResult` with its value; one that cannot be decoded at all (malformed, too deep) is an
     `OtherResult` without one. Invalid characters are repaired first.
  2. Models write `"10"` for 10 and `"true"` for true, and newer versions of Claude Code accept that. So do we.
  3. A result object gets its tool's struct even if it shares no field with it: versions add and drop fields.
  4. A result whose call is not in the file is recognised by its fields where no other tool writes them.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias, Union, get_args

import msgspec

from unspool.format.base import DECODE_ERRORS, Buffer, CamelShape, Shape
from unspool.format.json_edit import repair_text
from unspool.format.tools import agents, files, plans, shell, web


class TextResult(Shape, frozen=True):
    """A string: an error, a refusal, an interruption, or a result of LS."""

    text: str = ""


class ListResult(Shape, frozen=True):
    """A list: the content blocks of an MCP tool, the resources of ListMcpResourcesTool."""

    items: tuple[Any, ...] = ()


class OtherResult(Shape, frozen=True):
    """A result that no struct fits, or (with no value) one that is not readable JSON."""

    value: Any = None


AnyResult: TypeAlias = Shape | CamelShape
"""A struct of the tool's module, or one of the three above."""


def _find_structs(suffix: str) -> Mapping[str, Any]:
    """Return the structs that are named after their tool and `Input` or `Result`, by the names of the tools."""
    structs = {name: value for module in (shell, files, agents, plans, web) for name, value in vars(module).items()}
    return {
        name.removesuffix(suffix): struct
        for name, struct in structs.items()
        if name.endswith(suffix) and isinstance(struct, type)
    }


RESULT_TYPES: Final[Mapping[str, tuple[type[AnyResult], ...]]] = {
    **{tool: (shape,) for tool, shape in _find_structs("Result").items()},
    "Agent": get_args(agents.AgentResult),
    "Task": get_args(agents.AgentResult),
    "Read": get_args(files.ReadResult),
    "PowerShell": (shell.BashResult,),
    "KillBash": (shell.KillShellResult,),
    "SlashCommand": (agents.SkillResult,),
    "exit_plan_mode": (plans.ExitPlanModeResult,),
}
"""The structs of each tool's results; where there are several, their tag says which."""

_RECOGNISED_BY: Final[tuple[tuple[frozenset[str], Any], ...]] = tuple(
    (frozenset(keys.split()), shape)
    for keys, shape in (
        ("file type", files.ReadResult),
        ("stdout stderr interrupted", shell.BashResult),
        ("shellId command stdout", shell.BashOutputResult),
        ("shell_id message", shell.KillShellResult),
        ("filePath oldString newString", files.EditResult),
        ("filePath edits", files.MultiEditResult),
        ("filePath content structuredPatch", files.WriteResult),
        ("filenames numFiles mode", files.GrepResult),
        ("filenames numFiles durationMs truncated", files.GlobResult),
        ("totalDurationMs totalToolUseCount", agents.AgentCompleted),
        ("agentId isAsync", agents.AgentLaunched),
        ("teammate_id agent_id", agents.TeammateSpawned),
        ("oldTodos newTodos", plans.TodoWriteResult),
        ("questions answers", plans.AskUserQuestionResult),
        ("plan", plans.ExitPlanModeResult),
        ("url code codeText", web.WebFetchResult),
        ("query results durationSeconds", web.WebSearchResult),
    )
)


def parse_result(tool: str | None, raw: msgspec.Raw | Buffer | None) -> AnyResult | None:
    """Parse the `toolUseResult` of a call to `tool`; None where there is none, as in many lines of agents."""
    if raw is None or not memoryview(raw).nbytes:
        return None
    try:
        value: Any = _decode(RESULT_TYPES.get(tool or "", ()), raw)
    except DECODE_ERRORS:
        # Ends after one step: repaired text has no flaws.
        text, flaws = repair_text(bytes(raw))
        return parse_result(tool, text) if flaws else OtherResult()
    match value:
        case None:
            return None
        case str():
            return TextResult(text=value)
        case list():
            return ListResult(items=tuple(value))
        case dict():
            return _recognise(tool or "", value)
        case int() | float():
            return OtherResult(value=value)
        case _:
            known: AnyResult = value
            return known


def _decode(shapes: tuple[type[AnyResult], ...], raw: msgspec.Raw | Buffer) -> Any:
    try:
        return _decoder(shapes).decode(raw)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)


@cache  # building a decoder takes longer than using it
def _decoder(shapes: tuple[type[AnyResult], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Union[(*shapes, str, list[Any], None)])


def _recognise(tool: str, value: dict[str, Any]) -> AnyResult:
    """Find the struct of a result by its fields: its call is missing, or an old version wrote it without a tag."""
    shapes = RESULT_TYPES.get(tool)
    if not tool.startswith("mcp__"):  # a server's objects may have any fields
        for keys, shape in _RECOGNISED_BY:
            if keys <= value.keys() and (shapes is None or shape in shapes):
                with suppress(msgspec.ValidationError, RecursionError):
                    known: AnyResult = msgspec.convert(value, shape)
                    return known
    return OtherResult(value=value)


class OtherInput(Shape, frozen=True):
    """The input of an MCP tool, of a tool that does not exist, or one that does not fit its tool."""

    tool: str = ""
    value: Any = None


AnyInput: TypeAlias = Shape | CamelShape

INPUT_TYPES: Final[Mapping[str, type[AnyInput]]] = {
    **_find_structs("Input"),
    "PowerShell": shell.BashInput,
    "KillBash": shell.KillShellInput,
    "Task": agents.AgentInput,
    "AgentOutputTool": shell.TaskOutputInput,
    "exit_plan_mode": plans.ExitPlanModeInput,
}
"""The struct of each tool's input."""


KNOWN_TOOLS: Final = frozenset({*INPUT_TYPES, *RESULT_TYPES})
"""The tools whose inputs or results are described."""


def parse_input(tool: str, value: object) -> AnyInput:
    """Convert a decoded `tool_use.input` to the struct of its tool."""
    shape = INPUT_TYPES.get(tool)
    if shape is None or not isinstance(value, dict):
        return OtherInput(tool=tool, value=value)
    if shape is agents.StructuredOutputInput:  # its fields are whatever schema the caller gave
        return agents.StructuredOutputInput(value=value)
    try:
        parsed = msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return OtherInput(tool=tool, value=value)
    # Not strict, "10" is 10; but "Infinity", "NaN" and "1e999" are floats too, which no field can have.
    numbers = [number for name in parsed.__struct_fields__ if type(number := getattr(parsed, name)) is float]
    return parsed if all(map(math.isfinite, numbers)) else OtherInput(tool=tool, value=value)
