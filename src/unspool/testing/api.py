"""A scripted, strict Messages API for tests: a script in, an address to talk to out, and what was asked of it.

    with scripted(["Hello.", {"content": "Bye.", "expect": {"text": "So long"}}]) as api:
        ...                     # a program talks to api.url
    assert not api.failures

Every request is checked by the rules of `strict.py` and refused as the API does. `unspool testing serve` is the same as
a command; `docs/testing.md` tells more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import Refused, Unwritable
from unspool.testing.exchanges import Exchange
from unspool.testing.script import Script, convert, load
from unspool.testing.server import Server

__all__ = ["Api", "Exchange", "scripted"]


class Api:
    """A scripted API at work, and afterwards what was asked of it."""

    def __init__(self, script: Script, *, port: int = 0, log: Path | None = None, strict: bool = True) -> None:
        self.requests: list[Exchange] = []
        """All of them, in order, also those that were refused."""
        self._writes = _log(log)
        try:
            self._server = Server(script, port, self._keep, strict=strict)
        except OSError as error:
            raise Refused(
                f"cannot listen on port {port}: {(error.strerror or '').lower()}",
                hint="`--port 0` takes one that is free",
            ) from None

    @property
    def url(self) -> str:
        """Where it is: the base URL, as in `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def failures(self) -> list[str]:
        """Why the run has failed, request by request; empty if it has not."""
        return [f"request {asked.number}: {asked.failure}" for asked in [*self.requests] if asked.failure]

    @property
    def unused(self) -> list[str]:
        """The names of steps that nobody has asked for."""
        return self._server.play.unused

    @property
    def bodies(self) -> list[Any]:
        """What was asked of `/v1/messages`, without headers."""
        return [asked.body for asked in [*self.requests] if asked.path.partition("?")[0] == "/v1/messages"]

    def serve(self) -> None:
        """Answer until `close` is called by another thread."""
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """End it, with all that is still being said."""
        self._server.stop()

    def _keep(self, exchange: Exchange) -> None:
        self.requests.append(exchange)
        self._writes(exchange)


@contextmanager
def scripted(
    script: Script | Path | list[Any] | Mapping[str, Any],
    *,
    variables: Mapping[str, str] | None = None,
    strict: bool = True,
    log: Path | None = None,
    port: int = 0,
) -> Iterator[Api]:
    """Serve a script while the `with` lasts: plain data, a file, or what `script.load` gave.

    `${name}` in it stands for a variable. Without `strict` nothing is checked but what the script demands.
    """
    if isinstance(script, Path):
        script = load(script, variables)
    elif not isinstance(script, Script):
        script = convert(script if isinstance(script, list) else {**script}, variables)
    api = Api(script, port=port, log=log, strict=strict)
    thread = threading.Thread(target=api.serve, name="scripted API")
    thread.start()
    try:
        yield api
    finally:
        api.close()
        thread.join()


def _log(path: Path | None) -> Callable[[Exchange], None]:
    """Return what writes exchanges to a file, one line each, as soon as they are known."""
    if path is None:
        return lambda exchange: None
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or '').lower()}") from None

    def write(exchange: Exchange) -> None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(exchange) + b"\n")

    return write
