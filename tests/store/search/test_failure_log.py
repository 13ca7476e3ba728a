"""The failures of a span: read on from where the log was, from the archive if files are gone, and without a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.search.test_search import Searched
from unspool.store import Preferences, StoreAccess
from unspool.store.search import FailureLog, SearchFilters, read_failures
from unspool.store.search.failures import FailureReport
from unspool.testing.build import assistant, raw, session, tool_result, tool_use, user

IDS = [f"{number}a000000-0000-4000-8000-000000000000" for number in range(4)]


def fail(config: Path, number: int, *texts: str) -> Path:
    steps = [user("Try")]
    for count, text in enumerate(texts):
        steps += [assistant(tool_use("Bash", command=str(count))), tool_result(text, error=True)]
    return session(*steps, id=IDS[number], cwd=f"/p/{number}", start=f"2026-01-0{number + 1}T08:00:00Z").save(config)


@pytest.fixture
def searched(tmp_path: Path) -> Iterator[Searched]:
    made = Searched(tmp_path / "config", tmp_path / "own")
    yield made
    made.database.close()


def access(searched: Searched, *, store: bool = True) -> StoreAccess:
    database = searched.database if store else None
    return StoreAccess(searched.root, searched.own, Preferences(), database)


def told(report: FailureReport) -> list[tuple[str, int, list[tuple[str | None, int]]]]:
    return [(one.kind, one.failures, [(each.session, each.failures) for each in one.sessions]) for one in report.kinds]


def test_a_log_that_reads_on_says_what_one_says_that_begins(searched: Searched) -> None:
    fail(searched.root, 0, "No such file: /a", "Exit code 3")
    searched.sync()
    log = FailureLog()
    assert told(log.read(access(searched), SearchFilters())) == [
        ("Bash: exit code …", 1, [(IDS[0], 1)]),
        ("Bash: no such file: …", 1, [(IDS[0], 1)]),
    ]
    fail(searched.root, 1, "No such file: /b", "The user doesn't want to proceed with this tool use.")
    searched.sync()
    read_on, begun = log.read(access(searched), SearchFilters()), read_failures(access(searched), SearchFilters())
    assert read_on == begun
    assert (begun.failures, begun.rejected) == (3, 1)
    assert told(begun)[0] == ("Bash: no such file: …", 2, [(IDS[1], 1), (IDS[0], 1)])


def test_times_tools_and_projects_are_filtered(searched: Searched) -> None:
    for number in range(3):
        fail(searched.root, number, f"No such file: /{number}")
    searched.sync()

    def sessions(**filters: object) -> set[str | None]:
        found = read_failures(access(searched), SearchFilters(**filters))  # type: ignore[arg-type]
        return {one.session for kind in found.kinds for one in kind.sessions}

    day = 1767312000000  # 2026-01-02
    assert sessions(since=day) == {IDS[1], IDS[2]}
    assert sessions(until=day) == {IDS[0]}
    assert sessions(tool="bash") == set(IDS[:3])
    assert sessions(tool="Read") == set()
    assert sessions(project="/p/1") == {IDS[1]}


def test_a_session_that_only_the_archive_has_keeps_its_failures(searched: Searched) -> None:
    path = fail(searched.root, 0, "No such file: /a")
    searched.sync()
    before = told(read_failures(access(searched), SearchFilters()))
    path.unlink()
    fail(searched.root, 1, "Exit code 3")
    searched.sync()
    assert before[0] in told(read_failures(access(searched), SearchFilters()))


def test_without_a_store_the_files_say_the_same(searched: Searched) -> None:
    path = fail(searched.root, 0, "No such file: /a", "No such file: /b", "The user doesn't want to proceed with this.")
    session(*(raw(line) for line in path.read_bytes().splitlines()), id=IDS[2]).save(searched.root)
    fail(searched.root, 1, "Exit code 3")
    searched.sync()
    by_store = read_failures(access(searched), SearchFilters())
    by_files = read_failures(access(searched, store=False), SearchFilters())
    assert told(by_files) == told(by_store)
    assert (by_files.failures, by_files.rejected) == (by_store.failures, by_store.rejected) == (3, 1)
