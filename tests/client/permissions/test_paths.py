from pathlib import Path

import pytest

from tests.client.tools.calling import context_in
from unspool.client.permissions.paths import PathsOnDisk, resolve_path, resolve_search
from unspool.client.tool_context import ToolContext, Workspace
from unspool.client.tool_result import InvalidToolCall


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path.resolve())


def test_a_path_is_followed_to_where_it_leads(context: ToolContext, tmp_path: Path) -> None:
    root = context.workspace.root
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    assert resolve_path("a/../b", context) == root / "b"
    assert resolve_path("link/new", context) == tmp_path.resolve() / "outside" / "new"
    assert resolve_path("~/x", context) == tmp_path.resolve() / "x"
    assert resolve_path("~other/x", context) == root / "~other" / "x"
    assert not PathsOnDisk(context).is_inside(str(resolve_path("link/new", context)))
    assert PathsOnDisk(context).is_inside(str(resolve_path("a", context)))


def test_a_loop_of_links_leads_nowhere(context: ToolContext) -> None:
    (context.workspace.root / "a").symlink_to("b")
    (context.workspace.root / "b").symlink_to("a")
    with pytest.raises(InvalidToolCall, match="cannot be resolved"):
        resolve_path("a/x", context)


def test_added_folders_are_inside(context: ToolContext, tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()
    place = Workspace(
        context.workspace.config,
        context.workspace.project,
        context.workspace.session_id,
        context.workspace.root,
        (added,),
    )
    assert PathsOnDisk(ToolContext(place, {})).is_inside(f"{added.resolve()}/x")
    assert not PathsOnDisk(ToolContext(place, {})).is_inside(f"{added.resolve()}-not/x")


def test_a_pattern_from_the_root_is_looked_for_where_it_begins(context: ToolContext) -> None:
    assert resolve_search(None, "/etc/*.conf", context) == (Path("/etc"), "/*.conf")
    assert resolve_search(None, "/etc/passwd", context) == (Path("/etc"), "/passwd")
    assert resolve_search(None, "/*", context) == (Path("/"), "/*")
    with pytest.raises(InvalidToolCall, match=r"must not contain `\.\.`"):
        resolve_search(None, "a/../../b", context)


@pytest.mark.parametrize(
    "name", ["a", "a/../b", "link/x", "../x", "/etc/../etc/passwd", "~/x", "~", "~other/x", "./-x"]
)
def test_rules_judge_the_path_that_tools_open(context: ToolContext, tmp_path: Path, name: str) -> None:
    (context.workspace.root / "link").symlink_to(tmp_path)
    context.cwd = context.workspace.root / "link"
    assert PathsOnDisk(context).resolve(name) == str(resolve_path(name, context))


@pytest.mark.parametrize("name", ["", "a\0b", "loop/x"])
def test_what_leads_nowhere_does_so_for_both(context: ToolContext, name: str) -> None:
    (context.workspace.root / "loop").symlink_to("loop")
    assert PathsOnDisk(context).resolve(name) is None
    with pytest.raises(InvalidToolCall):
        resolve_path(name, context)
