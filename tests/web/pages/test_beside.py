"""The list beside a session: the sessions of its project, or of the list that one came from."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import EVIL, Place, S
from unspool.testing.build import assistant, session, user


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("beside")
    config = folder / "claude"
    for number in range(4):
        cwd, words = ("/p/shop" if number < 3 else "/p/other"), EVIL if number == 2 else f"Task {number}"
        session(user(words), assistant("Done."), id=S[number], cwd=cwd).save(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        while one.get("/sessions.json")["sessions"] < 4 or one.get("/sessions.json")["undigested"]:
            pass
        yield one


def ids(place: Place, path: str) -> set[str]:
    return {one["id"] for one in place.get(path)["sessions"]}


def test_the_sessions_of_the_project_are_beside_a_session(place: Place) -> None:
    data = place.get(f"/session/{S[0]}/beside.json")
    assert {one["id"] for one in data["sessions"]} == {S[0], S[1], S[2]}
    assert data["total"] == 3
    for one in data["sessions"]:
        row = next(row for row in place.get("/sessions.json")["rows"] if row["id"] == one["id"])
        assert (one["cost_micros"], one["title"]) == (row["cost_micros"], row["title"])
        assert place.served.get(one["href"]).status == 200


def test_the_list_that_one_came_from_is_beside_a_session(place: Place) -> None:
    listed = quote("q=Task 3")
    assert ids(place, f"/session/{S[0]}/beside.json?list={listed}") == {S[3]}
    assert "list=" in place.get(f"/session/{S[0]}/beside.json?list={listed}")["sessions"][0]["href"]
    assert ids(place, f"/session/{S[0]}/beside.json?list={quote('sort=nothing')}") == {S[0], S[1], S[2]}


def test_titles_are_words_and_the_session_itself_is_marked(place: Place) -> None:
    text = place.page(f"/session/{S[2]}/beside")
    assert EVIL not in text
    assert text.count('aria-current="page"') == 1
    assert place.served.get("/session/no-such-session/beside").status == 404
