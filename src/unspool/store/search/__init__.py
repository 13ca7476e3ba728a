"""Search: the full-text index of all sessions, and the scan of what it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.search import request
    from unspool.store.search.corpus import CorpusReader, open_corpus
    from unspool.store.search.failure_log import FailureLog, read_failures
    from unspool.store.search.failures import FailureKind, SessionFailure, describe_failure, group_failures
    from unspool.store.search.index import find_unindexed, update_index
    from unspool.store.search.request import KIND_ALIASES, SearchFilters, SearchRequest, parse_filters, parse_terms
    from unspool.store.search.results import MATCH_END, MATCH_START, SearchHit, add_agent_turns
    from unspool.store.search.same_calls import SameCall, find_same_calls
    from unspool.store.search.search import count_indexed, search_corpora
    from unspool.store.search.turn_texts import TurnTexts, read_turn_texts

__all__ = [
    "KIND_ALIASES", "MATCH_END", "MATCH_START", "CorpusReader", "FailureKind", "FailureLog", "SameCall",
    "SearchFilters", "SearchHit", "SearchRequest", "SessionFailure", "TurnTexts", "add_agent_turns",
    "count_indexed", "describe_failure", "find_same_calls", "find_unindexed", "group_failures", "open_corpus",
    "parse_filters", "parse_terms", "read_failures", "read_turn_texts", "request", "search_corpora",
    "update_index",
]

__getattr__ = lazy_door(__name__, {
    "corpus": "CorpusReader open_corpus",
    "failure_log": "FailureLog read_failures",
    "failures": "FailureKind SessionFailure describe_failure group_failures",
    "index": "find_unindexed update_index",
    "request": "KIND_ALIASES SearchFilters SearchRequest parse_filters parse_terms",
    "results": "MATCH_END MATCH_START SearchHit add_agent_turns",
    "same_calls": "SameCall find_same_calls",
    "search": "count_indexed search_corpora",
    "turn_texts": "TurnTexts read_turn_texts",
})
