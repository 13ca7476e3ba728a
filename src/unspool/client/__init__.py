"""A console client whose sessions Claude Code resumes: a loop that emits events, tools, permissions, a writer."""
