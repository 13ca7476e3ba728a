"""The comparison page, asked over a real socket: the figures of the command, links to steps, nothing unescaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import Place, S, hostile, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("compare")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    for number, answer in ((4, NASTY), (5, "Plain.")):
        steps = [user(f"Do {NASTY}"), assistant(tool_use("Bash", command=NASTY)), tool_result(NASTY), assistant(answer)]
        session(*steps, id=S[number]).save(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def ids(place: Place) -> list[str]:
    return sorted(
        path.stem for path in place.config.glob("projects/*/*.jsonl") if re.fullmatch("[0-9a-f-]{36}", path.stem)
    )


def test_the_page_has_the_figures_of_the_command(place: Place) -> None:
    first, second = ids(place)[:2]
    data = place.get(f"/compare.json?a={first}&b={second}")
    told = place.command("compare", first, second)
    for name in ("figures", "settings", "context", "files", "turns", "a", "b"):
        assert data[name] == told[name], name


def test_every_link_of_the_page_leads_somewhere(place: Place) -> None:
    page = place.served.get(f"/compare?a={S[4]}&b={S[5]}").text
    links = {unescape(link) for link in re.findall(r'href="(/(?:session|files)[^"]*)"', page)}
    assert any("step=" in link for link in links)
    assert any(link.endswith("/cost") for link in links)
    assert {link: status for link in links if (status := place.served.get(link).status) != 200} == {}


def test_nothing_of_a_session_becomes_markup(place: Place) -> None:
    for one in ids(place):
        page = place.served.get(f"/compare?a={quote(one)}&b={S[4]}").text
        assert NASTY not in page
        assert "<img" not in page.lower()


def test_what_is_missing_is_said(place: Place) -> None:
    assert "Name two sessions" in place.served.get("/compare").text
    assert S[4] in place.served.get(f"/compare?a={S[4]}").text
    assert place.served.get(f"/compare?a={S[4]}&b=nobody").status == 404
    assert place.served.get(f"/compare?a={S[4]}%2399&b={S[5]}").status == 404
    both = place.served.get(f"/compare.json?a={quote(f'Do {NASTY}')}&b={S[5]}")
    assert (both.status, "matches 2 sessions" in both.json["error"]) == (400, True)
    branches = place.get(f"/compare.json?a={S[4]}%231&b={S[4]}")
    assert branches["a"]["branch"] == 1
    assert [pair["same_prompt"] for pair in branches["turns"]] == [True]
