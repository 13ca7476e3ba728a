"""The insights page, asked over a real socket: the figures of the command, links to lines, nothing unescaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import EVIL, Place, hostile, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "a0000000-0000-4000-8000-00000000000a"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("insights")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    failed, done = f"make {EVIL}", f"make all {EVIL}"
    steps = [
        step
        for number in range(2)
        for step in (
            assistant(tool_use("Bash", id=f"f{number}", command=failed)),
            tool_result(EVIL, id=f"f{number}", error=True),
            assistant(tool_use("Bash", id=f"d{number}", command=done)),
            tool_result(EVIL, id=f"d{number}"),
        )
    ]
    session(user(EVIL), *steps, id=ID, cwd=f"/p/{EVIL}").save(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def without_places(value: Any) -> Any:
    """Return rows without the lines that weigh most: of equal ones any may come first."""
    if isinstance(value, list):
        return [{name: one for name, one in row.items() if name != "places"} for row in value]
    return value


def test_the_page_has_the_figures_of_the_command(place: Place) -> None:
    data = place.get("/insights.json")
    told = place.command("insights")
    for name in told.keys() - {"schema", "skipped"}:
        assert without_places(data[name]) == without_places(told[name]), name
    assert [one["kind"] for one in data["suggestions"]] == ["claude_md"]


def test_every_link_of_the_page_leads_somewhere(place: Place) -> None:
    page = place.page("/insights?limit=2")
    found = re.findall(r'href="(/(?:session|files|sql|insights)[^"#]*)', page)
    links = {unescape(link) for link in found}
    steps = {link for link in links if "step=" in link}
    assert len(steps) > 20
    assert {link.partition("?")[0] for link in links} >= {"/sql", "/files", "/insights"}
    tried = [*sorted(steps)[:10], *sorted(link for link in links if link.startswith(("/files", "/sql")))[:6]]
    assert {link: status for link in tried if (status := place.served.get(link).status) != 200} == {}


def test_nothing_of_a_session_becomes_markup(place: Place) -> None:
    page = place.page("/insights?limit=100")
    assert "Evidence: 4 lines" in page
    assert EVIL not in page
    assert "<img" not in page.lower()


def test_the_address_chooses_what_is_added_up(place: Place) -> None:
    data = place.get("/insights.json?project=tidewatch&limit=3")
    assert [row["project"] for row in data["projects"]] == ["tidewatch"]
    assert len(data["files"]) == 3
    assert "No requests" in place.page("/insights?until=2001-01-01")
    for wrong in ("limit=0", "limit=x", "since=whenever"):
        assert place.served.get(f"/insights?{wrong}").status == 400
    assert place.served.get("/insights?session=nobody").status == 404
