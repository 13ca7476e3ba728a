"""Usage from the store: of the folder that was asked for, and of what has gone too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.faults.world import synced
from tests.store.older_store import remove_command_turns
from unspool.format import milliseconds
from unspool.read.source_tree import Kind, scan
from unspool.store.archive.archive import Archive
from unspool.store.database import open_archive, open_store
from unspool.store.usage.ledger import Ledger, StoreLedger, UsageExplanation, UsageQuery, UsageSum
from unspool.store.usage.ledger_files import FileLedger, read_lines, read_stored_lines
from unspool.testing.build import assistant, session, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
EXACT = UsageQuery(frozenset({"session", "agent", "project", "branch"}), exact=True)


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """Two config folders in one, with a session that both have, and one project of two in the first."""
    folder = tmp_path / "around"
    both = session(user("hi"), assistant("ho", usage={"output_tokens": 11}), id=S[1])
    both.save(folder / "one")
    both.save(folder / "two")
    session(user("a"), assistant("b", usage={"output_tokens": 22}), id=S[2], cwd="/home/me/other").save(folder / "one")
    session(user("c"), assistant("d", usage={"output_tokens": 33}), id=S[3]).save(folder / "two")
    return folder


@contextmanager
def ledger(own: Path, root: Path) -> Iterator[Ledger]:
    with closing(open_store(own)) as database, closing(open_archive(own)) as archive:
        lines = FileLedger(read_stored_lines(database, root, lambda: Archive(archive)))
        yield StoreLedger(database, root, lambda: lines)


def sums(own: Path, root: Path, wanted: UsageQuery = EXACT) -> list[UsageSum]:
    with ledger(own, root) as opened:
        return sorted(opened.sums(wanted), key=repr)


def from_files(root: Path, wanted: UsageQuery = EXACT) -> list[UsageSum]:
    sources = scan(root).of(Kind.SESSION, Kind.AGENT)
    return sorted(
        FileLedger(read_lines(one.place, one.project, one.session_id) for one in sources).sums(wanted), key=repr
    )


ORDERS = [
    ["one", "two", "."],
    [".", "one", "two"],
    ["one/projects/-home-me-other", "two", ".", "one"],
    ["two", ".", "one/projects/-home-me-project", "one"],
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_a_report_covers_the_folder_that_is_asked_for_in_whatever_order_they_were_synced(
    around: Path, tmp_path: Path, order: list[str]
) -> None:
    own = tmp_path / "own"
    for name in order:
        synced(own, around / name)
    for name in ("one", "two", ".", "one/projects/-home-me-project", "one/projects/-home-me-other", "two/projects"):
        assert sums(own, (around / name).resolve()) == from_files((around / name).resolve()), name
    outputs = {
        name: sum(one.bill.output_tokens for one in sums(own, (around / name).resolve())) for name in ("one", ".")
    }
    assert outputs == {"one": 33, ".": 66}


def test_a_copy_in_another_config_folder_counts_in_both_and_once_around_them(around: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    for name in ("one", "two"):
        synced(own, around / name)
        assert sum(one.bill.output_tokens == 11 for one in sums(own, around / name)) == 1
    assert sum(one.bill.output_tokens == 11 for one in sums(own, around)) == 1


def test_what_has_gone_counts_still(around: Path, tmp_path: Path) -> None:
    own, root = tmp_path / "own", around / "one"
    synced(own, around)
    before, all_before = sums(own, root), sums(own, around)
    for path in root.rglob("*.jsonl"):
        path.unlink()
    synced(own, around)
    assert sums(own, root) == before
    assert sums(own, around) == all_before
    assert from_files(root) == []


def test_what_a_file_had_before_it_was_another_counts_still(around: Path, tmp_path: Path) -> None:
    own, root = tmp_path / "own", around / "two"
    synced(own, root)
    before = sums(own, root)
    path = next(root.rglob(f"{S[3]}.jsonl"))
    path.write_bytes(session(user("x"), assistant("y", usage={"output_tokens": 44}), id=S[4]).data)
    synced(own, root)
    after = sums(own, root)
    assert sorted(one.bill.output_tokens for one in after) == [11, 33, 44]
    assert set(before) <= set(after)


def test_a_part_of_the_time_and_of_the_projects_is_that_of_the_files(around: Path, tmp_path: Path) -> None:
    own, root = tmp_path / "own", around / "one"
    synced(own, root)
    first = milliseconds("2026-01-05T09:00:01.000Z")
    assert first
    for wanted in (
        EXACT._replace(since=first),
        EXACT._replace(since=first + 1),
        EXACT._replace(until=first),
        EXACT._replace(until=first + 1),
        EXACT._replace(project="other"),
        EXACT._replace(project="/home/ME"),
        EXACT._replace(project="-home-me-other"),
        EXACT._replace(project="nobody"),
    ):
        assert sums(own, root, wanted) == from_files(root, wanted), wanted
    assert sums(own, root, EXACT._replace(since=first + 1)) == []
    assert len(sums(own, root, EXACT._replace(project="other"))) == 1


def test_a_sum_ends_with_a_bill() -> None:
    assert UsageSum._fields[-1] == "bill"


def test_responses_of_a_quarter_of_an_hour_are_added_up_unless_each_is_wanted(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    session(user("hi"), *[assistant("ho") for _ in range(31)], id=S[1], step=60).save(root)
    synced(own, root)
    together = sums(own, root, UsageQuery())
    assert [one.bill.responses for one in together] == [14, 15, 2]
    assert sum(one.bill.output_tokens for one in together) == sum(one.bill.output_tokens for one in sums(own, root))
    assert len(sums(own, root)) == 31


def test_every_line_is_explained_those_that_have_gone_too(around: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    synced(own, around)
    explained: list[UsageExplanation] = []
    for _ in range(2):
        with ledger(own, around) as opened:
            explained.append(opened.explain(UsageQuery()))
        for path in around.rglob("*.jsonl"):
            path.unlink()
        synced(own, around)
    assert len(explained[0]["counted"]) == 3
    assert len(explained[0]["merged"]) == 1
    assert explained[0] == explained[1]


def test_what_was_merged_says_where_its_response_was_counted(tmp_path: Path) -> None:
    synthetic = assistant("no", model="<synthetic>")
    path = session(synthetic, assistant("hi", usage={"output_tokens": 7}), id=S[1]).save(tmp_path)
    copy = path.with_name(f"{S[2]}.jsonl")
    copy.write_bytes(path.read_bytes())
    data = FileLedger(read_lines(str(each), None) for each in (path, copy)).explain(UsageQuery())
    (counted,), (merged,) = data["counted"], data["merged"]
    assert (counted["file"], counted["output_tokens"], counted["cache_write_tokens"]) == (str(path), 7, 200)
    assert (merged["file"], merged["id"]) == (str(copy), counted["id"])
    assert merged["counted"] == {"file": str(path), "offset": counted["offset"]}
    assert data["dropped"] == [{"file": str(each), "offset": 0, "why": "synthetic"} for each in (path, copy)]


def test_what_is_remembered_is_forgotten_when_something_changes(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    path = session(user("hi"), assistant("ho"), id="10000000-0000-4000-8000-000000000001").save(root)
    synced(own, root)
    wanted = UsageQuery(days=())
    assert [one.bill.responses for one in sums(own, root, wanted)] == [1]
    assert sums(own, root, wanted) == sums(own, root, wanted)
    session(user("hi"), assistant("ho"), id="20000000-0000-4000-8000-000000000002", start="2026-02-01T09:00:00Z").save(
        root
    )
    synced(own, root)
    assert sum(one.bill.responses for one in sums(own, root, wanted)) == len(from_files(root))
    path.unlink()
    synced(own, root)
    assert sum(one.bill.responses for one in sums(own, root, wanted)) == len(from_files(root)) + 1


def test_while_some_files_grow_what_was_added_up_of_the_others_holds(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    paths = [
        session(user("hi"), assistant("ho"), id=id, start=f"2026-01-{number + 1:02}T09:00:00.000Z").save(root)
        for number, id in enumerate([*S, *(one.replace("8000", "9000") for one in S)])
    ]
    synced(own, root)
    wanted, more = UsageQuery(days=()), session(user("more"), *(assistant("and more") for _ in range(20)), id=S[0])
    lines = [line for line in more.data.splitlines(keepends=True) if b'"usage"' in line]
    for step, line in enumerate(lines):
        with paths[step % 3 if step < 6 else step % len(paths)].open("ab") as file:
            file.write(line)
        synced(own, root)
        for _ in range(2):
            found = sums(own, root, wanted)
            assert sum(one.bill.responses for one in found) == len(from_files(root))
            assert sum(one.bill.cost_micros for one in found) == sum(one.bill.cost_micros for one in from_files(root))
        assert sums(own, root) == from_files(root)
    paths[0].write_bytes(paths[1].read_bytes())
    synced(own, root)
    assert sum(one.bill.responses for one in sums(own, root, wanted)) == len(sums(own, root))


def test_a_damaged_time_is_none_in_whatever_company(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    path = session(user("hi"), assistant("ho"), assistant("he"), id="10000000-0000-4000-8000-000000000001").save(root)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    dot = third.index(b'"timestamp":"') + len(b'"timestamp":"2026-01-05T09:00:00')
    path.write_bytes(first + second + third[:dot] + b"+" + third[dot + 1 :])
    synced(own, root)
    for found in (sums(own, root, UsageQuery()), from_files(root, UsageQuery())):
        assert sorted((one.time is None, one.bill.responses) for one in found) == [(False, 1), (True, 1)]


def test_a_store_of_before_knows_afterwards_which_session_pays(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    folder = root / "projects" / "-p"
    folder.mkdir(parents=True)
    (folder / "renamed.jsonl").write_bytes(session(user("a"), assistant("b"), id=S[1]).data)
    (folder / "agent-a1.jsonl").write_bytes(session(user("a"), assistant("c"), id=S[2], agent="a1").data)
    synced(own, root)
    by_session = UsageQuery(frozenset({"session"}), days=())
    now = sums(own, root, by_session)
    assert {one.session for one in now} == {"renamed", S[2]}
    with closing(open_store(own)) as database:
        query = "UPDATE answers SET session_id = ? WHERE session_id = 'renamed'"
        database.execute(query, (S[1],))
        remove_command_turns(database)
        database.execute("PRAGMA user_version = 4")
    assert sums(own, root, by_session) == now


def test_what_grows_is_added_up_without_visiting_the_answers_of_other_files(around: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    synced(own, around / "one")
    with closing(open_store(own)) as database:
        run: list[str] = []
        database.set_trace_callback(run.append)
        StoreLedger(database, around / "one", lambda: FileLedger([])).file_costs()
        database.set_trace_callback(None)
        (growing,) = {text for text in run if "source_id IN unsummed" in text and "FROM answers" in text}
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {growing}")]
    assert any(step.startswith("SEARCH answers USING PRIMARY KEY (source_id=?") for step in plan)
