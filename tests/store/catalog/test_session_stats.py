"""What lists show beside a session's facts is what a plain reading of its lines says, however they came to be read."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.world import synced
from tests.profiles import examples
from tests.real_files import corpus
from tests.store import dirty, plain
from tests.store.older_store import remove_command_turns
from unspool.demo.write import write_demo
from unspool.store.archive.archive import Archive
from unspool.store.catalog.session_stats import POINTS, FileStats, build_context_curve, count_changed_lines
from unspool.store.database import STORE, VERSIONS, open_archive, open_store
from unspool.store.search.index import find_unindexed, update_index
from unspool.store.sync.changes import count_unindexed_bytes
from unspool.store.sync.sync import SyncOptions, sync_folder
from unspool.testing.build import Step, assistant, compaction, raw, result_block, session, tool_result, tool_use, user

CHANGING = {"Write", "Edit", "MultiEdit", "NotebookEdit"}
S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
PATCH = {
    "filePath": "/p/a.py",
    "structuredPatch": [{"lines": [" x", "-y", "+z", "+w", "\\ No newline at end of file"]}],
}
TABLES = ("digests", "paths", "changed_files", "tallies")


def edit(path: str = "/p/a.py", **more: Any) -> Step:
    return assistant(tool_use("Edit", file_path=path, old_string="y", new_string="z", **more))


def rows(folder: Path) -> dict[str, list[Any]]:
    """Return the rows of the new tables, with paths for numbers."""
    queries = {
        "digests": """SELECT s.path, d.generation, d.offset, whole, beginning, forked_from, tools, compactions
            FROM digests d""",
        "changed_files": """SELECT s.path, p.path, changes, added, removed FROM changed_files d
            JOIN paths p ON p.id = path_id""",
        "tallies": "SELECT s.path, files, added, removed, tools, peak, curve FROM tallies d",
    }
    with closing(sqlite3.connect(folder / STORE)) as database:
        return {
            name: sorted(database.execute(f"{query} JOIN sources s ON s.id = d.source_id").fetchall(), key=repr)
            for name, query in queries.items()
        }


def naive_tools(root: Path) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for call in plain.calls(root):
        if call.block.get("id"):
            found.setdefault(str(call.use.path), Counter())[call.block["name"]] += 1
    return found


def naive_changes(root: Path) -> dict[tuple[str, str], tuple[int, int, int]]:
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for call in plain.calls(root):
        input = call.block.get("input")
        path = input.get("file_path") or input.get("notebook_path") if isinstance(input, dict) else None
        if call.block["name"] not in CHANGING or not path or not call.given or call.given.get("is_error"):
            continue
        assert call.result
        told = call.result.value.get("toolUseResult")
        told = told if isinstance(told, dict) else {}
        lines = [line for hunk in told.get("structuredPatch") or () for line in hunk["lines"]]
        if not lines and told.get("type") == "create":
            lines = ["+"] * len(told["content"].splitlines())
        more = (1, sum(line[:1] == "+" for line in lines), sum(line[:1] == "-" for line in lines))
        key = (str(call.use.path), path)
        before = found.get(key, (0, 0, 0))
        found[key] = (before[0] + more[0], before[1] + more[1], before[2] + more[2])
    return found


def check(root: Path, folder: Path) -> None:
    found = rows(folder)
    tools = {path: json.loads(tools) for path, *_, tools, _ in found["digests"]}
    assert {path: used for path, used in tools.items() if used} == naive_tools(root)
    assert {(lines, path): tuple(rest) for lines, path, *rest in found["changed_files"]} == naive_changes(root)


@pytest.mark.parametrize("made", [dirty.write, write_demo], ids=["dirty", "demo"])
def test_calls_and_changes_are_those_of_a_plain_reading(tmp_path: Path, made: Any) -> None:
    made(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    check(tmp_path / "config", tmp_path / "own")
    assert naive_changes(tmp_path / "config")


@pytest.mark.slow
def test_calls_and_changes_of_real_files_are_those_of_a_plain_reading(tmp_path: Path) -> None:
    root = corpus()
    synced(tmp_path, root)
    found = rows(tmp_path)
    tools = {path: json.loads(tools) for path, *_, tools, _ in found["digests"]}
    naive = {path: used for path, used in naive_tools(root).items() if path in tools}
    assert len(naive) > 100
    assert {path: used for path, used in tools.items() if used} == naive
    changes = {key: value for key, value in naive_changes(root).items() if key[0] in tools}
    assert {(lines, path): tuple(rest) for lines, path, *rest in found["changed_files"]} == changes


steps = st.lists(
    st.sampled_from(
        [
            (user("Go on ☃"),),
            (assistant("Done."),),
            (edit(), tool_result("ok", structured=PATCH)),
            (edit("/p/b.py"), tool_result("no", error=True, structured="Error: no")),
            (edit("/p/b.py"),),
            (assistant(tool_use("Write", file_path="/p/ü.md", content="1\n2")),
             tool_result("ok", structured={"type": "create", "content": "1\n2", "structuredPatch": []})),
            (assistant(tool_use("NotebookEdit", notebook_path="/p/n.ipynb")), tool_result("ok")),
            (assistant(tool_use("Bash", id="toolu_twice", command="ls")),),
            (edit(id="toolu_same"), tool_result("ok", id="toolu_same", structured=PATCH)),
            (user(result_block("toolu_early", "soon"), toolUseResult=PATCH), edit("/p/early.py", id="toolu_early")),
            (compaction("So far"),),
            (raw(b"no json\n"),),
            (raw(b'{"type":"user"}{"type":"user","message":{"role":"user","content":"two in a line"}}\n'),),
        ]
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=examples(25), deadline=None)
@given(steps, st.lists(st.floats(0, 1), max_size=4))
def test_where_a_sync_ends_does_not_matter(parts: list[tuple[Step, ...]], cuts: list[float]) -> None:
    data = session(*(step for part in parts for step in part), id=S[1]).data
    with TemporaryDirectory() as place:
        root = Path(place) / "config"
        path = root / "projects" / "-p" / f"{S[1]}.jsonl"
        path.parent.mkdir(parents=True)
        for cut in sorted(int(share * len(data)) for share in cuts):
            path.write_bytes(data[:cut]) if not path.exists() else append(path, data[path.stat().st_size : cut])
            synced(Path(place) / "own", root)
        path.touch()
        append(path, data[path.stat().st_size :])
        synced(Path(place) / "own", root)
        synced(Path(place) / "fresh", root)
        check(root, Path(place) / "own")
        assert rows(Path(place) / "own") == rows(Path(place) / "fresh")


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def make_older(database: sqlite3.Connection) -> None:
    """Make a store of the version that had no digests."""
    remove_command_turns(database)
    for trigger in ("sources_added", "sources_changed"):
        database.execute(f"DROP TRIGGER {trigger}")
    for table in (*TABLES, "stamps", "unstamped"):
        database.execute(f"DROP TABLE {table}")
    database.execute("PRAGMA user_version = 2")


def test_a_store_of_a_version_before_is_filled_and_has_the_same_passages(tmp_path: Path) -> None:
    write_demo(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    before = rows(tmp_path / "own")
    with closing(sqlite3.connect(tmp_path / "own" / STORE, isolation_level=None)) as old:
        make_older(old)
        passages = old.execute("SELECT * FROM passages").fetchall()
    with closing(open_store(tmp_path / "own")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSIONS[STORE],)
        assert count_unindexed_bytes(database, tmp_path / "config") > 0
    synced(tmp_path / "own", tmp_path / "config")
    with closing(open_store(tmp_path / "own")) as database:
        assert database.execute("SELECT * FROM passages").fetchall() == passages
        assert database.execute("SELECT * FROM unindexed").fetchall() == []
        assert count_unindexed_bytes(database, tmp_path / "config") == 0
    assert rows(tmp_path / "own") == before


def test_a_line_that_was_torn_when_it_was_indexed_is_digested_once(tmp_path: Path) -> None:
    """The index had read one of two objects in a line when the digests came to be."""
    whole = session(user("Hi"), edit(), tool_result("ok", structured=PATCH), edit("/p/b.py"), id=S[1]).lines
    path = tmp_path / "config" / "projects" / "-p" / f"{S[1]}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(whole[:2]) + whole[2].rstrip(b"\n"))
    synced(tmp_path / "own", tmp_path / "config")
    with closing(sqlite3.connect(tmp_path / "own" / STORE, isolation_level=None)) as old:
        make_older(old)
    append(path, b"".join(whole[3:]))
    synced(tmp_path / "own", tmp_path / "config")
    synced(tmp_path / "fresh", tmp_path / "config")
    assert rows(tmp_path / "own") == rows(tmp_path / "fresh")
    assert [row[1:] for row in rows(tmp_path / "own")["changed_files"]] == [("/p/a.py", 1, 2, 1)]


class Ended(Exception):
    """An index was ended on the way."""


@pytest.mark.parametrize("step", ["indexing", "indexed"])
def test_an_index_that_is_ended_on_the_way_adds_up_the_same(tmp_path: Path, step: str) -> None:
    write_demo(tmp_path / "config")

    def reached(name: str) -> None:
        if name == step:
            raise Ended

    with closing(open_store(tmp_path / "own")) as database, closing(open_archive(tmp_path / "own")) as kept:
        sync_folder(database, Archive(kept), tmp_path / "config", SyncOptions())
        with suppress(Ended):
            update_index(database, lambda: Archive(kept), find_unindexed(database, tmp_path / "config"), at=reached)
    synced(tmp_path / "own", tmp_path / "config")
    synced(tmp_path / "fresh", tmp_path / "config")
    assert rows(tmp_path / "own") == rows(tmp_path / "fresh")


def test_what_a_file_said_before_it_was_written_anew_is_forgotten(tmp_path: Path) -> None:
    path = session(user("Hi"), edit("/p/old.py"), tool_result("ok", structured=PATCH), id=S[1]).save(
        tmp_path / "config"
    )
    synced(tmp_path / "own", tmp_path / "config")
    path.unlink()
    session(
        user("Hello"), edit("/p/new.py"), tool_result("ok", structured=PATCH), id=S[1], cwd="/home/me/project"
    ).save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    assert [row[1] for row in rows(tmp_path / "own")["changed_files"]] == ["/p/new.py"]
    assert [row[1:5] for row in rows(tmp_path / "own")["tallies"]] == [(1, 2, 1, '{"Edit":1}')]


def test_lines_that_were_gone_before_anybody_looked_are_not_known(tmp_path: Path) -> None:
    path = session(user("Hi"), edit(), id=S[1]).save(tmp_path / "config")
    with closing(open_store(tmp_path / "own")) as database, closing(open_archive(tmp_path / "own")) as kept:
        sync_folder(database, Archive(kept), tmp_path / "config", SyncOptions(archive=False))
        path.unlink()
        sync_folder(database, Archive(kept), tmp_path / "config", SyncOptions(archive=False))
        update_index(database, lambda: Archive(kept), find_unindexed(database, tmp_path / "config"))
        assert database.execute("SELECT whole FROM digests").fetchall() == [(0,)]
        assert database.execute("SELECT * FROM unindexed").fetchall() == []


def test_an_agents_calls_count_with_its_session_and_once_if_it_has_two_files(tmp_path: Path) -> None:
    main = session(user("Hi"), edit(), tool_result("ok", structured=PATCH), id=S[1])
    agent = session(user("Do"), edit("/p/a.py"), tool_result("ok", structured=PATCH), id=S[1], agent="a1b2c3d")
    path = main.save(tmp_path / "config")
    inside = path.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(agent.data)
    (path.parent / "agent-a1b2c3d.jsonl").write_bytes(b"".join(agent.lines[:2]))
    synced(tmp_path / "own", tmp_path / "config")
    assert [row[1:5] for row in rows(tmp_path / "own")["tallies"]] == [(1, 4, 2, '{"Edit":2}')]
    append(inside, session(edit("/p/c.py"), tool_result("ok", structured=PATCH), id=S[1], agent="other").data)
    synced(tmp_path / "own", tmp_path / "config")
    assert [row[1:5] for row in rows(tmp_path / "own")["tallies"]] == [(2, 6, 3, '{"Edit":3}')]


def test_the_curve_is_the_context_of_the_main_chain_with_its_compactions(tmp_path: Path) -> None:
    def full(tokens: int) -> Step:
        return assistant("ok", usage={"input_tokens": tokens, "cache_read_input_tokens": 0, "cache_creation": {}})

    session(user("Hi"), full(10), full(30), compaction("So far"), full(20), id=S[1]).save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    ((*_, peak, curve),) = rows(tmp_path / "own")["tallies"]
    found = json.loads(curve)
    assert (found["compactions"], found["requests"], max(found["points"])) == ([2], 3, peak)
    assert found["points"][1] - found["points"][0] == 20


@given(st.lists(st.integers(0, 10**6), max_size=200), st.lists(st.integers(-1, 2100), max_size=5))
def test_a_curve_has_few_points_and_always_the_peak(tokens: list[int], places: list[int]) -> None:
    found = build_context_curve([(number * 10, one) for number, one in enumerate(tokens)], sorted(places))
    assert len(found.points) == min(len(tokens), POINTS)
    assert max(found.points, default=None) == max(tokens, default=None)
    assert found.points[-1:] >= tuple(tokens[-1:])
    assert list(found.compactions) == sorted(found.compactions)
    assert all(0 <= place <= len(found.points) for place in found.compactions)


def test_a_conversation_may_begin_on_a_line_that_has_to_be_mended() -> None:
    stats = FileStats()
    one, two = ({"type": "user", "uuid": id, "timestamp": "T", "message": {"content": "a"}} for id in "12")
    stats.find_beginning(json.dumps(one).encode() + json.dumps(two).encode() + b"\n")
    assert stats.beginning == "1 T"


@pytest.mark.parametrize(
    ("type", "damage", "counted"),
    [
        ("user", lambda line: line, (2, 1)),
        ("user", lambda line: line[:-1] + line, (2, 1)),
        ("user", lambda line: line.replace(b'"kept"', b'"\xff"'), (2, 1)),
        ("user", lambda line: line.replace(b'"one"', b'"other"'), (0, 0)),
        ("user", lambda line: line.replace(b'"tool_use_id"', b'"id"'), (0, 0)),
        ("assistant", lambda line: line, (0, 0)),
    ],
    ids=["plain", "two on a line", "not UTF-8", "of another call", "of no call", "of the model"],
)
def test_what_a_call_changed_is_counted_alike_on_a_plain_line_and_on_one_to_be_mended(
    type: str, damage: Callable[[bytes], bytes], counted: tuple[int, int]
) -> None:
    block = {"type": "tool_result", "tool_use_id": "one", "content": "kept"}
    line = {"type": type, "uuid": "1", "message": {"role": type, "content": [block]}, "toolUseResult": PATCH}
    assert count_changed_lines(damage(json.dumps(line).encode() + b"\n"), "one") == counted
