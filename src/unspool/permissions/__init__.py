"""Permissions: parses permission rules, settings and shell commands, and decides which tool calls they allow. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.permissions.call_check import CallCheck, PartDecision, RuleDecision
    from unspool.permissions.decide import decide_call
    from unspool.permissions.paths import MAGIC, PARENT_IN_PATTERN, WorkspacePaths, split_absolute_glob
    from unspool.permissions.rules import (
        SHELL_TOOL, PermissionRule, RuleSet, canonical_tool_name, parse_rule, split_rules,
    )
    from unspool.permissions.settings import EffectiveSettings, add_settings, decode_settings

__all__ = [
    "MAGIC", "PARENT_IN_PATTERN", "SHELL_TOOL", "CallCheck", "EffectiveSettings", "PartDecision", "PermissionRule",
    "RuleDecision", "RuleSet", "WorkspacePaths", "add_settings", "canonical_tool_name", "decide_call",
    "decode_settings", "parse_rule", "split_absolute_glob", "split_rules",
]

__getattr__ = lazy_door(__name__, {
    "call_check": "CallCheck PartDecision RuleDecision",
    "decide": "decide_call",
    "paths": "MAGIC PARENT_IN_PATTERN WorkspacePaths split_absolute_glob",
    "rules": "SHELL_TOOL PermissionRule RuleSet canonical_tool_name parse_rule split_rules",
    "settings": "EffectiveSettings add_settings decode_settings",
})
