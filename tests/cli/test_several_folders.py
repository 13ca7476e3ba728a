"""Several `--config-dir` mean the union, in every command: each session is there, each response once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Run
from tests.serving import serving
from unspool.testing.build import assistant, session, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
COPIED = {"output_tokens": 700}


class TwoFolders(NamedTuple):
    """Two config folders: each has a session of its own, and one has a copy of a session of the other."""

    one: Path
    two: Path

    @property
    def named(self) -> tuple[str, ...]:
        """The options that name both."""
        return ("--config-dir", str(self.one), "--config-dir", str(self.two))


@pytest.fixture
def folders(tmp_path: Path) -> TwoFolders:
    """Write two config folders whose last prompts are a moment ago."""
    one, two = tmp_path / "one", tmp_path / "two"
    session(user("the first tide"), assistant("low"), id=S[1]).save(one)
    session(user("the copied tide"), assistant("high", usage=COPIED), id=S[2]).save(one)
    session(user("the other tide"), assistant("slack"), id=S[3]).save(two)
    (path,) = (one / "projects").glob(f"*/{S[2]}.jsonl")
    shutil.copy(path, two / "projects" / path.parent.name)
    return TwoFolders(one, two)


def asked(run: Run, *arguments: str | Path) -> Any:
    done = run(*arguments, TZ="UTC")
    assert (done.code, done.err) == (0, ""), done
    return json.loads(done.out)


WITH_AND_WITHOUT_STORE = pytest.mark.parametrize("store", [(), ("--no-store",)], ids=["store", "no-store"])


@WITH_AND_WITHOUT_STORE
def test_usage_counts_each_response_of_the_union_once(run: Run, folders: TwoFolders, store: tuple[str, ...]) -> None:
    alone = [asked(run, "usage", "--json", *store, "--config-dir", folder)["totals"] for folder in folders]
    assert [totals["responses"] for totals in alone] == [2, 2]
    data = asked(run, "usage", "--json", *store, *folders.named)
    for period in ("daily", "session", "model", "project", "branch", "agent", "blocks"):
        data = asked(run, "usage", period, "--json", *store, *folders.named)
        assert data["totals"]["responses"] == 3
        assert sum(row["responses"] for row in data["rows"]) == 3
    sessions = asked(run, "usage", "session", "--json", *store, *folders.named)
    assert sorted(row["session"] for row in sessions["rows"]) == [S[1], S[2], S[3]]
    since = asked(run, "usage", "--since", "2000-01-01", "--json", *store, *folders.named)
    assert since["totals"] == data["totals"]
    lines = asked(run, "usage", "--explain", "--json", *store, *folders.named)
    assert (len(lines["counted"]), len(lines["merged"])) == (3, 1)


def test_folders_that_share_nothing_add_up(run: Run, folders: TwoFolders) -> None:
    for path in (folders.two / "projects").glob(f"*/{S[2]}.jsonl"):
        path.unlink()
    totals = [asked(run, "usage", "--json", "--config-dir", folder)["totals"] for folder in folders]
    both = asked(run, "usage", "--json", *folders.named)["totals"]
    for name in ("responses", "output_tokens", "cost_micros"):
        assert both[name] == sum(each[name] for each in totals)


@WITH_AND_WITHOUT_STORE
def test_ls_and_stats_list_the_sessions_of_all_folders(run: Run, folders: TwoFolders, store: tuple[str, ...]) -> None:
    listed = [row["id"] for row in asked(run, "ls", "--json", *store, *folders.named)["items"]]
    assert sorted(listed) == [S[1], S[2], S[2], S[3]]  # a file each: the copy is one too
    counted = asked(run, "stats", "--json", *store, *folders.named)
    assert sorted(row["id"] for row in counted["sessions"]) == sorted(listed)


@WITH_AND_WITHOUT_STORE
def test_a_session_is_found_in_whichever_folder_has_it(run: Run, folders: TwoFolders, store: tuple[str, ...]) -> None:
    for id, text in ((S[1], "the first tide"), (S[3], "the other tide")):
        assert text in run("show", id, *store, *folders.named).out
        assert text in run("export", id, "--md", *store, *folders.named).out
        assert asked(run, "stats", id, "--json", *store, *folders.named)["human_turns"] == 1
        assert run("doctor", "--session", id, *store, *folders.named).code == 0
    assert "the copied tide" in run("show", S[2], *store, *folders.named).out  # of two files the one changed last
    found = asked(run, "search", "tide", "--session", S[2], "--json", *store, *folders.named)["items"]
    assert [hit["session"] for hit in found] == [S[2]]


@WITH_AND_WITHOUT_STORE
def test_search_and_sql_ask_the_union(run: Run, folders: TwoFolders, store: tuple[str, ...]) -> None:
    hits = asked(run, "search", "tide", "--json", *store, *folders.named)["items"]
    assert sorted({hit["session"] for hit in hits}) == [S[1], S[2], S[3]]
    (row,) = asked(run, "sql", "--json", "SELECT count(*) AS n FROM responses", *store, *folders.named)["items"]
    assert row["n"] == 3


def test_doctor_sync_and_watch_read_all_folders(run: Run, folders: TwoFolders) -> None:
    report = asked(run, "doctor", "--json", *folders.named)
    assert (report["sessions"], report["roots"]) == (4, [str(folders.one), str(folders.two)])
    synced = asked(run, "sync", "--json", "--deep", *folders.named)
    assert synced["files_seen"] == 4
    board = asked(run, "watch", "--once", "--json", "--since", "99999d", *folders.named)["items"]
    assert {row["session_id"] for row in board} == {S[1], S[2], S[3]}


def test_they_may_stand_before_the_command_and_after_it(run: Run, folders: TwoFolders) -> None:
    both = asked(run, "usage", "--json", *folders.named)
    assert asked(run, *folders.named, "usage", "--json") == both
    assert asked(run, "--config-dir", folders.one, "usage", "--json", "--config-dir", folders.two) == both


def test_a_folder_that_is_named_twice_or_lies_in_another_is_read_once(
    run: Run, folders: TwoFolders, tmp_path: Path
) -> None:
    alone = asked(run, "ls", "--json", "--config-dir", folders.one)
    assert asked(run, "ls", "--json", "--config-dir", folders.one, "--config-dir", f"{folders.one}/") == alone
    (tmp_path / "link").symlink_to(folders.one)
    assert asked(run, "ls", "--json", "--config-dir", folders.one, "--config-dir", tmp_path / "link") == alone
    inner = folders.one / "projects"
    assert asked(run, "ls", "--json", "--config-dir", inner, "--config-dir", folders.one) == alone


def test_one_of_several_folders_that_is_not_there_is_an_error(run: Run, folders: TwoFolders, tmp_path: Path) -> None:
    for command in (("usage",), ("ls",), ("stats",), ("doctor",), ("watch", "--once"), ("search", "tide"), ("sync",)):
        done = run(*command, "--config-dir", folders.one, "--config-dir", tmp_path / "gone")
        assert (done.code, done.out) == (3, ""), command
        assert str(tmp_path / "gone") in done.err


@pytest.mark.parametrize("command", [("chat", "-p", "hi"), ("hooks",), ("hooks", "install", "--yes")])
def test_a_command_that_writes_into_one_folder_refuses_several(
    run: Run, folders: TwoFolders, command: tuple[str, ...]
) -> None:
    done = run(*command, *folders.named)
    assert (done.code, done.out) == (2, "")
    assert "writes to one config folder, but 2 were given" in done.err
    assert len(done.err.splitlines()) == 2


def test_the_session_decides_into_which_folder_an_edit_writes(run: Run, folders: TwoFolders) -> None:
    edited = asked(run, "edit", "clone", S[3], "--json", *folders.named)
    log = asked(run, "edit", "log", "--json", *folders.named)["items"]
    assert [entry["undo_id"] for entry in log] == [edited["undo_id"]]
    assert len(list((folders.two / "projects").glob("*/*.jsonl"))) == 3
    assert run("edit", "undo", *folders.named).code == 2  # the last edit of which folder?
    assert run("edit", "undo", edited["undo_id"], *folders.named).code == 0
    assert len(list((folders.two / "projects").glob("*/*.jsonl"))) == 2


def test_restore_puts_a_session_back_into_the_folder_that_had_it(run: Run, folders: TwoFolders) -> None:
    asked(run, "sync", "--json", *folders.named)
    (path,) = (folders.two / "projects").glob(f"*/{S[3]}.jsonl")
    before = path.read_bytes()
    path.unlink()
    assert asked(run, "restore", S[3], "--json", *folders.named)["files"][0]["path"] == str(path)
    assert path.read_bytes() == before


def test_a_collector_sends_all_folders(run: Run, folders: TwoFolders, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    to = f"file://{tmp_path / 'objects'}"
    (tmp_path / "objects").mkdir()
    run("collect", "enrol", "--org", "org", "--user", "me")
    sent = asked(run, "collect", "--to", to, "--json", *folders.named)
    lines = sum(len(path.read_bytes().splitlines()) for folder in folders for path in folder.rglob("*.jsonl"))
    assert (sent["lines"], sent["skipped"]) == (lines, [])
    assert asked(run, "collect", "--to", to, "--json", *folders.named)["segments"] == 0


def test_the_page_shows_the_union(folders: TwoFolders, tmp_path: Path) -> None:
    with serving(folders.one, "--config-dir", str(folders.two), home=tmp_path / "own") as served:
        served.enter()
        usage: Any = None
        for _ in range(200):
            usage = served.get("/usage.json?period=session&range=all").json
            if usage["totals"]["responses"] == 3:
                break
        assert usage["totals"]["responses"] == 3
        listed = served.get("/sessions.json").json
        assert {row["id"] for row in listed["rows"]} == {S[1], S[2], S[3]}
        assert served.get(f"/session/{S[3]}").status == 200
        assert {hit["session"] for hit in served.get("/search.json?q=tide").json["hits"]} == {S[1], S[2], S[3]}
        page = served.get("/").text
        assert str(folders.one) in page
        assert str(folders.two) in page
