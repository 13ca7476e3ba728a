"""The tools: Claude Code's names, inputs, result texts and structured results."""
