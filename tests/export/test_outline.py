"""The shape of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

import unspool
from unspool.export.outline import Branch, build_branch_tree, number_sections, parse_turn_range
from unspool.testing.build import Step, assistant, compaction, queued, rewind, session, user


def opened(tmp_path: Path, *steps: Step, version: str = "2.1.325") -> unspool.Session:
    path = session(*steps, version=version).save(tmp_path / "c")
    return unspool.open(tmp_path / "c").session(path.stem)


def numbers(branches: tuple[Branch, ...]) -> list[object]:
    return [([section.number for section in one.sections], numbers(one.branches)) for one in branches]


def test_turns_are_numbered_and_what_comes_before_is_0(tmp_path: Path) -> None:
    one = opened(tmp_path, assistant("hello"), user("a"), assistant("b"), user("c"))
    assert [section.number for section in number_sections(one)] == [0, 1, 2]
    assert sum(len(section.entries) for section in number_sections(one)) == len(one.entries)


def test_a_tree_of_one_branch_is_a_line(tmp_path: Path) -> None:
    assert numbers(build_branch_tree(opened(tmp_path, user("a"), assistant("1"), user("b")))) == [([1, 2], [])]
    assert build_branch_tree(opened(tmp_path)) == ()


def test_branches_grow_where_they_part(tmp_path: Path) -> None:
    one = opened(tmp_path, user("a"), user("b"), user("c"), rewind(2), user("d"), user("e"), rewind(), user("f"))
    assert numbers(build_branch_tree(one)) == [([1], [([2, 3], []), ([4], [([5], []), ([6], [])])])]
    assert [section.number for section in number_sections(one) if section.left] == [2, 3, 5]


def test_a_queued_prompt_stays_on_the_branch_it_was_typed_on(tmp_path: Path) -> None:
    steps = [user("a"), assistant("1"), user("b"), queued("wait"), assistant("2"), rewind(), user("c")]
    one = opened(tmp_path, *steps, version="2.0.76")
    assert numbers(build_branch_tree(one)) == [([1], [([2, 3], []), ([4], [])])]
    assert [section.left for section in number_sections(one)] == [False, True, True, False]


def test_a_turn_knows_that_it_was_compacted(tmp_path: Path) -> None:
    (branch,) = build_branch_tree(opened(tmp_path, user("a"), compaction("so far"), user("b")))
    assert branch.compacted == (1,)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("3", [3]), ("-1", [5]), ("2..4", [2, 3, 4]), ("4..", [4, 5]), ("..2", [1, 2]), ("..", [1, 2, 3, 4, 5]),
     ("0", [0]), ("4..99", [4, 5]), ("9", []), ("4..2", []), ("-9", [])],
)  # fmt: skip
def test_turns_are_chosen_by_number(wanted: str, found: list[int]) -> None:
    turns = parse_turn_range(wanted, 5)
    assert turns is not None
    assert list(turns) == found


@pytest.mark.parametrize("wanted", ["", "a", "1..b", "1,2"])
def test_what_is_no_turn_is_refused(wanted: str) -> None:
    assert parse_turn_range(wanted, 5) is None
