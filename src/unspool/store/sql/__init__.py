"""SQL: queries over the column files, run by a locked DuckDB in a child process, and exports of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.sql import export
    from unspool.store.sql.client import EngineStopped, QueryLimits, SqlEngine
    from unspool.store.sql.format_rows import (
        fetch_objects, fetch_text_rows, format_csv, format_json, format_json_document, format_json_lines,
    )
    from unspool.store.sql.protocol import ARROW
    from unspool.store.sql.views import EngineSetup, SqlTables, column_definitions, open_tables, view_statements

__all__ = [
    "ARROW", "EngineSetup", "EngineStopped", "QueryLimits", "SqlEngine", "SqlTables", "column_definitions", "export",
    "fetch_objects", "fetch_text_rows", "format_csv", "format_json", "format_json_document", "format_json_lines",
    "open_tables", "view_statements",
]

__getattr__ = lazy_door(__name__, {
    "client": "EngineStopped QueryLimits SqlEngine",
    "format_rows":
        "fetch_objects fetch_text_rows format_csv format_json format_json_document format_json_lines",
    "protocol": "ARROW",
    "views": "EngineSetup SqlTables column_definitions open_tables view_statements",
})
