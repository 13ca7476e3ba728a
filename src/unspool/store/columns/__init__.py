"""Column files: Parquet files derived from the store and the session files, over which SQL queries run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.columns import manifest, parquet, refresh, store_rows
    from unspool.store.columns.dedupe_responses import response_column_cells
    from unspool.store.columns.derive import FileDerivation, SourceFile
    from unspool.store.columns.parquet import arrow_schema, to_record_batch
    from unspool.store.columns.refresh import RefreshOptions
    from unspool.store.columns.store_rows import LINE_KINDS, price_rows
    from unspool.store.columns.tables import Table, TableColumn, parse_tables, part_tables, public_tables, sql_literal
    from unspool.store.columns.values import epoch_days, epoch_micros

__all__ = [
    "LINE_KINDS", "FileDerivation", "RefreshOptions", "SourceFile", "Table", "TableColumn", "arrow_schema",
    "epoch_days", "epoch_micros", "manifest", "parquet", "parse_tables", "part_tables", "price_rows", "public_tables",
    "refresh", "response_column_cells", "sql_literal", "store_rows", "to_record_batch",
]

__getattr__ = lazy_door(__name__, {
    "dedupe_responses": "response_column_cells",
    "derive": "FileDerivation SourceFile",
    "parquet": "arrow_schema to_record_batch",
    "refresh": "RefreshOptions",
    "store_rows": "LINE_KINDS price_rows",
    "tables": "Table TableColumn parse_tables part_tables public_tables sql_literal",
    "values": "epoch_days epoch_micros",
})
