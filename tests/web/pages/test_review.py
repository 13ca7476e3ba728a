"""The review of a session, asked over a real socket: diffs with their prompts, a patch that git takes, file history."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import Place, S, hostile, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user

CWD = "/home/me/shop"
CART = f"{CWD}/src/cart.py"
FIRST = "def total(items):\n    return sum(items)\n"
SECOND = "def total(items):\n    return round(sum(items), 2)\n"
THIRD = "import math\n\n\ndef total(items):\n    return round(sum(items), 2)\n"
BIG = S[6]


def edit(before: str, after: str, path: str = CART) -> list[Any]:
    """Return a call that replaced one content by another, and its result."""
    result = {"filePath": path, "oldString": before, "newString": after, "originalFile": before, "structuredPatch": []}
    call = assistant(tool_use("Edit", file_path=path, old_string=before, new_string=after))
    return [call, tool_result("done", structured=result)]


def nonsense(config: Path) -> None:
    """Write a session whose results have fields of any type, and lone surrogates."""
    hunks = [{"oldStart": -5, "oldLines": 2**40, "newStart": 1, "newLines": 1, "lines": ["+a\nb", "-", "", "\\", "x"]}]
    path = "/w/LONE.py"
    results: list[Any] = [
        {"filePath": path, "originalFile": "a\n", "structuredPatch": hunks},
        {"filePath": path, "originalFile": None, "structuredPatch": hunks, "oldString": "", "newString": "q"},
        {"structuredPatch": "no"}, [1], None, {"type": "create", "content": "x\nLONE"},
        {"originalFile": 7, "structuredPatch": [[1]]},
    ]  # fmt: skip
    steps = [user("hi")]
    for result in results:
        call = tool_use("Edit", file_path=path, old_string="a", new_string="LONE")
        steps += [assistant(call, usage={"input_tokens": 10**18, "output_tokens": -5})]
        steps += [tool_result("ok", structured=result)]
    built = session(*steps, id=S[8], cwd="/w")
    built.save(config)
    (file,) = config.rglob(f"{S[8]}.jsonl")
    file.write_bytes(file.read_bytes().replace(b"LONE", b"\\ud800"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("review")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    made = {"type": "create", "filePath": f"{CWD}/new.txt", "content": "one\ntwo", "structuredPatch": []}
    session(
        user("Round the total"), *edit(FIRST, SECOND), user("Import math"), *edit(SECOND, THIRD),
        assistant(tool_use("Write", file_path=f"{CWD}/new.txt", content="one\ntwo")),
        tool_result("ok", structured=made),
        id=S[4], cwd=CWD,
    ).save(config)  # fmt: skip
    session(user("Take it back"), *edit(THIRD, SECOND), id=S[5], cwd=CWD, start="2026-01-09T09:00:00.000Z").save(config)
    many = [step for number in range(25) for step in edit("a\n" * 900, "b\n" * 900, f"{CWD}/f{number}.py")]
    session(user("Change all"), *many, id=BIG, cwd=CWD).save(config)
    nonsense(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def test_the_changes_of_two_turns_are_one_diff_with_both_prompts(place: Place) -> None:
    data = place.get(f"/session/{S[4]}/review.json")
    cart, new = data["files"]
    assert (cart["name"], cart["is_net"], cart["added"], cart["removed"]) == ("src/cart.py", True, 4, 1)
    (hunk,) = cart["hunks"]
    prompts = [cart["changes"][number]["prompt"] for number in hunk["changes"]]
    assert prompts == ["Round the total", "Import math"]
    assert ["-", 2, None, "    return sum(items)"] in hunk["lines"]
    assert (new["is_new"], new["added"]) == (True, 2)
    html = place.page(f"/session/{S[4]}/review")
    assert f'href="/session/{S[4]}?turn=2"' in html
    assert "<mark>" in html


def test_each_change_leads_to_its_step(place: Place) -> None:
    for file in place.get(f"/session/{S[4]}/review.json")["files"]:
        for change in file["changes"]:
            detail = place.get(f"/session/{S[4]}/detail.json?step={change['step']}")
            assert detail["row"]["name"] in ("Edit", "Write")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_git_applies_the_downloaded_patch(place: Place, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/cart.py").write_text(FIRST)
    answer = place.served.get(f"/session/{S[4]}/review.patch")
    assert answer.headers["content-disposition"].startswith("attachment")
    subprocess.run(["git", "apply", "-"], input=answer.body, cwd=tmp_path, check=True)
    assert (tmp_path / "src/cart.py").read_text() == THIRD
    assert (tmp_path / "new.txt").read_text() == "one\ntwo"


def test_a_file_shows_more_context_when_asked(place: Place) -> None:
    base = f"/session/{S[4]}/review.json?file={quote(CART)}"
    (file,) = place.get(base)["files"]
    (wide,) = place.get(f"{base}&context=100")["files"]
    assert len(wide["hunks"][0]["lines"]) >= len(file["hunks"][0]["lines"])
    assert place.served.get(f"/session/{S[4]}/review?file=/none").status == 404


def test_a_long_review_is_paged_by_file_and_by_line(place: Place) -> None:
    first = place.get(f"/session/{BIG}/review.json")
    assert (first["total"], len(first["files"]), first["next_offset"]) == (25, 10, 10)
    assert all(sum(len(hunk["lines"]) for hunk in file["hunks"]) <= 600 for file in first["files"])
    assert first["files"][0]["lines_left"] == 1200
    second = place.get(f"/session/{BIG}/review.json?offset=20")
    assert [file["name"] for file in second["files"]] == [f"f{number}.py" for number in range(20, 25)]
    assert len(place.page(f"/session/{BIG}/review")) < 2_000_000


def test_the_history_of_a_file_names_every_session_that_changed_it(place: Place) -> None:
    data = place.get(f"/files.json?path={quote(CART)}")
    assert [(row["session"], row["changes"]) for row in data["sessions"]] == [(S[5], 1), (S[4], 2)]
    assert data["sessions"][0]["files"][0]["changes"][0]["prompt"] == "Take it back"
    html = place.page(f"/files?path={quote(CART)}")
    assert "Take it back" in html
    assert "Import math" in html
    (found,) = place.get("/files.json?path=src/cart.py")["paths"]
    assert found["path"] == CART


def test_the_numbers_of_files_lead_to_the_review(place: Place) -> None:
    assert f'href="/session/{S[4]}/review"' in place.page(f"/session/{S[4]}")
    assert f'href="/session/{S[4]}/review"' in place.page("/sessions?q=Round")


def test_every_session_of_the_demo_can_be_reviewed_and_links_are_answered(place: Place) -> None:
    for row in place.get("/sessions.json?hidden=1")["rows"]:
        path = f"/session/{quote(row['id'], safe='')}/review"
        html = place.page(path)
        assert "<script>alert" not in html
        assert "Traceback" not in html
    html = place.page(f"/session/{S[4]}/review?view=split&wrap=1")
    for address in sorted({unescape(found) for found in re.findall(r'href="(/[^"#]*)', html)}):
        assert place.served.get(address).status == 200, address


def test_hostile_changes_are_text(place: Place) -> None:
    html = place.page(f"/session/{S[1]}/review")
    assert "<script>alert" not in html
    assert place.served.get(f"/session/{S[1]}/review.patch").status in (200, 404)


@pytest.mark.parametrize("page", ["cost", "review", "review?view=split", "time", "review.patch"])
def test_results_of_any_type_stop_no_page(place: Place, page: str) -> None:
    assert place.served.get(f"/session/{S[8]}/{page}").status == 200
    name, _, query = page.partition("?")
    if not name.endswith(".patch"):
        assert place.served.get(f"/session/{S[8]}/{name}.json?{query}").status == 200
