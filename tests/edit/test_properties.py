"""What must hold for all sessions: edits keep the rules, and undoing all of them gives the original tree.

`UNSPOOL_FUZZ_EXAMPLES` says how many sessions are tried.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unspool
from tests.edit.sessions import NEW, built, ids, manuscript
from unspool.edit.api import apply_edit, plan_edit, undo_edit
from unspool.edit.planning.ids import source_subject
from unspool.edit.planning.plan import Clone, Compress, Fork, Operation, Trim, TrimTo
from unspool.edit.planning.planner import PreparedEdit, prepare_edit
from unspool.edit.rules.check import check_rules
from unspool.edit.rules.violation import new_violations
from unspool.edit.verify.verify import verify_edit
from unspool.errors import UnspoolError
from unspool.testing.build import Built

EXAMPLES = int(os.environ.get("UNSPOOL_FUZZ_EXAMPLES", "100"))

operations: st.SearchStrategy[Operation] = st.one_of(
    st.just(Clone()),
    st.integers(1, 6).map(lambda number: Fork(str(number))),
    st.builds(
        Trim,
        tools=st.sampled_from([None, (), ("Bash",), ("Read", "Edit")]),
        results=st.booleans(),
        superseded_reads=st.booleans(),
        thinking=st.booleans(),
        images=st.booleans(),
        outside=st.booleans(),
        older_than=st.integers(0, 3),
        keep_last=st.none() | st.integers(1, 4),
    ),
    st.builds(lambda first, count: Trim(turns=range(first, first + count)), st.integers(1, 5), st.integers(1, 3)),
    st.sampled_from([10.0, 40.0, 80.0]).map(lambda percent: TrimTo(percent=percent)),
    st.builds(Compress, keep_last=st.integers(0, 3), keep_calls=st.booleans()),
)


@given(built(), operations, st.booleans())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_edit_adds_no_violation_and_the_api_takes_it(
    made: tuple[Built, bytes], operation: Operation, in_place: bool
) -> None:
    source = manuscript(made[0], tail=made[1])
    here = in_place and not isinstance(operation, Clone | Fork)
    try:
        prepared = prepare_edit(source, operation, ids(source.id if here else NEW))
    except UnspoolError:
        return
    found = verify_edit(prepared)
    assert found.faults == ()
    assert new_violations(check_rules(prepared.result), check_rules(source), _known(prepared)) == []


@given(built(), st.integers(0, 200))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_session_can_be_forked_at_any_line(made: tuple[Built, bytes], number: int) -> None:
    source = manuscript(made[0], tail=made[1])
    uuids = [entry.record.uuid for entry in source.entries if entry.record.uuid]
    prepared = prepare_edit(source, Fork(uuids[number % len(uuids)]), ids(NEW))
    assert verify_edit(prepared).faults == ()


def _known(prepared: PreparedEdit) -> Callable[[str], str]:
    identity = prepared.plan.id_map
    return source_subject(identity) if identity else str


@given(built(), st.lists(st.tuples(operations, st.booleans()), min_size=1, max_size=5))
@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_undoing_all_edits_gives_the_original_tree(
    made: tuple[Built, bytes], edits: list[tuple[Operation, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config, own = Path(folder, "config"), Path(folder, "own")
        path = made[0].save(config)
        path.write_bytes(made[0].data + made[1])
        (config / "settings.json").write_text("{}")
        before = tree(config)
        here, applied = path, 0
        broken: list[str] = []
        for operation, in_place in edits:
            session = unspool.open(config).session(str(here))
            place = in_place and not isinstance(operation, Clone | Fork)
            try:
                edited = apply_edit(plan_edit(session, operation, in_place=place), folder=own)
            except UnspoolError as error:
                broken += [error.message] if "break a rule" in error.message else []
                continue
            applied += 1
            here = edited.path
        assert broken == []
        for _ in range(applied):
            undo_edit(folder=own)
        assert tree(config) == before


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
