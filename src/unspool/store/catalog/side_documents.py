"""What Claude Code keeps beside the sessions, for people to look at: plans, todos, tasks, prompts, memory, settings.

Rules
  1. All of it is rows of the store (`side_rows.py`), which stay when their file has gone. Settings that may hold a
     secret are masked there already.
  2. What is shown is of the folder that was asked for. The newest comes first.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from unspool.store.sync.changes import WITHIN, within

Json: TypeAlias = dict[str, Any]

PAGE: Final = 100
"""Prompts at once."""


class Prompts(NamedTuple):
    """Some of what was typed."""

    rows: list[Json]
    total: int


def counts(database: sqlite3.Connection, root: Path) -> dict[str, int]:
    """Return how much there is of everything."""
    queries = {
        "plans": f"SELECT count(*) FROM plans t {_OF}",
        "todos": f"SELECT count(DISTINCT t.source_id) FROM todos t {_OF}",
        "tasks": f"SELECT count(*) FROM tasks t {_OF}",
        "history": f"SELECT count(*) FROM history t {_OF} AND t.generation = s.generation",
        "memory": f"SELECT count(*) FROM memory t {_OF}",
        "settings": f"SELECT count(DISTINCT t.source_id) FROM settings t {_OF}",
        "versions": f"SELECT count(DISTINCT t.session_id) FROM file_backups t {_OF}",
    }
    return {name: database.execute(query, within(root)).fetchone()[0] for name, query in queries.items()}


def plans(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return the plans, with how much of each is done and the sessions that work by it."""
    query = f"""SELECT t.slug, t.title, t.size, t.modified, s.gone IS NOT NULL AS gone,
        (SELECT count(*) FROM plan_tasks p WHERE p.source_id = t.source_id) AS tasks,
        (SELECT count(*) FROM plan_tasks p WHERE p.source_id = t.source_id AND p.done) AS done
        FROM plans t {_OF} ORDER BY t.modified DESC, t.slug"""
    return _rows(database, query, within(root))


def plan(database: sqlite3.Connection, root: Path, slug: str) -> Json | None:
    """Return one plan: its text, its checklist, its sessions."""
    query = f"SELECT t.source_id, t.slug, t.title, t.content, t.size, t.modified FROM plans t {_OF} AND t.slug = :slug"
    found = _rows(database, query, {**within(root), "slug": slug})
    if not found:
        return None
    one = found[0]
    id = one.pop("source_id")
    tasks = "SELECT text, done, section, phase, line FROM plan_tasks WHERE source_id = :id ORDER BY position"
    sessions = f"""SELECT DISTINCT t.session_id, t.title, t.last FROM sessions t {_OF} AND t.slug = :slug
        ORDER BY t.last DESC"""
    return {
        **one,
        "tasks": [{**task, "done": bool(task["done"])} for task in _rows(database, tasks, {"id": id})],
        "sessions": _rows(database, sessions, {**within(root), "slug": slug}),
    }


def todos(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return the todo lists that have anything on them, each with its session."""
    query = f"""SELECT t.source_id, t.session_id, t.agent_id, t.content, t.status, t.priority,
        s.modified / 1000000 AS modified,
        (SELECT title FROM sessions n WHERE n.session_id = t.session_id LIMIT 1) AS title
        FROM todos t {_OF} ORDER BY modified DESC, t.source_id, t.position"""
    found: dict[int, Json] = {}
    for row in _rows(database, query, within(root)):
        about = {name: row[name] for name in ("session_id", "title")}
        agent = row["agent_id"] if row["agent_id"] != row["session_id"] else None
        one = found.setdefault(row["source_id"], {**about, "agent_id": agent, "modified": row["modified"], "items": []})
        one["items"].append({name: row[name] for name in ("content", "status", "priority")})
    return list(found.values())


def tasks(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return the lists of tasks, each in the order of its numbers."""
    query = f"""SELECT t.list_id, t.id, t.subject, t.description, t.status, t.owner, t.blocked_by,
        s.modified / 1000000 AS modified, (SELECT title FROM sessions n WHERE n.session_id = t.list_id LIMIT 1) AS title
        FROM tasks t {_OF} ORDER BY t.list_id, CAST(t.id AS INTEGER), t.id"""
    found: dict[str, Json] = {}
    for row in _rows(database, query, within(root)):
        one = found.setdefault(
            row["list_id"] or "", {"list_id": row["list_id"], "title": row["title"], "modified": 0, "items": []}
        )
        one["modified"] = max(one["modified"], row["modified"])
        one["items"].append(
            {name: row[name] for name in ("id", "subject", "description", "status", "owner", "blocked_by")}
        )
    return sorted(found.values(), key=lambda one: (-one["modified"], one["list_id"] or ""))


def history(database: sqlite3.Connection, root: Path, words: str = "", offset: int = 0, limit: int = PAGE) -> Prompts:
    """Return what was typed, the newest first: that with all the words in it, from a position on."""
    where, values = f"{_OF} AND t.generation = s.generation", within(root)
    for number, word in enumerate(words.split()):
        where += f" AND instr(lower(t.display), :word{number})"
        values[f"word{number}"] = word.lower()
    query = f"""SELECT t.display, t.time, t.project, t.session_id, t.pasted FROM history t {where}
        ORDER BY t.time DESC, t.source_id, t.offset DESC LIMIT :limit OFFSET :offset"""
    total = database.execute(f"SELECT count(*) FROM history t {where}", values).fetchone()[0]
    return Prompts(_rows(database, query, {**values, "limit": limit, "offset": offset}), total)


def memory(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return what projects remember."""
    query = f"""SELECT t.project, t.name, t.content, t.size, t.modified FROM memory t {_OF}
        ORDER BY t.project, t.name <> 'MEMORY.md', t.name"""
    return _rows(database, query, within(root))


def settings(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return the files of settings: values, rules and hooks of each."""
    query = f"SELECT DISTINCT t.source_id, s.path, t.name FROM settings t {_OF} ORDER BY s.path"
    parts = {
        "values": "SELECT key, value FROM settings WHERE source_id = :id ORDER BY key",
        "rules": "SELECT behaviour, rule FROM permissions WHERE source_id = :id ORDER BY behaviour, position",
        "hooks": "SELECT event, matcher, type, target FROM hooks WHERE source_id = :id ORDER BY event, position",
    }
    return [
        {"path": row["path"], "name": row["name"]}
        | {name: _rows(database, part, {"id": row["source_id"]}) for name, part in parts.items()}
        for row in _rows(database, query, within(root))
    ]


def versioned(database: sqlite3.Connection, root: Path) -> list[Json]:
    """Return the sessions of whose files versions were kept."""
    query = f"""SELECT t.session_id, count(*) AS versions, count(DISTINCT t.hash) AS files, sum(t.size) AS size,
        max(t.modified) AS modified, (SELECT title FROM sessions n WHERE n.session_id = t.session_id LIMIT 1) AS title
        FROM file_backups t {_OF} GROUP BY t.session_id ORDER BY modified DESC, t.session_id"""
    return _rows(database, query, within(root))


_TASK: Final = ("id", "subject", "description", "status", "owner", "blocked_by")
_OF: Final = f"JOIN sources s ON s.id = source_id WHERE {WITHIN}"


def _rows(database: sqlite3.Connection, query: str, values: dict[str, Any]) -> list[Json]:
    found = database.execute(query, values)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]
