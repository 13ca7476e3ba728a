"""The view `org_responses` in other dialects: each response of an organisation once, as `lake sql` counts it."""

from __future__ import annotations

from typing import Final

TABLE: Final = "responses"
VIEW: Final = "org_responses"

# As in `lake/views.sql`. Databases differ in where null comes, so each term says it; DuckDB puts it last.
_ORDER: Final = (
    "output_tokens DESC",
    "is_sidechain",
    "input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens DESC",
    "time",
)
_LAST: Final = ("device", "source_id")


def postgres_query(source: str, columns: str) -> str:
    """Return the query for Postgres."""
    # Texts in the order of their bytes: the database's own order of words would choose other rows.
    terms = [f"{term} NULLS LAST" for term in _ORDER] + [f'{name} COLLATE "C" NULLS LAST' for name in _LAST]
    order = ", ".join(("org", "response_id", *terms))
    return f"SELECT DISTINCT ON (org, response_id) {columns} FROM {source} ORDER BY {order}"


def clickhouse_query(source: str, columns: str) -> str:
    """Return the query for ClickHouse."""
    order = ", ".join(("org", "response_id", *(f"{term} NULLS LAST" for term in (*_ORDER, *_LAST))))
    return f"SELECT {columns} FROM {source} ORDER BY {order} LIMIT 1 BY org, response_id"
