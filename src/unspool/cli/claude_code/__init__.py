"""The commands that change the settings of Claude Code: hooks, statusline and MCP server."""
