"""The commands that change the settings of Claude Code: hooks and statusline."""
