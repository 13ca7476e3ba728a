"""What does not fit together in a file."""

from __future__ import annotations

from unspool.format.json_edit import patch
from unspool.graph.integrity import find_flaws
from unspool.testing.build import assistant, raw, result_block, session, user

ONE, TWO, THREE = session(user("one"), assistant("a"), user("two")).lines


def kinds(*lines: bytes) -> list[str]:
    return [flaw.kind for flaw in find_flaws(session(*map(raw, lines)).entries)]


def test_a_whole_session_has_no_flaws() -> None:
    assert kinds(ONE, TWO, THREE) == []


def test_a_parent_that_is_not_there_dangles() -> None:
    assert kinds(ONE, THREE) == ["dangling parent"]


def test_an_id_used_again_is_told() -> None:
    assert kinds(ONE, TWO, TWO) == ["duplicate uuid"]


def test_circles_are_told_and_end() -> None:
    first, second = (session(raw(line)).entries[0].record.uuid for line in (ONE, TWO))
    assert kinds(patch(ONE, {("parentUuid",): second}), TWO, THREE) == ["cycle"]
    assert kinds(patch(ONE, {("parentUuid",): first})) == ["cycle"]


def test_a_parent_that_comes_later_is_no_flaw() -> None:
    assert kinds(TWO, ONE, THREE) == []


def test_a_result_of_nothing_is_told() -> None:
    (line,) = session(user(result_block("none"))).lines
    assert kinds(line) == ["orphan result"]


def test_lines_without_an_id_have_no_structure() -> None:
    assert kinds(b'{"type":"mode"}\n') == []
