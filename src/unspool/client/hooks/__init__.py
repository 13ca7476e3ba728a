"""Hooks: commands and callbacks that are called on events of a chat, and may deny, change or add something."""
