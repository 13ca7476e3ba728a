"""Stars, tags, notes and saved filters: only our own forms change them, and nothing loses them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.serving import Answer, Served, serving
from unspool.testing.build import assistant, session, user

IDS = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(3)]
EVIL = "<script>alert(1)</script>"


class Place:
    """A server on three sessions, and the command line on the same folders."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served, self.folder = served, folder

    def post(self, path: str, token: str | None = None, **fields: str) -> Answer:
        """Send a form as a browser does."""
        served = self.served
        body = urlencode({"token": served.page_key if token is None else token, **fields}).encode()
        kind = "application/x-www-form-urlencoded"
        headers = {"Cookie": served.cookie, "Origin": served.address, "Content-Type": kind}
        return served.ask("POST", path, headers, body)

    def ids(self, query: str) -> set[str]:
        return {row["id"] for row in self.served.get(f"/sessions.json?{query}").json["rows"]}

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "unspool", *words, "--config-dir", str(self.folder / "claude")]
        environment = {"UNSPOOL_HOME": str(self.folder / "own"), "TZ": "UTC", "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def listed(self, *words: str) -> set[str]:
        done = self.command("ls", "--json", *words)
        assert done.returncode in (0, 1), done.stderr
        return {item["session_id"] for item in json.loads(done.stdout)["items"]}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    for number, id in enumerate(IDS):
        session(user(f"Task {number}"), assistant("Done."), id=id, cwd=f"/p/n{number}").save(tmp_path / "claude")
    with serving(tmp_path / "claude", home=tmp_path / "own") as served:
        served.enter()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(served.get("/sessions.json").json["rows"]) < 3:
            pass
        yield Place(served, tmp_path)


def test_a_form_stars_tags_and_notes_a_session_and_lists_find_it(place: Place) -> None:
    answer = place.post("/notes/star", star=IDS[0], back="/sessions?q=task")
    assert (answer.status, answer.headers["location"]) == (303, "/sessions?q=task")
    saved = place.post(
        f"/notes/{IDS[1]}", tags="release, fix", note=f"The answer is here. {EVIL}", back="//evil.example"
    )
    assert (saved.status, saved.headers["location"]) == (303, f"/notes/{IDS[1]}")
    assert place.ids("starred=1") == place.listed("--starred") == {IDS[0]}
    assert place.ids("tag=fix") == place.listed("--tag", "fix") == {IDS[1]}
    assert place.ids("q=answer") == place.listed("--note", "ANSWER") == {IDS[1]}
    assert place.listed("--tag", "other") == set()
    assert EVIL not in place.served.get("/sessions").text
    assert EVIL not in place.served.get("/notes").text
    assert place.served.get("/notes.json").json["sessions"][1]["tags"] == ["release", "fix"]
    facets = place.served.get("/sessions.json").json["facets"]
    assert (facets["starred"], facets["tag"]) == (1, [["fix", 1], ["release", 1]])
    place.post("/notes/star", unstar=IDS[0])
    assert place.ids("starred=1") == set()


def test_only_a_form_with_the_page_key_changes_anything(place: Place) -> None:
    assert place.post("/notes/star", token="wrong", star=IDS[0]).status == 403
    headers = {"Cookie": place.served.cookie, "Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"token": place.served.page_key, "star": IDS[0]}).encode()
    assert place.served.ask("POST", "/notes/star", headers, body).status == 403
    assert place.post("/notes/star", star="nothing").status == 404
    assert place.post("/notes/list", name="x", query="sort=odd").status == 400
    assert not (place.folder / "own" / "annotations.jsonl").exists()


def test_neither_a_rebuild_nor_a_deleted_store_loses_them_and_no_store_reads_them(place: Place) -> None:
    place.post("/notes/star", star=IDS[2])
    kept = (place.folder / "own" / "annotations.jsonl").read_bytes()
    assert place.listed("--starred", "--no-store") == {IDS[2]}
    assert place.command("sync", "--rebuild").returncode == 0
    assert place.listed("--starred") == {IDS[2]}
    for file in (place.folder / "own").glob("*.sqlite*"):
        file.unlink()
    assert place.listed("--starred") == {IDS[2]}
    assert (place.folder / "own" / "annotations.jsonl").read_bytes() == kept


def test_a_filter_is_saved_under_a_name_and_removed(place: Place) -> None:
    assert place.post("/notes/list", name="first project", query="project=n0&step=9&sort=cost").status == 303
    assert place.served.get("/sessions.json").json["saved_filters"] == {"first project": "project=n0&sort=cost"}
    assert 'href="/sessions?project=n0&amp;sort=cost"' in place.served.get("/sessions").text
    titles = [one["title"] for one in place.served.get("/palette.json?q=first").json["places"]]
    assert "first project" in titles
    place.post("/notes/list", name="first project", remove="1")
    assert place.served.get("/sessions.json").json["saved_filters"] == {}
