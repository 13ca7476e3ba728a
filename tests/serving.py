"""A real `unspool serve`, and a client that asks it over a real socket."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit


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
def serving(config: Path, *options: str, home: Path | None = None) -> Iterator[Served]:
    """Run a server on a folder; it has ended afterwards."""
    command = [
        sys.executable,
        "-m",
        "unspool",
        "serve",
        "--config-dir",
        str(config),
        "--no-browser",
        "--port",
        "0",
        *options,
    ]
    environment = {**os.environ, "TZ": "UTC", **({"UNSPOOL_HOME": str(home)} if home else {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.startswith("http://"), process.communicate(timeout=10)
        served = Served(link, process.pid)
        yield served
    finally:
        process.kill()
        process.communicate(timeout=30)
