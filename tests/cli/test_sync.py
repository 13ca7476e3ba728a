"""`unspool sync`, and what commands do with a store that is damaged, newer, or off."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Ran, Run
from tests.faults.world import World, archived, check, counted, identity, rows
from unspool.demo.write import write_demo
from unspool.store.database import STORE, VERSIONS
from unspool.testing.build import assistant, session, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
PERIODS = ["daily", "weekly", "monthly", "session", "model", "project", "branch", "agent", "blocks"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three sessions."""
    made = World(tmp_path / "config")
    for _ in range(3):
        made.append(made.create(), 6)
    return made


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The data folder."""
    return tmp_path / "home" / ".local" / "share" / "unspool"


def done(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err
    return ran


def data(run: Run, *arguments: str | Path) -> Any:
    ran = done(run(*arguments, TZ="UTC"))
    assert ran.err == ""
    return json.loads(ran.out)


def without(text: str, tmp_path: Path) -> str:
    return text.replace(str(tmp_path), "TMP")


def test_a_file_from_after_the_year_2262_is_read_once(run: Run, world: World) -> None:
    far = 10**19  # nanoseconds: more than SQLite's numbers can hold
    os.utime(world.paths[0], ns=(far, far))
    assert done(run("sync", "--config-dir", world.root)).out.startswith("files             3 (3 changed, 0 gone)\n")
    assert done(run("sync", "--config-dir", world.root)).out.startswith("files             3 (0 changed, 0 gone)\n")
    assert len(data(run, "ls", "--json", "--config-dir", world.root)["items"]) == 3


def test_a_sync_says_what_it_did(run: Run, world: World) -> None:
    out = done(run("sync", "--config-dir", world.root)).out
    assert out.startswith("files             3 (3 changed, 0 gone)\nread              ")
    assert out.splitlines()[-1].startswith("took")
    report = data(run, "sync", "--json", "--config-dir", world.root)
    assert {name: value for name, value in report.items() if "seconds" not in name and name != "peak_rss_bytes"} == {
        "schema": "unspool/sync/1",
        "skipped": [],
        "files_seen": 3,
        "files_changed": 0,
        "bytes_read": 0,
        "lines_parsed": 0,
        "rows_added": 0,
        "generations": 0,
        "gone": 0,
        "failed": [],
        "passages_added": 0,
    }


def test_every_command_says_the_same_with_and_without_a_store(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config"
    write_demo(config)
    for command in (["ls"], ["ls", "--all"], *(["usage", period] for period in PERIODS)):
        with_store = done(run(*command, "--json", "--config-dir", config, TZ="UTC"))
        assert with_store == run(*command, "--json", "--no-store", "--config-dir", config, TZ="UTC"), command


def test_deep_and_rebuild_do_not_go_together(run: Run, world: World) -> None:
    assert run("sync", "--deep", "--rebuild", "--config-dir", world.root) == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: --deep and --rebuild cannot be used together
hint: remove --deep; a rebuilt store needs no comparison
""",
        )
    )


def test_a_store_that_is_no_database_is_named_and_made_again(run: Run, world: World, own: Path, tmp_path: Path) -> None:
    done(run("sync", "--config-dir", world.root))
    world.synced()
    world.delete(world.paths[0])
    (own / "store.db").write_bytes(b"what is this? " * 999)
    for command in ("sync", "ls"):
        damaged = run(command, "--config-dir", world.root)
        assert (damaged.code, damaged.out) == (4, "")
        assert without(damaged.err, tmp_path) == snapshot("""\
unspool: the store in `TMP/home/.local/share/unspool` is damaged: file is not a database
hint: rebuild it with `unspool --config-dir TMP/config sync --rebuild`, or read the files with `--no-store`
""")
    done(run("ls", "--no-store", "--config-dir", world.root))
    again = done(run("sync", "--rebuild", "--config-dir", world.root))
    assert without(again.err, tmp_path) == snapshot("""\
kept the old store as `TMP/home/.local/share/unspool/store.db.old-1`; delete it when the new one works
""")
    check(world, own, tmp_path / "fresh")


