"""Opens a lake and reads and writes its Delta tables.

Rules
  1. Credentials come from the environment, as the store's own tools read them.
  2. A commit that another writer was faster with is a `Conflict`: whoever writes looks again and decides.
  3. Whatever else a store says is a `ObjectStoreFailed` in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from unspool.collect.lake.delta_transactions import TransactionVersions
from unspool.collect.lake.derive import DerivedStream
from unspool.collect.lake.tables import device_bucket, lake_tables, partition_columns
from unspool.collect.object_store import SegmentStore, is_plain_name, open_object_store, parse_seconds
from unspool.errors import NotFound, ObjectStoreFailed, Refused, Unreadable
from unspool.store.columns import arrow_schema, sql_literal

if TYPE_CHECKING:
    from deltalake import DeltaTable, WriterProperties

MARK = "unspool-lake.json"
VERSION = 1
MISSING = "install it with: pip install 'unspool[sql,team]'"


_LONG = frozenset({"raw", "text", "input", "result", "structured", "prompt", "content", "first_prompt"})
_LOG = {"delta.logRetentionDuration": "interval 7 days"}
_LARGE = frozenset({"entries", "side_files", "messages", "blocks", "tool_calls"})


class StreamMark(msgspec.Struct, frozen=True):
    """What says that a folder is a lake."""

    unspool: str = "lake"
    version: int = VERSION


class CommitConflict(Exception):
    """Another writer has committed what this commit depends on."""


class CommitOvertaken(CommitConflict):
    """Another one has done, or is doing, what this one does: all of it is to be looked at again."""


class Lake:
    """The tables of a lake."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        require_team_libraries()
        self.url = lake_address(url)
        self.place: SegmentStore = open_object_store(self.url, environment)
        patience = {
            "timeout": f"{parse_seconds(environment):g}s",
            "allow_http": str(is_plain_name(environment)).lower(),
        }
        self.options = None if self.folder else patience
        """What the library is told of the store, besides what it reads in the environment itself."""
        self._tables: dict[str, DeltaTable] = {}
        self._versions: dict[str, TransactionVersions] = {}

    @property
    def folder(self) -> Path | None:
        """The folder it is, if it is one."""
        return local_folder(self.url)

    def location(self, name: str) -> str:
        """Return where a table is, as the library wants it."""
        return str(self.folder / name) if self.folder else f"{self.url.rstrip('/')}/{name}"

    def table(self, name: str, *, fresh: bool = False) -> DeltaTable:
        """Return a table, with everything that was committed when it was first asked for, or now."""
        from deltalake import DeltaTable

        with translate_lake_errors(self.url):
            if name not in self._tables:
                self._tables[name] = DeltaTable(self.location(name), storage_options=self.options)
            elif fresh:
                self._tables[name].update_incremental()
        return self._tables[name]

    def versions(self, name: str) -> Mapping[str, int]:
        """Return the transactions that the table, as it was last asked for, has taken: the last version of each."""
        table = self.table(name)
        if name not in self._versions:
            self._versions[name] = TransactionVersions(self.place, name)
        return self._versions[name].at(table)

    def raised(self, name: str, before: Mapping[str, int]) -> bool:
        """Tell whether any of these transactions has another version now."""
        self.table(name, fresh=True)
        now = self.versions(name)
        return any(now.get(app, 0) != version for app, version in before.items())

    def rows(self, name: str, query: str) -> list[tuple[Any, ...]]:
        """Return the answer to a query about one table, which it calls `t`."""
        from deltalake import QueryBuilder

        with translate_lake_errors(self.url):
            found = QueryBuilder().register("t", self.table(name)).execute(query).read_all()
            columns = [column.to_pylist() for column in found.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def write(self, name: str, batches: Sequence[Any], marks: Mapping[str, int], where: str | None = None) -> None:
        """Add rows to a table, in the place of those that a predicate names; with transactions that it takes."""
        from arro3.core import Table
        from deltalake import CommitProperties, Transaction, write_deltalake

        how: Any = {"mode": "overwrite", "predicate": where} if where else {"mode": "append"}
        data = Table.from_batches(list(batches), schema=arrow_schema(lake_tables()[name]))
        transactions = [Transaction(app, version) for app, version in marks.items()]
        with translate_lake_errors(self.url):
            write_deltalake(
                self.table(name),
                data,
                writer_properties=encoding(name),
                commit_properties=CommitProperties(app_transactions=transactions),
                **how,
            )

    def delete(self, name: str, where: str) -> None:
        """Take rows out of a table."""
        with translate_lake_errors(self.url):
            self.table(name).delete(where)


def create_lake(url: str, environment: Mapping[str, str]) -> Lake:
    """Make the tables of a lake, those that are missing."""
    from deltalake import DeltaTable

    lake = Lake(url, environment)
    found = lake.place.get(MARK)
    if found is None and next(iter(lake.place.names("")), None) is not None:
        raise Refused(f"there is something else at `{url}`", hint="name an empty folder, or one that is a lake")
    if found is not None:
        _known(found, url)
    with translate_lake_errors(lake.url):
        for name, table in lake_tables().items():
            DeltaTable.create(
                lake.location(name),
                arrow_schema(table),
                mode="ignore",
                partition_by=partition_columns(name),
                name=name,
                description=table.comment,
                configuration={"delta.dataSkippingStatsColumns": _measured(name), **_LOG},
                storage_options=lake.options,
            )
    lake.place.put_new(MARK, msgspec.json.encode(StreamMark()))
    return lake


def open_lake(url: str, environment: Mapping[str, str]) -> Lake:
    """Open a lake that is there."""
    folder = local_folder(lake_address(url))
    lake = Lake(url, environment) if folder is None or folder.is_dir() else None
    found = lake.place.get(MARK) if lake else None
    if lake is None or found is None:
        raise NotFound(f"no lake at `{url}`", hint=f"make one with: unspool lake init {url}")
    _known(found, url)
    return lake


def open_source(url: str, environment: Mapping[str, str]) -> SegmentStore:
    """Open the store that segments are in. A folder must be there: it is not made by those who only read."""
    folder = local_folder(lake_address(url))
    if folder is not None and not folder.is_dir():
        raise NotFound(f"no such folder: `{folder}`", hint="collectors make it: unspool collect --to URL")
    return open_object_store(lake_address(url), environment)


def lake_address(url: str) -> str:
    """Return the URL of a path or URL."""
    return url if "://" in url else Path(url).expanduser().absolute().as_uri()


def local_folder(url: str) -> Path | None:
    """Return the folder that a URL names, if it is one."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def require_team_libraries() -> None:
    """Refuse to go on without the libraries."""
    from importlib.util import find_spec

    if not all(find_spec(name) for name in ("deltalake", "obstore", "arro3", "duckdb")):
        raise Refused("a lake needs deltalake, obstore, arro3 and DuckDB, which are not all installed", hint=MISSING)


@contextmanager
def translate_lake_errors(url: str) -> Iterator[None]:
    """Say in our words what did not work."""
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

    try:
        yield
    except CommitFailedError as error:
        raise CommitConflict(str(error)) from None
    except TableNotFoundError:
        raise Unreadable(f"a table is missing in the lake at `{url}`", hint=f"unspool lake init {url}") from None
    except (DeltaError, OSError) as error:
        words = " ".join(str(error).split())[:300]
        raise ObjectStoreFailed(
            f"the lake at `{url}` cannot be used: {words}", hint="nothing is lost; try again"
        ) from None


def encoding(name: str, level: int | None = None) -> WriterProperties:
    """Return how the files of a table are written: long texts are all different, and nobody looks for their range.

    Small files, which will be made one later (`level`), are not worth a compressor that takes a while to begin.
    """
    from deltalake import ColumnProperties, WriterProperties

    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    long = [one.name for one in lake_tables()[name].columns if one.name in _LONG]
    strong = level is not None or name in _LARGE
    return WriterProperties(
        compression="ZSTD" if strong else "SNAPPY",
        compression_level=(level or 1) if strong else None,
        default_column_properties=ColumnProperties(statistics_enabled="CHUNK"),
        column_properties=dict.fromkeys(long, plain) or None,
    )


def _measured(name: str) -> str:
    """Return the columns of a table that files tell the range of: what rows are looked up by, and no text."""
    wanted = {"org", "user", "device", "source_id", "stream", "id", "sequence", "generation", "timestamp", "time"}
    wanted |= {"started", "response_id", "session_id", "name", "offset", "model"}
    apart = partition_columns(name)
    return ",".join(one.name for one in lake_tables()[name].columns if one.name in wanted and one.name not in apart)


def _known(found: bytes, url: str) -> None:
    try:
        mark = msgspec.json.decode(found, type=StreamMark)
    except msgspec.DecodeError:
        raise Unreadable(f"not a lake: `{url}`: `{MARK}` cannot be read") from None
    if mark.unspool != "lake" or mark.version > VERSION:
        raise Unreadable(f"the lake at `{url}` was made by a newer unspool", hint="upgrade unspool")


def streams_predicate(table: str, made: Sequence[DerivedStream]) -> str:
    """Return what names all rows of some streams in a table."""
    whose = [one.whose for one in made]
    where = any_of_predicate("id" if table == "sources" else "source_id", (one.stream for one in whose))
    for column in ("org", "device"):
        where += f" AND {any_of_predicate(column, (getattr(one, column) for one in whose))}"
    if "bucket" in partition_columns(table):
        return f"{where} AND {buckets_predicate((one.org, one.device) for one in whose)}"
    if all(one.days for one in made):
        first, last = min(min(one.days) for one in made), max(max(one.days) for one in made)
        where += f" AND day >= '{sql_day(first)}' AND day <= '{sql_day(last)}'"
    return where


def devices_predicate(homes: Iterable[tuple[str, str]]) -> str:
    """Return what names all rows of some devices in a table that is partitioned by bucket."""
    every = sorted(set(homes))
    whose = " OR ".join(f"(org = {sql_text(org)} AND device = {sql_text(device)})" for org, device in every)
    return f"({whose}) AND {buckets_predicate(every)}"


def buckets_predicate(homes: Iterable[tuple[str, str]]) -> str:
    """Return what names the buckets of some devices."""
    found = sorted({device_bucket(org, device) for org, device in homes})
    return f"bucket IN ({', '.join(map(str, found))})"


def any_of_predicate(column: str, values: Iterable[str]) -> str:
    """Return what a column is one of."""
    return f"{column} IN ({', '.join(sql_text(value) for value in sorted(set(values)))})"


def sql_text(value: str) -> str:
    """Return a text as a statement has it."""
    return sql_literal(value)


def sql_day(number: int) -> str:
    """Return a day as it is written."""
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
