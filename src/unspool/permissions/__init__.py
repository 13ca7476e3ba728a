"""Permissions: parses Claude Code's permission rules and shell commands, and matches one against the other. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.permissions.rules import (
        READ_TOOLS, SHELL_TOOL, PermissionRule, RuleSet, canonical_tool_name, host_of_url, parse_rule,
        split_rules, suggest_rules,
    )
    from unspool.permissions.shell_parser import ParsedCommand, SimpleCommand, Word, parse_command
    from unspool.permissions.shell_readonly import ReadOnlyCommand, match_read_only
    from unspool.permissions.shell_wrappers import find_nested_commands, find_risky_words, may_take_command

__all__ = [
    "READ_TOOLS", "SHELL_TOOL", "ParsedCommand", "PermissionRule", "ReadOnlyCommand", "RuleSet",
    "SimpleCommand", "Word", "canonical_tool_name", "find_nested_commands", "find_risky_words", "host_of_url",
    "match_read_only", "may_take_command", "parse_command", "parse_rule", "split_rules", "suggest_rules",
]

__getattr__ = lazy_door(__name__, {
    "rules":
        "READ_TOOLS SHELL_TOOL PermissionRule RuleSet canonical_tool_name host_of_url "
        "parse_rule split_rules suggest_rules",
    "shell_parser": "ParsedCommand SimpleCommand Word parse_command",
    "shell_readonly": "ReadOnlyCommand match_read_only",
    "shell_wrappers": "find_nested_commands find_risky_words may_take_command",
})
