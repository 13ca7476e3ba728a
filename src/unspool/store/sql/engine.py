"""The SQL engine: a child process that runs queries over the column files with DuckDB and can do nothing else.

It reads requests from stdin and writes results to stdout (`protocol.py`); `client.py` starts it.

Rules
  1. Before the first query the process gives up what it does not need: files other than the column files, writing, the
     network, core dumps, memory beyond a limit. DuckDB gives up extensions and settings.
  2. A query is one statement that only reads. Nothing it does changes a byte on disk.
  3. Whatever a query does, the process answers or dies, and the parent process goes on. It ends when the parent ends.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.format import DECODE_ERRORS
from unspool.sandbox import restrict_to_reading
from unspool.store.sql import protocol

if TYPE_CHECKING:
    import duckdb

_ROWS_AT_ONCE = 1000
_MEGABYTE = 1 << 20
_TABLE_FUNCTIONS = frozenset({
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types", "generate_series",
    "json_each", "json_tree", "pragma_table_info", "range", "repeat", "repeat_row", "unnest",
})  # fmt: skip
"""That read no files, and run no query that is a text."""
_FILE_MARKS = frozenset("/\\.:*?")
"""In no name of a table; `FROM 'name.parquet'` reads a file, and so does `FROM name.parquet`. The engine works in `/`,
so that the path of a column file has a slash in it, however it is written."""


def main() -> None:
    """Answer queries until the parent process closes stdin."""
    requests, output = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints must not get between the frames
    start = protocol.receive(requests, protocol.StartEngine)
    assert isinstance(start, protocol.StartEngine)
    _exit_with_parent(start.life)
    install_utc_shim()
    import duckdb

    try:
        connection = open_locked_connection(start)
    except duckdb.Error as error:
        protocol.send(output, protocol.QueryFailed("broken", _text_of(error)))
        return
    protocol.send(output, protocol.EngineReady())
    while (request := protocol.receive(requests, protocol.QueryRequest)) is not None:
        for message in _answer(connection, request, tables_only=start.tables_only):
            protocol.send(output, message)


def _exit_with_parent(life: int) -> None:
    """End with the parent process: its end of a pipe closes then, whatever this process is doing."""

    def wait() -> None:
        os.read(life, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _address_space() -> int:
    """Return how much address space this process has already: mostly code, and what allocators have reserved."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize()
    return 0


