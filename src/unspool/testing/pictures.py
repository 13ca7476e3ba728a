"""PNG images drawn for tests."""

from unspool.demo.png import Colour, as_text, curve, png, table

__all__ = ["Colour", "as_text", "curve", "png", "table"]
