"""The tools that run shell commands, and read and end what runs in the background."""
