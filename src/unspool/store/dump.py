"""All tables written out for other tools: a setup in; a folder of Parquet files, or a DuckDB database, out.

Rules
  1. What is written is for the user alone, and is there whole or not at all. Nothing that exists is written over.
  2. With `raw`, `entries` has a column more: the line as it is written, without its end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.errors import UnspoolError, Unwritable, Usage
from unspool.format.entry import Entry
from unspool.store.cells import clean_text
from unspool.store.deriving import Task, pieces
from unspool.store.merging import quoted
from unspool.store.parquet import write
from unspool.store.snapshot import LINED, Known
from unspool.store.tables import public, text
from unspool.store.views import Setup, comments

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
