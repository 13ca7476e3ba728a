"""The session page: what the server and `export --html` show of one session, as data. `page.html` renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.detail import read_detail
    from unspool.page.find import find_text
    from unspool.page.index_cache import MIN_CACHED_BYTES, IndexCache
    from unspool.page.sections import split_into_batches
    from unspool.page.view import Growth, PageView

__all__ = ["MIN_CACHED_BYTES", "Growth", "IndexCache", "PageView", "find_text", "read_detail", "split_into_batches"]

__getattr__ = lazy_door(__name__, {
    "detail": "read_detail",
    "find": "find_text",
    "index_cache": "MIN_CACHED_BYTES IndexCache",
    "sections": "split_into_batches",
    "view": "Growth PageView",
})
