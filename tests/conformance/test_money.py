"""All surfaces say the same of what sessions cost, on every tree the tests have (`python -m tests.money_table`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.money_table import (
    ask_commands,
    ask_everything,
    can_be_unreadable,
    make_trees,
    run,
    total,
    unspool,
)
from tests.money_trees import TREES, conformance_cases

READABLE = [name for name in TREES if not name.startswith("unreadable")]
CASES = dict(conformance_cases())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that can be removed, whatever permissions its folders have."""
    yield tmp_path.resolve()
    for path in tmp_path.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)


@pytest.mark.parametrize("name", ["renamed", "forked", "same id in two projects", "agents alone", "partly unpriced"])
def test_commands_and_library_agree(name: str, place: Path) -> None:
    (tree,) = make_trees(place, [name])
    said = {surface.name: surface.cost for surface in ask_commands(tree)}
    assert len(set(said.values())) == 1, said
    assert said["library"]


@pytest.mark.slow
def test_all_surfaces_agree_on_every_tree(place: Path) -> None:
    names = [*TREES, *CASES, "real files"]
    trees = [tree for tree in make_trees(place, names) if can_be_unreadable() or tree.name in READABLE]
    for name, surfaces in ask_everything(trees, place).items():
        assert len({surface.cost for surface in surfaces}) == 1, (name, surfaces)


@pytest.mark.parametrize("name", ["renamed", "same id in two projects", "agents beside", "agents alone", "hostile ids"])
def test_every_id_that_is_printed_is_accepted(name: str, place: Path) -> None:
    (tree,) = make_trees(place, [name])
    paying = {row["session"] for row in json.loads(unspool(tree, "usage", "session", "--json"))["rows"]}
    listed = {row["id"] for row in json.loads(unspool(tree, "ls", "--all", "--json"))["items"]}
    assert paying <= listed
    answers = json.loads(run(tree, "-c", ACCEPT, str(tree.config), *sorted(listed)))
    assert answers == {id: id for id in listed}


@pytest.mark.parametrize("name", ["agents in folders", "agents beside", "agents alone", "hostile ids", "wrong types"])
def test_lists_and_sql_count_the_same_agents_of_each_session(name: str, place: Path) -> None:
    """Also of a session without a file, and of agents whose lines name no session."""
    (tree,) = make_trees(place, [name])
    listed = json.loads(unspool(tree, "ls", "--all", "--json"))["items"]
    rows = json.loads(unspool(tree, "sql", "--json", "SELECT session_id, agents FROM sessions"))["items"]
    counts = sorted((row["session_id"], row["agents"]) for row in listed)
    assert sorted((row["session_id"], row["agents"]) for row in rows) == counts
    assert any(agents for _, agents in counts)


ACCEPT = """
import json, sys
from unspool.cli.options import AccessOptions
from unspool.cli.session_argument import open_session

found = {}
for id in sys.argv[2:]:
    for no_store in (False, True):
        with open_session(id, AccessOptions((sys.argv[1],), no_store=no_store)) as session:
            assert session.entries
            found[id] = session.id
print(json.dumps(found))
"""


def test_what_a_session_pays_is_in_its_row(place: Path) -> None:
    """The session of the file pays, not the one that the lines name."""
    (tree,) = make_trees(place, ["renamed"])
    rows = json.loads(unspool(tree, "usage", "session", "--json"))["rows"]
    listed = json.loads(unspool(tree, "ls", "--all", "--json"))["items"]
    assert {row["session"]: row["cost_micros"] for row in rows} == {row["id"]: row["cost_micros"] for row in listed}
    assert {row["session"]: row["responses"] for row in rows} == {
        "before the move": 3,
        "10000000-0000-4000-8000-000000000001": 2,
        "20000000-0000-4000-8000-000000000002": 1,
    }


def test_what_has_no_price_is_null_and_a_question_mark(place: Path) -> None:
    (tree,) = make_trees(place, ["partly unpriced"])
    listed = {row["id"][:1]: row for row in json.loads(unspool(tree, "ls", "--json"))["items"]}
    assert [listed[id]["cost_micros"] is None for id in "123"] == [False, True, False]
    assert [bool(listed[id]["unpriced_tokens"]) for id in "123"] == [True, True, False]
    query = "SELECT count(*) FILTER (cost_micros = 0), count(*) FILTER (cost_micros IS NULL), count(*) FROM responses"
    assert unspool(tree, "sql", "--format", "csv", query).splitlines()[1] == "0,4,6"
    costs = [line.rpartition(" ")[2] for line in unspool(tree, "ls").splitlines()]
    assert sorted(costs) == ["$0.01", "$0.01+?", "?", "cost"]
    report = json.loads(unspool(tree, "usage", "model", "--json"))
    assert {row["model"]: row["cost_micros"] is None for row in report["rows"]} == {
        "claude-opus-4-5-20251101": False,
        "glm-4.7": True,
    }
    assert total(report["rows"]) == report["totals"]["cost_micros"]
