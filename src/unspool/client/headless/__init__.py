"""The headless front end of a chat: one prompt or a stream of JSON lines, without a terminal."""
