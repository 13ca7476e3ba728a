"""Side files: what Claude Code keeps beside the sessions, as JSON and Markdown. One document in, one struct out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.format.side_files import json, markdown, settings
    from unspool.format.side_files.json import AgentMeta, HistoryEntry, Pasted, ProcessEntry, parse_object
    from unspool.format.side_files.settings import ClaudeCodeSettings, parse_settings

__all__ = [
    "AgentMeta", "ClaudeCodeSettings", "HistoryEntry", "Pasted", "ProcessEntry", "json", "markdown", "parse_object",
    "parse_settings", "settings",
]

__getattr__ = lazy_door(__name__, {
    "json": "AgentMeta HistoryEntry Pasted ProcessEntry parse_object",
    "settings": "ClaudeCodeSettings parse_settings",
})
