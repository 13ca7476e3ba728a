"""Opens a lake and reads and writes its Delta tables.

Rules
  1. Credentials come from the environment, as the store's own tools read them.
  2. A commit that lost against another writer raises `CommitConflict`: the caller reads again and decides.
  3. Every other failure of the store is an `ObjectStoreFailed` in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from unspool.collect.lake.derive import DerivedStream
from unspool.collect.lake.log.delta_transactions import TransactionVersions
from unspool.collect.lake.streams import device_stream_id
from unspool.collect.lake.tables import device_bucket, lake_tables, partition_columns
from unspool.collect.object_store import SegmentStore, allows_http, open_object_store, request_timeout
from unspool.errors import NotFound, ObjectStoreFailed, Refused, Unreadable
from unspool.format import DECODE_ERRORS
from unspool.store.columns import Table, arrow_schema, sql_literal

if TYPE_CHECKING:
    from deltalake import DeltaTable, WriterProperties

MARK = "unspool-lake.json"
LAKE_VERSION = 2
"""2: the id of a stream in the tables is made of its device and its name. 1: it is the name alone."""


_ADDED = "unspool.added"
"""Marks a column that was added to a table: files from before lack it."""
_LONG_COLUMNS = frozenset({"raw", "text", "input", "result", "structured", "prompt", "content", "first_prompt"})
_LOG_OPTIONS = {"delta.logRetentionDuration": "interval 7 days"}
_LARGE_TABLES = frozenset({"entries", "side_files", "messages", "blocks", "tool_calls"})


class LakeMarker(msgspec.Struct, frozen=True):
    """The content of the file that marks a folder as a lake."""

    unspool: str = "lake"
    version: int = LAKE_VERSION


class CommitConflict(Exception):
    """Another writer has committed what this commit depends on."""


class CommitOvertaken(CommitConflict):
    """Another ingest has done, or is doing, the same work: the whole batch must be read again."""


class Lake:
    """The Delta tables of a lake, each loaded at a snapshot."""

    def __init__(self, url: str, environment: Mapping[str, str], version: int = LAKE_VERSION) -> None:
        require_team_libraries()
        self.version = version
        self.url = lake_address(url)
        self.object_store: SegmentStore = open_object_store(self.url, environment)
        options = {
            "timeout": f"{request_timeout(environment):g}s",
            "allow_http": str(allows_http(environment)).lower(),
        }
        self.options = None if self.folder else options
        """Options for the library, besides the credentials that it reads from the environment itself."""
        self._tables: dict[str, DeltaTable] = {}
        self._versions: dict[str, TransactionVersions] = {}

    @property
    def is_near(self) -> bool:
        """Whether the newest snapshot is read in any case, and not only after a commit was refused."""
        return True

    @property
    def folder(self) -> Path | None:
        """The local folder of the lake; None if it is in an object store."""
        return local_folder(self.url)

    def location(self, name: str) -> str:
        """Return the path or URL of a table."""
        return str(self.folder / name) if self.folder else f"{self.url.rstrip('/')}/{name}"

    def table(self, name: str, *, fresh: bool = False) -> DeltaTable:
        """Return a table at the snapshot that was loaded first; with `fresh` at the newest."""
        from deltalake import DeltaTable

        with translate_lake_errors(self.url):
            if name not in self._tables:
                self._tables[name] = DeltaTable(self.location(name), storage_options=self.options)
            elif fresh:
                self._tables[name].update_incremental()
        return self._tables[name]

    def stream_id(self, org: str, device: str, name: str) -> str:
        """Return the id that a stream of a device has in the tables."""
        return name if self.version < 2 else device_stream_id(org, device, name)

    def add_missing_columns(self) -> list[str]:
        """Add the columns that came since the lake was created; return them as `table.column`."""
        added = []
        for name, declared in lake_tables().items():
            missing = missing_columns(self.table(name), declared)
            if missing:
                self._add_columns(name, _marked_fields(declared, missing))
                # Loaded anew: a snapshot from before would refuse rows with these columns.
                self._tables.pop(name)
                added += [f"{name}.{column}" for column in missing]
        return added

    def _add_columns(self, name: str, fields: list[Any]) -> None:
        with translate_lake_errors(self.url):
            self.table(name).alter.add_columns(fields)

    def versions(self, name: str) -> Mapping[str, int]:
        """Return the last version of each transaction in the loaded snapshot of a table."""
        table = self.table(name)
        if name not in self._versions:
            self._versions[name] = TransactionVersions(self.object_store, name)
        try:
            return self._versions[name].at(table)
        except Unreadable:
            # `lake forget` has removed the log up to a checkpoint that is newer than this snapshot.
            return self._versions[name].at(self.table(name, fresh=True))

    def has_moved_on(self, name: str, before: Mapping[str, int]) -> bool:
        """Return whether any of these transactions has another version in the newest snapshot."""
        self.table(name, fresh=True)
        now = self.versions(name)
        return any(now.get(app, 0) != version for app, version in before.items())

    def may_have_rows(self, name: str, where: str) -> bool:
        """Return whether the loaded snapshot of a table may have rows for a predicate, as far as its log tells."""
        with translate_lake_errors(self.url):
            return bool(self.table(name).file_uris(file_pruning_predicate=where))

    def rows(self, name: str, query: str, where: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query over one table, which the query calls `t`.

        The query reads only rows for which the predicate `where` is true, if there is one.
        """
        from deltalake import QueryBuilder

        with translate_lake_errors(self.url):
            answer = QueryBuilder().register("t", self.table(name)).execute(query).read_all()
            columns = [column.to_pylist() for column in answer.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def write(self, name: str, batches: Sequence[Any], marks: Mapping[str, int], where: str | None = None) -> None:
        """Append rows to a table, or replace those that a predicate selects, and record transactions."""
        from arro3.core import Table as ArrowTable
        from deltalake import Transaction, write_deltalake

        mode: Any = {"mode": "overwrite", "predicate": where} if where else {"mode": "append"}
        data = ArrowTable.from_batches(list(batches), schema=arrow_schema(lake_tables()[name]))
        transactions = [Transaction(app, version) for app, version in marks.items()]
        with translate_lake_errors(self.url), _translate_lost_log():
            # Onto the loaded snapshot, not the newest: Delta refuses the commit if one of these transactions was
            # recorded since, and that is what protects against adding lines twice.
            write_deltalake(
                self.table(name),
                data,
                writer_properties=encoding(name),
                schema_mode="merge",  # a lake of an earlier version lacks columns that came since
                **self.commit_options(name, transactions),
                **mode,
            )

    def commit_options(self, name: str, transactions: list[Any]) -> dict[str, Any]:
        """Return how the library commits to a table."""
        from deltalake import CommitProperties

        return {"commit_properties": CommitProperties(app_transactions=transactions)}

    def delete(self, name: str, where: str) -> None:
        """Delete the rows that a predicate selects."""
        with translate_lake_errors(self.url):
            self.table(name).delete(where, **self.commit_options(name, []))

    def finish_round(self) -> None:
        """Do what is left at the end of a round of an ingest."""


def create_lake(url: str, environment: Mapping[str, str]) -> Lake:
    """Create a lake, or the tables that are missing in one."""
    from deltalake import DeltaTable

    lake = Lake(url, environment)
    marker = lake.object_store.get(MARK)
    if marker is None and next(iter(lake.object_store.names("")), None) is not None:
        raise Refused(f"`{url}` is not empty and not a lake", hint="name an empty folder or an existing lake")
    if marker is not None:
        lake.version = _check_version(marker, url)
    with translate_lake_errors(lake.url):
        for name, table in lake_tables().items():
            DeltaTable.create(
                lake.location(name),
                arrow_schema(table),
                mode="ignore",
                partition_by=partition_columns(name),
                name=name,
                description=table.comment,
                configuration={"delta.dataSkippingStatsColumns": _statistics_columns(name), **_LOG_OPTIONS},
                storage_options=lake.options,
            )
    # Last: a folder with the marker has all its tables.
    lake.object_store.put_new(MARK, msgspec.json.encode(LakeMarker()))
    return lake


def open_lake(url: str, environment: Mapping[str, str]) -> Lake:
    """Open an existing lake."""
    folder = local_folder(lake_address(url))
    # `Lake` creates a missing folder, which a command that only reads must not do.
    lake = Lake(url, environment) if folder is None or folder.is_dir() else None
    marker = lake.object_store.get(MARK) if lake else None
    if lake is None or marker is None:
        raise NotFound(f"no lake at `{url}`", hint=f"create one with `unspool lake init {url}`")
    lake.version = _check_version(marker, url)
    return lake


def open_source(url: str, environment: Mapping[str, str]) -> SegmentStore:
    """Open the object store with the segments. A folder must exist: readers do not create it."""
    folder = local_folder(lake_address(url))
    if folder is not None and not folder.is_dir():
        raise NotFound(f"folder not found: `{folder}`", hint="collectors create it: `unspool collect --to URL`")
    return open_object_store(lake_address(url), environment)


def lake_address(url: str) -> str:
    """Return a path or URL as a URL."""
    return url if "://" in url else Path(url).expanduser().absolute().as_uri()


def local_folder(url: str) -> Path | None:
    """Return the folder of a `file:` URL; None for any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def require_team_libraries() -> None:
    """Raise `MissingExtra` if one of the optional libraries is not installed."""
    from unspool.extras import require_extras

    require_extras("sql", "team")


@contextmanager
def translate_lake_errors(url: str) -> Iterator[None]:
    """Turn the library's errors into `CommitConflict` or an `UnspoolError`."""
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

    try:
        yield
    except CommitFailedError as error:
        raise CommitConflict(str(error)) from None
    except TableNotFoundError:
        raise Unreadable(
            f"the lake at `{url}` lacks a table", hint=f"create it with `unspool lake init {url}`"
        ) from None
    except (DeltaError, OSError) as error:
        words = " ".join(str(error).split())[:300]
        raise ObjectStoreFailed(f"cannot use the lake at `{url}`: {words}", hint="no data is lost; try again") from None


@contextmanager
def _translate_lost_log() -> Iterator[None]:
    """Turn the failure to compare a commit with others, because their log is gone, into `CommitConflict`."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except DeltaError as error:
        # `lake forget` replaces the log by a checkpoint, and may have done so since the snapshot was loaded.
        if "Invalid table version" in str(error):
            raise CommitConflict(str(error)) from None
        raise


def encoding(name: str, level: int | None = None) -> WriterProperties:
    """Return the compression and column options for the files of a table; `level` is that of compacted files."""
    from deltalake import ColumnProperties, WriterProperties

    # Long texts are all different, so a dictionary does not help, and nobody filters by their range.
    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    long = [column.name for column in lake_tables()[name].columns if column.name in _LONG_COLUMNS]
    # Files of small tables are merged by a compaction soon: until then zstd, which is slow to start, is not worth it.
    strong = level is not None or name in _LARGE_TABLES
    return WriterProperties(
        compression="ZSTD" if strong else "SNAPPY",
        compression_level=(level or 1) if strong else None,
        default_column_properties=ColumnProperties(statistics_enabled="CHUNK"),
        column_properties=dict.fromkeys(long, plain) or None,
    )


def _statistics_columns(name: str) -> str:
    """Return the columns whose range is recorded for each file: those that rows are looked up by, no texts."""
    looked_up = {"org", "user", "device", "source_id", "stream", "id", "sequence", "generation", "timestamp", "time"}
    looked_up |= {"started", "response_id", "session_id", "name", "offset", "model"}
    names = looked_up.difference(partition_columns(name))
    return ",".join(column.name for column in lake_tables()[name].columns if column.name in names)


def missing_columns(table: DeltaTable, declared: Table) -> list[str]:
    """Return the columns of a table that it lacks because it was created by an earlier version."""
    there = {field.name for field in table.schema().fields}
    return [name for name in declared.names if name not in there]


def has_late_columns(table: DeltaTable, declared: Table) -> bool:
    """Return whether a table lacks columns, or had some added: then not all of its files have the same."""
    marks = any((field.metadata or {}).get(_ADDED) for field in table.schema().fields)
    return marks or bool(missing_columns(table, declared))


def _marked_fields(declared: Table, names: Sequence[str]) -> list[Any]:
    """Return columns as the library takes them, marked as added to an existing table."""
    from deltalake import Field, Schema

    fields = Schema.from_arrow(arrow_schema(declared)).fields
    return [
        Field(field.name, field.type, nullable=True, metadata={_ADDED: "1"}) for field in fields if field.name in names
    ]


def _check_version(data: bytes, url: str) -> int:
    """Return the version of a lake; `Unreadable` if it is newer than this unspool."""
    try:
        marker = msgspec.json.decode(data, type=LakeMarker)
    except DECODE_ERRORS:
        raise Unreadable(f"not a lake: `{url}`: cannot read `{MARK}`") from None
    if marker.unspool != "lake" or marker.version > LAKE_VERSION:
        raise Unreadable(f"the lake at `{url}` was created by a newer version of unspool", hint="upgrade unspool")
    return marker.version


def streams_predicate(table: str, streams: Sequence[DerivedStream]) -> str:
    """Return the SQL condition for all rows of some streams in a table."""
    owners = [stream.owner for stream in streams]
    where = any_of_predicate("id" if table == "sources" else "source_id", (owner.stream for owner in owners))
    # The streams alone would be enough; the rest lets the library skip files and partitions.
    for column in ("org", "device"):
        where += f" AND {any_of_predicate(column, (getattr(owner, column) for owner in owners))}"
    if "bucket" in partition_columns(table):
        return f"{where} AND {buckets_predicate((owner.org, owner.device) for owner in owners)}"
    if all(stream.days for stream in streams):
        first, last = min(min(stream.days) for stream in streams), max(max(stream.days) for stream in streams)
        where += f" AND day >= '{sql_day(first)}' AND day <= '{sql_day(last)}'"
    return where


def devices_predicate(homes: Iterable[tuple[str, str]]) -> str:
    """Return the SQL condition for all rows of some devices in a table that is partitioned by bucket."""
    unique = sorted(set(homes))
    owners = " OR ".join(f"(org = {sql_literal(org)} AND device = {sql_literal(device)})" for org, device in unique)
    return f"({owners}) AND {buckets_predicate(unique)}"


def buckets_predicate(homes: Iterable[tuple[str, str]]) -> str:
    """Return the SQL condition for the buckets of some devices."""
    buckets = sorted({device_bucket(org, device) for org, device in homes})
    return f"bucket IN ({', '.join(map(str, buckets))})"


def any_of_predicate(column: str, values: Iterable[str]) -> str:
    """Return the SQL condition that a column has one of these values."""
    return f"{column} IN ({', '.join(sql_literal(value) for value in sorted(set(values)))})"


def sql_day(number: int) -> str:
    """Return a number of days since 1970 as an ISO date."""
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
