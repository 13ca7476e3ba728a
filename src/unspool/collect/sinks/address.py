"""Parses the URL of a database that a lake is copied to.

    postgresql://[USER@]HOST[:PORT]/DATABASE[?sslmode=…]    clickhouse://[USER@]HOST[:PORT]    clickhouse+http://…

Rules
  1. A password in the URL is refused: other users of the machine can see the arguments of a process, and a shell keeps
     them. The message never repeats the URL.
  2. A connection to another machine is encrypted, unless the URL or the environment says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from unspool.errors import Refused, UsageError

SCHEMA: Final = "unspool"
"""The schema of Postgres, or the database of ClickHouse, unless another is named."""

_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS: Final = {"clickhouse": 8443, "clickhouse+http": 8123}
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FORMS: Final = "use `postgresql://HOST/DATABASE` or `clickhouse://HOST`; see docs/sinks.md"
_HIDDEN: Final = {
    "postgresql": "remove it and use `PGPASSWORD`, `~/.pgpass` or `--env-file`",
    "clickhouse": "remove it and set `CLICKHOUSE_PASSWORD`, in the environment or with `--env-file`",
}


class SinkAddress(NamedTuple):
    """Where a database is, without its password."""

    kind: str
    """`postgresql` or `clickhouse`."""
    url: str
    """What may be shown."""
    host: str
    port: int
    """0: the default of the database."""
    user: str
    """Empty: the environment or the database says."""
    schema: str
    is_encrypted: bool = True
    """Of ClickHouse: whether HTTPS is used."""

    @property
    def words(self) -> str:
        """How messages name it."""
        return f"`{self.schema}` at `{self.url}`"


def parse_address(url: str, schema: str, environment: Mapping[str, str]) -> SinkAddress:
    """Return the address that a URL means."""
    if not _NAME.fullmatch(schema):
        raise UsageError(f"not a schema name: `{schema}`", hint="use small letters, digits and `_`")
    scheme, separator, rest = url.partition("://")
    scheme = "postgresql" if scheme == "postgres" else scheme
    kind = scheme.partition("+")[0]
    if not separator or kind not in _HIDDEN or (kind == "clickhouse" and scheme not in _PORTS):
        raise UsageError("not the URL of a database", hint=_FORMS)  # it may hold a password, so it is not repeated
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port, query = parts.port or 0, dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        # `user:pass/word@host` looks like a port that is no number.
        raise _password_refused(kind) if "@" in rest else UsageError("not the URL of a database", hint=_FORMS) from None
    # A `/`, `?` or `#` in a password ends the host: the rest of it, with the `@`, is in another part.
    is_torn = "@" in parts.path + parts.query + parts.fragment
    if parts.password is not None or is_torn or any("password" in name.lower() for name in query):
        raise _password_refused(kind)
    host, user = unquote(parts.hostname or ""), unquote(parts.username or "")
    if kind == "clickhouse":
        if parts.path.strip("/") or parts.query or parts.fragment or not host:
            raise UsageError("a URL of ClickHouse has a host and a port only", hint="name the database with `--schema`")
        user = user or environment.get("CLICKHOUSE_USER", "")
        shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}"
        return SinkAddress(kind, shown, host, port or _PORTS[scheme], user, schema, scheme == "clickhouse")
    if parts.fragment:
        raise UsageError("not the URL of a database", hint=_FORMS)
    return SinkAddress(kind, _encrypted(f"{scheme}://{rest}", host, query, environment), host, port, user, schema)


def _encrypted(url: str, host: str, query: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the URL with an `sslmode`, which by default would allow a connection without encryption."""
    place = host or query.get("host") or query.get("hostaddr") or environment.get("PGHOST", "")
    is_local = not place or place.startswith("/") or place in _LOCAL
    # A service file may name another host and its own mode: what it says is not known here.
    is_said = "sslmode" in query or "PGSSLMODE" in environment or "service" in query or "PGSERVICE" in environment
    if is_local or is_said:
        return url
    return f"{url}{'&' if '?' in url else '?'}sslmode=require"


def _password_refused(kind: str) -> Refused:
    return Refused("a password in the URL is visible to others", hint=_HIDDEN[kind])
