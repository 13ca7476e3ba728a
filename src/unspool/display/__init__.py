"""Text for people: safe to print on a terminal, numbers and times in words, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.display import table, units
    from unspool.display.safe import clean, clean_json, clean_line
    from unspool.display.shell import quote_for_paste, resume_command
    from unspool.display.table import TextColumn, truncate
    from unspool.display.units import amount, dollars, duration, parse_time_expression, short_id, size, tokens

__all__ = [
    "TextColumn", "amount", "clean", "clean_json", "clean_line", "dollars", "duration", "parse_time_expression",
    "quote_for_paste", "resume_command", "short_id", "size", "table", "tokens", "truncate", "units",
]

__getattr__ = lazy_door(__name__, {
    "safe": "clean clean_json clean_line",
    "shell": "quote_for_paste resume_command",
    "table": "TextColumn truncate",
    "units": "amount dollars duration parse_time_expression short_id size tokens",
})
