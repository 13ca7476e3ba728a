"""Serves styles, scripts and icons that are part of the package.

Rules
  1. Only files of the package are served, by a name in a list; no path is ever put together.
  2. A browser loads a file again only when it has changed: its digest is its ETag.
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

STATIC_FOLDERS = (("unspool.web", "static"), ("unspool.web", "static/vendor"), ("unspool.page", "static"))
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A file, its media type and its ETag."""

    data: bytes
    media_type: str
    etag: str


@cache
def load_assets() -> dict[str, Asset]:
    """Return every file by its name."""
    assets = {}
    for package, folder in STATIC_FOLDERS:
        for file in files(package).joinpath(folder).iterdir():
            media_type = _MEDIA_TYPES.get("." + file.name.rpartition(".")[2])
            if media_type and file.is_file():
                data = file.read_bytes()
                assets[file.name] = Asset(data, media_type, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return assets


async def serve_asset(request: Request) -> Response:
    """Return a file."""
    asset = load_assets().get(request.path_params["name"])
    if asset is None:
        raise NotFound("page not found")
    # `no-cache` means: ask again with the tag. A new version of the package is then seen at once.
    headers = {"etag": asset.etag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.data, media_type=asset.media_type, headers=headers)


routes = [Route("/static/{name}", serve_asset)]
