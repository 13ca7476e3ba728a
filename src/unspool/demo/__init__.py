"""Generates a realistic config folder to try things with, and sessions for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.demo.png import Colour, as_text, curve, draw_png, table
    from unspool.demo.session_builder import (
        DOT, Built, Clock, Ids, Json, Step, Writer, assistant, attachment, compaction, document, image, note,
        progress, queued, raw, records, result_block, rewind, session, snapshot, system, text, thinking, tool_result,
        tool_use, user, wait,
    )
    from unspool.demo.write import write_demo

__all__ = [
    "DOT", "Built", "Clock", "Colour", "Ids", "Json", "Step", "Writer", "as_text", "assistant", "attachment",
    "compaction", "curve", "document", "draw_png", "image", "note", "progress", "queued", "raw", "records",
    "result_block", "rewind", "session", "snapshot", "system", "table", "text", "thinking", "tool_result", "tool_use",
    "user", "wait", "write_demo",
]

__getattr__ = lazy_door(__name__, {
    "png": "Colour as_text curve draw_png table",
    "session_builder":
        "DOT Built Clock Ids Json Step Writer assistant attachment compaction document image note "
        "progress queued raw records result_block rewind session snapshot system text thinking "
        "tool_result tool_use user wait",
    "write": "write_demo",
})
