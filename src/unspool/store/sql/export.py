"""Makes the SQL tables available to other tools: exports them to files, or registers them in a DuckDB connection.

Rules
  1. An export is readable by the user alone, and appears complete or not at all. Nothing that exists is overwritten.
  2. With `raw`, `entries` has another column: the line as it is written, without its end.
  3. Registered tables are as new as the call; another call brings them up to date. They are temporary views over a
     database in memory: nothing is written to the connection's own database.
  4. The column files under registered tables stay until the process ends, whatever other processes do meanwhile.
  5. Memory is bounded, whatever the sessions hold. DuckDB holds one side of a join whole, and a row group of a file
     that it writes: tables whose joins have wide columns (`blocks`; `entries` with raw lines) are made in pieces, and
     row groups are bounded by bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.errors import UnspoolError, Unwritable, already_exists
from unspool.files import raise_unwritable
from unspool.format import Entry, parse_zone
from unspool.other_agents import translate_folder
from unspool.paths import config_folder, data_folder, resolve_existing
from unspool.store.columns import manifest as manifests
from unspool.store.columns.derive_pool import read_items
from unspool.store.columns.parquet import PartWriter, require_sql_libraries
from unspool.store.columns.refresh import MERGE_OPTIONS, RefreshOptions, refresh_columns
from unspool.store.columns.store_rows import LINE_KINDS
from unspool.store.columns.tables import public_tables, read_script, sql_literal
from unspool.store.columns.values import clean_text
from unspool.store.database import open_store, translate_errors
from unspool.store.preferences import price_edition, read_preferences
from unspool.store.sql.views import EngineSetup, build_setup, resolve_scope
from unspool.store.sync.changes import SourceRow, compare_with_disk, has_prices, is_synced
from unspool.store.sync.sync import SyncOptions, update_store

if TYPE_CHECKING:
    import duckdb

_MEMORY = "256MB"
"""What DuckDB may hold. It is enough for any number of sessions (rule 5)."""
PIECE_BYTES = 32 * 1024 * 1024
"""Bytes of inputs and results of tool calls that are joined at once."""
_DATABASE = "unspool_tables"


def export_parquet(
    setup: EngineSetup, target: Path, raw: Iterable[tuple[int, int, str]] | None, piece_bytes: int = PIECE_BYTES
) -> None:
    """Write every table to a Parquet file of its own in a new folder."""
    with _new_path(target) as folder, _connect(setup, folder.parent, raw, piece_bytes) as tables:
        folder.mkdir(mode=0o700)
        for name in public_tables():
            path = folder / f"{name}.parquet"
            pieces = []
            for number, query in enumerate(tables.select_in_pieces(name)):
                piece = folder.parent / f"{name}.{number}.parquet"
                _copy(tables.connection, query, piece)
                pieces.append(piece)
            if len(pieces) == 1:
                pieces[0].rename(path)
            else:
                _copy(tables.connection, f"SELECT * FROM {_read_parquet(pieces)}", path)
            path.chmod(0o600)
            for piece in pieces:
                piece.unlink(missing_ok=True)


def _copy(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    connection.execute(f"COPY ({query}) TO {sql_literal(str(path))} ({MERGE_OPTIONS})")


def _read_parquet(files: Iterable[Path]) -> str:
    return f"read_parquet([{', '.join(sql_literal(str(file)) for file in files)}])"


def export_duckdb(
    setup: EngineSetup, target: Path, raw: Iterable[tuple[int, int, str]] | None, piece_bytes: int = PIECE_BYTES
) -> None:
    """Write every table, with its comments, to a new DuckDB database."""
    with _new_path(target) as path, _connect(setup, path.parent, raw, piece_bytes) as tables:
        connection = tables.connection
        # Small row groups: DuckDB holds one in memory, by default 122,880 rows however wide they are.
        connection.execute(f"ATTACH {sql_literal(str(path))} AS made (ROW_GROUP_SIZE 4096)")
        connection.execute("USE made")
        connection.execute(read_script("columns.sql"))
        if raw is not None:
            connection.execute("ALTER TABLE entries ADD COLUMN raw VARCHAR")
            connection.execute("COMMENT ON COLUMN entries.raw IS 'the raw line, without its newline'")
        for name, table in public_tables().items():
            for query in tables.select_in_pieces(name):
                connection.execute(f"INSERT INTO {name} {query}")
            connection.execute(f"COMMENT ON TABLE {name} IS {sql_literal(table.comment)}")
            for column in table.columns:
                connection.execute(f'COMMENT ON COLUMN {name}."{column.name}" IS {sql_literal(column.comment)}')
        connection.execute("USE memory")
        connection.execute("DETACH made")
        path.chmod(0o600)


def read_raw_lines(
    sources: Iterable[SourceRow], folder: Path, on_error: Callable[[str, str], None]
) -> Iterator[tuple[int, int, str]]:
    """Yield every line of some files: the id of the file, the offset and the text."""
    for source in sources:
        if source.kind not in LINE_KINDS:
            continue
        try:
            for _, items in read_items(source, folder):
                for item in items:
                    if isinstance(item, Entry):
                        line = bytes(item.raw).decode(errors="replace").rstrip("\r\n")
                        yield source.id, item.offset, clean_text(line)
        except UnspoolError as error:
            on_error(source.path, error.message)


class _ExportedTables:
    """The tables in a database in memory, and queries that read them in pieces (rule 5)."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, piece_bytes: int) -> None:
        self.connection, self._piece_bytes = connection, piece_bytes
        self._raw_files: list[Path] | None = None
        """Files with raw lines, each with at most a chunk of them; nothing if none were asked for."""

    def add_raw_lines(self, raw: Iterable[tuple[int, int, str]], folder: Path) -> None:
        """Write raw lines to Parquet files in a folder, which are joined to `entries`."""
        (folder / "raw").mkdir(mode=0o700)
        writer = PartWriter(folder, "raw")
        for row in raw:
            writer.add("raw_lines", row)
            writer.add_source_bytes(len(row[2]))
        writer.flush()
        self._raw_files = [folder / file.name for file in writer.files]

    def select_in_pieces(self, name: str) -> Iterator[str]:
        """Yield queries that give all rows of a table together; each is to be run before the next one is taken."""
        if name == "blocks":
            yield from self._select_blocks()
        elif name == "entries" and self._raw_files is not None:
            yield from self._select_entries_with_raw(self._raw_files)
        else:
            yield f"SELECT * FROM memory.main.{name}"

    def _select_blocks(self) -> Iterator[str]:
        """Yield queries for `blocks`, each of which joins tool calls of a few sessions, or some calls of a large one.

        The view reads `parts.tool_calls` and `parts.blocks`, which are replaced by views of fewer rows for each piece.
        """
        connection = self.connection
        sizes = connection.execute(
            """SELECT revision, coalesce(sum(coalesce(strlen(input), 0) + coalesce(strlen(result), 0)), 0)::BIGINT
            FROM memory.parts.tool_calls GROUP BY revision ORDER BY revision"""
        ).fetchall()
        ranges = list(_group_revisions(sizes, self._piece_bytes))
        if [shares for _, _, shares in ranges] == [1]:
            yield "SELECT * FROM memory.main.blocks"
            return
        for table in ("blocks", "tool_calls"):
            connection.execute(f"CREATE VIEW memory.parts.every_{table} AS {self._definition(table)}")
        for first, last, shares in ranges:
            for share in range(shares):
                for table, is_joined in (("blocks", "in_call AND tool_use_id IS NOT NULL"), ("tool_calls", "true")):
                    part = f"CASE WHEN {is_joined} THEN hash(tool_use_id) % {shares} ELSE 0 END = {share}"
                    connection.execute(
                        f"""CREATE OR REPLACE VIEW memory.parts.{table} AS SELECT * FROM memory.parts.every_{table}
                        WHERE revision >= {first} AND revision <= {last}{f" AND {part}" if shares > 1 else ""}"""
                    )
                yield "SELECT * FROM memory.main.blocks"
        for table in ("blocks", "tool_calls"):
            connection.execute(
                f"CREATE OR REPLACE VIEW memory.parts.{table} AS SELECT * FROM memory.parts.every_{table}"
            )

    def _definition(self, table: str) -> str:
        """Return the query of a view in `parts`."""
        found = self.connection.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = 'memory' AND schema_name = 'parts' AND view_name = ?",
            [table],
        ).fetchone()
        assert found is not None  # there are tool calls, so it is a view of files
        return str(found[0]).partition(" AS ")[2].rstrip().rstrip(";")

    def _select_entries_with_raw(self, files: Sequence[Path]) -> Iterator[str]:
        """Yield queries for `entries` with raw lines, by the files of raw lines; last come those without one."""
        entries, same = "memory.main.entries", 'r.source_id = e.source_id AND r."offset" = e."offset"'
        for file in files:
            source = _read_parquet([file])
            query = f"SELECT min(source_id), max(source_id) FROM {source}"
            first, last = self.connection.execute(query).fetchone() or (0, 0)
            where = f"e.source_id >= {first} AND e.source_id <= {last}"
            yield f"SELECT e.*, r.raw FROM {entries} e JOIN {source} r ON {same} WHERE {where}"
        kept = f'(SELECT source_id, "offset" FROM {_read_parquet(files)})' if files else "memory.parts.raw_lines"
        yield f"SELECT e.*, NULL::VARCHAR AS raw FROM {entries} e ANTI JOIN {kept} r ON {same}"


