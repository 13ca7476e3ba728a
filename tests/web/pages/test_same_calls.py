"""The same call elsewhere, asked over a real socket: from a step to its page, and from there to the other sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import Place, S, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("same")
    config = folder / "claude"
    write_demo(config)
    for number in (2, 3, 4):
        calls = []
        for at in range(number):
            calls += [
                assistant(tool_use("Bash", id=f"{number}-{at}", command="make <b>all</b>")),
                tool_result("ok", id=f"{number}-{at}"),
            ]
        session(user(f"Build <{number}>"), *calls, id=S[number], cwd=f"/p/{number}").save(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def test_a_step_leads_to_the_same_call_in_other_sessions(place: Place) -> None:
    steps = re.findall(r'data-key="(\d+\.0)"[^>]*>', place.served.get(f"/session/{S[2]}").text)
    details = [place.served.get(f"/session/{S[2]}/detail?step={step}").text for step in steps]
    (address, *_) = [unescape(found) for text in details for found in re.findall(r'href="([^"]*/same\?[^"]*)"', text)]
    page = place.served.get(address)
    assert page.status == 200
    assert "make &lt;b&gt;all&lt;/b&gt;" in page.text
    assert "7 more times in 2 other sessions" in page.text
    links = [unescape(found) for found in re.findall(r'<li><a href="([^"]*)">', page.text)]
    assert [sum(S[number] in link for link in links) for number in (2, 3, 4)] == [1, 3, 4]
    for link in links:
        assert place.served.get(link).text.count("make &lt;b&gt;all&lt;/b&gt;") > 1
    data = place.get(address.replace("/same?", "/same.json?"))
    assert (data["total"], data["sessions"], data["complete"], len(data["here"])) == (7, 2, True, 1)


def test_a_step_that_is_no_call_has_no_such_page(place: Place) -> None:
    assert place.served.get(f"/session/{S[2]}/same?step=0.0").status == 404
    assert place.served.get(f"/session/{S[2]}/same?step=none").status == 404
    assert "/same?" not in place.served.get(f"/session/{S[2]}/detail?step=0.0").text
