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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
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

    def __init__(self, link: str, pid: int, words: IO[bytes]) -> None:
        self.link, self.pid = link, pid
        self._words = words
        self.page_key = ""
        """What the page keeps in the browser's storage once the link was used."""
        parts = urlsplit(link)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.address = f"http://{parts.netloc}"
        self.cookie = ""

    def next_link(self) -> str:
        """Return the newest link, which is printed when the one before it was used."""
        deadline, said = time.monotonic() + STARTS_WITHIN, ""
        while time.monotonic() < deadline:
            said = os.pread(self._words.fileno(), 1 << 20, 0).decode()
            links = [word for line in said.splitlines() for word in line.split() if word.startswith("http://")]
            if links and links[-1] != self.link:
                self.link = links[-1]
                return self.link
        raise AssertionError(f"no other link: {said}")

    def enter(self) -> str:
        """Use the link and keep the cookie and the page key."""
        answer = self.get(self.link.removeprefix(self.address), cookie="")
        given = answer.headers["set-cookie"]
        self.cookie = given.partition(";")[0]
        self.page_key = answer.text.partition('<meta name="unspool-key" content="')[2].partition('"')[0]
        return str(given)

    @property
    def own_headers(self) -> dict[str, str]:
        """What a script of the page sends."""
        return {"Cookie": self.cookie, "X-Unspool": self.page_key}

    def get(self, path: str, *, cookie: str | None = None, page_key: str | None = None, **headers: str) -> Answer:
        """Ask as a script of the page does, but for the cookie or the key if another is given."""
        own = {
            "Cookie": self.cookie if cookie is None else cookie,
            "X-Unspool": self.page_key if page_key is None else page_key,
        }
        return self.ask("GET", path, {**own, **headers})

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
    config: Path,
    *options: str,
    home: Path | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    browser: bool = False,
) -> Iterator[Served]:
    """Run a server on a folder; it has ended afterwards. `environment` takes the place of this process's.

    `prefix` is a command that runs it; with `browser` it opens one.
    """
    command = [*prefix, sys.executable, "-m", "unspool", "serve", "--config-dir", str(config), "--port", "0"]
    if not browser:
        command.append("--no-browser")
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
            yield Served(link, process.pid, words)
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
