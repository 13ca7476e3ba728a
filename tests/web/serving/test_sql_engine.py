"""The kept SQL engine: one process for many queries, over tables that are up to date."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from unspool.cli import options, store_access
from unspool.store import STORE
from unspool.store.columns import manifest
from unspool.store.sql import fetch_objects
from unspool.testing.build import assistant, session, user
from unspool.web.serving import KeptEngine, Site

A, B = (f"0000000{digit}-0000-4000-8000-00000000000{digit}" for digit in "12")


def read_site(config: Path) -> Site:
    """Read the folder into the store."""
    with store_access.open_folders(options.AccessOptions((str(config),))) as synced:
        return Site(synced.roots, synced.folder, synced.preferences, lambda: datetime.now(UTC), list)


def count_sessions(kept: KeptEngine) -> tuple[Any, object]:
    """Return how many sessions SQL has, and the engine that said so."""
    with kept.open() as engine:
        (row,) = fetch_objects(engine, "SELECT count(*) AS sessions FROM sessions")
        assert engine.is_running
        return row["sessions"], engine


def test_an_engine_is_kept_while_nothing_changes_and_answers_from_what_was_written_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_HOME", str(tmp_path / "unspool"))
    config = tmp_path / "claude"
    session(user("go"), assistant("ok"), id=A).save(config)
    site = read_site(config)
    kept = KeptEngine(site)
    assert count_sessions(kept)[0] == 1
    # As if all of it had been written long ago: what has just changed is not relied on.
    files = (site.folder / STORE, site.folder / manifest.COLUMNS_FOLDER / manifest.MANIFEST)
    for file in files:
        os.utime(file, (time.time() - 60,) * 2)
    found = [count_sessions(kept) for _ in range(3)]
    assert [sessions for sessions, _ in found] == [1, 1, 1]
    assert len({id(engine) for _, engine in found}) == 1
    session(user("go"), assistant("ok"), id=B).save(config)
    read_site(config)
    assert count_sessions(kept)[0] == 2
    kept.close()
    assert not found[0][1].is_running  # type: ignore[attr-defined]
    assert count_sessions(kept)[0] == 2
    kept.close()
