"""All tables written out for other tools: a setup in; a folder of Parquet files, or a DuckDB database, out.

Rules
  1. What is written is for the user alone, and is there whole or not at all. Nothing that exists is written over.
  2. With `raw`, `entries` has a column more: the line as it is written, without its end.

[merged: registered.py] The tables of SQL in a connection of one's own: a notebook, a script.

    import duckdb, unspool

    connection = duckdb.connect()
    unspool.register(connection)
    connection.sql("SELECT date, cost_micros FROM daily").show()

Rules
  1. The tables are as new as the call; another call brings them up to date.
  2. Nothing is written to the connection's own database: they are temporary views over one in memory.
  3. The column files stay as they are until the process ends, whatever other processes do meanwhile.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.errors import UnspoolError, Unwritable, Usage
from unspool.format.entry import Entry
from unspool.paths import config_folder, data_folder, existing
from unspool.store import preferences as settings
from unspool.store.archive.archive import Archive
from unspool.store.columns import manifest as manifests
from unspool.store.columns import parquet
from unspool.store.columns.derive_pool import Task, pieces
from unspool.store.columns.merge import quoted
from unspool.store.columns.parquet import write
from unspool.store.columns.refresh import Asked, refresh
from unspool.store.columns.store_rows import LINED, Known
from unspool.store.columns.tables import public, text
from unspool.store.columns.values import clean_text
from unspool.store.database import locked, open_archive, open_store, telling
from unspool.store.preferences import Settings, edition
from unspool.store.sql.views import Setup, comments, scope, setup
from unspool.store.sync.changes import compare, is_filled, is_synced
from unspool.store.sync.rebuild import rebuild
from unspool.store.sync.sync import Wishes, sync
from unspool.store.usage.report import zone_of

if TYPE_CHECKING:
    import duckdb

_WEIGHT = 16 * 1024 * 1024
_MEMORY = "1GB"


def to_parquet(setup: Setup, target: Path, raw: Iterable[tuple[int, int, str]] | None) -> None:
    """Write every table to a file of its own in a new folder."""
    with _beside(target) as made, _engine(setup, made.parent) as engine:
        made.mkdir(mode=0o700)
        for name in public():
            path = made / f"{name}.parquet"
            rows = _with_raw(engine, raw, made.parent) if name == "entries" and raw is not None else name
            options = "(FORMAT parquet, COMPRESSION zstd)"
            engine.execute(f"COPY (SELECT * FROM {rows}) TO '{quoted(str(path))}' {options}")
            path.chmod(0o600)


def to_duckdb(setup: Setup, target: Path, raw: Iterable[tuple[int, int, str]] | None) -> None:
    """Write every table, with its comments, to a new database."""
    with _beside(target) as made, _engine(setup, made.parent) as engine:
        engine.execute(f"ATTACH '{quoted(str(made))}' AS made")
        engine.execute("USE made")
        engine.execute(text("columns.sql"))
        if raw is not None:
            engine.execute("ALTER TABLE entries ADD COLUMN raw VARCHAR")
        engine.execute("USE memory")
        for name in public():
            is_raw = name == "entries" and raw is not None
            rows = _with_raw(engine, raw or (), made.parent) if is_raw else f"memory.main.{name}"
            engine.execute(f"INSERT INTO made.main.{name} SELECT * FROM {rows}")
        for statement in comments("made.main.", "TABLE"):
            engine.execute(statement)
        if raw is not None:
            engine.execute("COMMENT ON COLUMN made.main.entries.raw IS 'the line as it is written, without its end'")
        engine.execute("DETACH made")
        made.chmod(0o600)


def raw_lines(
    known: Iterable[Known], folder: Path, failed: Callable[[str, str], None]
) -> Iterator[tuple[int, int, str]]:
    """Yield every line of some files: the file, the offset, the text."""
    for one in known:
        if one.kind not in LINED:
            continue
        place = (one.path, one.kind, one.session_id, one.agent_id)
        try:
            for _, items in pieces(Task(*place, one.id, one.generation, one.offset, 0), folder):
                for item in items:
                    if isinstance(item, Entry):
                        words = bytes(item.raw).decode(errors="replace").rstrip("\r\n")
                        yield one.id, item.offset, clean_text(words)
        except UnspoolError as error:
            failed(one.path, error.message)


def _with_raw(engine: duckdb.DuckDBPyConnection, raw: Iterable[tuple[int, int, str]], place: Path) -> str:
    """Return what to select from to have the lines too: they are written beside, and joined by their place."""
    for number, rows in enumerate(_portions(raw)):
        write(place, f"raw-{number}.parquet", "raw_lines", rows)
    files = [str(path) for path in sorted(place.glob("raw-*.parquet"))]
    names = ", ".join(f"'{quoted(file)}'" for file in files)
    source = f"read_parquet([{names}])" if files else "memory.parts.raw_lines"
    return f"""(SELECT e.*, r.raw FROM memory.main.entries e LEFT JOIN {source} r
        ON r.source_id = e.source_id AND r."offset" = e."offset")"""


def _portions(raw: Iterable[tuple[int, int, str]]) -> Iterator[list[tuple[object, ...]]]:
    held: list[tuple[object, ...]] = []
    weight = 0
    for row in raw:
        held.append(row)
        weight += len(row[2])
        if weight >= _WEIGHT:
            yield held
            held, weight = [], 0
    if held:
        yield held


@contextmanager
def _engine(setup: Setup, place: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    spilled = str(place / "spilled")
    try:
        with duckdb.connect(":memory:", config={"memory_limit": _MEMORY, "temp_directory": spilled}) as engine:
            for statement in setup.statements:
                engine.execute(statement)
            yield engine
    except duckdb.Error as error:
        words = str(error).partition("\n")[0]
        raise Unwritable(f"cannot write the tables: {words}", hint="is there room on the disk?") from None


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Give a place beside the target to write to; what is there in the end gets its name."""
    if os.path.lexists(target):
        raise Usage(f"`{target}` exists", hint="name one that does not")
    place = target.parent / f".{target.name}.{os.getpid()}"
    try:
        place.mkdir(mode=0o700)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unwritable(f"cannot write `{target}`: {reason}", hint="name another place") from None
    try:
        yield place / target.name
        (place / target.name).rename(target)
    finally:
        shutil.rmtree(place, ignore_errors=True)


