"""Reads what Claude Code keeps beside the sessions from the store: plans, todos, tasks, prompts, memory, settings.

Rules
  1. All of it is rows of the store (`sync/side_rows.py`), which stay when their file has gone. Settings that may hold a
     secret are masked there already.
  2. Only rows of the folders that are named are returned. The newest comes first.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final, NamedTuple, TypeAlias

from unspool.store.database import IN_FOLDER, Roots, folder_parameters

Json: TypeAlias = dict[str, Any]

PAGE: Final = 100
"""Prompts of a page."""


class PromptPage(NamedTuple):
    """Some of the prompts that were typed, and how many there are."""

    rows: list[Json]
    total: int


def count_documents(database: sqlite3.Connection, roots: Roots) -> dict[str, int]:
    """Return how many there are of each kind."""
    queries = {
        "plans": f"SELECT count(*) FROM plans t {_IN_FOLDER}",
        "todos": f"SELECT count(DISTINCT t.source_id) FROM todos t {_IN_FOLDER}",
        "tasks": f"SELECT count(*) FROM tasks t {_IN_FOLDER}",
        "history": f"SELECT count(*) FROM history t {_IN_FOLDER} AND t.generation = s.generation",
        "memory": f"SELECT count(*) FROM memory t {_IN_FOLDER}",
        "settings": f"SELECT count(DISTINCT t.source_id) FROM settings t {_IN_FOLDER}",
        "versions": f"SELECT count(DISTINCT t.session_id) FROM file_backups t {_IN_FOLDER}",
    }
    return {name: database.execute(query, folder_parameters(roots)).fetchone()[0] for name, query in queries.items()}


def read_plans(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the plans, with how many of their tasks are done."""
    query = f"""SELECT t.slug, t.title, t.size, t.modified, s.gone IS NOT NULL AS gone,
        (SELECT count(*) FROM plan_tasks p WHERE p.source_id = t.source_id) AS tasks,
        (SELECT count(*) FROM plan_tasks p WHERE p.source_id = t.source_id AND p.done) AS done
        FROM plans t {_IN_FOLDER} ORDER BY t.modified DESC, t.slug"""
    return _rows(database, query, folder_parameters(roots))


def read_plan(database: sqlite3.Connection, roots: Roots, slug: str) -> Json | None:
    """Return one plan: its text, its checklist, its sessions."""
    query = f"""SELECT t.source_id, t.slug, t.title, t.content, t.size, t.modified
        FROM plans t {_IN_FOLDER} AND t.slug = :slug"""
    plans = _rows(database, query, {**folder_parameters(roots), "slug": slug})
    if not plans:
        return None
    plan = plans[0]
    id = plan.pop("source_id")
    tasks = "SELECT text, done, section, phase, line FROM plan_tasks WHERE source_id = :id ORDER BY position"
    sessions = f"""SELECT DISTINCT t.session_id, t.title, t.last FROM sessions t {_IN_FOLDER} AND t.slug = :slug
        ORDER BY t.last DESC"""
    return {
        **plan,
        "tasks": [{**task, "done": bool(task["done"])} for task in _rows(database, tasks, {"id": id})],
        "sessions": _rows(database, sessions, {**folder_parameters(roots), "slug": slug}),
    }


