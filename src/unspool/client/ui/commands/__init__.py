"""Slash commands of the terminal that have more to show than a few lines."""
