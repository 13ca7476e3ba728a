"""Reads the sessions of other agents (Codex CLI, Gemini CLI, OpenCode, pi) as sessions of Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.other_agents.mirror import Mirror
    from unspool.other_agents.recognition import (
        PROGRAM_NAMES, AgentFolder, find_program, recognise, refuse_other_agents, translate_folder,
    )
    from unspool.other_agents.translate.lines import iter_originals, read_originals

__all__ = [
    "PROGRAM_NAMES", "AgentFolder", "Mirror", "find_program", "iter_originals", "read_originals", "recognise",
    "refuse_other_agents", "translate_folder",
]

__getattr__ = lazy_door(__name__, {
    "mirror": "Mirror",
    "recognition":
        "PROGRAM_NAMES AgentFolder find_program recognise refuse_other_agents translate_folder",
    "translate.lines": "iter_originals read_originals",
})
