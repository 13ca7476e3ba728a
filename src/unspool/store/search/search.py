"""Searches folders: what the index finds, and what is found by scanning bytes, as one ranked list of hits.

Rules
  1. Nothing is missed: what is not indexed, or not yet, is scanned. Only when a limit is given and the index alone
     reaches it, the rest is left out; its hits would come last anyway.
  2. The newest 2,000 hits of the index are ranked; older ones follow as they come. What only a scan can find (the
     middle of long results, structured data, overflow files) has a score below 1 and comes after the rest.
  3. Duplicates are one hit (`results.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any, Final

from unspool.errors import UnspoolError
from unspool.format import milliseconds
from unspool.graph import Json, Passage, extract_passages, extract_text_passages
from unspool.store.database import list_roots
from unspool.store.search.corpus import MAX_LINE_BYTES, Corpus, CorpusReader, SearchedFile
from unspool.store.search.request import SearchFilters
from unspool.store.search.results import (
    MatchOwners,
    ScoredMatch,
    SearchHit,
    SearchMatch,
    deduplicate,
    make_match,
    make_snippet,
)
from unspool.store.search.side_files import load_side_files, search_side_files
from unspool.store.search.terms import AnyText, SearchTerms, WordQuery
from unspool.store.sync.changes import read_homes
from unspool.store.usage.ledger import matches_project

RANKED_ROWS: Final = 2000
"""Hits of the index that are ranked."""

_WEIGHTS: Final = {"title": 2.0, "prompt": 1.5, "summary": 1.5, "answer": 1.2, "thinking": 0.8, "tool_input": 0.8}
_OTHER_WEIGHT: Final = 0.6
_SCORE: Final = f"""1 - bm25(words, 1.0, 0.5) * CASE p.kind {
    " ".join(f"WHEN '{kind}' THEN {weight}" for kind, weight in _WEIGHTS.items())
} ELSE {_OTHER_WEIGHT} END"""
"""The score of a row of the index. FTS5's `bm25` is the smaller, the better a row matches."""
_USUAL_LENGTH: Final = 600
"""Characters of a passage, on average."""
_CLEANED: Final = 64 * 1024
"""Characters around a match that are cleaned: more than a private key has."""
_ROLES: Final = {
    "prompt": "user", "queued": "user", "tool_result": "user", "answer": "assistant", "thinking": "assistant",
    "tool_input": "assistant",
}  # fmt: skip


def search_corpora(
    corpora: Iterable[Corpus],
    terms: SearchTerms,
    filters: SearchFilters | None = None,
    *,
    limit: int | None = None,
    indexed_only: bool = False,
    clean: Callable[[str], str] | None = None,
) -> list[SearchHit]:
    """Return the hits in some folders, the best first; `indexed_only` leaves out what would have to be scanned.

    `clean` takes out of a text what must not be shown, before the snippet is cut from it.
    """
    with ExitStack() as stack:
        searches = [_Search(corpus, terms, filters or SearchFilters(), limit) for corpus in corpora]
        for search in searches:
            stack.callback(search.reader.close)
        found = [(scored, search) for search in searches for scored in search.run(indexed_only=indexed_only)]
        hits = [(search, search.hit(scored), scored) for scored, search in deduplicate(found)[:limit]]
        if clean is None:
            return [hit for _, hit, _ in hits]
        return [hit._replace(snippet=search.clean_snippet(scored, clean)) for search, hit, scored in hits]


def count_indexed(corpora: Iterable[Corpus], terms: SearchTerms, filters: SearchFilters | None = None) -> int | None:
    """Return how many texts of the index match, copies of a line included; None if that is not known at little cost."""
    searches = [_Search(corpus, terms, filters or SearchFilters(), None) for corpus in corpora]
    try:
        counts = [search.count_indexed() for search in searches]
    finally:
        for search in searches:
            search.reader.close()
    return None if None in counts else sum(count or 0 for count in counts)