def _group_revisions(sizes: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of revisions, which together are all there are, and into how many pieces each is to be divided.

    >>> list(_group_revisions([(2, 10), (5, 20), (7, 300)], 100))
    [(0, 6, 1), (7, 9223372036854775807, 4)]
    """
    first, held = 0, 0
    for revision, size in sizes:
        if held and held + size > most:
            yield first, revision - 1, held // most + 1
            first, held = revision, 0
        held += size
    yield first, (1 << 63) - 1, held // most + 1


@contextmanager
def _connect(
    setup: EngineSetup, folder: Path, raw: Iterable[tuple[int, int, str]] | None, piece_bytes: int
) -> Iterator[_ExportedTables]:
    """Connect to a database in memory with all tables; what does not fit into memory goes to the folder."""
    import duckdb

    # One thread: each would hold a row group of its own.
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "threads": 1,
        "temp_directory": str(folder / "spilled"),
    }
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            connection.execute("SET preserve_insertion_order = false")  # else row groups cannot be bounded by bytes
            for statement in setup.statements:
                connection.execute(statement)
            tables = _ExportedTables(connection, piece_bytes)
            if raw is not None:
                tables.add_raw_lines(raw, folder)
            yield tables
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise Unwritable(f"cannot write the tables: {reason}", hint="check the free disk space") from None


@contextmanager
def _new_path(target: Path) -> Iterator[Path]:
    """Give a path in a temporary folder beside the target, and move what was written there to the target in the end."""
    if os.path.lexists(target):
        raise already_exists(target)
    folder = target.parent / f".{target.name}.{os.getpid()}"
    with raise_unwritable(f"cannot write `{target}`", "choose another place"):
        folder.mkdir(mode=0o700)
    try:
        yield folder / target.name
        (folder / target.name).rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def register(
    connection: duckdb.DuckDBPyConnection, config_dir: str | Path | Sequence[str | Path] | None = None
) -> None:
    """Give a DuckDB connection the tables of `unspool sql`: of a config folder, any tree, or several of them.

    Without a folder it is `$CLAUDE_CONFIG_DIR`, else `~/.claude`. The store is brought up to date first.
    """
    require_sql_libraries()
    named = [config_dir] if config_dir is None or isinstance(config_dir, str | Path) else list(config_dir)
    own = data_folder(os.environ)
    found = [resolve_existing(config_folder(str(folder) if folder else None, os.environ)) for folder in named]
    roots = [translate_folder(root, own)[0] for root in found]
    setup = _prepare_tables(own, list(dict.fromkeys(roots)))
    catalog, schema = connection.execute("SELECT current_catalog(), current_schema()").fetchone() or ("", "")
    connection.execute(f"DETACH DATABASE IF EXISTS {_DATABASE}")
    connection.execute(f"ATTACH ':memory:' AS {_DATABASE}")
    connection.execute(f"USE {_DATABASE}")
    try:
        for statement in setup.statements:
            connection.execute(statement)
    finally:
        connection.execute(f'USE "{catalog}"."{schema}"')
    for name in public_tables():
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {_DATABASE}.main.{name}")


def _prepare_tables(folder: Path, roots: list[Path]) -> EngineSetup:
    preferences = read_preferences(folder)
    edition = price_edition(preferences)
    with translate_errors(folder), closing(open_store(folder)) as database:
        options = SyncOptions(archive=preferences.archive, prices=preferences.prices, price_edition=edition)
        for root in roots:
            is_fresh = compare_with_disk(database, root).is_fresh and is_synced(database, root)
            if not is_fresh or not has_prices(database, edition):
                update_store(database, root, folder, options)
        refresh_columns(database, folder, RefreshOptions(prices=preferences.prices, price_edition=edition))
        columns = folder / manifests.COLUMNS_FOLDER
        # Nothing says when a connection is no longer used.
        manifests.keep_files_until_exit(columns)
        manifest = manifests.read_manifest(columns)
        scope = resolve_scope(database, columns, manifest, roots, preferences.prices)
        return build_setup(columns, manifest, scope, parse_zone(preferences.timezone or "local"))
