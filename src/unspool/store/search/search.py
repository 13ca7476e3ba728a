"""Words in, ranked hits out: what the index knows, and what is found by looking through the bytes, in one list.

Rules
  1. Nothing that is there is missed: what is not indexed, or not yet, is looked through. Only when enough is asked for
     and the index has that much, the rest stays as it is; what it would have given comes last anyway.
  2. The newest 2,000 hits of the index are ranked; older ones follow as they come. What only looking through can find
     (the middle of long results, structured data, overflow files) has a score below 1 and comes after the rest.
  3. What is there several times is one hit (`copies.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

from unspool.graph.search_text import Json, Passage, said
from unspool.store.search.corpus import (
    Haystack,
    Reader,
    behind_in_store,
    in_store,
    in_tree,
    one_in_store,
    session_in_store,
    session_in_tree,
)
from unspool.store.search.request import Corpus, Filters, Hit, Question
from unspool.store.search.results import Match, Owners, Scored, key, match, one_of_each, order, place
from unspool.store.search.side_files import in_memory, side_matches
from unspool.store.search.terms import Words
from unspool.store.sync.changes import homes
from unspool.store.usage.ledger import fits_project, milliseconds

RANKED: Final = 2000
"""Hits of the index that are ranked."""

_WEIGHTS: Final = {"title": 2.0, "prompt": 1.5, "summary": 1.5, "answer": 1.2, "thinking": 0.8, "tool_input": 0.8}
_OTHERWISE: Final = 0.6
_SCORE: Final = f"""1 - bm25(words, 1.0, 0.5) * CASE p.kind {
    " ".join(f"WHEN '{kind}' THEN {weight}" for kind, weight in _WEIGHTS.items())
} ELSE {_OTHERWISE} END"""
"""What a row of the index is worth: FTS5's numbers are the better the smaller."""
_USUAL: Final = 600
"""Characters of a passage, about."""


def search(question: Question, corpora: Iterable[Corpus]) -> list[Hit]:
    """Return what was found, the best first."""
    searches = [_Search(question, corpus) for corpus in corpora]
    found = [(scored, one) for one in searches for scored in one.found()]
    chosen = one_of_each(found)[: question.limit]
    hits = [one.hit(scored) for scored, one in chosen]
    for one in searches:
        one.close()
    return hits


