"""Reads what failed in a span of time: failed tool calls and API errors of all sessions and agents, from the index.

Rules
  1. The index knows which texts are failures. Its passages get higher ids as they come, so that a log reads only those
     that are new since it was read last.
  2. A line that several files repeat (forks, copies) counts once, in the session that wrote it.
  3. Without a store, or with indexing turned off, the files are searched that were written in the span, again when one
     of them has changed. With an index, what is not indexed yet is not in a log yet.
  4. Lines are untrusted. A failure whose line neither the disk nor the archive has is counted without words.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.export import describe_calls
from unspool.format import decode_plain, milliseconds
from unspool.graph import Json, extract_text_passages
from unspool.paths import project_name
from unspool.store.access import StoreAccess
from unspool.store.database import IN_FOLDER, folder_parameters
from unspool.store.search.corpus import Corpus, CorpusReader, SearchedFile, open_corpus
from unspool.store.search.failures import FailureReport, SessionFailure, describe_failure, group_failures
from unspool.store.search.request import SearchFilters
from unspool.store.search.results import SearchHit, make_snippet
from unspool.store.search.search import search_corpora
from unspool.store.search.terms import AnyText
from unspool.store.usage.ledger import matches_project

MAX_FAILURES: Final = 2_000
"""Failures that are kept, the newest."""
_FAILING_KINDS: Final = frozenset({"tool_result", "answer"})
_FAILED: Final = f"""
SELECT p.source_id, p.generation, p.offset, p.number, p.tool, p.time FROM passages p
WHERE p.id > :seen AND p.failed = 1 AND p.source_id IN (SELECT id FROM sources WHERE {IN_FOLDER})
  AND (:since IS NULL OR p.time >= :since) AND (:until IS NULL OR p.time < :until)
  AND (:tool IS NULL OR p.tool = :tool COLLATE NOCASE)
ORDER BY p.time DESC LIMIT :most
"""
_OWNERS: Final = """
SELECT coalesce(s.session_id, a.session_id) FROM sources s LEFT JOIN agents a ON a.source_id = s.id WHERE s.id = ?
"""
_FOLDERS: Final = f"""
SELECT cwd FROM sessions WHERE session_id = :session AND source_id IN (SELECT id FROM sources WHERE {IN_FOLDER})
ORDER BY source_id DESC
"""


class _FoundFailure(NamedTuple):
    failure: SessionFailure
    is_rejected: bool
    strangeness: tuple[bool, int, int, str]
    """The smaller, the more the line belongs where it was found."""


class FailureLog:
    """The failures that pass some filters, read once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filters: SearchFilters | None = None
        self._seen = 0
        self._found: dict[object, _FoundFailure] = {}
        self._scanned: object = None
        """What was searched last, without a store: the filters, and the files as they were."""

    def read(self, access: StoreAccess, filters: SearchFilters) -> FailureReport:
        """Return what failed; of the filters the times, the tool and the project count."""
        with self._lock:
            if access.database is None or not access.preferences.indexing:
                # With indexing turned off nothing would ever be found.
                files = StoreAccess(access.roots, access.folder, access.preferences, None)
                self._scan_changed(open_corpus(files), filters)
            else:
                self._read_new(access, access.database, filters)
            self._keep_newest()
            failures = [one.failure for one in self._found.values() if not one.is_rejected]
            rejected = len(self._found) - len(failures)
            return FailureReport(group_failures(failures), len(failures), rejected, len(self._found) == MAX_FAILURES)

    def _read_new(self, access: StoreAccess, database: sqlite3.Connection, filters: SearchFilters) -> None:
        try:
            (last,) = database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()
        except sqlite3.OperationalError:  # a store that was never indexed
            return
        if filters != self._filters or last < self._seen:  # another span, or an index that was built anew
            self._filters, self._seen, self._found = filters, 0, {}
        if last > self._seen:
            for identity, one in _read_index(open_corpus(access), database, filters, self._seen):
                known = self._found.get(identity)
                if known is None or one.strangeness < known.strangeness:
                    self._found[identity] = one
            self._seen = last

    def _scan_changed(self, corpus: Corpus, filters: SearchFilters) -> None:
        """Search the files again if one of them has changed."""
        assert corpus.tree is not None
        since = (filters.since or 0) * 1_000_000
        recent = tuple(source for source in corpus.tree.sources if source.modified >= since)
        state = (filters, [(source.path, source.size, source.modified) for source in recent])
        if state != self._scanned:
            self._found = dict(_scan(corpus._replace(tree=corpus.tree._replace(sources=recent)), filters))
            self._scanned = state

    def _keep_newest(self) -> None:
        newest = sorted(self._found.items(), key=lambda pair: pair[1].failure.time or 0, reverse=True)
        self._found = dict(newest[:MAX_FAILURES])


