"""A place in a file names the step in which it is told, whatever somebody writes into an address."""

from __future__ import annotations

import pytest

import unspool
from unspool.errors import NotFound
from unspool.page.detail import read_detail
from unspool.page.view import PageView
from unspool.testing.build import assistant, session, tool_result, tool_use, user

MADE = session(
    user("Look."), assistant("I do.", tool_use("Bash", command="ls")), tool_result("a b"), assistant("Done.")
)


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> PageView:
    config = tmp_path_factory.mktemp("places")
    MADE.save(config)
    return PageView.read(unspool.open(config).session(MADE.id))


def test_the_place_of_a_result_names_its_call(view: PageView) -> None:
    _, _, called, given_back, _ = view.session.entries
    assert read_detail(view, str(given_back.offset)).key == f"{called.offset}.0"
    assert read_detail(view, str(called.offset)).key == f"{called.offset}.0"


def test_the_place_of_any_other_line_names_its_step(view: PageView) -> None:
    last = view.session.entries[-1]
    assert read_detail(view, str(last.offset)).row.text == "Done."


@pytest.mark.parametrize("key", ["", "x", "1.x", ".", "1.", "-1.0", "1.2.3", "../1.0", "nobody/1.0"])
def test_what_names_no_step_is_not_found(key: str, view: PageView) -> None:
    with pytest.raises(NotFound):
        read_detail(view, key)


@pytest.mark.parametrize("beyond", [0, 1, 65_536, 10**15])
def test_a_place_beyond_the_end_is_not_found_at_once(beyond: int, view: PageView) -> None:
    with pytest.raises(NotFound):
        read_detail(view, f"{len(MADE.data) + beyond}.0")
