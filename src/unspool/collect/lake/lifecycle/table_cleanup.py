"""Deletes the files and logs of tables that still hold rows which were replaced.

Rules
  1. Only files that the log has removed are deleted, and files of interrupted ingests that hold rows of the devices
     named. A running ingest may have written others that it has not committed yet: so only those from before the first
     change.
  2. The log of a Delta table has the least and greatest values of columns, and the conditions of its commits. A
     checkpoint takes its place, and everything before it is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from datetime import datetime
from io import BytesIO
from urllib.parse import unquote, urlsplit

from unspool.collect.lake.lake import Lake, translate_lake_errors
from unspool.collect.lake.log.recent_commits import NAME as RECENT_COMMITS
from unspool.collect.lake.tables import lake_tables

_LOG_FILE = re.compile(r"(\d{20})\..*")


def clean_tables(lake: Lake, homes: Set[str], began: datetime, on_step: Callable[[str], None] = lambda _: None) -> int:
    """Delete everything that the tables do not need; return how many files of tables were deleted.

    `began` is a time before the first change: what was written later may belong to an ingest that is still running.
    """
    count = 0
    for name in lake_tables():
        table = lake.table(name, fresh=True)
        with translate_lake_errors(lake.url):
            removed = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=False)
        count += len(removed) + _delete_interrupted(lake, name, homes, began)
        # An empty commit: the one before may have a condition with a name in it, and the last one cannot be deleted.
        lake.table(name, fresh=True)
        lake.write(name, [], {})
        table = lake.table(name, fresh=True)
        with translate_lake_errors(lake.url):
            table.create_checkpoint()
        on_step("checkpointed")
        _delete_log(lake, name, table.version())
        on_step("cleaned")
    # After the log of the first table was replaced: an ingest that writes them again notices it there.
    lake.object_store.delete(RECENT_COMMITS)
    return count


def _delete_log(lake: Lake, name: str, version: int) -> None:
    """Delete the log of a table before a checkpoint."""
    for listed in list(lake.object_store.names(f"{name}/_delta_log")):
        match = _LOG_FILE.fullmatch(listed.name.rpartition("/")[2])
        if match and int(match[1]) < version:
            lake.object_store.delete(listed.name)


def _delete_interrupted(lake: Lake, name: str, homes: Set[str], began: datetime) -> int:
    """Delete the files of interrupted ingests that have rows of some devices."""
    prefix = lake.location(name)
    with translate_lake_errors(lake.url):
        used = {_path_inside(uri, prefix) for uri in lake.table(name, fresh=True).file_uris()}
    count = 0
    for listed in list(lake.object_store.names(name)):
        path = listed.name.removeprefix(f"{name}/")
        is_file = path.endswith(".parquet") and not path.startswith("_delta_log/")
        if not is_file or unquote(path) in used or listed.modified >= began:
            continue
        data = lake.object_store.get(listed.name)
        if data is not None and not homes.isdisjoint(_homes_in(data)):
            lake.object_store.delete(listed.name)
            count += 1
    return count


def _homes_in(data: bytes) -> set[str]:
    from arro3.io import read_parquet

    rows = read_parquet(BytesIO(data)).read_all()
    if not {"org", "device"} <= set(rows.column_names):
        return set()
    pairs = zip(rows.column("org").to_pylist(), rows.column("device").to_pylist(), strict=True)
    return {f"{org}/{device}" for org, device in pairs}


def _path_inside(uri: str, prefix: str) -> str:
    """Return the path of a file inside its table."""
    path = unquote(urlsplit(uri).path if "://" in uri else uri)
    start = unquote(urlsplit(prefix).path if "://" in prefix else prefix)
    return path.removeprefix(start).lstrip("/")
