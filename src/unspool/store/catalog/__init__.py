"""The catalogue: lists of sessions with filters and statistics, side documents, and the health of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.catalog import health, side_documents
    from unspool.store.catalog.catalog import (
        GROUPS, PAGE_ROWS, SORTS, TEXT_SORTS, CatalogCache, CatalogGroup, CatalogPage, CatalogRequest,
    )
    from unspool.store.catalog.facets import FACETS, HAS, CatalogRow, FacetValue, SessionFilters
    from unspool.store.catalog.file_history import FileHistoryRow, find_changed_paths, read_file_history
    from unspool.store.catalog.health import (
        ArchivedSession, Comparison, ExpiringSession, StatsDifference, StoreCondition,
    )
    from unspool.store.catalog.session_list import (
        OwnedAgentFile, SessionHeading, find_session_ids, list_sessions, missing_session_row, read_headings,
        read_session_costs,
    )
    from unspool.store.catalog.session_stats import parse_beginning

__all__ = [
    "FACETS", "GROUPS", "HAS", "PAGE_ROWS", "SORTS", "TEXT_SORTS", "ArchivedSession", "CatalogCache", "CatalogGroup",
    "CatalogPage", "CatalogRequest", "CatalogRow", "Comparison", "ExpiringSession", "FacetValue", "FileHistoryRow",
    "OwnedAgentFile", "SessionFilters", "SessionHeading", "StatsDifference", "StoreCondition", "find_changed_paths",
    "find_session_ids", "health", "list_sessions", "missing_session_row", "parse_beginning", "read_file_history",
    "read_headings", "read_session_costs", "side_documents",
]

__getattr__ = lazy_door(__name__, {
    "catalog": "GROUPS PAGE_ROWS SORTS TEXT_SORTS CatalogCache CatalogGroup CatalogPage CatalogRequest",
    "facets": "FACETS HAS CatalogRow FacetValue SessionFilters",
    "file_history": "FileHistoryRow find_changed_paths read_file_history",
    "health": "ArchivedSession Comparison ExpiringSession StatsDifference StoreCondition",
    "session_list": "OwnedAgentFile SessionHeading find_session_ids list_sessions missing_session_row "
    "read_headings read_session_costs",
    "session_stats": "parse_beginning",
})
