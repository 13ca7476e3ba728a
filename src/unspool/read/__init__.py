"""Bytes to entries, a piece at a time: lines, growing files, trees of them."""
