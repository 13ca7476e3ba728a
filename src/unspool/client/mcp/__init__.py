"""MCP servers in a chat: their configuration, the connections to them, and their tools, resources and prompts."""
