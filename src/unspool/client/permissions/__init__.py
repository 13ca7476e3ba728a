"""Permissions of a chat: loads its settings, resolves paths, and decides whether a tool call may be made."""
