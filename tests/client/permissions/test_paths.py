from pathlib import Path

import pytest

from tests.client.tools.calling import desk_in
from unspool.client.permissions.paths import Reach, is_inside, resolved, searched
from unspool.client.tool_context import Desk, Place
from unspool.client.tools.base import BadCall


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return desk_in(tmp_path.resolve())


def test_a_path_is_followed_to_where_it_leads(desk: Desk, tmp_path: Path) -> None:
    root = desk.place.root
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    assert resolved("a/../b", desk) == root / "b"
    assert resolved("link/new", desk) == tmp_path.resolve() / "outside" / "new"
    assert resolved("~/x", desk) == tmp_path.resolve() / "x"
    assert resolved("~other/x", desk) == root / "~other" / "x"
    assert not is_inside(resolved("link/new", desk), desk)
    assert is_inside(resolved("a", desk), desk)


def test_a_loop_of_links_leads_nowhere(desk: Desk) -> None:
    (desk.place.root / "a").symlink_to("b")
    (desk.place.root / "b").symlink_to("a")
    with pytest.raises(BadCall, match="cannot be resolved"):
        resolved("a/x", desk)


def test_added_folders_are_inside(desk: Desk, tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()
    place = Place(desk.place.config, desk.place.project, desk.place.session_id, desk.place.root, (added,))
    assert is_inside(resolved(f"{added}/x", desk), Desk(place, {}))
    assert not is_inside(resolved(f"{added}-not/x", desk), Desk(place, {}))


def test_a_pattern_from_the_root_is_looked_for_where_it_begins(desk: Desk) -> None:
    assert searched(None, "/etc/*.conf", desk) == (Path("/etc"), "/*.conf")
    assert searched(None, "/etc/passwd", desk) == (Path("/etc"), "/passwd")
    assert searched(None, "/*", desk) == (Path("/"), "/*")
    with pytest.raises(BadCall, match=r"must not contain `\.\.`"):
        searched(None, "a/../../b", desk)


@pytest.mark.parametrize(
    "name", ["a", "a/../b", "link/x", "../x", "/etc/../etc/passwd", "~/x", "~", "~other/x", "./-x"]
)
def test_rules_judge_the_path_that_tools_open(desk: Desk, tmp_path: Path, name: str) -> None:
    (desk.place.root / "link").symlink_to(tmp_path)
    desk.cwd = desk.place.root / "link"
    assert Reach(desk).real(name) == resolved(name, desk)


@pytest.mark.parametrize("name", ["", "a\0b", "loop/x"])
def test_what_leads_nowhere_does_so_for_both(desk: Desk, name: str) -> None:
    (desk.place.root / "loop").symlink_to("loop")
    assert Reach(desk).real(name) is None
    with pytest.raises(BadCall):
        resolved(name, desk)
