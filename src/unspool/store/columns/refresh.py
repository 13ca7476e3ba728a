"""Brings the column files (Parquet) of a store up to date, in time proportional to what has changed.

Rules
  1. One process does it at a time. It may be killed anywhere (`STEPS`): what the last published manifest names stays
     valid, and the next refresh continues from there.
  2. A session file is derived again only when it has changed. The responses billed in it are also written again when a
     file that shares a response with it has changed.
  3. Small parts are merged when they become many, and parts of which half is out of date are rewritten: their number
     stays bounded, and so does the amount that is rewritten.
  4. The folder of the column files can be deleted at any time.
"""

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.files import flush, flush_folder, raise_unwritable
from unspool.store.columns import manifest as manifests
from unspool.store.columns import store_rows
from unspool.store.columns.manifest import COLUMNS_FOLDER, ColumnManifest, ColumnPart, CurrentRows, live_weights
from unspool.store.columns.parquet import ColumnFile, PartWriter, content_digest, write_column_file
from unspool.store.columns.store_rows import LINE_KINDS
from unspool.store.columns.tables import sql_literal
from unspool.store.database import locked, snapshot
from unspool.store.sync.changes import SourceRow

if TYPE_CHECKING:
    import duckdb

    from unspool.prices import Price
    from unspool.store.columns.derive_pool import DerivedPart

STEPS = ("planned", "derived", "named", "billed", "tables", "merged", "recorded", "published", "swept")
"""The places where a refresh may be killed, in order; `derived` to `published` may come more than once."""

SMALL_PART = 4 * 1024 * 1024
"""Bytes on disk below which a part is small."""
MAX_SMALL_PARTS = 8
"""Small parts that are not merged yet."""
MAX_MERGED = 32 * 1024 * 1024
"""Bytes on disk of the parts that are merged into one: merging takes time and memory."""
MERGE_OPTIONS = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE_BYTES 16777216"
"""Row groups bounded by bytes: DuckDB holds a whole one, and 122,880 rows of wide tool results, its default, are more
than its memory limit."""
_ANSWERS_AT_ONCE = 50_000
"""Rows of billed responses that are held before they are written."""


class RefreshOptions(NamedTuple):
    """How a refresh is done, and who is told of its progress."""

    prices: tuple[Price, ...] = ()
    """The user's own prices."""
    price_edition: str = ""
    """The edition of all prices."""
    workers: int | None = None
    begin: Callable[[int], None] = lambda _: None
    """Called with the number of bytes to read."""
    advance: Callable[[int], None] = lambda _: None
    """Called with the number of bytes that were read since the last call."""
    at: Callable[[str], None] = lambda _: None
    """Called with each of `STEPS` as it is reached."""
    deep: bool = False
    """Compare every byte of the column files with what was written."""


class RefreshReport(NamedTuple):
    """What a refresh did."""

    files_derived: int = 0
    bytes_read: int = 0
    files_billed: int = 0
    """Session files whose responses were written again."""
    tables_written: int = 0
    parts_merged: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    """Paths of session files that could not be read, and why."""
    lost: int = 0
    """Column files that were damaged or missing."""


def refresh_columns(database: sqlite3.Connection, folder: Path, options: RefreshOptions) -> RefreshReport:
    """Bring the column files of a store up to date."""
    columns = folder / COLUMNS_FOLDER
    manifest = manifests.read_manifest(columns)
    is_current = (
        manifest.serial > 0
        and manifest.edition == options.price_edition
        and manifest.kinds == store_rows.hash_kinds(store_rows.read_sources(database))
        and next(manifests.damaged_files(columns, manifest, deep=options.deep), None) is None
    )
    if is_current:
        return RefreshReport()
    with explain_write_errors(columns):
        manifests.make_folders(columns)
        with locked(columns), snapshot(database):
            # Read again under the lock: another process may have published a manifest meanwhile.
            return _Refresh(database, folder, manifests.read_manifest(columns), options).run()


@contextmanager
def explain_write_errors(columns: Path) -> Iterator[None]:
    """Turn an OSError while column files are written into an error with a hint."""
    hint = "no data is lost; free some space, or set `$UNSPOOL_HOME` to another folder"
    with raise_unwritable(f"cannot write the column files in `{columns}`", hint):
        yield


