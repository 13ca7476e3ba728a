"""Searches what stands beside the session files: todos, plans, typed prompts, titles, memory files.

Rules
  1. The rows of side files are in the store; without one they are read into a store in memory.
  2. What `sessions-index.json` says of a session counts only if nothing else is known of that session.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.format import format_timestamp
from unspool.graph import Passage, join_texts
from unspool.read import Kind, Tree
from unspool.store.database import IN_FOLDER, Roots, folder_parameters
from unspool.store.search.corpus import SearchedFile
from unspool.store.search.results import SearchMatch, make_match
from unspool.store.search.terms import SearchTerms, WordQuery


class _TextSource(NamedTuple):
    """A table with texts to search, and the SQL expressions of what is known of each."""

    kind: str
    role: str
    table: str
    text: str
    session: str = "NULL"
    agent: str = "NULL"
    offset: str = "0"
    number: str = "0"
    time: str = "s.modified / 1000000"
    cwd: str = "NULL"
    condition: str = "1"


_UNKNOWN: Final = "t.session_id NOT IN (SELECT session_id FROM sessions)"
_TEXT_SOURCES: Final = (
    _TextSource(
        "todo", "assistant", "todos", "t.content || coalesce(char(10) || t.active_form, '')", session="t.session_id",
        agent="nullif(t.agent_id, t.session_id)", number="t.position",
    ),
    _TextSource(
        "todo", "assistant", "tasks",
        "t.subject || coalesce(char(10) || t.description, '') || coalesce(char(10) || t.active_form, '')",
        session="t.list_id",
    ),
    _TextSource(
        "plan", "assistant", "plans", "t.content", time="t.modified",
        session="(SELECT session_id FROM sessions WHERE slug = t.slug ORDER BY last DESC LIMIT 1)",
    ),
    _TextSource(
        "history", "user", "history", "t.display || coalesce(char(10) || t.pasted, '')", session="t.session_id",
        offset="t.offset", time="t.time", cwd="t.project",
    ),
    _TextSource("title", "user", "titles", "t.custom_title", session="t.session_id"),
    _TextSource(
        "title", "user", "index_entries", "t.custom_title", session="t.session_id", cwd="t.project_path",
        number="t.position", condition=_UNKNOWN,
    ),
    _TextSource(
        "summary", "system", "index_entries", "t.summary", session="t.session_id", cwd="t.project_path",
        number="t.position", condition=_UNKNOWN,
    ),
    _TextSource(
        "prompt", "user", "index_entries", "t.first_prompt", session="t.session_id", cwd="t.project_path",
        number="t.position", condition=_UNKNOWN,
    ),
    _TextSource("structured", "system", "memory", "t.content", time="t.modified"),
    _TextSource("structured", "system", "agent_meta", "t.description", session="t.session_id", agent="t.agent_id"),
    _TextSource(
        "structured", "system", "workflows",
        "coalesce(t.workflow_name, '') || coalesce(char(10) || t.phases, '') || coalesce(char(10) || t.result, '')",
        session="t.session_id",
    ),
)  # fmt: skip

_SIDE_FILE_KINDS: Final = (
    Kind.TODOS, Kind.TASK, Kind.PLAN, Kind.HISTORY, Kind.TITLE, Kind.INDEX, Kind.MEMORY, Kind.AGENT_META, Kind.WORKFLOW,
)  # fmt: skip
"""The files that fill these tables."""


def search_side_files(database: sqlite3.Connection, roots: Roots, terms: SearchTerms) -> Iterator[SearchMatch]:
    """Yield the texts in side files that match."""
    word = terms.ascii_word if isinstance(terms, WordQuery) else None
    for source in _TEXT_SOURCES:
        # The CROSS JOIN makes SQLite begin with the texts: it does not know that they are fewer than the files.
        query = f"""SELECT s.path, s.kind, s.project, {source.session}, {source.agent}, s.size, s.id, s.generation,
            s.gone IS NOT NULL, {source.offset}, {source.number}, {source.time}, {source.cwd}, {source.text}
            FROM {source.table} t CROSS JOIN sources s ON s.id = t.source_id WHERE {IN_FOLDER} AND {source.condition}"""
        values = folder_parameters(roots)
        if word is not None:  # spares the texts that cannot match
            query += f" AND {source.text} LIKE :word"
            values["word"] = f"%{word}%"
        for *about, is_archived, offset, number, time, cwd, text in database.execute(query, values):
            text = _expand_pasted(text, source.table)
            if text and terms.count(text):
                file = SearchedFile._make((*about, 0, 0, is_archived))
                line = {
                    "timestamp": _timestamp(time),
                    "cwd": cwd,
                    "sessionId": file.session_id,
                    "agentId": file.agent_id,
                }
                match = make_match(terms, file, (offset, number), Passage(source.kind, source.role, text), line)
                yield match._replace(indexed=source.kind != "structured")


def load_side_files(tree: Tree) -> sqlite3.Connection:
    """Return a store in memory with the rows of a tree's side files and nothing else."""
    # Only a search without a store needs these.
    from unspool.files import MAX_SIDE_FILE, read_whole
    from unspool.store.answer_rows import PriceLookup
    from unspool.store.database import open_in_memory
    from unspool.store.sync.read_file import ReadTask, read_batches
    from unspool.store.sync.write_rows import RowWriter

    database = open_in_memory()
    writer = RowWriter(database, PriceLookup(()))
    home = writer.add_home(str(tree.root))
    for source in tree.of(*_SIDE_FILE_KINDS):
        with suppress(UnspoolError):  # a file that cannot be read does not keep the others from being searched
            known = writer.add_source(source, home)
            writer.flush()
            if source.kind is Kind.HISTORY:
                for batch in read_batches(ReadTask(source.place, source.kind.value, archived=False)):
                    known = writer.write_batch(known, batch, archived=False)
                writer.flush()
            else:
                writer.write_side_file(known, source, read_whole(source.path, MAX_SIDE_FILE))
    return database


def _expand_pasted(text: str | None, table: str) -> str:
    """Return a text; for a typed prompt with the texts in the JSON of what was pasted into it."""
    if not text or table != "history" or "\n{" not in text:
        return text or ""
    import json

    display, _, pasted = text.rpartition("\n{")
    try:
        return f"{display}\n{join_texts(json.loads('{' + pasted))}"
    except ValueError:
        return text


def _timestamp(time: int | None) -> str | None:
    """Return milliseconds since 1970 as a timestamp; null if there are none, or no date has them."""
    try:
        if time is not None:
            return format_timestamp(datetime.fromtimestamp(time / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        pass
    return None
