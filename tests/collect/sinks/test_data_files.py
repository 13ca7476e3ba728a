"""Which files are added and removed, and in which steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.collect.lake.tables import lake_tables
from unspool.collect.sinks.data_files import DataFile, TableSnapshot, find_changes, split_changes

PATHS = st.sets(st.sampled_from([f"day=2026-01-0{number}/part-{number}.parquet" for number in range(1, 9)]))


def snapshot(paths: set[str], size: int = 10) -> TableSnapshot:
    files = {path: DataFile(path, size, {}) for path in paths}
    return TableSnapshot(lake_tables()["sources"], "id", 3, files, frozenset())


@given(there=PATHS, wanted=PATHS, step_bytes=st.integers(1, 50))
def test_all_steps_together_make_the_files_of_the_snapshot(there: set[str], wanted: set[str], step_bytes: int) -> None:
    now = set(there)
    for step in split_changes(find_changes(snapshot(wanted), there), step_bytes):
        now = now.difference(step.removed) | {file.path for file in step.added}
        # Between two steps there is nothing that does not belong to the snapshot, so nothing can count twice.
        assert now <= wanted
    assert now == wanted


@given(there=PATHS, wanted=PATHS)
def test_again_replaces_every_file_in_one_step(there: set[str], wanted: set[str]) -> None:
    changes = find_changes(snapshot(wanted), there, again=True)
    assert (set(changes.removed), {file.path for file in changes.added}) == (there, wanted)
    assert not there or list(split_changes(changes, 1)) == [changes]


def test_additions_are_divided_by_their_bytes() -> None:
    changes = find_changes(snapshot({"a", "b", "c"}, size=40), ())
    assert [[file.path for file in step.added] for step in split_changes(changes, 80)] == [["a", "b"], ["c"]]
    assert [[file.path for file in step.added] for step in split_changes(changes, 1)] == [["a"], ["b"], ["c"]]
