"""The session page: what the server and `export --html` show of one session, as data. `page.html` renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.detail import StepDetail, read_detail
    from unspool.page.detail_parts import TextPart
    from unspool.page.find import find_text
    from unspool.page.index_cache import MIN_CACHED_BYTES, IndexCache
    from unspool.page.outline import OutlineTurn
    from unspool.page.rows import TranscriptRow, walk_rows
    from unspool.page.sections import split_into_batches
    from unspool.page.view import Growth, PageView

__all__ = [
    "MIN_CACHED_BYTES", "Growth", "IndexCache", "OutlineTurn", "PageView", "StepDetail", "TextPart", "TranscriptRow",
    "find_text", "read_detail", "split_into_batches", "walk_rows",
]

__getattr__ = lazy_door(__name__, {
    "detail": "StepDetail read_detail",
    "detail_parts": "TextPart",
    "find": "find_text",
    "index_cache": "MIN_CACHED_BYTES IndexCache",
    "outline": "OutlineTurn",
    "rows": "TranscriptRow walk_rows",
    "sections": "split_into_batches",
    "view": "Growth PageView",
})
