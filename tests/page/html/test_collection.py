"""A folder of pages: what is written, what is written again, and where the links lead."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import unspool
from unspool.demo import write_demo
from unspool.errors import Refused
from unspool.page.html import CollectedSession, write_collection
from unspool.page.html.collection import INDEX_FILE, PAGES_FILE, PAGES_FOLDER, WrittenPages


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_demo(tmp_path / "claude")
    return tmp_path / "claude"


def export(config: Path, folder: Path) -> WrittenPages:
    sessions = [
        CollectedSession(session, session.title, session.project, None, session.facts.last, len(session.turns), 0)
        for session in unspool.open(config).sessions()
        if session.turns
    ]
    return write_collection(sessions, folder)


def test_every_session_has_a_page_that_the_index_links_and_that_links_back(config: Path, tmp_path: Path) -> None:
    report = export(config, tmp_path / "out")
    assert (report.failed, report.unchanged) == ([], 0)
    index = report.index_page.read_text()
    linked = set(re.findall(rf'href="({PAGES_FOLDER}/[^"#]+)"', index))
    pages = {f"{PAGES_FOLDER}/{path.name}" for path in (tmp_path / "out" / PAGES_FOLDER).iterdir()}
    assert linked == pages
    assert len(pages) == report.written
    for page in pages:
        assert f'href="../{INDEX_FILE}"' in (tmp_path / "out" / page).read_text()


def test_sessions_with_the_same_beginning_link_each_other(config: Path, tmp_path: Path) -> None:
    report = export(config, tmp_path / "out")
    folder = report.index_page.parent / PAGES_FOLDER
    groups: dict[str, list[str]] = {}
    for page in json.loads((tmp_path / "out" / PAGES_FILE).read_text())["pages"]:
        groups.setdefault(page["beginning"], []).append(page["file"])
    forked = [group for group in groups.values() if len(group) > 1]
    assert forked
    for group in forked:
        for page in group:
            assert set(re.findall(r'same beginning as <a href="([^"]+)"', (folder / page).read_text())) == {*group} - {
                page
            }


def test_a_fork_that_names_its_origin_is_linked_both_ways(tmp_path: Path) -> None:
    folder = tmp_path / "claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    for number, id in enumerate(ids):
        line = {
            "type": "user", "uuid": f"u{number}", "sessionId": id, "timestamp": "2026-01-05T09:00:00Z", "cwd": "/work",
            "message": {"role": "user", "content": f"prompt {number}"},
        }  # fmt: skip
        line |= {"forkedFrom": {"sessionId": ids[0], "messageUuid": "u0"}} if number else {}
        (folder / f"{id}.jsonl").write_text(json.dumps(line) + "\n")
    export(tmp_path / "claude", tmp_path / "out")
    origin, fork = [(tmp_path / "out" / PAGES_FOLDER / f"{id}.html").read_text() for id in ids]
    assert f'fork <a href="{ids[1]}.html">prompt 1</a>' in origin
    assert f'forked from <a href="{ids[0]}.html">prompt 0</a>' in fork


def test_only_what_has_changed_is_written_again(config: Path, tmp_path: Path) -> None:
    first = export(config, tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / PAGES_FOLDER).iterdir()}
    again = export(config, tmp_path / "out")
    assert (again.written, again.unchanged) == (0, first.written)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    session = next(session for session in unspool.open(config).sessions() if session.turns)
    with session.path.open("ab") as file:
        file.write(session.entries[-1].line)
    later = export(config, tmp_path / "out")
    assert (later.written, later.unchanged) == (1, first.written - 1)


def test_a_page_that_was_removed_is_written_again(config: Path, tmp_path: Path) -> None:
    export(config, tmp_path / "out")
    page = next((tmp_path / "out" / PAGES_FOLDER).iterdir())
    page.unlink()
    assert export(config, tmp_path / "out").written == 1
    assert page.exists()


def test_the_page_of_a_session_that_is_gone_stays_in_the_index(config: Path, tmp_path: Path) -> None:
    export(config, tmp_path / "out")
    session = next(session for session in unspool.open(config).sessions() if session.turns)
    session.path.unlink()
    export(config, tmp_path / "out")
    assert f"{PAGES_FOLDER}/{session.id}.html" in (tmp_path / "out" / INDEX_FILE).read_text()


def test_two_sessions_with_one_id_have_two_pages(config: Path, tmp_path: Path) -> None:
    session = next(session for session in unspool.open(config).sessions() if session.turns)
    other = session.path.parent.with_name("-other")
    other.mkdir()
    (other / session.path.name).write_bytes(session.path.read_bytes())
    report = export(config, tmp_path / "out")
    assert len(list((tmp_path / "out" / PAGES_FOLDER).glob(f"{session.id}*.html"))) == 2
    assert report.written == len(list((tmp_path / "out" / PAGES_FOLDER).iterdir()))


def test_a_folder_with_other_files_is_refused_and_left_alone(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(Refused):
        export(config, folder)
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_nobody_else_can_read_the_folder(config: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        export(config, tmp_path / "out")
    finally:
        os.umask(before)
    for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("file", ["../../outside.html", "/etc/outside.html", "a/b.html"])
def test_a_changed_list_of_pages_leads_nowhere_else(file: str, config: Path, tmp_path: Path) -> None:
    export(config, tmp_path / "out")
    kept = tmp_path / "out" / PAGES_FILE
    pages = json.loads(kept.read_text())
    pages["pages"][0] |= {"file": file, "stamp": "", "title": "</script><script>alert(1)</script>"}
    kept.write_text(json.dumps(pages))
    export(config, tmp_path / "out")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"claude", "out"}
    assert file not in (tmp_path / "out" / INDEX_FILE).read_text()


@pytest.mark.parametrize("damage", ["", "[]", '{"pages": 1}', "{" * 100_000])
def test_a_damaged_list_of_pages_is_made_again(damage: str, config: Path, tmp_path: Path) -> None:
    first = export(config, tmp_path / "out")
    (tmp_path / "out" / PAGES_FILE).write_text(damage)
    assert export(config, tmp_path / "out").written == first.written
