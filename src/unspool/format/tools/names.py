"""The names of tools that mean the same to every reader of a session."""

from typing import Final

EDIT_TOOLS: Final = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""The tools that change files."""
AGENT_TOOLS: Final = frozenset({"Task", "Agent"})
"""The tools that start an agent: Claude Code 2.1.63 renamed `Task` to `Agent`."""