def test_a_store_with_damaged_pages_is_named_and_made_again(run: Run, world: World, own: Path, tmp_path: Path) -> None:
    done(run("sync", "--config-dir", world.root))
    world.synced()
    with closing(sqlite3.connect(own / "store.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = (own / "store.db").read_bytes()
    (own / "store.db").write_bytes(pages[:4096] + b"\xde\xad" * (len(pages[4096:]) // 2))
    damaged = run("ls", "--config-dir", world.root)
    assert (damaged.code, damaged.out) == (4, "")
    assert "is damaged" in damaged.err
    assert f"hint: rebuild it with `unspool --config-dir {world.root} sync --rebuild`" in damaged.err
    done(run("sync", "--rebuild", "--config-dir", world.root))
    check(world, own, tmp_path / "fresh")


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_store_that_was_deleted_is_made_again_from_the_archive_by_any_command(
    run: Run, world: World, own: Path, tmp_path: Path, how: str
) -> None:
    done(run("sync", "--config-dir", world.root))
    world.synced()
    world.replace(world.paths[0])
    world.delete(world.paths[1])
    done(run("sync", "--config-dir", world.root))
    world.synced()
    for ending in ("-wal", "-shm"):
        (own / f"store.db{ending}").unlink(missing_ok=True)
    (own / "store.db").unlink() if how == "deleted" else (own / "store.db").write_bytes(b"")
    assert [row["gone"] for row in data(run, "ls", "--json", "--config-dir", world.root)["items"]].count(True) == 1
    check(world, own, tmp_path / "fresh")


def test_a_store_of_a_newer_unspool_is_refused_and_made_again_if_asked(
    run: Run, world: World, own: Path, tmp_path: Path
) -> None:
    done(run("sync", "--config-dir", world.root))
    world.synced()
    with closing(sqlite3.connect(own / "store.db", isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {VERSIONS[STORE] + 1}")
    refused = run("ls", "--config-dir", world.root)
    assert (refused.code, refused.out) == (5, "")
    tables = f"schema {VERSIONS[STORE] + 1}, this version supports {VERSIONS[STORE]}"
    assert refused.err.replace(str(own), "OWN").replace(tables, "TABLES").splitlines() == snapshot(
        [
            "unspool: `OWN/store.db` was created by a newer version of unspool (TABLES)",
            f"hint: upgrade unspool, or rebuild it with `unspool --config-dir {world.root} sync --rebuild`, "
            "or read the files with `--no-store`",
        ]
    )
    done(run("sync", "--rebuild", "--config-dir", world.root))
    check(world, own, tmp_path / "fresh")


def test_an_archive_of_a_newer_unspool_is_refused_and_the_store_stays(run: Run, world: World, own: Path) -> None:
    done(run("sync", "--config-dir", world.root))
    with closing(sqlite3.connect(own / "archive.db", isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 2")
    for command in (["sync"], ["sync", "--rebuild"]):
        refused = run(*command, "--config-dir", world.root)
        assert refused.code == 5
        assert "archive.db` was created by a newer version of unspool" in refused.err
        assert "--rebuild" not in refused.err
    assert list(own.glob("*.old-*")) == []


def test_a_damaged_archive_is_saved_as_far_as_it_goes(run: Run, world: World, own: Path, tmp_path: Path) -> None:
    done(run("sync", "--config-dir", world.root))
    (own / "archive.db").write_bytes(b"what is this? " * 999)
    for ending in ("-wal", "-shm"):
        (own / f"archive.db{ending}").unlink(missing_ok=True)
    again = done(run("sync", "--rebuild", "--config-dir", world.root))
    assert "the archive was damaged: recovered 0 files completely and 0 partly" in again.err
    assert (own / "archive.db.old-1").read_bytes().startswith(b"what is this?")
    world.synced()
    check(world, own, tmp_path / "fresh")


def test_a_file_rewritten_in_the_middle_is_found_with_deep(run: Run, world: World, own: Path, tmp_path: Path) -> None:
    path = world.paths[0]
    world.append(path, 40)
    done(run("sync", "--config-dir", world.root))
    world.synced()
    before = path.stat()
    world.rewrite(path, 12_000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert data(run, "sync", "--json", "--config-dir", world.root)["generations"] == 0
    assert data(run, "sync", "--deep", "--json", "--config-dir", world.root)["generations"] == 1
    world.synced()
    check(world, own, tmp_path / "fresh")


def test_the_archive_can_be_off_and_is_made_good_when_it_is_on(
    run: Run, world: World, own: Path, tmp_path: Path
) -> None:
    done(run("config", "archive", "off"))
    done(run("sync", "--config-dir", world.root))
    assert archived(own) == {}
    done(run("config", "archive", "on"))
    done(run("sync", "--config-dir", world.root))
    world.synced()
    check(world, own, tmp_path / "fresh")


def test_a_session_that_was_not_archived_is_listed_when_it_has_gone_and_cannot_be_shown(run: Run, world: World) -> None:
    done(run("config", "archive", "off"))
    done(run("sync", "--config-dir", world.root))
    world.delete(world.paths[0])
    listed = data(run, "ls", "--json", "--config-dir", world.root)["items"]
    assert [row["id"] for row in listed if row["gone"]] == [identity(1)]
    shown = run("show", identity(1), "--config-dir", world.root)
    assert (shown.code, shown.out) == (3, "")
    assert "file not found" in shown.err


def test_several_config_folders_share_a_store_and_answer_for_themselves(run: Run, tmp_path: Path) -> None:
    around = tmp_path / "around"
    both = session(user("hi"), assistant("ho"), id=S[1])
    both.save(around / "one")
    both.save(around / "two")
    session(user("a"), assistant("b"), id=S[2], cwd="/home/me/other").save(around / "one")
    session(user("c"), assistant("d"), id=S[3]).save(around / "two")
    places = ["one", "two", ".", "one/projects/-home-me-other", "two/projects/-home-me-project"]
    for place in [*places, "one"]:
        for command in (["ls"], ["usage", "session"]):
            asked: list[str | Path] = [*command, "--json", "--config-dir", around / place]
            with_store, without_one = data(run, *asked), data(run, *asked, "--no-store")
            assert sorted(map(repr, _rows(with_store))) == sorted(map(repr, _rows(without_one))), (place, command)


def _rows(value: Any) -> list[Any]:
    return [value.get("totals"), *value["items"]]


def test_a_name_that_is_not_text_is_named_and_costs_nothing_else(run: Run, world: World, tmp_path: Path) -> None:
    (world.paths[0].parent / os.fsdecode(b"\xff.jsonl")).write_bytes(b"{}\n")
    ran = run("sync", "--json", "--config-dir", world.root)
    assert ran.code == 0, ran.err
    assert [one["reason"] for one in json.loads(ran.out)["failed"]] == ["its name is not valid UTF-8"]
    words = done(run("sync", "--config-dir", world.root)).err
    assert words.endswith("its name is not valid UTF-8\n")
    listed = run("ls", "--json", "--config-dir", world.root)
    assert listed.err == words
    found = json.loads(listed.out)
    assert len(found["items"]) == 3
    assert [one["reason"] for one in found["skipped"]] == ["its name is not valid UTF-8"]


def test_a_config_folder_whose_name_is_not_text_is_read_without_a_store(run: Run, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xffconfig")
    session(user("hi"), assistant("ho"), id=S[1]).save(odd)
    refused = run("sync", "--config-dir", odd)
    assert (refused.code, refused.out) == (5, "")
    assert "is not valid UTF-8" in refused.err
    listed = run("usage", "--json", "--config-dir", odd)
    assert listed.code == 0
    assert json.loads(listed.out)["totals"]["responses"] == 1
    assert listed.err.endswith("; reading the files instead\n")


CHILD = """
import os, sys
process = os.posix_spawn(sys.executable, [sys.executable, "-m", "unspool", *sys.argv[1:]], os.environ)
_, status, used = os.wait4(process, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def measured(own: Path, *arguments: str | Path) -> int:
    """Run a command; return the most memory that it had, in bytes."""
    environment = {"HOME": str(own.parent), "PATH": os.environ["PATH"], "UNSPOOL_HOME": str(own)}
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    ran = subprocess.run(command, env=environment, capture_output=True, check=True)
    code, peak = map(int, ran.stdout.splitlines()[-1].split())
    assert (code, ran.stderr) == (0, b"")
    return peak


def test_a_prompt_of_63_mb_is_synced_in_little_memory(tmp_path: Path) -> None:
    config, own = tmp_path / "config", tmp_path / "own"
    # Letters that take two bytes in a file and two in memory: as a string it would be held once more.
    noise = "".join(f"{number * 7919 % 100_003} wörter " for number in range(4_000_000))
    session(user("Begin. " + noise[: 58 * 1024 * 1024]), assistant("ho"), id=S[1]).save(config)
    assert measured(own, "sync", "--config-dir", config) < 150 * 1000 * 1000
    with closing(sqlite3.connect(own / "store.db")) as database:
        assert database.execute("SELECT first_prompt FROM sessions").fetchone()[0].startswith("Begin. ")


def test_a_line_of_70_mb_is_kept_byte_for_byte_in_little_memory(tmp_path: Path) -> None:
    config, own = tmp_path / "config", tmp_path / "own"
    before, after = session(user("hi"), assistant("ho"), id=S[1]).lines
    path = session(id=S[1]).save(config)
    noise = os.urandom(700_000).hex().encode() * 50
    path.write_bytes(before + b'{"type":"user","long":"' + noise + b'"}\n' + after)
    whole = path.read_bytes()
    assert len(whole) > 70 * 1000 * 1000

    most = measured(own, "sync", "--config-dir", config)
    path.unlink()
    most = max(most, measured(own, "export", S[1], "--jsonl", "-o", tmp_path / "copy", "--config-dir", config))
    assert (tmp_path / "copy").read_bytes() == whole
    assert len(counted(own)) == 1
    assert rows(own, config)[str(path)]["gone"]
    assert most < 150 * 1000 * 1000