class _Refresh:
    """The state of one refresh."""

    def __init__(
        self, database: sqlite3.Connection, folder: Path, manifest: ColumnManifest, options: RefreshOptions
    ) -> None:
        self._database, self._folder, self._manifest, self._options = database, folder, manifest, options
        self._columns = folder / COLUMNS_FOLDER
        self._sources = store_rows.read_sources(database)
        self._kinds = store_rows.hash_kinds(self._sources)
        self._number, self._token = 0, secrets.token_hex(4)
        # A manifest published before the end does not cover everything yet: without hashes nobody takes it for current.
        self._kinds_before, manifest.kinds = manifest.kinds, {}

    def run(self) -> RefreshReport:
        """Do everything that is left to do."""
        manifest, at = self._manifest, self._options.at
        lost = list(manifests.damaged_files(self._columns, manifest, deep=self._options.deep))
        manifests.drop_files(manifest, lost)
        manifests.remove_unreferenced(self._columns, manifest)
        derived = self._derive_changed()
        billed = self._write_answers()
        at("billed")
        tables_written = self._write_tables()
        at("tables")
        failed = tuple(failure for part in derived for failure in part.failed)
        manifest.edition = self._options.price_edition
        if not failed:  # without hashes the next refresh tries the failed files again
            manifest.kinds = self._kinds
        live = {rows.part for current in (manifest.lines, manifest.answers) for rows in current.values()}
        manifest.parts = {name: part for name, part in manifest.parts.items() if name in live}
        parts_merged = self._merge_parts()
        at("merged")
        self._publish()
        if manifests.remove_unreferenced(self._columns, manifest):
            at("swept")
        read, count = sum(part.bytes_read for part in derived), sum(len(part.derived) for part in derived)
        return RefreshReport(count, read, billed, tables_written, parts_merged, failed, len(lost))

    def _part_names(self) -> Iterator[str]:
        """Yield names that no part has, not even one left behind by a process that was killed."""
        while True:
            self._number += 1
            yield f"{self._token}-{self._number}"

    def _derive_changed(self) -> list[DerivedPart]:
        """Derive the files that have changed, publishing each part: a refresh that is killed loses only the last."""
        # Loads all decoders: a query over what has not changed must not pay for them.
        from unspool.store.columns.derive_pool import DeriveTask, derive_bundles, plan_bundles

        manifest, tasks = self._manifest, []
        for source in self._line_sources().values():
            if _is_same(manifest.lines.get(source.path), source):
                continue
            manifest.revision += 1
            tasks.append(DeriveTask(source, manifest.revision))
        self._options.at("planned")
        self._options.begin(sum(task.source.offset for task in tasks))
        bundles = plan_bundles(self._folder, tasks, self._part_names())
        derived = []
        for part in derive_bundles(bundles, self._options.workers):
            self._options.at("derived")
            flush_folder(self._columns / "parts")  # before the manifest names the part
            manifest.parts[part.name] = ColumnPart(part.files, part.weight)
            for task in part.derived:
                manifest.lines[task.source.path] = _current_rows(task.source, task.revision, part.name)
            self._options.at("named")
            derived.append(part)
            if len(derived) < len(bundles):  # the last one is published with everything else
                self._publish()
            self._options.advance(sum(task.source.offset for task in part.derived))
        return derived

    def _write_answers(self) -> int:
        """Write the billed responses of the files in which they may have changed; return how many files these are."""
        manifest, sources = self._manifest, self._line_sources()
        changed = [id for id, source in sources.items() if not _is_same(manifest.answers.get(source.path), source)]
        if manifest.edition != self._options.price_edition:  # other prices change every cost
            changed = list(sources)
        if not changed:
            return 0
        affected = set(changed)
        if len(changed) < len(sources):
            affected = store_rows.sources_sharing_responses(self._database, changed)
        name = next(self._part_names())
        (self._columns / "parts" / name).mkdir(mode=0o700)
        writer, count, weight = PartWriter(self._columns, f"parts/{name}"), 0, 0
        for id, rows in store_rows.read_answers(self._database, sorted(affected & set(sources))):
            manifest.revision += 1
            source = sources[id]
            weight += source.offset + 1
            manifest.answers[source.path] = _current_rows(source, manifest.revision, name)
            for row in rows:
                writer.add("answers", (manifest.revision, *row))
                count += 1
                if count % _ANSWERS_AT_ONCE == 0:
                    writer.flush()
        writer.flush()
        flush_folder(self._columns / "parts" / name)
        manifest.parts[name] = ColumnPart(writer.files, weight)
        return len(affected)

    def _line_sources(self) -> dict[int, SourceRow]:
        return {source.id: source for source in self._sources if source.kind in LINE_KINDS}

    def _write_tables(self) -> int:
        """Write the tables that are written whole and may have changed; return how many."""
        manifest, written = self._manifest, 0
        both = {*self._kinds, *self._kinds_before}
        changed = {kind for kind in both if self._kinds.get(kind) != self._kinds_before.get(kind)}
        for table, kinds in store_rows.WHOLE_TABLES.items():
            if table not in manifest.tables or (changed & set(kinds) if kinds else changed):
                self._write_table(table, store_rows.read_table(self._database, table, self._sources))
                written += 1
        if "prices" not in manifest.tables or manifest.edition != self._options.price_edition:
            self._write_table("prices", store_rows.price_rows(self._options.prices))
            written += 1
        flush_folder(self._columns / "tables")
        return written

    def _write_table(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        name = f"tables/{table}-{self._token}.parquet"
        self._manifest.tables[table] = write_column_file(self._columns, name, table, list(rows))

    def _merge_parts(self) -> int:
        groups = parts_to_merge(self._manifest)
        return sum(
            len(names)
            for names in groups
            if merge_parts(self._columns, self._manifest, names, next(self._part_names()))
        )

    def _publish(self) -> None:
        manifests.write_manifest(self._columns, self._manifest)
        self._options.at("recorded")
        manifests.publish_manifest(self._columns)
        self._options.at("published")


def _current_rows(source: SourceRow, revision: int, part: str) -> CurrentRows:
    return CurrentRows(source.id, source.generation, source.offset, revision, part)


def _is_same(current: CurrentRows | None, source: SourceRow) -> bool:
    if current is None:
        return False
    return (current.source_id, current.generation, current.offset) == (source.id, source.generation, source.offset)


def parts_to_merge(manifest: ColumnManifest) -> list[list[str]]:
    """Return groups of parts to merge: small ones when they are many, and those of which half is out of date."""
    groups = []
    for current in (manifest.lines, manifest.answers):
        live = live_weights(current)
        small = [name for name in live if manifest.parts[name].size < SMALL_PART]
        stale = [name for name, weight in live.items() if weight * 2 < manifest.parts[name].weight]
        chosen = [name for name in live if name in stale or (len(small) > MAX_SMALL_PARTS and name in small)]
        groups += _group_by_size(chosen, manifest)
    return groups


def _group_by_size(names: list[str], manifest: ColumnManifest) -> list[list[str]]:
    """Group parts so that no group has many more bytes than a merge may have."""
    groups: list[list[str]] = []
    size = MAX_MERGED
    for name in names:
        if size >= MAX_MERGED:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += manifest.parts[name].size
    return groups


def merge_parts(columns: Path, manifest: ColumnManifest, names: Collection[str], into: str) -> bool:
    """Write the current rows of some parts to a new part, which replaces them in the manifest.

    If DuckDB cannot do it, the parts stay as they are, and False is returned: they can be read all the same.
    """
    import duckdb

    folder = columns / "parts" / into
    folder.mkdir(mode=0o700)
    live = [rows for current in (manifest.lines, manifest.answers) for rows in current.values() if rows.part in names]
    old = [file for part in names for file in manifest.parts[part].files]
    # What does not fit into memory goes to the new part's own folder: content of sessions stays inside the store.
    spilled = str(folder / "spilled")
    try:
        with duckdb.connect(
            ":memory:", config={"memory_limit": "256MB", "threads": 1, "temp_directory": spilled}
        ) as engine:
            engine.execute("SET preserve_insertion_order = false")  # else row groups cannot be bounded by bytes
            files = [
                _merge_table(engine, columns, table, f"parts/{into}/{table}.0.parquet", old=old, live=live)
                for table in dict.fromkeys(file.table for file in old)
            ]
    except duckdb.Error:
        shutil.rmtree(folder, ignore_errors=True)
        return False
    shutil.rmtree(folder / "spilled", ignore_errors=True)
    flush_folder(folder)
    manifest.parts = {part: held for part, held in manifest.parts.items() if part not in names}
    manifest.parts[into] = ColumnPart(files, sum(rows.offset + 1 for rows in live))
    for current in (manifest.lines, manifest.answers):
        moved = [(path, rows) for path, rows in current.items() if rows.part in names]
        current.update((path, msgspec.structs.replace(rows, part=into)) for path, rows in moved)
    return True


def _merge_table(
    engine: duckdb.DuckDBPyConnection,
    columns: Path,
    table: str,
    target: str,
    *,
    old: list[ColumnFile],
    live: list[CurrentRows],
) -> ColumnFile:
    """Write the current rows of one table of some parts to a new file."""
    # Not `IN (SELECT …)`: DuckDB makes a hash join of that, and may hold the wide side of it in memory.
    runs = _find_runs(rows.revision for rows in live)
    current = " OR ".join(f"revision BETWEEN {first} AND {last}" for first, last in runs) or "false"
    engine.execute(
        f"""COPY (SELECT * FROM read_parquet($paths) WHERE {current})
        TO {sql_literal(str(columns / target))} ({MERGE_OPTIONS})""",
        {"paths": [str(columns / file.name) for file in old if file.table == table]},
    )
    return _secure_copied_file(columns, target, table)


def _find_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of numbers that follow each other; a bundle's revisions do.

    >>> _find_runs([3, 1, 2, 7])
    [(1, 3), (7, 7)]
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _secure_copied_file(columns: Path, name: str, table: str) -> ColumnFile:
    """Make a file that DuckDB wrote readable by the user alone, and fsync it: DuckDB does neither."""
    path = columns / name
    path.chmod(0o600)
    flush(path)
    content = path.read_bytes()  # compressed, and bounded by `MAX_MERGED`
    return ColumnFile(table, name, len(content), content_digest(content), 0)