_DATABASE = "unspool_tables"


def register(
    connection: duckdb.DuckDBPyConnection, config_dir: str | Path | Sequence[str | Path] | None = None
) -> None:
    """Give a DuckDB connection the tables of `unspool sql`: of a config folder, any tree, or several of them.

    Without a folder it is `$CLAUDE_CONFIG_DIR`, else `~/.claude`. The store is brought up to date first.
    """
    parquet.check()
    named = [config_dir] if config_dir is None or isinstance(config_dir, str | Path) else list(config_dir)
    roots = [existing(config_folder(str(one) if one else None, os.environ)) for one in named]
    made = _setup(data_folder(os.environ), list(dict.fromkeys(roots)))
    catalog, schema = connection.execute("SELECT current_catalog(), current_schema()").fetchone() or ("", "")
    connection.execute(f"DETACH DATABASE IF EXISTS {_DATABASE}")
    connection.execute(f"ATTACH ':memory:' AS {_DATABASE}")
    connection.execute(f"USE {_DATABASE}")
    try:
        for statement in made.statements:
            connection.execute(statement)
    finally:
        connection.execute(f'USE "{catalog}"."{schema}"')
    for name in public():
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {_DATABASE}.main.{name}")


def _setup(folder: Path, roots: list[Path]) -> Setup:
    chosen = settings.read(folder)
    with telling(folder), closing(open_store(folder)) as database:
        for root in roots:
            _sync(database, root, folder, chosen)
        refresh(database, folder, Asked(prices=chosen.prices, edition=edition(chosen)))
        columns = folder / manifests.FOLDER
        manifests.hold(columns)  # until the process ends: nobody tells when a connection is not used any more
        manifest = manifests.read(columns)
        wanted = scope(database, columns, manifest, roots, chosen.prices)
        return setup(columns, manifest, wanted, zone_of(chosen.timezone or "local"))


def _sync(database: sqlite3.Connection, root: Path, folder: Path, chosen: Settings) -> None:
    """Bring the store up to date with a folder, if it is not."""
    priced = database.execute("SELECT value FROM made_with WHERE name = 'prices'").fetchone()
    fresh = compare(database, root).is_fresh and is_synced(database, root)
    if fresh and priced == (edition(chosen),):
        return
    wishes = Wishes(archive=chosen.archive, prices=chosen.prices, edition=edition(chosen))
    with closing(open_archive(folder)) as kept, locked(folder):
        archive = Archive(kept)
        if not is_filled(database):
            rebuild(database, archive, wishes, folder)
        sync(database, archive, root, wishes)
