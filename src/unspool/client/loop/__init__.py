"""The agent loop: turns of model calls and tool calls, for the session and its subagents."""