def read_todos(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the todo lists that have anything on them, each with its session."""
    query = f"""SELECT t.source_id, t.session_id, t.agent_id, t.content, t.status, t.priority,
        s.modified / 1000000 AS modified,
        {_TITLE.format("t.session_id")} AS title
        FROM todos t {_IN_FOLDER} ORDER BY modified DESC, t.source_id, t.position"""
    lists: dict[int, Json] = {}
    for row in _rows(database, query, folder_parameters(roots)):
        about = {name: row[name] for name in ("session_id", "title")}
        # A list of the main thread has the session's own id in the place of an agent's.
        agent = row["agent_id"] if row["agent_id"] != row["session_id"] else None
        todos = lists.setdefault(
            row["source_id"], {**about, "agent_id": agent, "modified": row["modified"], "items": []}
        )
        todos["items"].append({name: row[name] for name in ("content", "status", "priority")})
    return list(lists.values())


def read_tasks(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the lists of tasks, each in the order of its numbers."""
    query = f"""SELECT t.list_id, t.id, t.subject, t.description, t.status, t.owner, t.blocked_by,
        s.modified / 1000000 AS modified, {_TITLE.format("t.list_id")} AS title
        FROM tasks t {_IN_FOLDER} ORDER BY t.list_id, CAST(t.id AS INTEGER), t.id"""  # task 10 comes after task 9
    lists: dict[str, Json] = {}
    for row in _rows(database, query, folder_parameters(roots)):
        tasks = lists.setdefault(
            row["list_id"] or "", {"list_id": row["list_id"], "title": row["title"], "modified": 0, "items": []}
        )
        tasks["modified"] = max(tasks["modified"], row["modified"])
        tasks["items"].append(
            {name: row[name] for name in ("id", "subject", "description", "status", "owner", "blocked_by")}
        )
    return sorted(lists.values(), key=lambda tasks: (-tasks["modified"], tasks["list_id"] or ""))


def read_prompts(
    database: sqlite3.Connection, roots: Roots, words: str = "", offset: int = 0, limit: int = PAGE
) -> PromptPage:
    """Return a page of the prompts that contain all words, the newest first."""
    where, values = f"{_IN_FOLDER} AND t.generation = s.generation", folder_parameters(roots)
    for number, word in enumerate(words.split()):
        where += f" AND instr(lower(t.display), :word{number})"
        values[f"word{number}"] = word.lower()
    query = f"""SELECT t.display, t.time, t.project, t.session_id, t.pasted FROM history t {where}
        ORDER BY t.time DESC, t.source_id, t.offset DESC LIMIT :limit OFFSET :offset"""
    total = database.execute(f"SELECT count(*) FROM history t {where}", values).fetchone()[0]
    return PromptPage(_rows(database, query, {**values, "limit": limit, "offset": offset}), total)


def read_memory(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the memory files of projects."""
    query = f"""SELECT t.project, t.name, t.content, t.size, t.modified FROM memory t {_IN_FOLDER}
        ORDER BY t.project, t.name <> 'MEMORY.md', t.name"""  # the index of a project's memory comes first
    return _rows(database, query, folder_parameters(roots))


def read_settings(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the settings files: values, permission rules and hooks of each."""
    query = f"SELECT DISTINCT t.source_id, s.path, t.name FROM settings t {_IN_FOLDER} ORDER BY s.path"
    parts = {
        "values": "SELECT key, value FROM settings WHERE source_id = :id ORDER BY key",
        "rules": "SELECT behaviour, rule FROM permissions WHERE source_id = :id ORDER BY behaviour, position",
        "hooks": "SELECT event, matcher, type, target FROM hooks WHERE source_id = :id ORDER BY event, position",
    }
    return [
        {"path": row["path"], "name": row["name"]}
        | {name: _rows(database, part, {"id": row["source_id"]}) for name, part in parts.items()}
        for row in _rows(database, query, folder_parameters(roots))
    ]


def read_versioned_sessions(database: sqlite3.Connection, roots: Roots) -> list[Json]:
    """Return the sessions that have versions of files they changed."""
    query = f"""SELECT t.session_id, count(*) AS versions, count(DISTINCT t.hash) AS files, sum(t.size) AS size,
        max(t.modified) AS modified, {_TITLE.format("t.session_id")} AS title
        FROM file_backups t {_IN_FOLDER} GROUP BY t.session_id ORDER BY modified DESC, t.session_id"""
    return _rows(database, query, folder_parameters(roots))


# Of the same config folder: another one in the store may have a session with the same id.
_TITLE: Final = """(SELECT n.title FROM sessions n JOIN sources f ON f.id = n.source_id
    WHERE n.session_id = {} AND f.home_id = s.home_id LIMIT 1)"""
_IN_FOLDER: Final = f"JOIN sources s ON s.id = source_id WHERE {IN_FOLDER}"


def _rows(database: sqlite3.Connection, query: str, values: dict[str, Any]) -> list[Json]:
    cursor = database.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
