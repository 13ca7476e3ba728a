"""Planted secrets: of none is there a trace in any table of the lake."""

from __future__ import annotations

import json
from pathlib import Path

from tests.collect.lake.lakes import TestLake
from tests.collect.machine import Machine
from tests.collect.test_secrets import _plant
from tests.redact.secrets import PLANTED
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.tables import lake_tables
from unspool.collect.selection import OPTIONAL, SelectionRules


def test_no_planted_secret_is_in_any_table(lake: TestLake, tmp_path: Path) -> None:
    root = tmp_path / ".claude"
    _plant(root)
    Machine(tmp_path / "own", root, lake.place, SelectionRules(extras=frozenset(OPTIONAL))).collect()
    assert lake.ingest().lines > 10 * len(PLANTED)
    assert lake.verify().problems == ()
    opened, filled = open_lake(str(lake.folder), {}), set()
    for name in lake_tables():
        rows = opened.rows(name, "SELECT * FROM t")
        filled |= {name} if rows else set()
        text = "\n".join(str(cell) for row in rows for cell in row)
        for planted in PLANTED:
            assert planted.secret not in text, (planted.kind, name)
            assert json.dumps(planted.secret)[1:-1] not in text, (planted.kind, name)
    assert filled >= {"entries", "side_files", "messages", "blocks", "tool_calls", "turns", "history", "todos", "plans"}
