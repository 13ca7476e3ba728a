"""Column files follow the store at the cost of what has changed, and can be lost without loss."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from tests.store import dirty
from tests.store.asking import PLAIN, Columns, digest
from tests.store.dirty import ONE, TWO
from unspool.prices.price_list import parse_own_price
from unspool.store.answer_rows import PriceLookup
from unspool.store.columns import manifest as manifests
from unspool.store.columns.parquet import CHUNK_BYTES
from unspool.store.columns.refresh import MAX_SMALL_PARTS, STEPS, RefreshReport
from unspool.store.columns.tables import public_tables
from unspool.store.database import open_store, transaction
from unspool.store.sync.write_rows import RowWriter
from unspool.testing.build import assistant, session, tool_result, tool_use, user


def ids(count: int) -> list[str]:
    return [f"{number:08x}-0000-4000-8000-000000000000" for number in range(count)]


@pytest.fixture
def many(tmp_path: Path) -> Columns:
    """A folder of twenty sessions."""
    for id in ids(20):
        session(user(f"prompt of {id}"), assistant("Done."), id=id).save(tmp_path / "config")
    return Columns(tmp_path / "own", tmp_path / "config")


def path_of(columns: Columns, id: str) -> Path:
    return columns.roots[0] / "projects" / "-home-me-project" / f"{id}.jsonl"


def append(columns: Columns, id: str, words: str = "more") -> None:
    """Write on in a session."""
    more = session(user(words), assistant("Yes."), id=id, start="2026-03-01T00:00:00.000Z")
    with path_of(columns, id).open("ab") as file:
        file.write(more.data.replace(b'"msg_', b'"msg_more_%d_' % path_of(columns, id).stat().st_size))


def everything(columns: Columns) -> dict[str, list[str]]:
    """Return all rows of all tables, in an order of their own."""
    with columns.connection() as connection:
        return {name: sorted(map(repr, connection.execute(f"FROM {name}").fetchall())) for name in public_tables()}


def anew(columns: Columns) -> dict[str, list[str]]:
    """Return the same from column files that were made just now."""
    folder = columns.folder / "columns"
    kept = folder.rename(folder.with_name("kept"))
    columns.derive()
    rows = everything(columns)
    folder.rename(folder.with_name("thrown"))
    kept.rename(folder)
    return rows


def test_after_one_session_has_changed_only_its_file_is_derived_again(many: Columns) -> None:
    first = many.refresh()
    assert (first.files_derived, first.files_billed) == (20, 20)
    append(many, ids(20)[7])
    second = many.refresh()
    size = path_of(many, ids(20)[7]).stat().st_size
    assert (second.files_derived, second.bytes_read, second.files_billed) == (1, size, 1)
    assert second.tables_written == 3  # files, sessions and bad lines: no side file has changed
    assert everything(many) == anew(many)


def test_after_nothing_has_changed_nothing_is_read_or_written(many: Columns) -> None:
    many.refresh()
    before = digest(many.place)
    stamps = {path: path.stat().st_mtime_ns for path in many.place.rglob("*")}
    assert many.refresh() == RefreshReport()
    assert digest(many.place) == before
    assert {path: path.stat().st_mtime_ns for path in many.place.rglob("*")} == stamps


def test_what_counts_follows_when_a_file_that_shares_a_response_has_changed(tmp_path: Path) -> None:
    columns = Columns(tmp_path / "own", dirty.write(tmp_path / "config"))
    columns.refresh()
    path = path_of(columns, TWO)
    data = path.read_bytes().replace(b'"output_tokens":120', b'"output_tokens":990')
    path.write_bytes(data)
    again = columns.refresh()
    assert again.files_derived == 1
    assert again.files_billed == 2  # the file that was forked has no response less, but others of them count
    assert columns.rows("SELECT count(*) > 0 FROM responses WHERE output_tokens = 990") == [(True,)]
    assert everything(columns) == anew(columns)


def test_prices_of_ones_own_change_every_cost_and_derive_no_line(many: Columns) -> None:
    many.refresh()
    many.prices = (parse_own_price("claude-opus-4-5", {"input": 1, "output": 1000}),)
    with closing(open_store(many.folder)) as database, transaction(database):
        RowWriter(database, PriceLookup(many.prices)).reprice(1)
    done = many.derive(PLAIN._replace(price_edition="dearer"))
    assert (done.files_derived, done.files_billed) == (0, 20)
    assert many.rows("SELECT output_micros FROM prices WHERE own") == [(1_000_000_000,)]
    assert many.rows("SELECT bool_and(cost_micros > 100000) FROM responses") == [(True,)]


def test_small_parts_are_made_one_as_they_become_many(many: Columns) -> None:
    many.refresh()
    most = merged = 0
    for number in range(3 * MAX_SMALL_PARTS):
        append(many, ids(20)[number % 20], f"prompt {number}")
        merged += many.refresh().parts_merged
        most = max(most, len(many.manifest.parts))
    assert merged
    assert most <= 2 * (MAX_SMALL_PARTS + 1)
    assert len(list((many.place / "parts").iterdir())) == len(many.manifest.parts)
    assert everything(many) == anew(many)


def test_a_part_that_is_half_out_of_date_is_written_anew(many: Columns) -> None:
    many.refresh()
    for id in ids(20)[:15]:
        append(many, id, "x" * 5000)
    assert many.refresh().parts_merged >= 1
    assert everything(many) == anew(many)


def test_a_session_that_has_gone_stays(many: Columns) -> None:
    many.refresh()
    before = many.rows("SELECT text FROM messages WHERE role = 'user' ORDER BY text")
    path_of(many, ids(20)[3]).unlink()
    assert many.refresh().files_derived == 0
    assert many.rows("SELECT text FROM messages WHERE role = 'user' ORDER BY text") == before
    assert many.rows("SELECT session_id FROM sessions WHERE gone") == [(ids(20)[3],)]
    assert many.rows("SELECT count(*) FROM sources WHERE gone AND gone_since IS NOT NULL") == [(1,)]
    assert everything(many) == anew(many)  # from the archive


def test_without_an_archive_a_session_that_has_gone_stays_as_long_as_the_column_files(many: Columns) -> None:
    many.refresh(archive=False)
    path_of(many, ids(20)[3]).unlink()
    many.refresh(archive=False)
    assert many.rows("SELECT count(DISTINCT session_id) FROM messages") == [(20,)]
    for name in manifests.read_manifest(many.place).parts:
        for path in (many.place / "parts" / name).iterdir():
            path.unlink()
    assert many.refresh(archive=False).lost > 0
    assert many.rows("SELECT count(DISTINCT session_id) FROM messages") == [(19,)]
    assert many.rows("SELECT count(*) FROM responses") == [(20,)]
    assert many.refresh(archive=False) == RefreshReport()


@pytest.mark.parametrize("how", ["cut", "gone", "manifest", "emptied"])
def test_column_files_that_are_damaged_or_missing_are_made_again(many: Columns, how: str) -> None:
    many.refresh()
    rows = everything(many)
    (part,) = (path for path in (many.place / "parts").iterdir() if (path / "messages.0.parquet").exists())
    match how:
        case "cut":
            os.truncate(part / "messages.0.parquet", 100)
        case "gone":
            (part / "lines.0.parquet").unlink()
        case "manifest":
            (many.place / "manifest").write_bytes(b"nonsense")
        case _:
            for path in (many.place / "tables").iterdir():
                path.unlink()
    done = many.refresh()
    assert done.lost or how == "manifest"
    assert everything(many) == rows


def test_a_byte_that_was_changed_is_found_when_every_byte_is_compared(many: Columns) -> None:
    many.refresh()
    rows = everything(many)
    path = next(many.place.glob("parts/*/messages.0.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    assert many.refresh() == RefreshReport()
    assert many.refresh(PLAIN._replace(deep=True)).lost == 1
    assert everything(many) == rows


def test_what_nobody_names_is_removed_unless_somebody_reads(many: Columns) -> None:
    many.refresh()
    left = many.place / "parts" / "left-behind"
    left.mkdir()
    (left / "lines.0.parquet").write_bytes(b"torn")
    with manifests.open_manifest(many.place):
        append(many, ids(20)[0])
        many.refresh()
        assert left.exists()
    append(many, ids(20)[0])
    many.refresh()
    assert not left.exists()


def test_a_reader_goes_on_with_what_it_began_with(many: Columns) -> None:
    many.refresh()
    with manifests.open_manifest(many.place), many.connection() as connection:
        before = connection.execute("SELECT count(*) FROM entries").fetchall()
        for number in range(MAX_SMALL_PARTS + 4):
            append(many, ids(20)[number])
            many.refresh()
        assert connection.execute("SELECT count(*) FROM entries").fetchall() == before


def test_two_refreshes_at_once_do_the_work_once(many: Columns) -> None:
    many.sync()
    done: list[RefreshReport] = []
    threads = [threading.Thread(target=lambda: done.append(many.derive())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.files_derived for one in done) == [0, 0, 0, 20]


@pytest.mark.slow
def test_several_processes_make_what_one_makes(tmp_path: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(30_000))
    for id in ids(60):
        turns = [user("go"), assistant(tool_use("Bash", command="make")), tool_result(long + id)]
        session(*turns * 3, id=id).save(tmp_path / "config")
    columns = Columns(tmp_path / "own", tmp_path / "config")
    done = columns.refresh(PLAIN._replace(workers=3))
    assert done.files_derived == 60
    assert done.bytes_read > 2 * CHUNK_BYTES
    assert len(columns.manifest.parts) > 2
    assert everything(columns) == anew(columns)


# A process of its own in between: on Linux, the peak of a process begins with that of the one that started it, and the
# process that runs the tests is large.
PEAK_MEMORY = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
def test_many_parts_with_wide_results_are_merged_in_little_memory(tmp_path: Path) -> None:
    # 400 MB of results of a megabyte that compress well: ten parts, all of them small, of which DuckDB would hold the
    # rows of one row group (by default 122,880) in memory.
    wide = " ".join(random.Random(1).choices(["alpha", "betaaa", "gammaaaa"], k=140_000))
    for number, id in enumerate(ids(100)):
        turns = [user("go"), assistant(tool_use("Bash", command="make")), tool_result(wide[number:] + id)]
        session(*turns * 4, id=id).save(tmp_path / "config")
    environment = {"HOME": str(tmp_path), "UNSPOOL_HOME": str(tmp_path / "own"), "PATH": os.environ["PATH"]}
    query = "SELECT count(*) AS calls, sum(length(result)) > 300000000 AS wide FROM tool_calls"
    command = [sys.executable, "-m", "unspool", "--config-dir", str(tmp_path / "config"), "sql", query, "--json"]
    for _ in range(2):
        measured = [sys.executable, "-c", PEAK_MEMORY, *command]
        done = subprocess.run(measured, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["items"] == [{"calls": 400, "wide": True}]
        assert int(done.stderr.splitlines()[-1]) < 450_000, "kB"
    parts = list((tmp_path / "own" / "columns" / "parts").iterdir())
    assert len(parts) <= MAX_SMALL_PARTS
    assert not list((tmp_path / "own").rglob("spilled"))


def test_everything_is_for_the_user_alone(many: Columns) -> None:
    for number in range(MAX_SMALL_PARTS + 4):
        append(many, ids(20)[number])
        many.refresh()
    for path in [many.place, *many.place.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_steps_are_told_in_order(many: Columns) -> None:
    told: list[str] = []
    many.refresh(PLAIN._replace(at=told.append))
    assert told == list(STEPS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one example after the other."""
    return tmp_path_factory.mktemp("any")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    ["type", "uuid", "parentUuid", "sessionId", "timestamp", "cwd", "message", "toolUseResult", "isSidechain", "slug"]
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "odd"])},
    optional={
        name: st.text(max_size=3) | json_values
        for name in ("text", "id", "name", "input", "tool_use_id", "content", "is_error", "source", "thinking")
    },
)
messages = st.fixed_dictionaries(
    {"content": st.text(max_size=5) | st.lists(blocks, max_size=3) | json_values},
    optional={"id": st.sampled_from(["m1", "m2", ""]), "usage": json_values, "model": st.text(max_size=3)},
)
documents = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["user", "assistant", "system", "progress", "attachment", "summary", "queue-operation", "x"]
        )
    },
    optional={"message": messages, "timestamp": st.sampled_from(["2026-01-05T09:00:00Z", "no time", "9999-12-31"])},
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(documents | st.dictionaries(names, json_values, max_size=4) | st.binary(max_size=20), max_size=6))
def test_whatever_lines_hold_every_table_can_be_read(place: Path, lines: list[object]) -> None:
    columns = Columns(place / "own", place / "config")
    path = place / "config" / "projects" / "-p" / f"{ONE}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    path.write_bytes(data)
    agent = path.with_suffix("") / "subagents" / "agent-a000001.jsonl"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_bytes(data)
    columns.refresh()
    with columns.connection() as connection:
        for table in public_tables().values():
            found = connection.execute(f"FROM {table.name}").fetchall()
            if table.name == "entries":
                dicts = [line for line in lines if isinstance(line, dict)]
                assert len(found) >= 2 * len(dicts)


