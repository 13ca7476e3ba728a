"""Changes to what is on disk: planned, checked, written so that nothing is ever half there."""
