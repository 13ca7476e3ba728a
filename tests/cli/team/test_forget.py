"""`unspool lake forget`, as an administrator runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run
from tests.cli.documents.test_documents import check
from tests.faults.world import World
from unspool.collect.trust import create_administrator_key


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Path:
    """A lake with an administrator, whose key is in the data folder, and with two sessions."""
    home = tmp_path / "home" / ".local" / "share" / "unspool"
    key = create_administrator_key(home, "acme")
    world = World(tmp_path / "config")
    for count in (4, 9):
        world.append(world.create(), count)
    enrolled = run("collect", "enrol", "--org", "acme", "--user", "ada", "--administrator", key.public_key)
    assert enrolled.code == 0, enrolled.err
    url = (tmp_path / "segments").as_uri()
    assert run("collect", "--to", url, "--config-dir", world.root).code == 0
    assert run("lake", "init", tmp_path / "lake").code == 0
    assert run("lake", "admin", "init", "--lake", tmp_path / "lake", "--org", "acme").code == 0
    assert run("lake", "ingest", "--from", url, "--to", tmp_path / "lake").code == 0
    return tmp_path / "lake"


def forget(run: Run, lake: Path, *more: str) -> Ran:
    """Run the command."""
    return run("lake", "forget", "--lake", lake, "--from", (lake.parent / "segments").as_uri(), *more)


def test_it_says_what_would_go_then_removes_it_and_the_collector_stops(run: Run, lake: Path, tmp_path: Path) -> None:
    plan = check("lake-forget", forget(run, lake, "--user", "ada", "--json").out)
    assert (plan["devices"], plan["parts"], plan["removed"]) == (1, 2, False)
    said = forget(run, lake, "--user", "ada")
    assert (said.code, said.out.split("; ")[1]) == (0, "add `--yes` to remove it\n")
    done = check("lake-forget", forget(run, lake, "--user", "ada", "--yes", "--json").out)
    assert (done["lines"], done["removed"]) == (plan["lines"], True)
    query = "SELECT count(*) AS n FROM entries"
    assert json.loads(run("lake", "sql", "--lake", lake, query, "--json").out)["items"] == [{"n": 0}]
    url = (tmp_path / "segments").as_uri()
    assert run("lake", "verify", "--full", "--lake", lake, "--from", url).code == 0
    stopped = run("collect", "--to", url, "--config-dir", tmp_path / "config")
    assert (stopped.code, stopped.err.splitlines()[0]) == (
        5,
        "unspool: an administrator has removed this device: it must not send anything",
    )
    # Whoever leaves then does not bring the name back.
    assert run("collect", "leave", "--yes").code == 0
    assert not any(b'"ada"' in path.read_bytes() for path in (tmp_path / "segments").rglob("*") if path.is_file())


def test_a_device_that_enrolled_with_a_token_believes_the_administrator_who_made_it(run: Run, tmp_path: Path) -> None:
    lake, url, token = tmp_path / "lake", (tmp_path / "segments").as_uri(), tmp_path / "token"
    assert run("lake", "init", lake).code == 0
    administrated = ("--lake", lake, "--org", "acme")
    assert run("lake", "admin", "init", *administrated).code == 0
    enrol = ("lake", "admin", "enrol", *administrated, "--user", "ada", "--device", "laptop", "-o", token)
    assert run(*enrol).code == 0
    assert run("collect", "enrol", "--token-file", token, "--to", url).code == 0
    world = World(tmp_path / "config")
    for count in (4, 9):
        world.append(world.create(), count)
    send = ("collect", "--to", url, "--config-dir", world.root)
    assert run(*send).code == 0
    assert run("lake", "admin", "accept", *administrated, "--from", url).code == 0
    assert run("lake", "ingest", "--from", url, "--to", lake).code == 0
    assert forget(run, lake, "--session", world.paths[1].stem, "--yes").code == 0
    for path in world.paths:
        world.append(path, 2)
    assert run(*send, "--json").code == 0
    assert run("lake", "ingest", "--from", url, "--to", lake).code == 0
    query = "SELECT session, count(*) AS n FROM entries GROUP BY session"
    rows = json.loads(run("lake", "sql", "--lake", lake, query, "--json").out)["items"]
    assert rows == [{"session": world.paths[0].stem, "n": len(world.paths[0].read_text().splitlines())}]
    assert run("lake", "verify", "--lake", lake, "--from", url).code == 0
    assert forget(run, lake, "--device", "acme/laptop", "--yes").code == 0
    assert run(*send).code == 5


def test_what_is_wrong_is_said_before_anything_is_changed(run: Run, lake: Path, tmp_path: Path) -> None:
    assert forget(run, lake, "--yes").code == 2
    assert forget(run, lake, "--device", "nothing", "--yes").code == 2
    assert forget(run, lake, "--user", "nobody", "--yes").code == 3
    assert forget(run, lake, "--project", "nowhere", "--yes").code == 3
    assert forget(run, lake, "--session", "00000000-0000-4000-8000-00000000ffff", "--yes").code == 1
    home = tmp_path / "home" / ".local" / "share" / "unspool"
    (home / "administrator-acme.json").unlink()
    create_administrator_key(home, "acme")
    refused = forget(run, lake, "--user", "ada", "--yes")
    assert (refused.code, refused.err.splitlines()[0]) == (
        5,
        "unspool: your key is not that of an administrator of `acme`",
    )


def test_an_administrator_who_has_forgotten_something_is_removed_with_the_destination(
    run: Run, lake: Path, tmp_path: Path
) -> None:
    session = next((tmp_path / "config").rglob("*.jsonl")).stem
    assert forget(run, lake, "--session", session, "--yes").code == 0
    bob, url = str(tmp_path / "bob"), (tmp_path / "segments").as_uri()
    key = run("lake", "admin", "key", "--org", "acme", UNSPOOL_HOME=bob).out.strip()
    (first,) = json.loads(run("lake", "admin", "show", "--lake", lake, "--org", "acme", "--json").out)["administrators"]
    assert run("lake", "admin", "add", "--lake", lake, "--org", "acme", "--key", key).code == 0
    remove = ("lake", "admin", "remove", "--lake", lake, "--org", "acme", "--key", first)
    refused = run(*remove, UNSPOOL_HOME=bob)
    assert (refused.code, refused.out, "add `--from URL`" in refused.err) == (5, "", True)
    assert run(*remove, "--from", url, UNSPOOL_HOME=bob).code == 0
    for command in (("ingest", "--to"), ("verify", "--lake")):
        assert run("lake", command[0], command[1], lake, "--from", url).code == 0
