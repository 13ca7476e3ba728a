"""The HTML of the session page: rendering of a view, the standalone file, and charts as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.html import charts, heat_maps, time_charts
    from unspool.page.html.charts import StackedChart
    from unspool.page.html.collection import CollectedSession, WrittenPages, write_collection
    from unspool.page.html.diff_rows import DiffRows
    from unspool.page.html.render import (
        PageSurroundings, Renderer, create_environment, preload_templates, session_links,
    )
    from unspool.page.html.shared_file import render_shared
    from unspool.page.html.standalone import render_standalone

__all__ = [
    "CollectedSession", "DiffRows", "PageSurroundings", "Renderer", "StackedChart", "WrittenPages", "charts",
    "create_environment", "heat_maps", "preload_templates", "render_shared", "render_standalone",
    "session_links", "time_charts", "write_collection",
]

__getattr__ = lazy_door(__name__, {
    "charts": "StackedChart",
    "collection": "CollectedSession WrittenPages write_collection",
    "diff_rows": "DiffRows",
    "render": "PageSurroundings Renderer create_environment preload_templates session_links",
    "shared_file": "render_shared",
    "standalone": "render_standalone",
})
