"""Answers the requests of ClickHouse's HTTP interface with its engine, chDB: `python clickhouse_engine.py FOLDER`.

It runs in `.venv-clickhouse`, so it imports nothing of ours. It prints its port. User and password are `tide` and
`$ENGINE_PASSWORD`. What the engine answers is its own; of the interface it has only what a sink uses. So
`test_clickhouse.py` also asks a real server.
"""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from chdb.session import Session

session: Session = Session(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    """Runs one statement for each request, one after the other."""

    def do_POST(self) -> None:
        """Run the statement in the address, with the body as its data; or the one in the body."""
        parameters = parse_qs(urlsplit(self.path).query)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        statement = "\n".join([*parameters.get("query", []), body])
        given = (self.headers["X-ClickHouse-User"], self.headers["X-ClickHouse-Key"])
        if given != ("tide", os.environ["ENGINE_PASSWORD"]):
            self._answer(403, b"Code: 516. DB::Exception: tide: Authentication failed. (AUTHENTICATION_FAILED)\n")
            return
        try:
            for name in parameters.keys() - {"query", "wait_end_of_query"}:
                session.query(f"SET {name} = '{parameters[name][0]}'")
            answer = session.query(statement).bytes()
        except RuntimeError as error:
            self._answer(500, str(error).encode())
            return
        self._answer(200, answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
