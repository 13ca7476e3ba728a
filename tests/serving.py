"""A real `unspool serve`, and a client that asks it over a real socket."""

from __future__ import annotations

import http.client
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

STARTS_WITHIN = 30.0
ENDS_WITHIN = 15.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server that runs, and how to ask it."""

    def __init__(self, link: str, pid: int) -> None:
        self.link, self.pid = link, pid
        parts = urlsplit(link)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.address = f"http://{parts.netloc}"
        self.cookie = ""

    def enter(self) -> str:
        """Use the link and keep the cookie."""
        given = self.get(self.link.removeprefix(self.address), cookie="").headers["set-cookie"]
        self.cookie = given.partition(";")[0]
        return str(given)

    def get(self, path: str, *, cookie: str | None = None, **headers: str) -> Answer:
        return self.ask("GET", path, {"Cookie": self.cookie if cookie is None else cookie, **headers})

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> Answer:
        """Send exactly these headers, with the right `Host` if none is given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": f"{self.host}:{self.port}", **headers}.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()


@contextmanager
def serving(
    config: Path, *options: str, home: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Run a server on a folder; it has ended afterwards. `environment` takes the place of this process's."""
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(config), "--no-browser", "--port", "0"]
    around = {**(os.environ if environment is None else environment), "TZ": "UTC"}
    if home is not None:
        around["UNSPOOL_HOME"] = str(home)
    # Not a pipe: nobody reads what it says while it runs.
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=words, env=around)
        try:
            link = _first_line(process)
            words.seek(0)
            assert link.startswith("http://"), f"{link!r} {words.read().decode(errors='replace')}"
            yield Served(link, process.pid)
        finally:
            _end(process)


def _first_line(process: subprocess.Popen[bytes]) -> str:
    """Return the first line a process prints, or what there is of it when the time is over."""
    assert process.stdout is not None
    deadline, said = time.monotonic() + STARTS_WITHIN, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in said and (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    break
                said += piece
    return said.partition(b"\n")[0].decode()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end; end it if it does not, and say so."""
    process.terminate()
    try:
        process.communicate(timeout=ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
