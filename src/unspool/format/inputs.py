"""What a tool was called with: a decoded `tool_use.input` in, the struct of its tool out.

The structs are with the results of the same tools in `shell_tools`, `file_tools`, `agent_tools`, `plan_tools`
and `web_tools`.

Rules
  1. Nothing raises: the input of a tool we do not know, and one that does not fit, is an `OtherInput`.
  2. Models write `"10"` for 10 and `"true"` for true, and newer versions let them. So do we.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec

from unspool.format.agent_tools import AgentInput, AgentToolInput, StructuredOutputInput
from unspool.format.file_tools import FileInput
from unspool.format.plan_tools import ExitPlanModeInput, PlanInput
from unspool.format.shape import Shape
from unspool.format.shell_tools import BashInput, KillShellInput, ShellInput, TaskOutputInput
from unspool.format.web_tools import WebInput


class OtherInput(Shape, frozen=True):
    """The input of an MCP tool, of a tool that does not exist, or one that does not fit its tool."""

    tool: str = ""
    value: Any = None


KnownInput: TypeAlias = ShellInput | FileInput | AgentToolInput | PlanInput | WebInput
AnyInput: TypeAlias = KnownInput | OtherInput

TOOLS: Final[Mapping[str, type[KnownInput]]] = {
    **{shape.__name__.removesuffix("Input"): shape for shape in get_args(KnownInput)},
    "PowerShell": BashInput,
    "KillBash": KillShellInput,
    "Task": AgentInput,
    "AgentOutputTool": TaskOutputInput,
    "exit_plan_mode": ExitPlanModeInput,
}
"""The struct for the input of each tool."""


def parse(tool: str, value: object) -> AnyInput:
    """Return an input as the struct of its tool."""
    shape = TOOLS.get(tool)
    if shape is None or not isinstance(value, dict):
        return OtherInput(tool=tool, value=value)
    if shape is StructuredOutputInput:
        return StructuredOutputInput(value=value)
    try:
        return msgspec.convert(value, shape, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return OtherInput(tool=tool, value=value)
