"""Records to structure: messages, tool calls, threads, the context of a session, turns, agents. Pure functions."""
