"""The library: plans, todo lists, tasks, typed prompts, memory, settings and versions of files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.errors import NotFound, Unreadable
from unspool.export import FileHistoryVersion, file_versions
from unspool.home import Session
from unspool.store import StoreAccess
from unspool.store.catalog import side_documents
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond
from unspool.web.serving.services import services_of

KINDS: Final = {
    "plans": "Plans",
    "todos": "Todos",
    "tasks": "Tasks",
    "history": "Prompts",
    "memory": "Memory",
    "settings": "Settings",
    "versions": "File versions",
}
_MAX_BYTES: Final = 200_000
"""Of a version that is shown whole."""


def show_overview(request: Request) -> Response:
    """Show how many documents of each kind there are."""
    with services_of(request).site.open() as access:
        counts = side_documents.count_documents(_database(access), access.roots)
    return respond(request, "library.html", {"counts": counts}, kinds=KINDS)


def show_documents(request: Request) -> Response:
    """Show the documents of one kind."""
    name, site = request.path_params["kind"], services_of(request).site
    if name not in KINDS:
        raise NotFound(f"unknown section `{name}`", hint=f"use one of: {', '.join(KINDS)}")
    with site.open() as access:
        data = _READERS[name](access, request.query_params)
    more: Json = {"kind": name, "kinds": KINDS, "when": site.format_time}
    if name == "history":
        more["next"] = _next_link(data, request.query_params)
    return respond(request, f"library_{name}.html", data, **more)


def _database(access: StoreAccess) -> sqlite3.Connection:
    if access.database is None:
        raise Unreadable("the store is not available", hint="find the reason with `unspool doctor`")
    return access.database


def _read_plans(access: StoreAccess, query: QueryParams) -> Json:
    database, slug = _database(access), query.get("name")
    if not slug:
        return {"plans": side_documents.read_plans(database, access.roots), "plan": None}
    found = side_documents.read_plan(database, access.roots, slug)
    if found is None:
        raise NotFound(f"no plan matches `{slug}`", hint="list plans at `/library/plans`")
    return {"plans": [], "plan": found}


def _read_history(access: StoreAccess, query: QueryParams) -> Json:
    offset = parse_number(query, "offset", 0, example=100)
    found = side_documents.read_prompts(_database(access), access.roots, query.get("q", ""), offset)
    return {"prompts": found.rows, "total": found.total, "offset": offset}


def _next_link(data: Json, query: QueryParams) -> str | None:
    following = data["offset"] + len(data["prompts"])
    if not data["prompts"] or following >= data["total"]:
        return None
    return link("/library/history", {name: value for name, value in query.items() if name == "q"}, offset=following)


def _read_versions(access: StoreAccess, query: QueryParams) -> Json:
    """Return the sessions with versions of files; for one session its files; for two versions the difference."""
    id = query.get("session")
    data: Json = {"sessions": [], "session": None, "files": [], "difference": None, "text": None}
    if not id:
        return data | {"sessions": side_documents.read_versioned_sessions(_database(access), access.roots)}
    session = access.home.session(id)
    known = file_versions.find_versions(session)
    data["session"] = {"id": session.id, "title": session.title}
    data["files"] = [
        {"path": path, "versions": [file_versions.version_to_json(session, version) for version in those]}
        for path, those in known.items()
    ]
    return data | (_compare(session, known, query) if query.get("file") else {})


def _compare(session: Session, known: dict[str, list[FileHistoryVersion]], query: QueryParams) -> Json:
    path = query["file"]
    if path not in known:
        raise NotFound(f"this session changed no file that matches `{path}`", hint="choose a file from the list below")
    new = _find_version(known[path], query.get("to"), known[path][-1])
    earlier = [version for version in known[path] if version.number < new.number]
    old = _find_version(known[path], query.get("from"), earlier[-1] if earlier else None)
    about = {"file": path, "to": new.number, "from": old.number if old else None}
    if old is None:
        return {"text": {**about, "content": _decode(file_versions.read_version(session, new))}}
    lines = file_versions.diff_versions(session, old, new).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"difference": {**about, "lines": lines.splitlines()}}


def _find_version(known: list[FileHistoryVersion], text: str | None, default: Any) -> Any:
    if not text:
        return default
    found = [version for version in known if str(version.number) == text]
    if not found:
        numbers = ", ".join(str(version.number) for version in known)
        raise NotFound(f"`{known[0].path}` has no version `{text}`", hint=f"it has {numbers}")
    return found[-1]


def _decode(data: bytes) -> str:
    """Return the bytes of a file as text, cut if it is long."""
    if b"\0" in data:
        return f"binary, {len(data):,} bytes"
    # A few bytes more: a character may stand across the cut.
    text = data[: _MAX_BYTES + 4].decode("utf-8", "replace")
    return text if len(data) <= _MAX_BYTES else f"{text[:_MAX_BYTES]}\n… {len(data) - _MAX_BYTES:,} more bytes"


_READERS: Final[dict[str, Callable[[StoreAccess, QueryParams], Json]]] = {
    "plans": _read_plans,
    "todos": lambda access, _: {"lists": side_documents.read_todos(_database(access), access.roots)},
    "tasks": lambda access, _: {"lists": side_documents.read_tasks(_database(access), access.roots)},
    "history": _read_history,
    "memory": lambda access, _: {"files": side_documents.read_memory(_database(access), access.roots)},
    "settings": lambda access, _: {"files": side_documents.read_settings(_database(access), access.roots)},
    "versions": _read_versions,
}


routes = [*page_routes("/library", show_overview), *page_routes("/library/{kind}", show_documents)]
