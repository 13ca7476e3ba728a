"""An index that several processes extract is the one that one process extracts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.money_trees import TREES
from unspool.demo import assistant, session, user
from unspool.errors import Unreadable
from unspool.store.archive.archive import Archive
from unspool.store.database import open_archive, open_store
from unspool.store.search.index import find_unindexed, update_index
from unspool.store.sync.sync import SyncOptions, sync_folder
from unspool.store.worker_processes import answer_in_order

TABLES = {
    "passages": "SELECT * FROM passages ORDER BY id",
    "words": "SELECT term, doc, cnt FROM vocabulary ORDER BY term",
    "prompts": "SELECT * FROM prompts",
    "indexed": "SELECT source_id, generation, offset FROM indexed",
    "digests": "SELECT source_id, generation, offset, tools, compactions FROM digests ORDER BY source_id",
    "changed_files": """SELECT source_id, path, changes, added, removed FROM changed_files
        JOIN paths ON paths.id = path_id ORDER BY 1, 2""",
    "tallies": "SELECT * FROM tallies ORDER BY 1",
    "unindexed": "SELECT * FROM unindexed",
}


def build_index(own: Path, root: Path, workers: int, *, take_away: Path | None = None) -> dict[str, list[object]]:
    with closing(open_store(own)) as database, closing(open_archive(own)) as kept:
        sync_folder(database, Archive(kept), root, SyncOptions())
        aside = root.with_name("aside.jsonl")
        if take_away is not None:
            take_away.rename(aside)
            sync_folder(database, Archive(kept), root, SyncOptions())
        files = find_unindexed(database, root)
        added = update_index(database, lambda: Archive(kept), files, workers=workers)
        if take_away is not None:
            aside.rename(take_away)
        return {"added": [added], **_read_tables(database)}


def _read_tables(database: sqlite3.Connection) -> dict[str, list[object]]:
    return {name: database.execute(query).fetchall() for name, query in TABLES.items()}


@pytest.mark.parametrize("name", [*TREES])
def test_two_processes_build_the_index_that_one_builds(name: str, tmp_path: Path) -> None:
    TREES[name](tmp_path / "config")
    alone, together = (build_index(tmp_path / str(count), tmp_path / "config", count) for count in (1, 2))
    assert together == alone


def test_a_session_that_only_the_archive_has_is_indexed_in_its_order(tmp_path: Path) -> None:
    root = tmp_path / "config"
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(40)]
    saved = [session(user(f"prompt {id[:8]}"), assistant("done"), id=id).save(root) for id in ids]
    alone, together = (build_index(tmp_path / str(count), root, count, take_away=saved[20]) for count in (1, 2))
    assert together == alone
    assert len(together["indexed"]) == len(saved)


def test_replies_come_in_the_order_of_the_messages() -> None:
    lost = Unreadable("lost")
    messages = [str(number).encode() for number in range(50)]
    replies = list(answer_in_order(messages, 3, _count_down, lost, window=4))
    expected = [(str(left).encode(), left == 0) for number in range(50) for left in range(50 - number, -1, -1)]
    assert replies == expected


def _count_down(message: bytes) -> list[tuple[bytes, bool]]:
    """Answer the first messages with the most replies, so that later ones are ready before them."""
    return [(str(left).encode(), left == 0) for left in range(50 - int(message), -1, -1)]
