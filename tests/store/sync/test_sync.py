"""Syncing: only what has changed is read, nothing is lost, and a file that is odd costs no other."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.world import World, archived, check, counted, rows, synced, tables
from unspool.demo.write import write_demo
from unspool.store.sync.sync import STEPS, SyncOptions
from unspool.testing.build import assistant, session, text, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three sessions."""
    made = World(tmp_path / "config")
    for _ in range(3):
        made.append(made.create(), 6)
    return made


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes each read of a file of the config folder gave, as the system counts them."""
    found: list[int] = []
    pread, inside = os.pread, str(tmp_path / "config") + os.sep

    def counting(descriptor: int, length: int, offset: int) -> bytes:
        data = pread(descriptor, length, offset)
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(inside):
            found.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_tree_that_has_not_changed_is_not_read(tmp_path: Path, reads: list[int]) -> None:
    write_demo(tmp_path / "config")
    first = synced(tmp_path / "own", tmp_path / "config")
    assert first.lines_parsed > 500
    assert sum(reads) > 500_000
    reads.clear()
    second = synced(tmp_path / "own", tmp_path / "config")
    assert second.files_seen == first.files_seen
    assert (second.bytes_read, second.lines_parsed, second.rows_added, second.files_changed) == (0, 0, 0, 0)
    assert reads == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_of_a_line_appended_to_11_mb_only_that_is_read_and_16_kib(tmp_path: Path, reads: list[int]) -> None:
    built = session(user("hi"), assistant("ho " * 3000), id=S[1])
    path = session(*[user("x" * 9000) for _ in range(1250)], id=S[1]).save(tmp_path / "config")
    assert path.stat().st_size > 11 * 1000 * 1000
    assert synced(tmp_path / "own", tmp_path / "config").bytes_read >= path.stat().st_size
    for line in built.lines:
        reads.clear()
        with path.open("ab") as file:
            file.write(line)
        report = synced(tmp_path / "own", tmp_path / "config")
        assert report.lines_parsed == 1
        assert len(line) < report.bytes_read <= len(line) + 16 * 1024
        assert sum(reads) <= len(line) + 16 * 1024
    assert archived(tmp_path / "own")[str(path)] == [path.read_bytes()]


def test_the_steps_are_told_in_order(world: World, tmp_path: Path) -> None:
    told: list[str] = []
    (world.root / "plans").mkdir()
    (world.root / "plans" / "a.md").write_text("# A\n")
    (world.root / "history.jsonl").touch()
    synced(tmp_path / "own", world.root, SyncOptions(on_step=told.append))
    transactions = ["read", "archived", "written", "counted", "committed"]
    side = [step for step in transactions if step != "counted"]
    assert told == ["looked", *transactions, *side, "missed", "done"]
    assert set(told) | {"refilled"} == set(STEPS)


@pytest.mark.parametrize("how", ["truncate", "rewrite", "replace", "delete", "break_off"])
def test_what_a_file_had_is_kept_whatever_becomes_of_it(world: World, tmp_path: Path, how: str) -> None:
    synced(tmp_path / "own", world.root)
    world.synced()
    path = world.paths[1]
    match how:
        case "truncate":
            world.truncate(path, path.stat().st_size - 700)
        case "rewrite":
            world.rewrite(path, 0)
        case "replace":
            world.replace(path)
        case "delete":
            world.delete(path)
        case "break_off":
            world.tear(path, 100)
            world.break_off(path)
    report = synced(tmp_path / "own", world.root)
    world.synced()
    check(world, tmp_path / "own", tmp_path / "fresh")
    assert report.gone == (how == "delete")
    assert report.generations == (how in ("truncate", "rewrite", "replace"))
    again = synced(tmp_path / "own", world.root)
    assert (again.bytes_read, again.gone, again.generations) == (0, 0, 0)


class Ended(Exception):
    """A sync was ended on the way."""


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_sync_that_was_ended_at_any_step_is_made_good_by_the_next(world: World, tmp_path: Path, step: str) -> None:
    synced(tmp_path / "own", world.root)
    world.synced()
    world.fork(world.paths[0])
    world.append(world.paths[1], 2)
    world.replace(world.paths[2])

    def reached(name: str) -> None:
        if name == step:
            raise Ended

    with pytest.raises(Ended):
        synced(tmp_path / "own", world.root, SyncOptions(on_step=reached))
    world.append(world.paths[1], 1)
    synced(tmp_path / "own", world.root)
    world.synced()
    check(world, tmp_path / "own", tmp_path / "fresh")


def grown(world: World) -> Path:
    """Make a file so long that samples of its head and its end do not cover the middle."""
    path = world.paths[0]
    world.append(path, 40)
    assert path.stat().st_size > 30_000
    return path


@pytest.mark.parametrize("stamped", [True, False], ids=["seen", "unseen"])
@pytest.mark.parametrize("appended", [True, False], ids=["grown", "not grown"])
def test_a_file_rewritten_in_the_middle_is_found_by_comparing_every_byte(
    world: World, tmp_path: Path, stamped: bool, appended: bool
) -> None:
    path = grown(world)
    synced(tmp_path / "own", world.root)
    world.synced()
    before = path.stat()
    world.rewrite(path, 12_000)
    if appended:
        world.append(path, 1)
    if not stamped:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    report = synced(tmp_path / "own", world.root, SyncOptions(deep=True))
    world.synced()
    assert report.generations == 1
    assert len(world.seen[str(path)]) == 2
    check(world, tmp_path / "own", tmp_path / "fresh")
    assert synced(tmp_path / "own", world.root, SyncOptions(deep=True)).generations == 0


DEEP = """
import sys
from pathlib import Path
from tests.faults.world import synced
from unspool.store.sync.sync import SyncOptions
print(synced(Path(sys.argv[1]), Path(sys.argv[2]), SyncOptions(archive=False, deep=True)).generations)
"""


def test_without_an_archive_too_a_session_that_has_not_changed_compares_equal_in_another_process(
    world: World, tmp_path: Path
) -> None:
    path = grown(world)
    synced(tmp_path / "own", world.root, SyncOptions(archive=False))

    def generations() -> int:
        command = [sys.executable, "-c", DEEP, str(tmp_path / "own"), str(world.root)]
        paths = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(__file__).parents[3])])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "7"}
        return int(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    assert generations() == 0
    data, before = path.read_bytes(), path.stat()
    path.write_bytes(data.replace(b'"name":"Bash"', b'"nome":"Bash"').replace(b"claude-haiku-4-5", b"claude-haiku-4-6"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert generations() == 1


def test_an_archive_that_was_off_is_made_good_when_it_is_on_again(world: World, tmp_path: Path) -> None:
    own, off = tmp_path / "own", SyncOptions(archive=False)
    synced(own, world.root, off)
    assert archived(own) == {}
    synced(own, world.root)
    world.synced()
    check(world, own, tmp_path / "fresh-1")
    kept = archived(own)
    for path in world.paths:
        world.append(path, 2)
    synced(own, world.root, off)
    assert archived(own) == kept
    world.append(world.paths[0], 1)
    report = synced(own, world.root)
    world.synced()
    assert report.bytes_read > sum(path.stat().st_size for path in world.paths)
    check(world, own, tmp_path / "fresh-2")
    assert synced(own, world.root).bytes_read == 0


def test_an_archive_that_was_deleted_is_filled_again(world: World, tmp_path: Path) -> None:
    (world.root / "plans").mkdir()
    (world.root / "plans" / "a.md").write_text("# A\n")
    (world.root / "history.jsonl").touch()
    synced(tmp_path / "own", world.root)
    world.synced()
    kept = archived(tmp_path / "own")
    for path in (tmp_path / "own").glob("archive.db*"):
        path.unlink()
    assert synced(tmp_path / "own", world.root).generations == 0
    assert archived(tmp_path / "own") == kept
    assert str(world.root / "plans" / "a.md") in kept
    assert synced(tmp_path / "own", world.root).bytes_read == 0


def test_an_archive_that_lacks_the_beginning_of_a_file_gets_all_of_it(world: World, tmp_path: Path) -> None:
    path = world.paths[0]
    synced(tmp_path / "own", world.root)
    with closing(sqlite3.connect(tmp_path / "own" / "archive.db", isolation_level=None)) as database:
        database.execute("DELETE FROM frames WHERE source_id = (SELECT id FROM sources WHERE path = ?)", (str(path),))
    world.append(path, 1)
    synced(tmp_path / "own", world.root)
    synced(tmp_path / "own", world.root)
    assert archived(tmp_path / "own")[str(path)] == [path.read_bytes()]


def one(tmp_path: Path, data: bytes) -> Path:
    path = session(id=S[1]).save(tmp_path / "config")
    path.write_bytes(data)
    return path


def odd() -> dict[str, bytes]:
    first, second, third, *_ = session(user("hi"), assistant("ho"), assistant("hu"), id=S[1]).lines
    return {
        "torn": first + second[:-40],
        "no end": first + second[:-1],
        "no end, then torn": first + second[:-1] + b"\n" + third[:10],
        "crlf": first.replace(b"\n", b"\r\n") + second.replace(b"\n", b"\r\n"),
        "nul": first + b"\0\0\0\0\n" + second,
        "nul inside": first + second.replace(b"ho", b"h\0o") + third,
        "bom": b"\xef\xbb\xbf" + first + second,
        "two in a line": first[:-1] + second + third,
        "blank": b"\n\n" + first + b"\n" + second,
        "not utf-8": first + second.replace(b"ho", b"\xff\xfe") + third,
        "lone surrogate": first + second.replace(b"ho", b"\\ud83d") + third,
        "empty": b"",
        "only torn": first[:30],
        "huge number": first + second.replace(b'"output_tokens":120', b'"output_tokens":99999999999999999999'),
        "surrogate in a name": first + second.replace(b"/home/me/project", b"/home/\\udcff/x"),
    }


@pytest.mark.parametrize("name", odd())
def test_odd_bytes_are_archived_as_they_are_and_told_as_without_a_store(tmp_path: Path, name: str) -> None:
    data = odd()[name]
    path = one(tmp_path, data)
    own, root = tmp_path / "own", tmp_path / "config"
    synced(own, root)
    assert archived(own)[str(path)] == [data]
    with path.open("ab") as file:
        file.write(b"\n" + session(user("more"), assistant("more"), id=S[2]).lines[1])
    synced(own, root)
    assert archived(own)[str(path)] == [path.read_bytes()]
    synced(tmp_path / "fresh", root)
    assert rows(own, root) == rows(tmp_path / "fresh", root)
    whole, fresh = tables(own), tables(tmp_path / "fresh")
    for table in ("answers", "bad_lines", "limits"):
        assert whole[table] == fresh[table]
    path.unlink()
    synced(own, root)
    assert rows(own, root)[str(path)]["gone"]


def test_a_file_whose_name_is_not_text_is_named_and_costs_no_other(world: World, tmp_path: Path) -> None:
    odd = os.fsencode(world.paths[0].parent) + b"/\xff\xfe.jsonl"
    Path(os.fsdecode(odd)).write_bytes(b"{}\n")
    report = synced(tmp_path / "own", world.root)
    assert [(one.path.name, one.reason) for one in report.failed] == [
        ("\udcff\udcfe.jsonl", "its name is not valid UTF-8")
    ]
    world.synced()
    Path(os.fsdecode(odd)).unlink()
    check(world, tmp_path / "own", tmp_path / "fresh")


def test_a_file_that_cannot_be_read_is_named_and_costs_no_other(world: World, tmp_path: Path) -> None:
    os.mkfifo(world.paths[0].with_name("fifo.jsonl"))
    report = synced(tmp_path / "own", world.root)
    assert [one.reason for one in report.failed] == ["not a regular file"]
    world.synced()
    check(world, tmp_path / "own", tmp_path / "fresh")


def test_a_file_that_comes_back_is_there_again(world: World, tmp_path: Path) -> None:
    path = world.paths[0]
    away = tmp_path / "away"
    synced(tmp_path / "own", world.root)
    path.rename(away)
    assert synced(tmp_path / "own", world.root).gone == 1
    assert rows(tmp_path / "own", world.root)[str(path)]["gone"]
    away.rename(path)
    report = synced(tmp_path / "own", world.root)
    assert (report.gone, report.generations, report.lines_parsed) == (0, 0, 0)
    world.synced()
    check(world, tmp_path / "own", tmp_path / "fresh")


def test_other_prices_count_everything_again(world: World, tmp_path: Path) -> None:
    from unspool.prices.bill import Price, Rates

    def cost() -> int:
        with closing(sqlite3.connect(tmp_path / "own" / "store.db")) as database:
            return int(database.execute("SELECT sum(cost_micros) FROM answers WHERE counted = 1").fetchone()[0])

    synced(tmp_path / "own", world.root, SyncOptions(price_edition="1"))
    before, responses = cost(), counted(tmp_path / "own")
    price = Price(model="claude-opus-4-5-20251101", rates=Rates(10**6, 0, 0, 0, 0))
    synced(tmp_path / "own", world.root, SyncOptions(price_edition="2", prices=(price,)))
    assert cost() != before
    assert counted(tmp_path / "own") == responses
    synced(tmp_path / "own", world.root, SyncOptions(price_edition="1"))
    assert cost() == before


def test_a_response_with_a_limit_reached_beside_it_is_kept_with_its_time(tmp_path: Path) -> None:
    limit = assistant(text("5-hour limit reached ∙ resets 3pm"), model="<synthetic>")
    session(user("hi"), limit, id=S[1]).save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    assert [row[-1] for row in tables(tmp_path / "own")["limits"]] == ["5-hour limit reached ∙ resets 3pm"]
    assert counted(tmp_path / "own") == []
