"""Databases that the tests start: Postgres, and the engine of ClickHouse behind its HTTP interface."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol

import psycopg
import pytest

from unspool.collect.lake.tables import lake_tables
from unspool.collect.sinks import parse_address
from unspool.collect.sinks.clickhouse_http import ClickHouseClient
from unspool.store.columns import TableColumn

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / ".venv-clickhouse"
USER = "tide"
Rows = Counter[tuple[Any, ...]]


class SinkDatabase(Protocol):
    """A schema of a database that is there for one test."""

    url: str
    schema: str
    environment: dict[str, str]
    """The credentials."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives; `$` in it stands for the schema."""

    def table(self, name: str) -> Rows:
        """Return the rows of a table as those of the lake are."""


class PostgresSchema:
    """A schema of the server that the tests started."""

    def __init__(self, folder: Path, schema: str, password: str) -> None:
        self.url, self.schema = f"postgresql://{USER}@/postgres?host={folder}", schema
        self.environment = {"PGPASSWORD": password}
        self.connection = psycopg.connect(self.url, password=password, autocommit=True, options="-c timezone=UTC")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives; `$` in it stands for the schema."""
        cursor = self.connection.execute(query.replace("$", f'"{self.schema}"').encode())
        return cursor.fetchall() if cursor.description else []

    def table(self, name: str) -> Rows:
        """Return the rows of a table."""
        names = ", ".join(f'"{column}"' for column in lake_tables()[name].names)
        return Counter(self.rows(f"SELECT {names} FROM $.{name}"))


class ClickHouseDatabase:
    """A database of the engine that the tests started."""

    def __init__(self, port: int, schema: str, password: str) -> None:
        self.url, self.schema = f"clickhouse+http://127.0.0.1:{port}", schema
        self.environment = {"CLICKHOUSE_USER": USER, "CLICKHOUSE_PASSWORD": password}
        self.client = ClickHouseClient(parse_address(self.url, schema, self.environment), password)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives; `$` in it stands for the schema."""
        return [tuple(row) for row in self.client.rows(query.replace("$", self.schema))]

    def execute(self, statement: str) -> None:
        """Run a statement that gives nothing."""
        self.client.execute(statement.replace("$", self.schema))

    def table(self, name: str) -> Rows:
        """Return the rows of a table."""
        columns = lake_tables()[name].columns
        names = ", ".join(f"`{column.name}`" for column in columns)
        return Counter(
            tuple(_parse_cell(column, cell) for column, cell in zip(columns, row, strict=True))
            for row in self.rows(f"SELECT {names} FROM $.{name}")
        )


def _parse_cell(column: TableColumn, cell: Any) -> Any:
    match column.type:
        case "BIGINT" if cell is not None:
            return int(cell)
        case "DATE" if cell is not None:
            return date.fromisoformat(cell)
        case "TIMESTAMPTZ" if cell is not None:
            return datetime.fromisoformat(cell).replace(tzinfo=UTC)
        case _:
            return cell


def find_postgres() -> Path | None:
    """Return the folder with the programs of the newest Postgres."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def unprivileged() -> dict[str, Any]:
    """Return how a process is started as a user of no rights: Postgres refuses to run as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder of that user. Its name is short: that of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="unspool-", dir="/tmp") as name:
        if os.geteuid() == 0:
            shutil.chown(name, "nobody", "nogroup")
        yield Path(name)


@contextmanager
def run_postgres() -> Iterator[tuple[Path, str]]:
    """Start a server on a socket; yield its folder and the password of the superuser."""
    programs = find_postgres()
    if programs is None:
        missing("no Postgres: `apt-get install postgresql`")
    password = secrets.token_hex(8)
    with private_folder() as folder:
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": folder, **unprivileged()}
        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        making: list[str | Path] = [
            programs / "initdb",
            "-D",
            folder / "data",
            "-U",
            USER,
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "-N",
        ]
        subprocess.run([*making, "-A", "scram-sha-256", "--pwfile", secret], capture_output=True, check=True, **quiet)
        options = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([programs / "postgres", "-D", folder / "data", *words], stderr=log, **quiet)
        try:
            ready: list[str | Path] = [programs / "pg_isready", "-h", folder, "-t", "1", "-q"]
            while subprocess.run(ready, check=False, **quiet).returncode and server.poll() is None:
                pass
            assert server.poll() is None, (folder / "log").read_text()
            yield folder, password
        finally:
            server.terminate()
            # Connections that a test left open would be waited for.
            server.send_signal(2)
            server.wait(60)


@contextmanager
def run_engine(folder: Path) -> Iterator[tuple[int, str]]:
    """Start the engine of ClickHouse; yield its port and its password."""
    if not (ENGINE / ".ready").exists():
        missing("no engine of ClickHouse: `make clickhouse`")
    password = secrets.token_hex(8)
    script = Path(__file__).with_name("clickhouse_engine.py")
    with subprocess.Popen(
        [ENGINE / "bin" / "python", script, folder],
        env={"PATH": os.environ["PATH"], "HOME": str(folder.parent), "ENGINE_PASSWORD": password, "TZ": "UTC"},
        stdout=subprocess.PIPE,
    ) as engine:
        assert engine.stdout is not None
        try:
            yield int(engine.stdout.readline()), password
        finally:
            engine.kill()


@contextmanager
def run_clickhouse_server() -> Iterator[tuple[int, str]]:
    """Start Debian's server of ClickHouse, which is of 2018; yield its port and the password of its user."""
    program = shutil.which("clickhouse-server")
    if program is None:
        missing("no server of ClickHouse: `apt-get install clickhouse-server`")
    password = secrets.token_hex(8)
    with private_folder() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        free.close()
        for name in ("data", "tmp"):
            (folder / name).mkdir()
            if os.geteuid() == 0:
                shutil.chown(folder / name, "nobody", "nogroup")
        (folder / "config.xml").write_text(_SERVER.format(folder=folder, port=port))
        (folder / "users.xml").write_text(_USERS.format(user=USER, password=password))
        command = [program, f"--config-file={folder / 'config.xml'}"]
        server = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **unprivileged()
        )
        try:
            while server.poll() is None and not _is_listening(port):
                pass
            assert server.poll() is None, server.communicate()
            yield port, password
        finally:
            server.kill()
            server.communicate()


def _is_listening(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


_SERVER = """<yandex><logger><level>error</level><console>1</console></logger><http_port>{port}</http_port>
<listen_host>127.0.0.1</listen_host><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>1048576</mark_cache_size></yandex>"""
_USERS = """<yandex><profiles><default></default></profiles><quotas><default></default></quotas><users><{user}>
<password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
</{user}></users></yandex>"""


def missing(reason: str) -> NoReturn:
    """Skip the test; where CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def same_rows(there: SinkDatabase, names: Sequence[str], wanted: Mapping[str, Rows]) -> None:
    """Compare tables row by row."""
    for name in names:
        found = there.table(name)
        assert found == wanted[name], name
