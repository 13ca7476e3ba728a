"""The session file while a chat runs: writing it, resuming it, rewinding it."""
