"""Search: the full-text index of all sessions, and the scan of what it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.search import request
    from unspool.store.search.agent_turns import add_agent_turns
    from unspool.store.search.corpus import open_corpus
    from unspool.store.search.failures import FailureKind, group_failures, reduce_failure
    from unspool.store.search.index import find_unindexed, update_index
    from unspool.store.search.request import KIND_ALIASES, SearchRequest, parse_filters, parse_terms
    from unspool.store.search.results import MATCH_END, MATCH_START, SearchHit
    from unspool.store.search.search import count_indexed, search_corpora

__all__ = [
    "KIND_ALIASES", "MATCH_END", "MATCH_START", "FailureKind", "SearchHit", "SearchRequest", "add_agent_turns",
    "count_indexed", "find_unindexed", "group_failures", "open_corpus", "parse_filters", "parse_terms",
    "reduce_failure", "request", "search_corpora", "update_index",
]

__getattr__ = lazy_door(__name__, {
    "agent_turns": "add_agent_turns",
    "corpus": "open_corpus",
    "failures": "FailureKind group_failures reduce_failure",
    "index": "find_unindexed update_index",
    "request": "KIND_ALIASES SearchRequest parse_filters parse_terms",
    "results": "MATCH_END MATCH_START SearchHit",
    "search": "count_indexed search_corpora",
})
