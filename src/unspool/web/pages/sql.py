"""SQL: a question in the address, asked of the locked engine; rows out, as a table or to keep.

Rules
  1. A question is part of the address, and only reads (`store/sql/engine.py`). No other page can make a browser ask it: the
     guard refuses that.
  2. It has a deadline, and ends when whoever asked has gone. Few are asked at once.
  3. A page shows some rows and the beginning of long cells; CSV and JSON have everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Final, TypeVar

from anyio import to_thread
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from unspool.errors import NotFound, Refused, Unreadable, UnspoolError, Usage
from unspool.store import preferences
from unspool.store.columns import parquet
from unspool.store.columns.tables import public
from unspool.store.sql.client import Engine, Limits
from unspool.store.sql.format_rows import csv_text, json_text, text_rows
from unspool.web.responses import Json, link, page, place_of
from unspool.web.site import Place

SHOWN: Final = 500
"""Rows on a page."""
CELL: Final = 400
"""Characters of a cell on a page."""
DEADLINE: Final = 30.0
"""Seconds a question may take."""
AT_ONCE: Final = 2
"""Questions."""
LARGEST: Final = 1 << 30
"""Bytes of an answer that can be kept."""
_IN_MEMORY: Final = 8 << 20

_EXAMPLES: Final = (
    (
        "Newest sessions",
        "SELECT title, project, started, turns, cost_micros / 1e6 AS dollars\n"
        "FROM sessions ORDER BY started DESC LIMIT 20",
    ),
    (
        "Tools that fail",
        "SELECT name, count(*) AS calls, count(*) FILTER (error) AS failed\n"
        "FROM tool_calls GROUP BY name ORDER BY failed DESC, calls DESC LIMIT 20",
    ),
    (
        "Files changed most",
        "SELECT path, count(*) AS changes, sum(added) AS added, sum(removed) AS removed\n"
        "FROM files_touched WHERE action <> 'read' GROUP BY path ORDER BY changes DESC LIMIT 20",
    ),
)

T = TypeVar("T")


async def sql(request: Request) -> Response:
    """Return the page: the tables there are, the question, its answer."""
    query = request.query_params.get("q", "").strip()
    data: Json = {"query": query, "columns": [], "types": [], "rows": [], "more": False, "error": None, "hint": None}
    if query:
        try:
            data |= await _answered(request, lambda engine: _some(engine, query))
        except UnspoolError as error:
            data |= {"error": error.message, "hint": error.hint}
    view = {
        "tables": public().values(),
        "examples": [(name, link("/sql", q=text)) for name, text in _EXAMPLES],
        "csv": link("/sql/rows.csv", q=query),
        "json": link("/sql/rows.json", q=query),
        "complaint": (data["error"] or "").partition("\n"),
        "shown": SHOWN,
        "numbers": [kind.startswith(("DECIMAL", "DOUBLE", "FLOAT")) or "INT" in kind for kind in data["types"]],
    }
    answer = page(request, "sql.html", data, view=view)
    answer.status_code = 400 if data["error"] else 200
    return answer


async def rows(request: Request) -> Response:
    """Return all rows of an answer, to keep. They are sent when all are there: half an answer would look like one."""
    query, form = request.query_params.get("q", "").strip(), request.path_params["form"]
    if form not in _FORMS:
        raise NotFound("there is nothing at this address")
    if not query:
        raise Usage("nothing to ask", hint="as in `q=SELECT * FROM sessions`")
    made, kind = _FORMS[form]
    file = await _answered(request, lambda engine: _kept(made(engine, query)))
    headers = {"content-disposition": f'attachment; filename="rows.{form}"'}
    return StreamingResponse(_read(file), media_type=kind, headers=headers, background=BackgroundTask(file.close))


_FORMS: Final[dict[str, tuple[Callable[[Engine, str], Iterator[str]], str]]] = {
    "csv": (csv_text, "text/csv; charset=utf-8"),
    "json": (json_text, "application/json"),
}


def _kept(pieces: Iterator[str]) -> IO[bytes]:
    """Return an answer as a file, which is on the disk if it is large and gone when it is closed."""
    file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed when it was sent
    for piece in pieces:
        file.write(piece.encode("utf-8", "replace"))
        if file.tell() > LARGEST:
            file.close()
            raise Refused(
                "the answer is too large for the page", hint="`unspool sql -o FILE` writes any number of rows"
            )
    file.seek(0)
    return file


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(1 << 16):
        yield piece


def _some(engine: Engine, query: str) -> Json:
    """Return the first rows of an answer, with long cells cut."""
    header, found = text_rows(engine, query, null=None)
    some = list(islice(found, SHOWN + 1))
    cut = [[_cut(cell) for cell in row] for row in some[:SHOWN]]
    return {"columns": header.names, "types": header.types, "rows": cut, "more": len(some) > SHOWN}


def _cut(cell: str | None) -> str | None:
    return cell if cell is None or len(cell) <= CELL else f"{cell[:CELL]}…"


class _Asking:
    """A question that may be given up."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._is_given_up = False

    def run(self, place: Place, ask: Callable[[Engine], T]) -> T:
        """Return what an engine answers. All of it happens in one thread."""
        with _engine(place) as engine:
            self._engine = engine
            if self._is_given_up:
                raise Unreadable("nobody waits for the answer")
            return ask(engine)

    def give_up(self) -> None:
        """End it, whichever thread it is in."""
        self._is_given_up = True
        if self._engine is not None:
            self._engine.stop()


async def _answered(request: Request, ask: Callable[[Engine], T]) -> T:
    """Return what an engine answers; it is ended if nobody waits for that any more."""
    asking = _Asking()
    async with request.app.state.questions:
        watching = asyncio.create_task(_watch(request, asking))
        try:
            return await to_thread.run_sync(asking.run, place_of(request), ask)
        except Refused as error:
            hint = "ask for less at once; `unspool sql --timeout 0` gives it any time"
            raise Refused(error.message, hint=hint if "seconds" in error.message else error.hint) from None
        finally:
            watching.cancel()


async def _watch(request: Request, asking: _Asking) -> None:
    """Give up a question when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    asking.give_up()


@contextmanager
def _engine(place: Place) -> Iterator[Engine]:
    """Give an engine over the tables, brought up to date."""
    parquet.check()
    from unspool.store.columns import refresh as columns
    from unspool.store.sql.views import tables

    with place.opened() as opened:
        if opened.database is None:
            raise Unreadable("there is no store to ask", hint="`unspool doctor` says why")
        chosen = place.settings
        edition = preferences.edition(chosen)
        columns.refresh(opened.database, place.folder, columns.Asked(prices=chosen.prices, edition=edition))
        with (
            tables(opened.database, place.folder, [place.root], chosen) as ready,
            Engine(ready.setup, str(ready.columns), Limits(deadline=DEADLINE)) as engine,
        ):
            yield engine


routes = [Route("/sql.json", sql), Route("/sql", sql), Route("/sql/rows.{form:str}", rows)]
