"""`lake ingest --again` derives the rows of some devices anew, or of files that have grown since a day."""

from __future__ import annotations

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.lifecycle.rederivation import AgainSelection


@pytest.mark.parametrize("is_chained", [True, False], ids=["one chain", "a chain for each stream"])
def test_only_the_selected_streams_are_derived_anew(erasable: ErasableLake, *, is_chained: bool) -> None:
    erasable.people(is_chained=is_chained)
    before = erasable.everything()
    open_lake(str(erasable.folder), {}).delete("messages", "true")
    # All segments of these tests were made on 2026-01-05.
    erasable.ingest(again=True, selection=AgainSelection(since="2026-01-06"))
    assert erasable.rows("SELECT count(*) FROM messages") == [(0,)]
    erasable.ingest(again=True, selection=AgainSelection(frozenset({"acme/ada-laptop"}), "2026-01-05"))
    assert erasable.rows("SELECT DISTINCT device FROM messages") == [("ada-laptop",)]
    erasable.ingest(again=True)
    assert erasable.everything() == before
    assert erasable.problems() == []
