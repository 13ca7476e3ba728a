"""The library: what lies beside the sessions. A shelf in the address, what is on it out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.errors import NotFound, Unreadable, Usage
from unspool.export import file_versions
from unspool.export.file_versions import Version
from unspool.home import Session
from unspool.store.access import Opened
from unspool.store.catalog import side_documents
from unspool.web.responses import Json, link, page, place_of, twins
from unspool.web.site import Place

SHELVES: Final = {
    "plans": "Plans",
    "todos": "Todos",
    "tasks": "Tasks",
    "history": "Prompts",
    "memory": "Memory",
    "settings": "Settings",
    "versions": "File versions",
}


def overview(request: Request) -> Response:
    """Return how much there is of everything."""
    with place_of(request).opened() as opened:
        found = side_documents.counts(_database(opened), opened.root)
    return page(request, "library.html", {"counts": found}, shelves=SHELVES)


def shelf(request: Request) -> Response:
    """Return what is on a shelf."""
    name, place = request.path_params["shelf"], place_of(request)
    if name not in SHELVES:
        raise NotFound(f"no such shelf: `{name}`", hint=f"there are {', '.join(SHELVES)}")
    with place.opened() as opened:
        data = _READ[name](opened, request.query_params)
    more: Json = {"shelf": name, "shelves": SHELVES, "when": _clock(place)}
    if name == "history":
        more["next"] = _next(data, request.query_params)
    return page(request, f"library_{name}.html", data, **more)


def _database(opened: Opened) -> sqlite3.Connection:
    if opened.database is None:
        raise Unreadable("there is no store to read from", hint="`unspool doctor` says why")
    return opened.database


def _plans(opened: Opened, query: QueryParams) -> Json:
    database, slug = _database(opened), query.get("name")
    if not slug:
        return {"plans": side_documents.plans(database, opened.root), "plan": None}
    found = side_documents.plan(database, opened.root, slug)
    if found is None:
        raise NotFound(f"no such plan: `{slug}`", hint="`/library/plans` lists what there is")
    return {"plans": [], "plan": found}


def _history(opened: Opened, query: QueryParams) -> Json:
    text = query.get("offset") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Usage(f"not a number: `{text}`", hint="as in `offset=100`")
    found = side_documents.history(_database(opened), opened.root, query.get("q", ""), int(text))
    return {"prompts": found.rows, "total": found.total, "offset": int(text)}


def _next(data: Json, query: QueryParams) -> str | None:
    following = data["offset"] + len(data["prompts"])
    if not data["prompts"] or following >= data["total"]:
        return None
    return link("/library/history", {name: value for name, value in query.items() if name == "q"}, offset=following)


def _versions(opened: Opened, query: QueryParams) -> Json:
    """Return the sessions with versions; of one its files; of two versions the difference."""
    id = query.get("session")
    data: Json = {"sessions": [], "session": None, "files": [], "difference": None, "text": None}
    if not id:
        return data | {"sessions": side_documents.versioned(_database(opened), opened.root)}
    session = opened.home.session(id)
    known = file_versions.versions(session)
    data |= {
        "session": {"id": session.id, "title": session.title},
        "files": [
            {"path": path, "versions": [file_versions.about(session, one) for one in those]}
            for path, those in known.items()
        ],
    }
    return data | (_compared(session, known, query) if query.get("file") else {})


def _compared(session: Session, known: dict[str, list[Version]], query: QueryParams) -> Json:
    path = query["file"]
    if path not in known:
        raise NotFound(f"no such file in this session: `{path}`", hint="the list below has them all")
    new = _version(known[path], query.get("to"), known[path][-1])
    earlier = [one for one in known[path] if one.number < new.number]
    old = _version(known[path], query.get("from"), earlier[-1] if earlier else None)
    about = {"file": path, "to": new.number, "from": old.number if old else None}
    if old is None:
        return {"text": {**about, "content": _shown(file_versions.content(session, new))}}
    told = file_versions.difference(session, old, new).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"difference": {**about, "lines": told.splitlines()}}


def _version(known: list[Version], text: str | None, default: Any) -> Any:
    if not text:
        return default
    found = [one for one in known if str(one.number) == text]
    if not found:
        there = ", ".join(str(one.number) for one in known)
        raise NotFound(f"no such version of `{known[0].path}`: `{text}`", hint=f"it has {there}")
    return found[-1]


_CUT: Final = 200_000


def _shown(data: bytes) -> str:
    """Return a text as it is shown: no bytes that are none, and not without end."""
    if b"\0" in data:
        return f"binary, {len(data):,} bytes"
    text = data[: _CUT + 4].decode("utf-8", "replace")
    return text if len(data) <= _CUT else f"{text[:_CUT]}\n… {len(data) - _CUT:,} more bytes"


_READ: Final[dict[str, Callable[[Opened, QueryParams], Json]]] = {
    "plans": _plans,
    "todos": lambda opened, _: {"lists": side_documents.todos(_database(opened), opened.root)},
    "tasks": lambda opened, _: {"lists": side_documents.tasks(_database(opened), opened.root)},
    "history": _history,
    "memory": lambda opened, _: {"files": side_documents.memory(_database(opened), opened.root)},
    "settings": lambda opened, _: {"files": side_documents.settings(_database(opened), opened.root)},
    "versions": _versions,
}


def _clock(place: Place) -> Callable[[int | None], str]:
    """Return what says a time of the store in words. Side files have it in milliseconds."""

    def when(time: int | None) -> str:
        try:
            moment = datetime.fromtimestamp((time or 0) / 1000, UTC).astimezone(place.zone)
        except (ValueError, OverflowError, OSError):
            return ""
        return f"{moment:%Y-%m-%d %H:%M}" if time else ""

    return when


routes = [
    *twins("/library", overview),
    Route("/library/{shelf}.json", shelf),
    Route("/library/{shelf}", shelf),
]
