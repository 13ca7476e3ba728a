"""Responses that several files may have are looked up, and in a new home no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.world import synced
from tests.store.usage.test_ledger import EXACT, from_files, sums
from unspool.prices.responses import Response
from unspool.store.sync import write_rows
from unspool.store.sync.write_rows import RepeatedIds
from unspool.testing.build import assistant, session, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(4)]


def met(*ids: str) -> list[Response]:
    return [Response(id) for id in ids]


def test_in_a_new_home_only_what_was_met_twice_is_looked_up() -> None:
    found = RepeatedIds(is_complete=True)
    found.add(met("a", "b"))
    assert list(found.filter(["a", "b"])) == []
    found.add(met("b", "c"))
    assert list(found.filter(["a", "b", "c"])) == ["b"]
    assert list(found.filter(["c"])) == []


def test_where_others_may_be_all_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(RepeatedIds(is_complete=False).filter(["a"])) == ["a"]
    monkeypatch.setattr(write_rows, "MAX_HELD_IDS", 2)
    found = RepeatedIds(is_complete=True)
    found.add(met("a", "b", "c"))
    assert list(found.filter(["a", "b", "c"])) == ["a", "b", "c"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_fork_is_counted_once_whenever_it_comes(tmp_path: Path, at_once: bool) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    path = session(user("hi"), assistant("ho", usage={"output_tokens": 11}), id=S[1]).save(root)
    if not at_once:
        synced(own, root)
    for id in S[2:]:
        (path.parent / f"{id}.jsonl").write_bytes(path.read_bytes())
    synced(own, root)
    assert sums(own, root, EXACT) == from_files(root, EXACT)
    assert [one.bill.output_tokens for one in sums(own, root, EXACT)] == [11]
