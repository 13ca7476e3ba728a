"""Tools of Claude Code: the structs of their inputs and structured results, and how to parse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.format.tools import agents, files, parse, plans, shell, web
    from unspool.format.tools.agents import AGENT_TOOLS, AgentInput
    from unspool.format.tools.files import EDIT_TOOLS, EditResult, Hunk, ReadImage, ReadParts, ReadText, WriteResult
    from unspool.format.tools.parse import (
        INPUT_TYPES, KNOWN_TOOLS, AnyResult, OtherInput, OtherResult, parse_input, parse_result,
    )
    from unspool.format.tools.plans import TodoWriteResult
    from unspool.format.tools.shell import BashResult

__all__ = [
    "AGENT_TOOLS", "EDIT_TOOLS", "INPUT_TYPES", "KNOWN_TOOLS", "AgentInput", "AnyResult", "BashResult", "EditResult",
    "Hunk", "OtherInput", "OtherResult", "ReadImage", "ReadParts", "ReadText", "TodoWriteResult", "WriteResult",
    "agents", "files", "parse", "parse_input", "parse_result", "plans", "shell", "web",
]

__getattr__ = lazy_door(__name__, {
    "agents": "AGENT_TOOLS AgentInput",
    "files": "EDIT_TOOLS EditResult Hunk ReadImage ReadParts ReadText WriteResult",
    "parse": "INPUT_TYPES KNOWN_TOOLS AnyResult OtherInput OtherResult parse_input parse_result",
    "plans": "TodoWriteResult",
    "shell": "BashResult",
})
