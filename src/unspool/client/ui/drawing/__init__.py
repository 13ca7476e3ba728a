"""What is drawn or sounded around the prompt of the terminal: its rows, the status line, notifications."""
