"""Sessions for other eyes: plain data, counts, the story as steps, Markdown."""
