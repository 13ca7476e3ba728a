"""Talks to ClickHouse over its HTTP interface.

Rules
  1. User and password are headers, never part of an address.
  2. An answer counts once it is whole: the server sends it after the statement has ended (`wait_end_of_query`).
  3. Nothing is sent again: the caller reads what the database has and decides.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
from typing import Any
from urllib.parse import urlencode

import msgspec

from unspool.collect.sinks.address import SinkAddress
from unspool.display import clean_line
from unspool.errors import SinkFailed
from unspool.format import DECODE_ERRORS

TIMEOUT = 300.0
"""Seconds for one statement."""
_IDLE = 2.0
"""Seconds after which a connection that was not used is opened anew."""

_CODE = re.compile(r"Code: (\d+)")
_MESSAGE = re.compile(r"^Code: \d+[.,]? *(?:(?:DB::Exception|e\.displayText\(\)) *[:=] *)*")
_DETAILS = (": (at row", ": While executing", ". Stack trace", ", e.what()")
"""What the details of an error begin with: rows, or traces of the server."""

_LATER = frozenset({159, 164, 202, 209, 210, 241, 252, 279, 319, 999})
"""Codes of the server that may be gone the next time: too busy, too slow, out of memory, no network."""
_NO_ACCESS = frozenset({192, 193, 194, 516})


class ClickHouseError(SinkFailed):
    """ClickHouse refused a statement, with its own code for the reason."""

    def __init__(self, message: str, code: int) -> None:
        hint = "no row is lost or doubled; try again" if code in _LATER else None
        if code in _NO_ACCESS:
            hint = "set `CLICKHOUSE_USER` and `CLICKHOUSE_PASSWORD`, in the environment or with `--env-file`"
        super().__init__(message, hint=hint, is_final=code not in _LATER)
        self.code = code


class ClickHouseClient:
    """Runs statements, each in a request of its own, over one connection."""

    def __init__(self, address: SinkAddress, password: str, timeout: float = TIMEOUT) -> None:
        self._address = address
        self._headers = {"User-Agent": "unspool", "Content-Type": "text/plain; charset=utf-8"}
        if address.user:
            self._headers["X-ClickHouse-User"] = address.user
        if password:
            self._headers["X-ClickHouse-Key"] = password
        if any("\n" in value or "\r" in value or not value.isascii() for value in self._headers.values()):
            raise SinkFailed("the user or password of ClickHouse cannot be sent in a header", is_final=True)
        port = address.port
        self._settings = {"wait_end_of_query": "1"}
        self._used = time.monotonic()
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(address.host, port, timeout=timeout, context=ssl.create_default_context())
            if address.is_encrypted
            else http.client.HTTPConnection(address.host, port, timeout=timeout)
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def execute(self, statement: str, data: bytes | None = None) -> bytes:
        """Run a statement and return its output; `data` are the rows of an INSERT."""
        query = dict(self._settings)
        if data is not None:
            query["query"] = statement
        body = statement.encode() if data is None else data
        # A server closes a connection after some seconds without a request, and the next one would fail.
        if time.monotonic() - self._used > _IDLE:
            self._connection.close()
        try:
            self._connection.request("POST", f"/?{urlencode(query)}", body, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            # The next statement opens a new connection: this one may hold half an answer.
            self._connection.close()
            words = clean_line(str(error) or type(error).__name__)[:200]
            hint = "no row is lost or doubled; try again"
            raise SinkFailed(f"no answer from `{self._address.url}`: {words}", hint=hint) from None
        self._used = time.monotonic()
        if response.status != 200:
            raise self._error(response.status, answer.decode("utf-8", "replace"))
        return answer

    def wait_for_inserts(self) -> None:
        """Let every INSERT return when its rows are there, even if the user's profile says otherwise."""
        # Servers that cannot do it later do not know the setting, and would refuse it.
        if self.rows("SELECT name FROM system.settings WHERE name = 'async_insert'"):
            self._settings["async_insert"] = "0"

    def rows(self, query: str) -> list[list[Any]]:
        """Return the rows of a query."""
        answer = self.execute(f"{query} FORMAT JSONCompact")
        try:
            rows: list[list[Any]] = msgspec.json.decode(answer)["data"]
        except (*DECODE_ERRORS, KeyError, TypeError):
            raise SinkFailed(f"`{self._address.url}` does not answer as ClickHouse does", is_final=True) from None
        return rows

    def insert(self, table: str, columns: list[str], rows: list[dict[str, Any]]) -> None:
        """Insert rows in one block, which ClickHouse adds as a whole or not at all."""
        names = ", ".join(f"`{name}`" for name in columns)
        data = b"\n".join(map(msgspec.json.encode, rows))
        self.execute(f"INSERT INTO {table} ({names}) FORMAT JSONEachRow", data)

    def _error(self, status: int, text: str) -> SinkFailed:
        found = _CODE.search(text)
        if found is None:
            is_final = status < 500 and status not in (408, 429)
            hint = "check the user and the password" if status in (401, 403) else None
            return SinkFailed(f"`{self._address.url}` answers with HTTP status {status}", hint=hint, is_final=is_final)
        words = clean_line(_MESSAGE.sub("", text.strip().splitlines()[0]))
        for mark in _DETAILS:
            words = words.partition(mark)[0]
        return ClickHouseError(f"cannot write to {self._address.words}: {words[:300]}", int(found[1]))
