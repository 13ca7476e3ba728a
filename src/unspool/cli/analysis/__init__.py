"""Commands that explain sessions: how two of them differ, and where the money and the time of many go."""
