"""Parts made one: the current rows of several written to a new part."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from unspool.store.columns.manifest import Current, Manifest, Part
from unspool.store.columns.parquet import File, digest, sync_folder

SMALL = 4 * 1024 * 1024
"""Bytes on disk below which a part is small."""
MANY = 8
"""Small parts that are left alone."""


def worth_merging(manifest: Manifest) -> list[list[str]]:
    """Return parts that are better made one: small ones when they are many, and those that are half out of date."""
    found = []
    for currents in (manifest.lines, manifest.answers):
        alive: dict[str, int] = {}
        for one in currents.values():
            alive[one.part] = alive.get(one.part, 0) + one.offset + 1
        small = [name for name in alive if manifest.parts[name].size < SMALL]
        stale = [name for name, weight in alive.items() if weight * 2 < manifest.parts[name].weight]
        chosen = [name for name in alive if name in stale or (len(small) > MANY and name in small)]
        if chosen:
            found.append(chosen)
    return found


def merged(columns: Path, manifest: Manifest, names: Collection[str], into: str) -> None:
    """Write the current rows of some parts to a new one, which takes their place in the manifest."""
    import duckdb

    (columns / into).mkdir(mode=0o700)
    name = into.removeprefix("parts/")
    currents = (manifest.lines, manifest.answers)
    alive = [one for current in currents for one in current.values() if one.part in names]
    revisions = [one.revision for one in alive]
    old = [file for part in names for file in manifest.parts[part].files]
    files = []
    with duckdb.connect(":memory:", config={"memory_limit": "512MB", "threads": 2, "temp_directory": ""}) as engine:
        for table in dict.fromkeys(file.table for file in old):
            paths = [str(columns / file.name) for file in old if file.table == table]
            target = f"{into}/{table}.0.parquet"
            engine.execute(
                f"""COPY (SELECT * FROM read_parquet($paths) WHERE revision IN (SELECT unnest($revisions)))
                TO '{quoted(str(columns / target))}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)""",
                {"paths": paths, "revisions": revisions},
            )
            files.append(_finished(columns, target, table))
    sync_folder(columns / into)
    manifest.parts = {part: held for part, held in manifest.parts.items() if part not in names}
    manifest.parts[name] = Part(files, sum(one.offset + 1 for one in alive))
    for current in currents:
        moved: dict[str, Current] = {
            path: replace(one, part=name) for path, one in current.items() if one.part in names
        }
        current.update(moved)


def quoted(text: str) -> str:
    """Return text as it stands between the quotes of a statement."""
    return text.replace("'", "''")


def _finished(columns: Path, name: str, table: str) -> File:
    """See a file that DuckDB wrote to the disk."""
    path = columns / name
    path.chmod(0o600)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        content = file.read()
    return File(table, name, len(content), digest(content), 0)
