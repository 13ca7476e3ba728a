"""The SQL page: runs the query of the address in the locked engine; shows rows as a table or sends them as a file.

Rules
  1. A query is part of the address, and only reads the tables, not the files that they are made of
     (`store/sql/engine.py`): those also hold rows of config folders that are not served. No other page can make a
     browser send it: the request guard refuses that. The page asks for a file with a form, which carries the page key
     (`auth.py`).
  2. It has a deadline, and ends when the browser has gone. Few run at once.
  3. A page shows some rows and the beginning of long cells; CSV and JSON have everything.
  4. Sorting by a column sorts all rows, not those that are shown: the query runs inside another one.
  5. A cell that is the id of a session is a link to it, whatever its column is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Final, TypeVar

from anyio import to_thread
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from unspool.errors import NotFound, Refused, Unreadable, UnspoolError, UsageError
from unspool.store.catalog import read_headings
from unspool.store.columns import public_tables
from unspool.store.sql import SqlEngine, fetch_text_rows, format_csv, format_json
from unspool.web.serving.forms import allow_form_origin, read_form
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site
from unspool.web.serving.sql_engine import open_sql_engine

MAX_QUERIES: Final = 2
"""That run at once."""
_MAX_ROWS: Final = 500
"""On a page."""
_CELL_CHARACTERS: Final = 400
"""On a page."""
_MAX_ID_LENGTH: Final = 64
"""Of cells that may be the id of a session."""
_MAX_FILE_BYTES: Final = 1 << 30
_MAX_MEMORY_BYTES: Final = 8 << 20
"""Of a result before it is written to disk."""
_FORMS: Final[dict[str, tuple[Callable[[SqlEngine, str], Iterator[str]], str]]] = {
    "csv": (format_csv, "text/csv; charset=utf-8"),
    "json": (format_json, "application/json"),
}

T = TypeVar("T")


async def show_sql(request: Request) -> Response:
    """Show the tables, the query of the address, and its first rows."""
    query = request.query_params.get("q", "").strip()
    sort = parse_number(request.query_params, "sort", 0)
    is_descending = bool(request.query_params.get("reverse"))
    data: Json = {"query": query, "columns": [], "types": [], "rows": [], "more": False, "error": None, "hint": None}
    data |= {"sort": sort, "descending": is_descending, "sessions": {}}
    if query:
        whole = _sort_query(query, sort, is_descending=is_descending) if sort else query
        try:
            data |= await _run_query(request, lambda engine: _first_rows(engine, whole))
            data["sessions"] = await to_thread.run_sync(_find_sessions, services_of(request).site, data["rows"])
        except UnspoolError as error:
            data |= {"error": error.message, "hint": error.hint}
    view = {
        "sorts": [
            link("/sql", q=query, sort=number, reverse=1 if number == sort and not is_descending else None)
            for number in range(1, len(data["columns"]) + 1)
        ],
        "tables": public_tables().values(),
        "complaint": (data["error"] or "").partition("\n"),
        "shown": _MAX_ROWS,
        "numbers": [kind.startswith(("DECIMAL", "DOUBLE", "FLOAT")) or "INT" in kind for kind in data["types"]],
    }
    return allow_form_origin(respond(request, "sql.html", data, status=400 if data["error"] else 200, view=view))


def _sort_query(query: str, column: int, *, is_descending: bool) -> str:
    """Return a query whose rows are those of another one, sorted by the number of a column."""
    # The line end closes a comment at the end of the query.
    order = "DESC" if is_descending else "ASC"
    return f"SELECT * FROM (\n{query.rstrip().rstrip(';')}\n) AS result ORDER BY {column} {order} NULLS LAST"


def _find_sessions(site: Site, rows: list[list[str | None]]) -> dict[str, str]:
    """Return the sessions whose ids are among the cells, and their titles."""
    cells = {cell for row in rows for cell in row if cell and len(cell) <= _MAX_ID_LENGTH}
    with site.open() as access:
        headings = read_headings(access.database, access.roots, cells)
    return {id: heading.title for id, heading in headings.items()}


async def download_rows(request: Request) -> Response:
    """Return all rows of a result as a file. Sending begins when it is complete: half of it would look like all."""
    form = request.path_params["form"]
    query = (
        (await read_form(request)).get("q", [""])[0] if request.method == "POST" else request.query_params.get("q", "")
    ).strip()
    if form not in _FORMS:
        raise NotFound("page not found")
    if not query:
        raise UsageError("no query", hint="pass one like `q=SELECT * FROM sessions`")
    format_rows, media_type = _FORMS[form]
    file = await _run_query(request, lambda engine: _write_file(format_rows(engine, query)))
    headers = {"content-disposition": f'attachment; filename="rows.{form}"'}
    pieces = iter(partial(file.read, 1 << 16), b"")
    return StreamingResponse(pieces, media_type=media_type, headers=headers, background=BackgroundTask(file.close))


def _write_file(pieces: Iterator[str]) -> IO[bytes]:
    """Write a result to a temporary file: on disk if it is large, and deleted when it is closed."""
    file = SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115 - closed when it was sent
    for piece in pieces:
        file.write(piece.encode("utf-8", "replace"))
        if file.tell() > _MAX_FILE_BYTES:
            file.close()
            raise Refused(
                "the result is too large for the page", hint="write any number of rows with `unspool sql -o FILE`"
            )
    file.seek(0)
    return file


def _first_rows(engine: SqlEngine, query: str) -> Json:
    """Return the first rows of a result, with long cells cut."""
    most = _CELL_CHARACTERS
    header, found = fetch_text_rows(engine, query, null=None)
    rows = list(islice(found, _MAX_ROWS + 1))
    cut = [[f"{cell[:most]}…" if cell and len(cell) > most else cell for cell in row] for row in rows[:_MAX_ROWS]]
    return {"columns": header.names, "types": header.types, "rows": cut, "more": len(rows) > _MAX_ROWS}


class _RunningQuery:
    """A query in a thread that can be cancelled from another."""

    def __init__(self) -> None:
        self._engine: SqlEngine | None = None
        self._is_cancelled = False

    def run(self, site: Site, use: Callable[[SqlEngine], T]) -> T:
        """Return what is read from an engine. All of it happens in one thread."""
        with open_sql_engine(site) as engine:
            self._engine = engine
            # It may have been cancelled before there was an engine to kill.
            if self._is_cancelled:
                raise Unreadable("the browser closed the connection")
            return use(engine)

    def cancel(self) -> None:
        """End it, whichever thread it is in."""
        self._is_cancelled = True
        if self._engine is not None:
            self._engine.kill()


async def _run_query(request: Request, use: Callable[[SqlEngine], T]) -> T:
    """Return what is read from an engine, which is killed when the browser has gone."""
    query, services = _RunningQuery(), services_of(request)
    async with services.sql_slots:
        watch = asyncio.create_task(_cancel_on_disconnect(request, query))
        try:
            return await to_thread.run_sync(query.run, services.site, use)
        except Refused as error:
            # The page has no option for more time: the hint names the command that has one.
            hint = "select less at once, or run it without a limit with `unspool sql --timeout 0`"
            raise Refused(error.message, hint=hint if "seconds" in error.message else error.hint) from None
        finally:
            watch.cancel()


async def _cancel_on_disconnect(request: Request, query: _RunningQuery) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    query.cancel()


routes = [*page_routes("/sql", show_sql), Route("/sql/rows.{form:str}", download_rows, methods=["GET", "POST"])]
