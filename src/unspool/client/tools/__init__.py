"""The built-in tools, with Claude Code's names, inputs, result texts and structured results."""
