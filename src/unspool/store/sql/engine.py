"""The engine that answers SQL, in a process of its own: questions in on stdin, answers out on stdout.

Rules
  1. Before the first question the process gives up what it does not need: files other than the column files, writing,
     the network, core dumps, memory beyond a limit; DuckDB gives up extensions and settings.
  2. A question is one statement that only reads. Nothing it does changes a byte on disk.
  3. Whatever a question does, the process answers or dies; whoever asked goes on. It ends when that one ends.

[merged: landlock.py] Taking rights away from this process, for good: Linux's Landlock, where the kernel has it.

Afterwards files can be read below some folders only, and nothing can be written, made, renamed or removed anywhere; no
connection can be opened. Rights cannot be had back, and every thread made later lacks them too.

[merged: utc.py] Times with a zone, without a library of zones: DuckDB asks for `pytz` to make one, and all of ours are UTC.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.format.base import UNDECODABLE
from unspool.store.sql.protocol import ARROW, OBJECTS, Answer, Ask, Begin, Done, Failed, Header, Ready, receive, send

if TYPE_CHECKING:
    import duckdb

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls, the same on every architecture."""
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""By version of the interface: everything it can take away."""
_TCP = 3


def restrict(readable: Iterable[str]) -> bool:
    """Give up all rights to files but to read below these folders; tell whether the kernel could."""
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    version = call(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    rights = _FILE_RIGHTS.get(version, (1 << 16) - 1)
    rules = struct.pack("QQ", rights, _TCP) if version >= 4 else struct.pack("Q", rights)
    ruleset = call(_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return False
    for folder in readable:
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", _READ_FILE | _READ_DIR, descriptor)
        call(_ADD, ruleset, _PATH_BENEATH, rule, 0)
        os.close(descriptor)
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = call(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)


class _Utc(tzinfo):
    """UTC, as DuckDB asks for it."""

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


def only_utc() -> None:
    """Let times with a zone come out in UTC. Only in a process whose engine knows no other."""
    utc, module = _Utc(), ModuleType("pytz")
    module.utc = utc  # type: ignore[attr-defined]
    module.timezone = lambda _: utc  # type: ignore[attr-defined]
    module.UnknownTimeZoneError = KeyError  # type: ignore[attr-defined]
    sys.modules["pytz"] = module


_ROWS = 1000
"""Rows that are fetched at once."""
_MEGABYTE = 1 << 20


def main() -> None:
    """Answer until nobody asks any more."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    begin = receive(questions, Begin)
    assert isinstance(begin, Begin)
    _watch(begin.life)
    only_utc()
    import duckdb

    try:
        connection = locked(begin)
    except duckdb.Error as error:
        send(answers, Failed("broken", _words(error)))
        return
    send(answers, Ready())
    while (ask := receive(questions, Ask)) is not None:
        for answer in _answered(connection, ask):
            send(answers, answer)


def locked(begin: Begin) -> duckdb.DuckDBPyConnection:
    """Return a connection that can read the column files, and this process without the rights to do more."""
    import duckdb

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{begin.memory // 2 // _MEGABYTE}MiB",
            "threads": begin.threads,
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
    for statement in begin.statements:
        connection.execute(statement)
    connection.execute("SET allowed_paths = $files", {"files": begin.files})
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    _give_up_rights(begin)
    return connection


def _give_up_rights(begin: Begin) -> None:
    from arro3 import io  # noqa: F401 - loaded while files can still be read

    pass

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(ValueError, OSError):  # macOS takes no limit of address space; DuckDB's own holds there
        resource.setrlimit(resource.RLIMIT_AS, (begin.memory, begin.memory))
    restrict([begin.folder])


def _watch(life: int) -> None:
    """End with the process that asked: its end of a pipe closes then, whatever this one is doing."""

    def wait() -> None:
        os.read(life, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _answered(connection: duckdb.DuckDBPyConnection, ask: Ask) -> Iterator[Answer]:
    import duckdb

    try:
        refusal = refused(connection, ask.query)
        if refusal:
            yield Failed("refused", refusal)
            return
        yield from _arrow(connection, ask.query) if ask.form == ARROW else _rows(connection, ask)
    except duckdb.OutOfMemoryException as error:
        first, _, _ = _words(error).partition("\n")  # the rest tells of settings that cannot be changed here
        yield Failed("wrong", first)
    except duckdb.Error as error:
        yield Failed("wrong", _words(error))
    except (MemoryError, RecursionError, UnicodeError, OverflowError, ValueError, TypeError, RuntimeError) as error:
        yield Failed("wrong", f"{type(error).__name__}: {_words(error)}")


def refused(connection: duckdb.DuckDBPyConnection, query: str) -> str | None:
    """Return why a query is not asked: it must be one statement, and only read."""
    import duckdb

    statements = connection.extract_statements(query)
    if not statements:
        return "there is no statement"
    if len(statements) > 1:
        return "one statement at a time"
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        inner = _explained(query)
        return refused(connection, inner) if inner else "not a statement that only reads: EXPLAIN"
    if kind != duckdb.StatementType.SELECT:
        return f"not a statement that only reads: {kind.name}"
    return None


def _explained(query: str) -> str | None:
    """Return what an EXPLAIN explains: the rest of it after its options."""
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


def _rows(connection: duckdb.DuckDBPyConnection, ask: Ask) -> Iterator[Answer]:
    """Yield the columns, then lines of JSON: an object for each row, or a list of values."""
    cursor = connection.execute(ask.query)
    described = cursor.description or []
    names = _unique([str(column[0]) for column in described])
    types = [str(column[1]) for column in described]
    yield Header(names, types)
    nested = [at for at, kind in enumerate(types) if kind == "JSON"] if ask.form == OBJECTS else []
    count = 0
    while rows := cursor.fetchmany(_ROWS):
        count += len(rows)
        lines = bytearray()
        for row in rows:
            values = list(row)
            for at in nested:
                if values[at] is not None:
                    values[at] = _on_one_line(values[at])
            value: Any = dict(zip(names, values, strict=True)) if ask.form == OBJECTS else values
            lines += _encoded(value)
            lines += b"\n"
        yield bytes(lines)
    yield Done(count)


def _on_one_line(json: str) -> msgspec.Raw | str:
    """Return JSON that is put into the answer as it is; what others could not read, NaN in it for one, as text."""
    try:
        if "\n" in json or "\r" in json:
            return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(json)))
        return msgspec.Raw(bytes(_checked(json)))
    except UNDECODABLE:
        return json


_checked: Callable[[str], msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw).decode


def _arrow(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[Answer]:
    """Yield the result as a stream of Arrow's."""
    from arro3.core import RecordBatchReader
    from arro3.io import write_ipc_stream

    relation = connection.sql(query)
    yield Header(list(relation.columns), [str(kind) for kind in relation.types])
    reader = RecordBatchReader.from_stream(relation)
    held = BytesIO()
    write_ipc_stream(reader, held, compression=None)
    data = held.getbuffer()
    for start in range(0, len(data), _MEGABYTE):
        yield bytes(data[start : start + _MEGABYTE])
    yield Done(0)


def _unique(names: list[str]) -> list[str]:
    """Return names of which no two are the same: a later one gets a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        wanted = name
        while wanted in seen:
            seen[name] += 1
            wanted = f"{name}_{seen[name]}"
        seen[wanted] = 0
        found.append(wanted)
    return found


_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def _encoded(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except TypeError:  # a map whose keys are no text
        return _encoder.encode(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def _words(error: Exception) -> str:
    return str(error).encode(errors="replace").decode()
