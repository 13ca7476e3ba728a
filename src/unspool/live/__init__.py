"""Live: which session is doing what, which one needs you, and how that is known."""