def test_a_file_that_cannot_be_read_costs_no_other_and_is_tried_again(many: Columns) -> None:
    many.sync()
    path = path_of(many, ids(20)[5])
    beside = path.rename(path.with_suffix(".kept"))
    path.symlink_to(beside)  # a link is not followed
    done = many.derive()
    assert [failed for failed, _ in done.failed] == [str(path)]
    assert many.rows("SELECT count(DISTINCT session_id) FROM messages") == [(19,)]
    path.unlink()
    beside.rename(path)
    assert many.derive().files_derived == 1
    assert many.rows("SELECT count(DISTINCT session_id) FROM messages") == [(20,)]
    assert many.derive() == RefreshReport()


@pytest.mark.slow
def test_a_refresh_that_ends_midway_is_gone_on_with(tmp_path: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(30_000))
    for id in ids(60):
        turns = [user("go"), assistant(tool_use("Bash", command="make")), tool_result(long + id)]
        session(*turns * 3, id=id).save(tmp_path / "config")
    columns = Columns(tmp_path / "own", tmp_path / "config")
    columns.refresh()
    for path in columns.place.glob("parts/*/lines.0.parquet"):
        path.unlink()

    def give_up(step: str) -> None:
        if step == "published":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        columns.derive(PLAIN._replace(at=give_up))
    done = columns.derive()
    assert 0 < done.files_derived < 60
    assert columns.rows("SELECT count(DISTINCT session_id) FROM messages") == [(60,)]
    assert everything(columns) == anew(columns)