def read_failures(access: StoreAccess, filters: SearchFilters) -> FailureReport:
    """Return what failed, for a caller who asks once."""
    return FailureLog().read(access, filters)


def _read_index(
    corpus: Corpus, database: sqlite3.Connection, filters: SearchFilters, seen: int
) -> Iterator[tuple[object, _FoundFailure]]:
    """Yield the failures among the passages after one, each with its identity."""
    values = {**folder_parameters(corpus.roots), "since": filters.since, "until": filters.until, "tool": filters.tool}
    # Copies of a line and projects are known when lines are read: a project may need all rows, copies need some more.
    most = -1 if filters.project else 5 * MAX_FAILURES
    rows = database.execute(_FAILED, {**values, "seen": seen, "most": most}).fetchall()
    reader, file_of = CorpusReader(corpus.archive), lru_cache(None)(corpus.file)

    @lru_cache(None)
    def owner(source: int) -> str | None:
        row = database.execute(_OWNERS, (source,)).fetchone()
        return row[0] if row else None

    @lru_cache(None)
    def folder(session: str | None) -> str | None:
        row = database.execute(_FOLDERS, {**values, "session": session}).fetchone()
        return row[0] if row else None

    try:
        for source, generation, offset, number, tool, time in rows:
            try:
                file = file_of(source, generation)
                line = _read_line(reader, file, offset)
            except (UnspoolError, StopIteration):
                continue
            session = owner(source) or file.session_id
            names = (project_name(folder(session), file.project), folder(session), file.project)
            if matches_project(filters.project, *names):
                where = SessionFailure(session, file.agent_id, names[0], offset, time, tool, "")
                yield _make_failure(where, file, line, number)
    finally:
        reader.close()


def _scan(corpus: Corpus, filters: SearchFilters) -> Iterator[tuple[object, _FoundFailure]]:
    """Yield the failures that a search of the files finds."""
    failing = filters._replace(errors=True, kinds=_FAILING_KINDS)
    files = {file.path: file for file in corpus.files()}
    reader = CorpusReader(corpus.archive)
    try:
        for hit in search_corpora([corpus], AnyText(), failing, limit=MAX_FAILURES):
            file = files.get(hit.file)
            if file is None:
                continue
            try:
                line = _read_line(reader, file, hit.offset)
            except UnspoolError:  # it can no longer be read
                continue
            time = milliseconds(hit.timestamp)
            where = SessionFailure(hit.session, hit.agent, hit.project, hit.offset, time, hit.tool, "")
            yield _make_failure(where, file, line, _find_passage(line, hit))
    finally:
        reader.close()


def _find_passage(line: Json, hit: SearchHit) -> int:
    """Return which passage of a line a hit is: a line may hold several failed results."""
    for number, passage in enumerate(extract_text_passages(line)):
        if passage.failed and make_snippet(passage.text, AnyText().spans(passage.text)) == hit.snippet:
            return number
    return 0


def _make_failure(where: SessionFailure, file: SearchedFile, line: Json, number: int) -> tuple[object, _FoundFailure]:
    passages = extract_text_passages(line)
    text, call = (passages[number].text, passages[number].call) if number < len(passages) else ("", None)
    written_in, uuid = line.get("sessionId"), line.get("uuid")
    # The blocks of one API error are one failure; a result is known by its call. Copies of a line keep its uuid.
    identity = (uuid, call) if isinstance(uuid, str) else (file.path, file.generation, where.offset, number)
    strangeness = (written_in != file.session_id, file.is_archived, -file.generation, file.path)
    found = where._replace(words=describe_failure(text))
    return identity, _FoundFailure(found, describe_calls.is_refusal(text), strangeness)


def _read_line(reader: CorpusReader, file: SearchedFile, offset: int) -> Json:
    items = decode_plain(reader.line_at(file, offset))
    return next((value for _, value in items if isinstance(value, dict)), {})