class _Search:
    """A search in one folder."""

    def __init__(self, corpus: Corpus, terms: SearchTerms, filters: SearchFilters, limit: int | None) -> None:
        self._corpus, self._terms, self._filters, self._limit = corpus, terms, filters, limit
        self._database = corpus.database
        self.reader = CorpusReader(corpus.archive)
        self._owners = MatchOwners(corpus, self.reader)
        self._file = lru_cache(None)(corpus.file)

    def run(self, *, indexed_only: bool) -> list[ScoredMatch]:
        """Return matches, at least as many as the limit if there are that many."""
        limit = self._limit
        others = [*self._search_side_files(), *self._scan_unindexed()]
        most = None if limit is None else min(5 * limit, RANKED_ROWS)  # some are duplicates: five times mostly does
        rows = list(self._query_index(most))
        found, different = self._read_first([*rows, *others])
        if limit is not None and different < limit and len(rows) == most:
            found, different = self._read_first([*self._query_index(None), *others])
        # Without words every text is in the index, or was scanned above: there is nothing inside texts to look for.
        is_complete = isinstance(self._terms, AnyText) and self._database is not None
        if indexed_only or is_complete or (limit is not None and different >= limit):
            return found
        known = {scored.match.location for scored in found if scored.match is not None}
        scanned = self._scan(self._files, only_new=False)
        return [*found, *(self._score(match) for match in scanned if match.location not in known)]

    def hit(self, scored: ScoredMatch) -> SearchHit:
        """Return a match as commands and pages show it."""
        match = scored.match
        assert match is not None
        if match.passage.kind == "overflow" and match.passage.tool is None:
            match = self._owners.add_overflow_tool(match)
        return SearchHit(
            session=self._owners.session(match),
            agent=self._owners.agent(match),
            project=self._owners.project(match)[0],
            turn=self._owners.turn(match),
            role=match.passage.role,
            kind=match.passage.kind,
            tool=match.passage.tool,
            timestamp=match.timestamp,
            snippet=match.snippet,
            file=match.file.path,
            offset=match.offset,
            uuid=match.uuid,
            score=round(scored.score, 4),
        )

    def clean_snippet(self, scored: ScoredMatch, clean: Callable[[str], str]) -> str:
        """Return the snippet of a match, cut from its text after that was cleaned."""
        match = scored.match
        assert match is not None
        text = ""
        with suppress(UnspoolError):  # gone from disk and archive
            text = self._read_text(match)
        if not text:
            return clean(match.snippet)
        first = next(iter(self._terms.spans(text)), (0, 0))[0]
        cleaned = clean(text[max(first - _CLEANED // 2, 0) : first + _CLEANED // 2])
        return make_snippet(cleaned, self._terms.spans(cleaned))

    def _read_text(self, match: SearchMatch) -> str:
        """Return the text that a match is in; nothing of a side file that holds several."""
        if match.file.kind == "tool-result" or match.passage.kind == "plan":
            return self.reader.text(match.file, MAX_LINE_BYTES).decode(errors="replace")
        if not match.file.has_lines:
            return ""
        line = self.reader.line_at(match.file, match.offset)
        passages = list(extract_passages(_decode_object(line)))
        # A scan also finds what is between the texts: then the line is the text.
        is_in_text = 0 <= match.number < len(passages)
        return passages[match.number].text if is_in_text else line.decode(errors="replace")

    @cached_property
    def _files(self) -> list[SearchedFile]:
        return self._corpus.files()

    # The index

    def _query_index(self, most: int | None) -> Iterator[ScoredMatch]:
        """Yield the best of the newest matching rows of the index; without a number all of them, then older ones."""
        if self._database is None or not isinstance(self._terms, WordQuery):
            return
        conditions, values = self._conditions()
        if isinstance(self._terms, AnyText):
            newest = f"""SELECT p.source_id, p.generation, p.offset, p.number, p.kind, p.tool, p.target, p.failed,
                p.time, 1.0 AS score FROM passages p WHERE TRUE {conditions} ORDER BY p.time DESC LIMIT ?"""
            for row in self._database.execute(newest, (*values, -1 if most is None else most)):
                yield ScoredMatch(row[-1], row[8] or 0, None, row)
            return
        query = f"""SELECT p.source_id, p.generation, p.offset, p.number, p.kind, p.tool, p.target, p.failed, p.time,
            %s AS score FROM words JOIN passages p ON p.id = words.rowid
            WHERE words MATCH ? {conditions} ORDER BY words.rowid DESC LIMIT ? OFFSET ?"""
        parameters = (self._terms.expression, *values)
        ranked = f"SELECT * FROM ({query % _SCORE}) ORDER BY score DESC, time DESC LIMIT ?"
        for row in self._database.execute(ranked, (*parameters, RANKED_ROWS, 0, RANKED_ROWS if most is None else most)):
            yield ScoredMatch(row[-1], row[8] or 0, None, row)
        if most is None:
            for row in self._database.execute(query % "1.0", (*parameters, -1, RANKED_ROWS)):
                yield ScoredMatch(row[-1], row[8] or 0, None, row)

    def count_indexed(self) -> int | None:
        """Return how many rows of the index match; None if only their lines say so, or there is no index."""
        # Which project a text belongs to is known when its line is read.
        if self._database is None or not isinstance(self._terms, WordQuery) or self._filters.project is not None:
            return None
        conditions, values = self._conditions()
        if isinstance(self._terms, AnyText):
            query, parameters = f"SELECT count(*) FROM passages p WHERE TRUE {conditions}", tuple(values)
        else:
            query = f"SELECT count(*) FROM words JOIN passages p ON p.id = words.rowid WHERE words MATCH ? {conditions}"
            parameters = (self._terms.expression, *values)
        count: int = self._database.execute(query, parameters).fetchone()[0]
        return count

    def _conditions(self) -> tuple[str, list[object]]:
        """Return the conditions of the filters for a query of the index, and their values."""
        filters = self._filters
        conditions, values = "", list[object]()
        if filters.kinds is not None:
            conditions += f" AND p.kind IN ({', '.join('?' * len(filters.kinds))})"
            values += sorted(filters.kinds)
        for test, value in (
            ("p.tool = ? COLLATE NOCASE", filters.tool),
            ("p.time >= ?", filters.since),
            ("p.time < ?", filters.until),
        ):
            if value is not None:
                conditions, values = f"{conditions} AND {test}", [*values, value]
        if filters.errors:
            conditions += " AND p.failed = 1"
        if filters.target is not None:
            conditions += " AND (p.target GLOB ? OR p.target GLOB '*/' || ?)"
            values += [filters.target, filters.target]
        assert self._database is not None
        is_whole_store = {*map(str, list_roots(self._corpus.roots))} >= {row.path for row in read_homes(self._database)}
        if not is_whole_store or filters.session is not None or filters.project is not None:
            sources = (str(file.source_id) for file in self._files if self._may_be_in(file))
            conditions += f" AND p.source_id IN ({', '.join(sources)})"
        return conditions, values

    def _may_be_in(self, file: SearchedFile) -> bool:
        """Whether a file may hold hits of the session that is searched."""
        return self._filters.session is None or file.session_id in (None, self._filters.session)

    def _read_first(self, scored: Iterable[ScoredMatch]) -> tuple[list[ScoredMatch], int]:
        """Return the best matches, with their lines read, until enough of them are different; and how many are."""
        limit = self._limit
        found: list[ScoredMatch] = []
        identities = set[object]()
        for one in sorted(scored, key=lambda one: one.sort_key):
            # Copies of a line have one score, and the best of them is to be chosen: all of them are read.
            if (
                limit is not None
                and len(identities) >= limit
                and (one.score < found[-1].score or len(found) >= 2 * limit)
            ):
                break
            match = one.match or self._read_row(one.row)
            if one.match is None and not self._passes_filters(match):
                continue
            found.append(one._replace(match=match))
            identities.add(match.identity)
        return found, len(identities)

    def _read_row(self, row: tuple[Any, ...]) -> SearchMatch:
        """Read the line of a row of the index and return it as a match."""
        source, generation, offset, number, kind, tool, target, failed, *_ = row
        file = self._file(source, generation)
        value = _decode_object(self.reader.line_at(file, offset))
        texts = extract_text_passages(value)
        if number < len(texts):
            passage = texts[number]._replace(tool=tool, target=target)
        else:  # neither the disk nor the archive has the line any more
            passage = Passage(kind, _ROLES.get(kind, "system"), "", None, tool, target, bool(failed))
        return make_match(self._terms, file, (offset, number), passage, value)

    # What the index does not hold

    def _search_side_files(self) -> Iterator[ScoredMatch]:
        """Yield the matches in side files: todos, plans, typed prompts, titles."""
        with ExitStack() as stack:
            database = self._database
            if database is None:
                assert self._corpus.tree is not None
                database = stack.enter_context(closing(load_side_files(self._corpus.tree)))
            for match in search_side_files(database, self._corpus.roots, self._terms):
                if self._passes_filters(match):
                    yield self._score(match)

    def _scan_unindexed(self) -> Iterator[ScoredMatch]:
        """Yield the matches in lines that the index does not cover yet, but will."""
        if self._database is not None and isinstance(self._terms, WordQuery):
            for match in self._scan(self._corpus.unindexed_files(), only_new=True):
                if match.indexed:
                    yield self._score(match)

    def _scan(self, files: list[SearchedFile], *, only_new: bool) -> Iterator[SearchMatch]:
        selected = [file for file in files if self._may_be_in(file)]
        if not selected:
            return iter(())
        from unspool.store.search.scan import scan_files  # loads re2 and the decoders: most searches need neither

        agents = frozenset(file.agent_id for file in self._files if file.agent_id)
        matches = scan_files(selected, self._terms, self._corpus.archive, agents=agents, only_new=only_new)
        return filter(self._passes_filters, matches)

    def _passes_filters(self, match: SearchMatch) -> bool:
        filters, passage = self._filters, match.passage
        if filters.kinds is not None and passage.kind not in filters.kinds:
            return False
        if filters.errors and not passage.failed:
            return False
        if (filters.tool or filters.target) and passage.kind == "overflow":
            passage = self._owners.add_overflow_tool(match).passage
        if filters.tool is not None and (passage.tool or "").lower() != filters.tool.lower():
            return False
        if filters.target is not None and not _matches_target(passage.target, filters.target):
            return False
        if filters.session is not None and self._owners.session(match) != filters.session:
            return False
        if filters.project is not None and not matches_project(filters.project, *self._owners.project(match)):
            return False
        if filters.since is None and filters.until is None:
            return True
        time = milliseconds(match.timestamp)
        if time is None:
            return False
        return (filters.since is None or time >= filters.since) and (filters.until is None or time < filters.until)

    def _score(self, match: SearchMatch) -> ScoredMatch:
        """Give a match that the index did not find a score, as similar to `bm25` as possible."""
        if isinstance(self._terms, AnyText):  # the newest first, whatever they are
            return ScoredMatch(1.0, milliseconds(match.timestamp) or 0, match)
        frequency = match.match_count * 2.2 / (match.match_count + 1.2 * (0.25 + 0.75 * match.length / _USUAL_LENGTH))
        score = _WEIGHTS.get(match.passage.kind, _OTHER_WEIGHT) * self._rarity * frequency
        is_ranked = isinstance(self._terms, WordQuery) and match.indexed
        return ScoredMatch(1 + score if is_ranked else score / (1 + score), milliseconds(match.timestamp) or 0, match)

    @cached_property
    def _rarity(self) -> float:
        """How rare the terms are in the index: the sum of their inverse document frequencies, as `bm25` has it."""
        if self._database is None or not isinstance(self._terms, WordQuery):
            return 1.0
        total = self._database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
        rarity = 0.0
        for term in self._terms.terms:
            query = f"SELECT min(doc) FROM vocabulary WHERE term IN ({', '.join('?' * len(term.words))})"
            count = self._database.execute(query, term.words).fetchone()[0] or 0
            rarity += max(math.log((total - count + 0.5) / (count + 0.5)), 0.001) if total else 1.0
        return rarity


def _matches_target(target: str | None, pattern: str) -> bool:
    return target is not None and (fnmatchcase(target, pattern) or fnmatchcase(target, f"*/{pattern}"))


def _decode_object(line: bytes) -> Json:
    """Return the object that a line begins with."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    # Only for damaged lines: loading what repairs them takes longer than everything else in a search.
    from unspool.format import decode_plain

    return next((value for _, value in decode_plain(line) if isinstance(value, dict)), {})
