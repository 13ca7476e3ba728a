"""The files a page is made of: styles, scripts, nothing from elsewhere.

Rules
  1. Only files that are part of the package are served, by a name that is in the list; no path is ever put together.
  2. A file is asked for again only when it has changed: its digest is its tag.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.errors import NotFound

SHELVES = (("unspool.web", "static"), ("unspool.web", "static/vendor"), ("unspool.page", "static"))
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A file, and what is said of it."""

    data: bytes
    kind: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Return every file by its name."""
    found = {}
    for package, folder in SHELVES:
        for file in files(package).joinpath(folder).iterdir():
            kind = _KINDS.get("." + file.name.rpartition(".")[2])
            if kind and file.is_file():
                data = file.read_bytes()
                found[file.name] = Asset(data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found


async def asset(request: Request) -> Response:
    """Return a file."""
    found = assets().get(request.path_params["name"])
    if found is None:
        raise NotFound("there is nothing at this address")
    headers = {"etag": found.tag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.kind, headers=headers)


routes = [Route("/static/{name}", asset)]