class _Search:
    """One question to one folder."""

    def __init__(self, question: Question, corpus: Corpus) -> None:
        self._question, self._corpus = question, corpus
        self._asked, self._filters = question.asked, question.filters
        self._reader = Reader(corpus.archive)
        self._database = corpus.database

    def close(self) -> None:
        """Let go of what was opened."""
        self._reader.close()

    def found(self) -> list[Scored]:
        """Return what was found, as much as is asked for at least."""
        limit = self._question.limit
        others = [*self._beside(), *self._not_yet_indexed()]
        most = None if limit is None else min(5 * limit, RANKED)  # some are copies: a few more mostly do
        rows = list(self._in_index(most))
        found, different = self._first_of(sorted([*rows, *others], key=order))
        if limit is not None and different < limit and len(rows) == most:
            found, different = self._first_of(sorted([*self._in_index(None), *others], key=order))
        if self._question.indexed_only or (limit is not None and different >= limit):
            return found
        places = {place(one.match) for one in found if one.match is not None}
        return [*found, *(self._scored(one) for one in self._by_scanning() if place(one) not in places)]

    def hit(self, scored: Scored) -> Hit:
        """Return a match as a person sees it."""
        match = scored.match
        assert match is not None
        if match.passage.kind == "overflow" and match.passage.tool is None:
            match = self._owners.overflow(match)
        return Hit(
            session=self._owners.session(match),
            agent=self._owners.agent(match),
            project=self._owners.places(match)[0],
            turn=self._owners.turn(match),
            role=match.passage.role,
            kind=match.passage.kind,
            tool=match.passage.tool,
            timestamp=match.timestamp,
            snippet=match.snippet,
            file=match.haystack.path,
            offset=match.offset,
            uuid=match.uuid,
            score=round(scored.score, 4),
        )

    # What the index knows

    def _in_index(self, most: int | None) -> Iterator[Scored]:
        """Yield the best of the newest rows of the index that match; without a number all of them, then older ones."""
        if self._database is None or not isinstance(self._asked, Words):
            return
        conditions, values = self._conditions()
        query = f"""SELECT p.source_id, p.generation, p.offset, p.number, p.kind, p.tool, p.target, p.failed, p.time,
            %s AS score FROM words JOIN passages p ON p.id = words.rowid
            WHERE words MATCH ? {conditions} ORDER BY words.rowid DESC LIMIT ? OFFSET ?"""
        asked = (self._asked.expression, *values)
        ranked = f"SELECT * FROM ({query % _SCORE}) ORDER BY score DESC, time DESC LIMIT ?"
        for row in self._database.execute(ranked, (*asked, RANKED, 0, RANKED if most is None else most)):
            yield Scored(row[-1], row[8] or 0, None, row)
        if most is None:
            for row in self._database.execute(query % "1.0", (*asked, -1, RANKED)):
                yield Scored(row[-1], row[8] or 0, None, row)

    def _conditions(self) -> tuple[str, list[object]]:
        """Return what restricts a query of the index."""
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
        if (sources := self._sources()) is not None:
            conditions += f" AND p.source_id IN ({', '.join(map(str, sources))})"
        return conditions, values

    def _sources(self) -> list[int] | None:
        """Return the files that hits may be in; nothing if all of the store may."""
        assert self._database is not None
        filters = self._filters
        whole = [str(self._corpus.root)] == [row.path for row in homes(self._database)]
        if whole and filters.session is None and filters.project is None:
            return None
        return [haystack.source_id for haystack in self._haystacks if self._may_be_of(haystack)]

    def _may_be_of(self, haystack: Haystack) -> bool:
        session = self._filters.session
        if session is None or haystack.session_id is None:
            return True
        return haystack.session_id == session

    def _read(self, row: tuple[Any, ...]) -> Match:
        """Return a row of the index as a match."""
        source, generation, offset, number, kind, tool, target, failed, *_ = row
        haystack = self._by_id(source, generation)
        line = self._reader.line_at(haystack, offset)
        value = _object(line)
        told = said(value)
        if number < len(told):
            passage = told[number]._replace(tool=tool, target=target)
        else:  # the bytes are not to be had any more
            passage = Passage(kind, _ROLES.get(kind, "system"), "", None, tool, target, bool(failed))
        return match(self._asked, haystack, (offset, number), passage, value)

    def _by_id(self, source: int, generation: int) -> Haystack:
        key = (source, generation)
        if key not in self._read_haystacks:
            assert self._database is not None
            self._read_haystacks[key] = one_in_store(self._database, source, generation)
        return self._read_haystacks[key]

    # What it does not know

    def _beside(self) -> Iterator[Scored]:
        """Yield what is found in side files: todos, plans, prompts typed, titles."""
        with ExitStack() as after:
            database = self._database
            if database is None:
                assert self._corpus.tree is not None
                database = after.enter_context(closing(in_memory(self._corpus.tree)))
            word = self._asked.word if isinstance(self._asked, Words) else None
            for found in side_matches(database, self._corpus.root, self._asked, word):
                if self._is_wanted(found):
                    yield self._scored(found)

    def _not_yet_indexed(self) -> Iterator[Scored]:
        """Yield what is found in lines that the index has not read yet."""
        if self._database is None or not isinstance(self._asked, Words):
            return
        for found in self._scan(behind_in_store(self._database, self._corpus.root), only_new=True):
            if found.indexed:
                yield self._scored(found)

    def _by_scanning(self) -> Iterator[Match]:
        """Yield what is found by looking through all bytes."""
        return self._scan(self._haystacks, only_new=False)

    def _scan(self, haystacks: list[Haystack], *, only_new: bool) -> Iterator[Match]:
        wanted = [one for one in haystacks if self._may_be_of(one)]
        if not wanted:
            return iter(())
        from unspool.store.search.scan import Scanning, scan

        agents = frozenset(one.agent_id for one in self._haystacks if one.agent_id)
        found = scan(wanted, Scanning(self._asked, self._corpus.archive, agents, only_new))
        return filter(self._is_wanted, found)

    def _is_wanted(self, match: Match) -> bool:
        filters, passage = self._filters, match.passage
        if filters.kinds is not None and passage.kind not in filters.kinds:
            return False
        if filters.errors and not passage.failed:
            return False
        if (filters.tool or filters.target) and passage.kind == "overflow":
            passage = self._owners.overflow(match).passage
        if filters.tool is not None and (passage.tool or "").lower() != filters.tool.lower():
            return False
        if filters.target is not None and not _fits(passage.target, filters.target):
            return False
        if filters.session is not None and self._owners.session(match) != filters.session:
            return False
        if filters.project is not None and not fits_project(filters.project, *self._owners.places(match)):
            return False
        return _is_in_time(match, filters)

    # Putting it together

    @cached_property
    def _haystacks(self) -> list[Haystack]:
        if self._database is not None:
            return in_store(self._database, self._corpus.root)
        assert self._corpus.tree is not None
        return in_tree(self._corpus.tree)

    @cached_property
    def _read_haystacks(self) -> dict[tuple[int, int], Haystack]:
        return {}

    @cached_property
    def _owners(self) -> Owners:
        return Owners(self._database, self._file_of, self._reader)

    def _file_of(self, session: str, near: str) -> Haystack | None:
        if self._database is not None:
            return session_in_store(self._database, self._corpus.root, session, near)
        return session_in_tree(self._haystacks, session, near)

    def _first_of(self, known: list[Scored]) -> tuple[list[Scored], int]:
        """Return what was found first, with its lines read, until enough of it is different; and how much is."""
        limit = self._question.limit
        found: list[Scored] = []
        keys = set[object]()
        for one in known:
            if limit is not None and len(keys) >= limit and (one.score < found[-1].score or len(found) >= 2 * limit):
                break  # copies of a line have one score, and the best of them is wanted
            match = one.match or self._read(one.row)
            if one.match is None and not self._is_wanted(match):
                continue
            found.append(one._replace(match=match))
            keys.add(key(match))
        return found, len(keys)

    def _scored(self, match: Match) -> Scored:
        """Give a match that was not found in the index a score, as like the index's as can be."""
        often = match.times * 2.2 / (match.times + 1.2 * (0.25 + 0.75 * match.length / _USUAL))
        score = _WEIGHTS.get(match.passage.kind, _OTHERWISE) * self._rareness * often
        beside = isinstance(self._asked, Words) and match.indexed
        return Scored(1 + score if beside else score / (1 + score), milliseconds(match.timestamp) or 0, match)

    @cached_property
    def _rareness(self) -> float:
        """How much the terms tell: the rarer, the more."""
        if self._database is None or not isinstance(self._asked, Words):
            return 1.0
        total = self._database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
        told = 0.0
        for term in self._asked.terms:
            query = f"SELECT min(doc) FROM vocabulary WHERE term IN ({', '.join('?' * len(term.words))})"
            (count,) = self._database.execute(query, term.words).fetchone()
            told += max(math.log((total - (count or 0) + 0.5) / ((count or 0) + 0.5)), 0.001) if total else 1.0
        return told


_ROLES: Final = {
    "prompt": "user", "queued": "user", "tool_result": "user", "answer": "assistant", "thinking": "assistant",
    "tool_input": "assistant",
}  # fmt: skip


def _fits(target: str | None, pattern: str) -> bool:
    return target is not None and (fnmatchcase(target, pattern) or fnmatchcase(target, f"*/{pattern}"))


def _is_in_time(match: Match, filters: Filters) -> bool:
    if filters.since is None and filters.until is None:
        return True
    time = milliseconds(match.timestamp)
    if time is None:
        return False
    return (filters.since is None or time >= filters.since) and (filters.until is None or time < filters.until)


def _object(line: bytes) -> Json:
    """Return the object that a line begins with. Loading what mends a line takes longer than all else here."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    from unspool.format.plain_lines import whole

    return next((value for _, value in whole(line) if isinstance(value, dict)), {})
