"""What the model is told before a conversation: system prompt, instructions, definitions of agents and commands."""