def open_locked_connection(start: protocol.StartEngine) -> duckdb.DuckDBPyConnection:
    """Return a connection to the column files, and take from this process the rights to do anything else."""
    import duckdb

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the sessions' content
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{start.memory // 2 // _MEGABYTE}MiB",
            "threads": start.threads,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "secret_directory": "",
            "allow_persistent_secrets": False,
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    for statement in start.statements:
        connection.execute(statement)
    # The order matters: without external access DuckDB refuses `allowed_paths`, and locked it refuses everything.
    connection.execute("SET allowed_paths = $files", {"files": start.files})
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    for name in ("arro3.core", "arro3.io"):  # loaded while files can still be read
        import_module(name)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(ValueError, OSError):  # macOS takes no limit of address space; DuckDB's own holds there
        most = start.memory + _address_space()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    restrict_to_reading([start.folder])
    return connection


class _Utc(tzinfo):
    """UTC with the methods of a time zone of `pytz`."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None) -> str:
        return "UTC"

    def localize(self, time: datetime, is_dst: bool = False) -> datetime:
        """Return a time in this zone."""
        return time.replace(tzinfo=self)

    def normalize(self, time: datetime) -> datetime:
        """Return a time as it is."""
        return time


def install_utc_shim() -> None:
    """Install a module `pytz` that knows UTC only: DuckDB imports it for times with a zone, and all of ours are UTC."""
    utc, module = _Utc(), ModuleType("pytz")
    vars(module).update(utc=utc, timezone=lambda _: utc, UnknownTimeZoneError=KeyError)
    sys.modules["pytz"] = module


def _answer(
    connection: duckdb.DuckDBPyConnection, request: protocol.QueryRequest, *, tables_only: bool
) -> Iterator[protocol.EngineOutput]:
    import duckdb

    try:
        refusal = refusal_reason(connection, request.query, tables_only=tables_only)
        if refusal:
            yield protocol.QueryFailed("refused", refusal)
            return
        yield from (
            _fetch_arrow(connection, request.query)
            if request.form == protocol.ARROW
            else _fetch_rows(connection, request)
        )
    except duckdb.OutOfMemoryException as error:
        first, _, _ = _text_of(error).partition("\n")  # the rest is about settings that cannot be changed here
        yield protocol.QueryFailed("wrong", first)
    except duckdb.Error as error:
        yield protocol.QueryFailed("wrong", _text_of(error))
    except (MemoryError, RecursionError, UnicodeError, OverflowError, ValueError, TypeError, RuntimeError) as error:
        yield protocol.QueryFailed("wrong", f"{type(error).__name__}: {_text_of(error)}")


def refusal_reason(connection: duckdb.DuckDBPyConnection, query: str, *, tables_only: bool = False) -> str | None:
    """Return why a query is refused, if it is: it must be one statement that only reads, if asked for only tables."""
    import duckdb

    statements = connection.extract_statements(query)
    if not statements:
        return "no statement"
    if len(statements) > 1:
        return "only one statement at a time"
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        # EXPLAIN ANALYZE runs the statement that it explains, which may be a COPY.
        inner = _explained(query)
        if not inner:
            return "not a read-only statement: EXPLAIN"
        return refusal_reason(connection, inner, tables_only=tables_only)
    if kind != duckdb.StatementType.SELECT:
        return f"not a read-only statement: {kind.name}"
    return find_foreign_source(connection, query) if tables_only else None


def find_foreign_source(connection: duckdb.DuckDBPyConnection, query: str) -> str | None:
    """Return why a query reads something else than tables, if it does, by how DuckDB itself parses it."""
    # With a cursor of its own: after `execute`, the connection would not run the query itself as a relation (Arrow).
    with connection.cursor() as cursor:
        row = cursor.execute("SELECT json_serialize_sql($query)", {"query": query}).fetchone()
    parsed = msgspec.json.decode(row[0]) if row else {"error": True}
    if parsed.get("error") is not False:
        return "a query of this kind cannot be checked"
    nodes = [parsed["statements"]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            nodes += node.values()
            if node.get("type") == "TABLE_FUNCTION":
                function = str((node.get("function") or {}).get("function_name", "")).lower()
                if function not in _TABLE_FUNCTIONS:
                    return f"the table function `{function}` is not allowed here"
            names = (node.get(key) for key in ("catalog_name", "schema_name", "table_name"))
            if any(isinstance(name, str) and not _FILE_MARKS.isdisjoint(name) for name in names):
                return "files cannot be named here, only tables"
    return None


def _explained(query: str) -> str | None:
    """Return the statement that an EXPLAIN explains: what follows its options."""
    import duckdb

    text = query.encode()
    starts = [start for start, kind in duckdb.tokenize(query) if kind != duckdb.token_type.comment]
    spans = zip(starts, [*starts[1:], len(text)], strict=True)
    words = [(text[start:end].split() or [b""])[0].lower() for start, end in spans]
    if words[:1] != [b"explain"]:
        return None
    depth = 0
    for start, word in zip(starts[1:], words[1:], strict=True):
        inside, depth = depth, depth + (word == b"(") - (word == b")")
        if not inside and not depth and word not in (b"analyze", b"verbose"):
            return text[start:].decode(errors="replace")
    return None


def _fetch_rows(
    connection: duckdb.DuckDBPyConnection, request: protocol.QueryRequest
) -> Iterator[protocol.EngineOutput]:
    """Yield the columns, then lines of JSON: an object or a list for each row."""
    cursor = connection.execute(request.query)
    described = cursor.description or []
    names = _unique([str(column[0]) for column in described])
    types = [str(column[1]) for column in described]
    yield protocol.ResultHeader(names, types)
    json_columns = [at for at, kind in enumerate(types) if kind == "JSON"] if request.form == protocol.OBJECTS else []
    count = 0
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        count += len(rows)
        lines = bytearray()
        for row in rows:
            values = list(row)
            for at in json_columns:
                if values[at] is not None:
                    values[at] = _on_one_line(values[at])
            value: Any = dict(zip(names, values, strict=True)) if request.form == protocol.OBJECTS else values
            lines += _encode(value)
            lines += b"\n"
        yield bytes(lines)
    yield protocol.ResultEnd(count)


def _on_one_line(json: str) -> msgspec.Raw | str:
    """Return JSON to embed in a line; as text if other programs could not read it, because of a NaN for instance."""
    try:
        if "\n" in json or "\r" in json:
            return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(json)))
        return msgspec.Raw(bytes(_checked(json)))
    except DECODE_ERRORS:
        return json


_checked: Callable[[str], msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw).decode


def _fetch_arrow(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[protocol.EngineOutput]:
    """Yield the columns, then the rows as an Arrow stream."""
    from arro3.core import RecordBatchReader
    from arro3.io import write_ipc_stream

    relation = connection.sql(query)
    yield protocol.ResultHeader(list(relation.columns), [str(kind) for kind in relation.types])
    reader = RecordBatchReader.from_stream(relation)
    stream = BytesIO()
    write_ipc_stream(reader, stream, compression=None)
    data = stream.getbuffer()
    for start in range(0, len(data), _MEGABYTE):
        yield bytes(data[start : start + _MEGABYTE])
    yield protocol.ResultEnd(0)


def _unique(names: list[str]) -> list[str]:
    """Return the names with a number appended to those that repeat an earlier one."""
    repeats: dict[str, int] = {}
    for name in names:
        unique = name
        while unique in repeats:
            repeats[name] += 1
            unique = f"{name}_{repeats[name]}"
        repeats[unique] = 0
    return list(repeats)


_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def _encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except TypeError:  # a map whose keys are not text
        return _encoder.encode(_with_text_keys(value))


def _with_text_keys(value: Any) -> Any:
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _with_text_keys(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_with_text_keys(inner) for inner in value]
        case _:
            return value


def _text_of(error: Exception) -> str:
    return str(error).encode(errors="replace").decode()
