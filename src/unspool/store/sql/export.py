"""Makes the SQL tables available to other tools: exports them to files, or registers them in a DuckDB connection.

Rules
  1. An export is readable by the user alone, and appears complete or not at all. Nothing that exists is overwritten.
  2. With `raw`, `entries` has another column: the line as it is written, without its end.
  3. Registered tables are as new as the call; another call brings them up to date. They are temporary views over a
     database in memory: nothing is written to the connection's own database.
  4. The column files under registered tables stay until the process ends, whatever other processes do meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.errors import UnspoolError, Unwritable, UsageError
from unspool.files import raise_unwritable
from unspool.format import Entry
from unspool.paths import config_folder, data_folder, resolve_existing
from unspool.store.columns import manifest as manifests
from unspool.store.columns.derive_pool import read_items
from unspool.store.columns.parquet import PartWriter, require_sql_libraries
from unspool.store.columns.refresh import RefreshOptions, refresh_columns
from unspool.store.columns.store_rows import LINE_KINDS
from unspool.store.columns.tables import public_tables, read_script, sql_literal
from unspool.store.columns.values import clean_text
from unspool.store.database import open_store, translate_errors
from unspool.store.preferences import price_edition, read_preferences
from unspool.store.sql.views import EngineSetup, build_setup, resolve_scope
from unspool.store.sync.changes import SourceRow, compare_with_disk, has_prices, is_synced
from unspool.store.sync.sync import SyncOptions, update_store
from unspool.store.times import parse_zone

if TYPE_CHECKING:
    import duckdb

_MEMORY = "1GB"
_DATABASE = "unspool_tables"


def export_parquet(setup: EngineSetup, target: Path, raw: Iterable[tuple[int, int, str]] | None) -> None:
    """Write every table to a Parquet file of its own in a new folder."""
    with _new_path(target) as folder, _connect(setup, folder.parent, raw) as connection:
        folder.mkdir(mode=0o700)
        for name in public_tables():
            path = folder / f"{name}.parquet"
            options = "(FORMAT parquet, COMPRESSION zstd)"
            connection.execute(f"COPY (SELECT * FROM {name}) TO {sql_literal(str(path))} {options}")
            path.chmod(0o600)


def export_duckdb(setup: EngineSetup, target: Path, raw: Iterable[tuple[int, int, str]] | None) -> None:
    """Write every table, with its comments, to a new DuckDB database."""
    with _new_path(target) as path, _connect(setup, path.parent, raw) as connection:
        connection.execute(f"ATTACH {sql_literal(str(path))} AS made")
        connection.execute("USE made")
        connection.execute(read_script("columns.sql"))
        if raw is not None:
            connection.execute("ALTER TABLE entries ADD COLUMN raw VARCHAR")
            connection.execute("COMMENT ON COLUMN entries.raw IS 'the line as it is written, without its end'")
        for name, table in public_tables().items():
            connection.execute(f"INSERT INTO {name} SELECT * FROM memory.main.{name}")
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


def _add_raw_lines(connection: duckdb.DuckDBPyConnection, raw: Iterable[tuple[int, int, str]], folder: Path) -> None:
    """Write raw lines to Parquet files in a folder, and add them to `entries` as a column."""
    (folder / "raw").mkdir(mode=0o700)
    writer = PartWriter(folder, "raw")
    for row in raw:
        writer.add("raw_lines", row)
        writer.add_source_bytes(len(row[2]))
    writer.flush()
    files = [sql_literal(str(folder / file.name)) for file in writer.files]
    source = f"read_parquet([{', '.join(files)}])" if files else "parts.raw_lines"
    connection.execute("ALTER VIEW entries RENAME TO entries_without_raw")
    connection.execute(
        f"""CREATE VIEW entries AS SELECT e.*, r.raw FROM entries_without_raw e
        LEFT JOIN {source} r ON r.source_id = e.source_id AND r."offset" = e."offset\""""
    )


@contextmanager
def _connect(
    setup: EngineSetup, folder: Path, raw: Iterable[tuple[int, int, str]] | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to a database in memory with all tables; what does not fit into memory goes to the folder."""
    import duckdb

    spilled = str(folder / "spilled")
    try:
        with duckdb.connect(":memory:", config={"memory_limit": _MEMORY, "temp_directory": spilled}) as connection:
            for statement in setup.statements:
                connection.execute(statement)
            if raw is not None:
                _add_raw_lines(connection, raw, folder)
            yield connection
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise Unwritable(f"cannot write the tables: {reason}", hint="is there room on the disk?") from None


@contextmanager
def _new_path(target: Path) -> Iterator[Path]:
    """Give a path in a temporary folder beside the target, and move what was written there to the target in the end."""
    if os.path.lexists(target):
        raise UsageError(f"`{target}` exists", hint="name one that does not")
    folder = target.parent / f".{target.name}.{os.getpid()}"
    with raise_unwritable(f"cannot write `{target}`", "name another place"):
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
    roots = [resolve_existing(config_folder(str(folder) if folder else None, os.environ)) for folder in named]
    setup = _prepare_tables(data_folder(os.environ), list(dict.fromkeys(roots)))
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
