"""A lake with pseudonyms, and rows that are derived again, as people run them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.documents.test_documents import check
from tests.faults.world import World


def test_a_lake_with_pseudonyms_needs_its_key_which_tells_who_is_who(run: Run, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    world.append(world.create(), 4)
    url, lake, key = (tmp_path / "segments").as_uri(), tmp_path / "lake", tmp_path / "key.json"
    sent = run("collect", "--to", url, "--config-dir", world.root, "--org", "acme", "--user", "ada")
    assert sent.code == 0, sent.err
    assert run("lake", "init", lake, "--pseudonyms", key).code == 0
    refused = run("lake", "ingest", "--from", url, "--to", lake)
    assert (refused.code, "has pseudonyms" in refused.err) == (5, True)
    assert run("lake", "ingest", "--from", url, "--to", lake, "--pseudonyms", key).code == 0
    rows = json.loads(run("lake", "sql", "--lake", lake, "SELECT DISTINCT user FROM entries", "--json").out)["items"]
    users = ("lake", "users", "--lake", lake, "--pseudonyms", key)
    people = check("lake-pseudonyms", run(*users, "--from", url, "--json").out)["items"]
    assert people == [{"pseudonym": rows[0]["user"], "user": "ada"}]
    # A binding has the pseudonym too.
    bound = check("lake-users", run(*users, "--set", "acme/d1=ada", "--json").out)["items"]
    assert bound == [{"device": "acme/d1", "user": rows[0]["user"]}]
    ingest = ("lake", "ingest", "--from", url, "--to", lake, "--pseudonyms", key)
    assert run(*ingest, "--again", "--device", "acme/d1", "--since", "2026-01-01").code == 0
    assert run(*ingest, "--device", "acme/d1").code == 2
    assert run(*ingest, "--again", "--since", "yesterday").code == 2
