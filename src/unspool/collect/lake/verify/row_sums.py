"""Counts the rows of a lake by bucket of devices, and only those of partitions whose files have changed.

Rules
  1. Only the columns that say which row it is are read, never a text. The library streams them, and DuckDB adds them up
     with a bound on its memory; what does not fit goes to a temporary folder.
  2. Rows of a bucket are compared by number and sum (`RowSum`): one row that is missing, doubled or exchanged changes
     it. Only for a bucket that differs are its devices looked at one by one.
  3. Which files a partition has is what the log of its table says. That they exist, with their size, is listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from unspool.collect.lake.lake import Lake, any_of_predicate, translate_lake_errors
from unspool.collect.lake.tables import LINES, device_bucket, partition_columns
from unspool.collect.lake.verify.state import PartitionRows, RowSum, digest_names
from unspool.store.columns import sql_literal

if TYPE_CHECKING:
    import duckdb

_MEMORY = "128MB"
"""That DuckDB may use; interpreter, libraries and buffers need about as much again."""
_PARTITIONS_PER_QUERY = 32
_FEW_DEVICES = 200
"""Devices that a query names; the rows of more are read with those of all others."""

_HOME = "concat(org, '/', device)"
_LINE = "concat_ws(':', stream, sequence, generation, \"offset\")"
_KEYS = {
    **dict.fromkeys(LINES, ('stream, sequence, generation, "offset"', _LINE)),
    "responses": ("response_id", f"concat_ws(':', {_HOME}, response_id)"),
    "answers": ("response_id", f"concat_ws(':', {_HOME}, response_id)"),
}
"""By table: the columns that say which row it is, and the text that its digest is made of."""
_SUM = "count(*), CAST(sum(md5_number_lower(key)::HUGEINT) % 9223372036854775808 AS BIGINT)"


class RowCounter:
    """Counts rows of tables with a bound on memory; to be closed after use."""

    def __init__(self, lake: Lake) -> None:
        import duckdb

        self._lake = lake
        self._folder = TemporaryDirectory(prefix="unspool-verify-")
        spilled = Path(self._folder.name)
        options: dict[str, Any] = {"memory_limit": _MEMORY, "threads": 2, "temp_directory": str(spilled / "spilled")}
        self._engine: duckdb.DuckDBPyConnection = duckdb.connect(str(spilled / "ids"), config=options)
        self._engine.execute("CREATE TABLE known (id VARCHAR)")
        self.counted_partitions = 0
        """Partitions whose rows were read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
        self._folder.cleanup()

    def list_partitions(self, name: str) -> dict[str, str]:
        """Return for each partition of a table the digest of its files."""
        (column,) = partition_columns(name)
        with translate_lake_errors(self._lake.url):
            actions: Any = self._lake.table(name).get_add_actions(flatten=True)
            paths, values = (actions.column(each).to_pylist() for each in ("path", f"partition.{column}"))
        found: dict[str, list[str]] = {}
        for path, value in zip(paths, values, strict=True):
            found.setdefault(str(value), []).append(path)
        return {value: digest_names(names) for value, names in found.items()}

    def missing_files(self, name: str) -> list[str]:
        """Return the files that the log of a table names and that are not there, or not as long."""
        with translate_lake_errors(self._lake.url):
            actions: Any = self._lake.table(name).get_add_actions(flatten=True)
            columns = (actions.column(each).to_pylist() for each in ("path", "size_bytes"))
            sizes = {f"{name}/{unquote(path)}": size for path, size in zip(*columns, strict=True)}
        for listed in self._lake.object_store.names(name) if sizes else ():
            if sizes.get(listed.name) == listed.size:
                del sizes[listed.name]
        return sorted(sizes)

    def count_rows(self, name: str, before: Mapping[str, PartitionRows]) -> dict[str, PartitionRows]:
        """Return the rows of every partition of a table; those whose files are as before are not read."""
        now = self.list_partitions(name)
        counted = {value: before[value] for value, files in now.items() if _has_files(before, value, files)}
        (column,) = partition_columns(name)
        for values in _chunks(sorted(now.keys() - counted.keys())):
            found: dict[str, dict[int, RowSum]] = {value: {} for value in values}
            for value, org, device, rows, digest in self._sums(name, _partition_predicate(column, values), column):
                buckets, bucket = found[str(value)], device_bucket(org, device)
                buckets[bucket] = buckets.get(bucket, RowSum()).plus(rows, digest)
            counted |= {value: PartitionRows(now[value], buckets) for value, buckets in found.items()}
            self.counted_partitions += len(values)
        return counted

    def count_by_device(self, name: str, homes: Collection[str]) -> dict[str, RowSum]:
        """Return the rows of devices (`org/device`) in a table."""
        found = self._sums(name, _devices_predicate(homes), "")
        return {f"{org}/{device}": RowSum(rows, digest) for org, device, rows, digest in found}

    def count_parts(self, name: str, home: str) -> dict[tuple[str, int], tuple[int, int]]:
        """Return for each part of a device in a table of lines how many rows it has, and how many different ones."""
        select = (
            """SELECT stream, sequence, count(*), count(DISTINCT (generation, "offset")) FROM source GROUP BY ALL"""
        )
        rows = self._ask(name, _KEYS[name][0], _devices_predicate([home]), select)
        return {(stream, sequence): (count, ids) for stream, sequence, count, ids in rows}

    def count_responses(self, home: str) -> int:
        """Return how many different responses a device has in `responses`."""
        select = "SELECT count(DISTINCT response_id) FROM source"
        return int(self._ask("responses", "response_id", _devices_predicate([home]), select)[0][0])

    def note_known(self, ids: Iterable[str]) -> None:
        """Remember the streams that derived rows may have: those in `sources`, and others."""
        self._ask("sources", "id", "true", "INSERT INTO known SELECT id FROM source")
        for id in ids:
            self._engine.execute("INSERT INTO known VALUES (?)", [id])

    def unknown_streams(self, name: str, partitions: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the streams in partitions of a table that `note_known` was not told of, with the partition."""
        (column,) = partition_columns(name)
        select = f"SELECT DISTINCT {column}, source_id FROM source WHERE source_id NOT IN (SELECT id FROM known)"
        for values in _chunks(partitions):
            rows = self._ask(name, f"{column}, source_id", _partition_predicate(column, values), select)
            yield from sorted((str(value), id) for value, id in rows)
            self.counted_partitions += len(values)

    def _sums(self, name: str, where: str, column: str) -> list[tuple[Any, ...]]:
        """Return rows by device and, if a partition column is named, by partition: their number and sum."""
        columns, key = _KEYS[name]
        groups = f"{column}, org, device" if column else "org, device"
        # `answers` has a response once for each file that has it.
        distinct = "DISTINCT" if name == "answers" else ""
        inner = f"SELECT {distinct} {groups}, {key} AS key FROM source"
        return self._ask(name, f"{groups}, {columns}", where, f"SELECT {groups}, {_SUM} FROM ({inner}) GROUP BY ALL")

    def _ask(self, name: str, columns: str, where: str, select: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement over some columns and rows of a table, which it calls `source`."""
        import duckdb
        from deltalake import QueryBuilder

        with translate_lake_errors(self._lake.url):
            # A stream: at no time are all rows in memory.
            query = f"SELECT {columns} FROM t WHERE {where}"
            self._engine.register("source", QueryBuilder().register("t", self._lake.table(name)).execute(query))
            try:
                return self._engine.execute(select).fetchall()
            except duckdb.Error as error:
                # The library's error comes through DuckDB, which reads from it.
                raise OSError(str(error)) from None
            finally:
                self._engine.unregister("source")


def _has_files(before: Mapping[str, PartitionRows], value: str, files: str) -> bool:
    return value in before and before[value].files == files


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _PARTITIONS_PER_QUERY):
        yield values[start : start + _PARTITIONS_PER_QUERY]


def _partition_predicate(column: str, values: Iterable[str]) -> str:
    cells = map(sql_literal, values) if column == "day" else map(str, values)
    return f"{column} IN ({', '.join(cells)})"


def _devices_predicate(homes: Collection[str]) -> str:
    if len(homes) > _FEW_DEVICES:
        return "true"
    pairs = [home.partition("/")[::2] for home in sorted(homes)]
    either = " OR ".join(f"(org = {sql_literal(org)} AND device = {sql_literal(device)})" for org, device in pairs)
    # Each column for itself lets the library skip files by their statistics.
    columns = (any_of_predicate(name, (pair[at] for pair in pairs)) for at, name in enumerate(("org", "device")))
    return " AND ".join((f"({either})", *columns))
