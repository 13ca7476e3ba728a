"""What a tool gave back besides the text for the model: the bytes of a `toolUseResult` in, a struct out.

The structs are with the inputs of the same tools in `shell_tools`, `file_tools`, `agent_tools`, `plan_tools`
and `web_tools`.

Rules
  1. Nothing raises. What does not fit its tool is an `OtherResult` with its value; what cannot be decoded at
     all (malformed, too deep) is an `OtherResult` without one. Text that is no text is mended first.
  2. An object is its tool's struct even if it shares no field with it: versions add and drop fields.
  3. A result whose call is not in the file is known by its fields where no other tool writes them.

[merged: inputs.py] What a tool was called with: a decoded `tool_use.input` in, the struct of its tool out.

The structs are with the results of the same tools in `shell_tools`, `file_tools`, `agent_tools`, `plan_tools`
and `web_tools`.

Rules
  1. Nothing raises: the input of a tool we do not know, and one that does not fit, is an `OtherInput`.
  2. Models write `"10"` for 10 and `"true"` for true, and newer versions let them. So do we.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias, Union, get_args

import msgspec

from unspool.format.base import Shape
from unspool.format.repair_text import mend
from unspool.format.tools.agents import (
    AgentCompleted,
    AgentInput,
    AgentLaunched,
    AgentResult,
    AgentToolInput,
    AgentToolResult,
    SkillResult,
    StructuredOutputInput,
    TeammateSpawned,
)
from unspool.format.tools.files import (
    EditResult,
    FileInput,
    FileResult,
    GlobResult,
    GrepResult,
    MultiEditResult,
    ReadResult,
    WriteResult,
)
from unspool.format.tools.plans import (
    AskUserQuestionResult,
    ExitPlanModeInput,
    ExitPlanModeResult,
    PlanInput,
    PlanResult,
    TodoWriteResult,
)
from unspool.format.tools.shell import (
    BashInput,
    BashOutputResult,
    BashResult,
    KillShellInput,
    KillShellResult,
    ShellInput,
    ShellResult,
    TaskOutputInput,
)
from unspool.format.tools.web import WebFetchResult, WebInput, WebResult, WebSearchResult


class TextResult(Shape, frozen=True):
    """A string: an error, a refusal, an interruption, and all that LS ever gave."""

    text: str = ""


class ListResult(Shape, frozen=True):
    """A list: the content blocks of an MCP tool, the resources of ListMcpResourcesTool."""

    items: tuple[Any, ...] = ()


class OtherResult(Shape, frozen=True):
    """A result that no struct fits, or (with no value) one that is not readable JSON."""

    value: Any = None


KnownResult: TypeAlias = ShellResult | FileResult | AgentToolResult | PlanResult | WebResult
AnyResult: TypeAlias = KnownResult | TextResult | ListResult | OtherResult

_BY_NAME: Final = {
    shape.__name__.removesuffix("Result"): (shape,)
    for shape in get_args(KnownResult)
    if shape.__name__.endswith("Result")
}
RESULT_TYPES: Final[Mapping[str, tuple[type[KnownResult], ...]]] = {
    **_BY_NAME,
    "Agent": get_args(AgentResult),
    "Task": get_args(AgentResult),
    "Read": get_args(ReadResult),
    "PowerShell": (BashResult,),
    "KillBash": (KillShellResult,),
    "SlashCommand": (SkillResult,),
    "exit_plan_mode": (ExitPlanModeResult,),
}
"""The structs for the results of each tool; where there are several, their tag tells which."""

_SIGNS: Final[tuple[tuple[frozenset[str], Any], ...]] = tuple(
    (frozenset(keys.split()), shape)
    for keys, shape in (
        ("file type", ReadResult),
        ("stdout stderr interrupted", BashResult),
        ("shellId command stdout", BashOutputResult),
        ("shell_id message", KillShellResult),
        ("filePath oldString newString", EditResult),
        ("filePath edits", MultiEditResult),
        ("filePath content structuredPatch", WriteResult),
        ("filenames numFiles mode", GrepResult),
        ("filenames numFiles durationMs truncated", GlobResult),
        ("totalDurationMs totalToolUseCount", AgentCompleted),
        ("agentId isAsync", AgentLaunched),
        ("teammate_id agent_id", TeammateSpawned),
        ("oldTodos newTodos", TodoWriteResult),
        ("questions answers", AskUserQuestionResult),
        ("plan", ExitPlanModeResult),
        ("url code codeText", WebFetchResult),
        ("query results durationSeconds", WebSearchResult),
    )
)


def parse_result(tool: str | None, raw: msgspec.Raw | bytes | memoryview | None) -> AnyResult | None:
    """Return the result of a call to `tool`: None where there is none, as in many lines of agents."""
    if raw is None or not memoryview(raw).nbytes:
        return None
    try:
        value: Any = _decode(RESULT_TYPES.get(tool or "", ()), raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text, flaws = mend(bytes(raw))
        return parse_result(tool, text) if flaws else OtherResult()
    match value:
        case None:
            return None
        case str():
            return TextResult(text=value)
        case list():
            return ListResult(items=tuple(value))
        case dict():
            return _recognised(tool or "", value)
        case int() | float():
            return OtherResult(value=value)
        case _:
            known: KnownResult = value
            return known


def _decode(shapes: tuple[type[KnownResult], ...], raw: msgspec.Raw | bytes | memoryview) -> Any:
    try:
        return _decoder(shapes).decode(raw)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)


@cache
def _decoder(shapes: tuple[type[KnownResult], ...]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Union[(*shapes, str, list[Any], None)])


def _recognised(tool: str, value: dict[str, Any]) -> AnyResult:
    """Return an object by its fields: its call is missing, or an old version wrote it without a tag."""
    shapes = RESULT_TYPES.get(tool)
    if not tool.startswith("mcp__"):  # a server's objects may have any fields
        for keys, shape in _SIGNS:
            if keys <= value.keys() and (shapes is None or shape in shapes):
                with suppress(msgspec.ValidationError, RecursionError):
                    known: KnownResult = msgspec.convert(value, shape)
                    return known
    return OtherResult(value=value)


class OtherInput(Shape, frozen=True):
    """The input of an MCP tool, of a tool that does not exist, or one that does not fit its tool."""

    tool: str = ""
    value: Any = None


KnownInput: TypeAlias = ShellInput | FileInput | AgentToolInput | PlanInput | WebInput
AnyInput: TypeAlias = KnownInput | OtherInput

INPUT_TYPES: Final[Mapping[str, type[KnownInput]]] = {
    **{shape.__name__.removesuffix("Input"): shape for shape in get_args(KnownInput)},
    "PowerShell": BashInput,
    "KillBash": KillShellInput,
    "Task": AgentInput,
    "AgentOutputTool": TaskOutputInput,
    "exit_plan_mode": ExitPlanModeInput,
}
"""The struct for the input of each tool."""


def parse_input(tool: str, value: object) -> AnyInput:
    """Return an input as the struct of its tool."""
    shape = INPUT_TYPES.get(tool)
    if shape is None or not isinstance(value, dict):
        return OtherInput(tool=tool, value=value)
    if shape is StructuredOutputInput:
        return StructuredOutputInput(value=value)
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return OtherInput(tool=tool, value=value)
