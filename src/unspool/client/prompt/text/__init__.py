"""The pure part of prompts: parsing Markdown and building the text of the system prompt."""
