"""What can be searched for beside the sessions: todos, plans, prompts typed, titles, memory. Rows in, matches out.

Rules
  1. The rows of side files are in the store; without one they are read into a store in memory.
  2. What `sessions-index.json` says of a session counts only if nothing else is known of that session.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.graph.search_text import Passage, joined
from unspool.read.scan import Kind, Tree
from unspool.store.search.corpus import Haystack
from unspool.store.search.results import Asked, Match, match
from unspool.store.sync.changes import WITHIN, within


class _Where(NamedTuple):
    """Where a kind of text stands: a table, and what its columns say."""

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
    only: str = "1"


_UNKNOWN: Final = "t.session_id NOT IN (SELECT session_id FROM sessions)"
_TEXTS: Final = (
    _Where(
        "todo", "assistant", "todos", "t.content || coalesce(char(10) || t.active_form, '')", session="t.session_id",
        agent="nullif(t.agent_id, t.session_id)", number="t.position",
    ),
    _Where(
        "todo", "assistant", "tasks",
        "t.subject || coalesce(char(10) || t.description, '') || coalesce(char(10) || t.active_form, '')",
        session="t.list_id",
    ),
    _Where(
        "plan", "assistant", "plans", "t.content", time="t.modified",
        session="(SELECT session_id FROM sessions WHERE slug = t.slug ORDER BY last DESC LIMIT 1)",
    ),
    _Where(
        "history", "user", "history", "t.display || coalesce(char(10) || t.pasted, '')", session="t.session_id",
        offset="t.offset", time="t.time", cwd="t.project",
    ),
    _Where("title", "user", "titles", "t.custom_title", session="t.session_id"),
    _Where(
        "title", "user", "index_entries", "t.custom_title", session="t.session_id", cwd="t.project_path",
        number="t.position", only=_UNKNOWN,
    ),
    _Where(
        "summary", "system", "index_entries", "t.summary", session="t.session_id", cwd="t.project_path",
        number="t.position", only=_UNKNOWN,
    ),
    _Where(
        "prompt", "user", "index_entries", "t.first_prompt", session="t.session_id", cwd="t.project_path",
        number="t.position", only=_UNKNOWN,
    ),
    _Where("structured", "system", "memory", "t.content", time="t.modified"),
    _Where("structured", "system", "agent_meta", "t.description", session="t.session_id", agent="t.agent_id"),
    _Where(
        "structured", "system", "workflows",
        "coalesce(t.workflow_name, '') || coalesce(char(10) || t.phases, '') || coalesce(char(10) || t.result, '')",
        session="t.session_id",
    ),
)  # fmt: skip

READ: Final = (Kind.TODOS, Kind.TASK, Kind.PLAN, Kind.HISTORY, Kind.TITLE, Kind.INDEX, Kind.MEMORY, Kind.AGENT_META,
               Kind.WORKFLOW)  # fmt: skip
"""Files whose rows these are."""


def side_matches(database: sqlite3.Connection, root: Path, asked: Asked, word: str | None) -> Iterator[Match]:
    """Yield the texts that match; `word`, if there is one, is in every one of them.

    `CROSS JOIN` has SQLite begin with the texts: there are fewer of them than files, and it would not know.
    """
    for where in _TEXTS:
        query = f"""SELECT s.path, s.kind, s.project, {where.session}, {where.agent}, s.modified, s.size, s.id,
            s.generation, s.gone, {where.offset}, {where.number}, {where.time}, {where.cwd}, {where.text}
            FROM {where.table} t CROSS JOIN sources s ON s.id = t.source_id WHERE {WITHIN} AND {where.only}"""
        values = within(root)
        if word is not None:
            query += f" AND {where.text} LIKE :word"
            values["word"] = f"%{word}%"
        for path, kind, key, session, agent, modified, size, id, generation, gone, *rest in database.execute(
            query, values
        ):
            offset, number, time, cwd, text = rest
            text = _read(text, where.table)
            if text and asked.count(text):
                haystack = Haystack(
                    path, kind, key, session, agent, modified, size, id, generation, kept=int(gone is not None)
                )
                line = {"timestamp": _stamp(time), "cwd": cwd, "sessionId": session, "agentId": agent}
                found = match(asked, haystack, (offset, number), Passage(where.kind, where.role, text), line)
                yield found._replace(indexed=where.kind != "structured")


def in_memory(tree: Tree) -> sqlite3.Connection:
    """Return a store with the rows of a tree's side files and nothing else."""
    from unspool.files.open import MAX_SIDE_FILE, read_whole
    from unspool.store.database import open_in_memory
    from unspool.store.sync.read_file import batches, task
    from unspool.store.sync.write_rows import Writer
    from unspool.store.usage.pricing import Pricing

    database = open_in_memory()
    writer = Writer(database, Pricing(()))
    home = writer.home(str(tree.root))
    for source in tree.of(*READ):
        with suppress(UnspoolError):  # a file that cannot be read costs no other
            known = writer.source(source, home)
            writer.flush()
            if source.kind is Kind.HISTORY:
                for batch in batches(task(source, archived=False)):
                    known = writer.batch(known, batch, archived=False)
                writer.flush()
            else:
                writer.side_file(known, source, read_whole(source.path, MAX_SIDE_FILE))
    return database


def _read(text: str | None, table: str) -> str:
    """Return a text; of what was pasted into a prompt the texts in the JSON."""
    if not text or table != "history" or "\n{" not in text:
        return text or ""
    import json

    display, _, pasted = text.rpartition("\n{")
    try:
        return f"{display}\n{joined(json.loads('{' + pasted))}"
    except ValueError:
        return text


def _stamp(time: int | None) -> str | None:
    try:
        return None if time is None else _iso(datetime.fromtimestamp(time / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
