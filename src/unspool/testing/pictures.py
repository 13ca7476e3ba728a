"""PNG images drawn for tests."""

from unspool.demo import Colour, as_text, curve, table
from unspool.demo import draw_png as png

__all__ = ["Colour", "as_text", "curve", "png", "table"]
