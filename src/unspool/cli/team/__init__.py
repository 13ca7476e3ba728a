"""The commands for teams: collect and lake."""
