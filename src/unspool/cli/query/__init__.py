"""The commands that read: ls, show, stats, usage, search, sql, export, watch."""
