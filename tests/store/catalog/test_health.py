"""What the store says about itself, and about what is deleted soon."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import Unreadable
from unspool.read.source_tree import Skipped, Tree, scan
from unspool.store.archive.archive import Archive
from unspool.store.catalog import health
from unspool.store.catalog.health import Comparison, StatsDifference
from unspool.store.database import ARCHIVE, STORE, VERSIONS, locked, open_archive, open_store
from unspool.store.sync.sync import SyncOptions, sync_folder
from unspool.store.usage.ledger import StoreLedger
from unspool.testing.build import assistant, session, tool_result, tool_use, user

S1, S2 = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}


class Kept:
    """A config folder and the store that knows it."""

    def __init__(self, place: Path) -> None:
        self.config, self.folder = place / "c", place / "store"
        self.config.mkdir()

    def save(self, id: str, age: timedelta, words: str = "hi") -> Path:
        path = session(user(words), assistant("ho"), id=id).save(self.config)
        return aged(path, age)

    def sync(self, *, archive: bool = True) -> None:
        with ExitStack() as stack:
            store = stack.enter_context(closing(open_store(self.folder)))
            frames = stack.enter_context(closing(open_archive(self.folder)))
            stack.enter_context(locked(self.folder))
            sync_folder(store, Archive(frames), self.config, SyncOptions(archive=archive, workers=1))

    def leaving(self, **more: Any) -> list[health.ExpiringSession]:
        return health.find_expiring_sessions(scan(self.config), self.folder, NOW, **more)

    def condition(self) -> health.StoreCondition:
        return health.check_store(self.folder, archive=True)


def aged(path: Path, age: timedelta) -> Path:
    moment = (NOW - age).timestamp()
    os.utime(path, (moment, moment))
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


# Its condition


def test_a_store_that_is_not_there_is_sound_and_stays_away(kept: Kept) -> None:
    found = kept.condition()
    assert (found.sound, found.message, found.version, found.files, found.raw_bytes) == (True, None, None, 0, 0)
    assert not kept.folder.exists()


def test_a_store_counts_its_files_and_bytes(kept: Kept) -> None:
    sizes = [kept.save(id, timedelta(days=1)).stat().st_size for id in (S1, S2)]
    kept.sync()
    found = kept.condition()
    assert (found.sound, found.version, found.folders, found.files, found.gone_files) == (
        True,
        VERSIONS[STORE],
        1,
        2,
        0,
    )
    assert found.raw_bytes == sum(sizes)
    assert 0 < (found.archived_bytes or 0) < sum(sizes)
    assert found.store_bytes >= (kept.folder / STORE).stat().st_size > 0
    assert found.archive_bytes >= (kept.folder / ARCHIVE).stat().st_size > 0


def test_a_file_that_went_and_one_that_became_another_are_counted(kept: Kept) -> None:
    kept.save(S1, timedelta(days=1)).write_bytes(session(user("another"), id=S1).data)
    gone = kept.save(S2, timedelta(days=1))
    kept.sync()
    gone.unlink()
    kept.save(S1, timedelta(days=2), "rewritten")
    kept.sync()
    found = kept.condition()
    assert (found.files, found.gone_files, found.generations) == (2, 1, 1)


@pytest.mark.parametrize("name", [STORE, ARCHIVE])
@pytest.mark.parametrize("start", [0, 4096])
def test_damage_is_told_with_a_hint_and_costs_nothing_of_the_other(kept: Kept, name: str, start: int) -> None:
    kept.save(S1, timedelta(days=1))
    kept.sync()
    damage(kept.folder / name, start)
    found = kept.condition()
    assert not found.sound
    assert "damaged" in (found.message or "")
    assert "unspool sync --rebuild" in (found.hint or "")
    assert (found.files is None, found.raw_bytes is None) == (name == STORE, name == ARCHIVE)


def damage(path: Path, start: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:start] + b"\xff" * (len(data) - start))


def test_what_was_wrong_when_it_was_opened_comes_first(kept: Kept) -> None:
    found = health.check_store(kept.folder, archive=False, complaint=Unreadable("it is broken", hint="mend it"))
    assert (found.sound, found.message, found.hint, found.archive) == (False, "it is broken", "mend it", False)


# What is deleted soon


def test_a_session_is_deleted_soon_if_seven_of_its_thirty_days_are_left(kept: Kept) -> None:
    last = kept.save(S1, timedelta(days=23))
    kept.save(S2, timedelta(days=22, hours=23))
    (found,) = kept.leaving()
    assert (found.session, found.path, found.days) == (S1, str(last), 30)
    assert found.when == NOW + timedelta(days=7)


def test_the_first_to_go_comes_first(kept: Kept) -> None:
    kept.save(S1, timedelta(days=25))
    kept.save(S2, timedelta(days=60))
    assert [one.session for one in kept.leaving()] == [S2, S1]


@pytest.mark.parametrize(
    ("files", "days"),
    [
        ({}, 30),
        ({"settings.json": '{"cleanupPeriodDays": 90}'}, 90),
        ({"settings.json": '{"cleanupPeriodDays": 0}'}, 0),
        ({"settings.json": '{"cleanupPeriodDays": 90}', "settings.local.json": '{"cleanupPeriodDays": 5}'}, 5),
        ({"settings.json": '{"cleanupPeriodDays": 90}', "settings.local.json": '{"model": "opus"}'}, 90),
        ({"settings.json": '{"cleanupPeriodDays": -1}'}, 30),
        ({"settings.json": '{"cleanupPeriodDays": "never"}'}, 30),
        ({"settings.json": "{"}, 30),
    ],
)
def test_the_settings_say_how_long_sessions_are_kept(tmp_path: Path, files: dict[str, str], days: int) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert health.read_retention_days(tmp_path) == days


def test_with_no_days_every_session_goes_at_once(kept: Kept) -> None:
    (kept.config / "settings.json").write_text('{"cleanupPeriodDays": 0}')
    kept.save(S1, timedelta())
    (found,) = kept.leaving()
    assert found.when == NOW


@given(st.integers(min_value=0))
def test_any_number_of_days_can_be_set(tmp_path_factory: pytest.TempPathFactory, days: int) -> None:
    kept = Kept(tmp_path_factory.mktemp("any"))
    (kept.config / "settings.json").write_text(json.dumps({"cleanupPeriodDays": days}))
    kept.save(S1, timedelta(days=23))
    assert len(kept.leaving()) == (health.read_retention_days(kept.config) <= 30)


def test_a_session_outside_of_a_config_folder_is_left_alone_by_claude_code(kept: Kept) -> None:
    path = kept.save(S1, timedelta(days=60))
    path.rename(kept.config / path.name)
    assert kept.leaving() == []


def test_one_project_of_a_folder_has_the_days_of_the_folder(kept: Kept) -> None:
    (kept.config / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    project = kept.save(S1, timedelta(days=85)).parent
    (found,) = health.find_expiring_sessions(scan(project), kept.folder, NOW)
    assert found.days == 90


def test_the_archive_has_a_session_when_it_has_all_of_it(kept: Kept) -> None:
    path = kept.save(S1, timedelta(days=40))
    assert [one.archived for one in kept.leaving()] == [False]
    kept.sync()
    assert [one.archived for one in kept.leaving()] == [True]
    assert [one.archived for one in kept.leaving(ask_archive=False)] == [None]
    with path.open("ab") as file:
        file.write(session(user("more")).data)
    aged(path, timedelta(days=39))
    assert [one.archived for one in kept.leaving()] == [False]
    kept.sync()
    assert [one.archived for one in kept.leaving()] == [True]


def test_a_session_read_with_the_archive_off_is_not_in_it(kept: Kept) -> None:
    kept.save(S1, timedelta(days=40))
    kept.sync(archive=False)
    assert [one.archived for one in kept.leaving()] == [False]


def test_a_session_that_became_another_one_with_the_archive_off_is_not_in_it(kept: Kept) -> None:
    kept.save(S1, timedelta(days=40), "something quite long " * 50)
    kept.sync()
    kept.save(S1, timedelta(days=35), "short")
    kept.sync(archive=False)
    assert [one.archived for one in kept.leaving()] == [False]


# What only the archive has


def test_only_the_archive_has_a_session_whose_file_went(kept: Kept) -> None:
    path, size = (gone := kept.save(S1, timedelta(days=40), "Find the leak")), gone.stat().st_size
    kept.save(S2, timedelta(days=1))
    kept.sync()
    assert health.find_archived_only(scan(kept.config), kept.folder, {}) == []
    path.unlink()
    kept.sync()
    with closing(open_store(kept.folder)) as store:
        titles = health.read_gone_titles(store, kept.config)
    (found,) = health.find_archived_only(scan(kept.config), kept.folder, titles)
    assert (found.session, found.path, found.title, found.bytes) == (S1, str(path), "Find the leak", size)
    assert found.modified == NOW - timedelta(days=40)


def test_a_session_that_moved_to_another_project_has_not_gone(kept: Kept) -> None:
    path = kept.save(S1, timedelta(days=40))
    kept.sync()
    other = path.parent.with_name("-elsewhere")
    other.mkdir()
    path.rename(other / path.name)
    kept.sync()
    assert health.find_archived_only(scan(kept.config), kept.folder, {}) == []


def test_what_lies_in_a_folder_that_cannot_be_read_has_not_gone(kept: Kept) -> None:
    path = kept.save(S1, timedelta(days=40))
    kept.sync()
    closed = Tree(kept.config, (), (Skipped(path.parent, "permission denied"),))
    assert health.find_archived_only(closed, kept.folder, {}) == []
    assert len(health.find_archived_only(Tree(kept.config, ()), kept.folder, {})) == 1


def test_the_archive_answers_for_one_folder_at_a_time(kept: Kept, tmp_path: Path) -> None:
    path = kept.save(S1, timedelta(days=40))
    kept.sync()
    path.unlink()
    assert health.find_archived_only(Tree(tmp_path / "other", ()), kept.folder, {}) == []
    assert len(health.find_archived_only(Tree(path.parent, ()), kept.folder, {})) == 1


# Statistics


Compare = Callable[[dict[str, Any]], StatsDifference | None]


@pytest.fixture
def compare(kept: Kept) -> Compare:
    """Return how a file of statistics differs from a session of two answers and a tool call on 4 March 2026."""
    made = session(
        user("hi"),
        assistant("look", tool_use("Read"), model="m-1", usage=USAGE),
        tool_result("x"),
        assistant("done", model="m-1", usage=USAGE),
        start="2026-03-04T09:00:00.000Z",
    )
    made.save(kept.config)

    def compare(document: dict[str, Any]) -> StatsDifference | None:
        (kept.config / "stats-cache.json").write_text(json.dumps(document))
        kept.sync()
        with closing(open_store(kept.folder)) as store:
            return health.compare_stats(store, kept.config, ledger(store, kept.config))

    return compare


def ledger(store: sqlite3.Connection, root: Path) -> StoreLedger:
    def no_lines() -> StoreLedger:
        raise AssertionError("the store knows")

    return StoreLedger(store, root, no_lines)


def test_without_statistics_there_is_nothing_to_compare(kept: Kept) -> None:
    kept.save(S1, timedelta(days=1))
    kept.sync()
    with closing(open_store(kept.folder)) as store:
        assert health.compare_stats(store, kept.config, ledger(store, kept.config)) is None


def test_theirs_and_ours_stand_side_by_side(compare: Compare) -> None:
    usage = {"inputTokens": 30, "outputTokens": 15, "cacheReadInputTokens": 300, "cacheCreationInputTokens": 60}
    found = compare(
        {
            "version": 2,
            "lastComputedDate": "2026-03-04",
            "totalSessions": 1,
            "totalMessages": 5,
            "dailyActivity": [
                {"date": "2026-03-04", "messageCount": 5, "sessionCount": 1, "toolCallCount": 1},
                {"date": "2026-03-01", "messageCount": 7, "sessionCount": 2, "toolCallCount": 3},
            ],
            "dailyModelTokens": [{"date": "2026-03-04", "tokensByModel": {"m-1": 45}}],
            "modelUsage": {"m-1": usage, "m-0": usage},
        }
    )
    assert found is not None
    assert (found.version, found.last_computed_date) == (2, "2026-03-04")
    assert found.sessions == Comparison(1, 1, 0)
    assert found.messages == Comparison(5, 4, -1)
    assert found.tool_calls == Comparison(4, 1, -3)
    assert found.models["m-1"] == {
        "input_tokens": Comparison(30, 20, -10),
        "output_tokens": Comparison(15, 10, -5),
        "cache_read_tokens": Comparison(300, 200, -100),
        "cache_write_tokens": Comparison(60, 40, -20),
    }
    assert found.models["m-0"]["output_tokens"] == Comparison(15, 0, -15)
    (day,) = found.days  # the first of March is known to them alone
    assert day.date == "2026-03-04"
    assert (day.messages, day.sessions, day.tool_calls) == (
        Comparison(5, 4, -1),
        Comparison(1, 1, 0),
        Comparison(1, 1, 0),
    )
    assert day.tokens == {"m-1": Comparison(45, 30, -15)}


def test_what_came_after_the_last_day_of_the_statistics_is_not_compared(compare: Compare) -> None:
    found = compare({"version": 3, "lastComputedDate": "2026-03-03", "totalSessions": 0, "totalMessages": 0})
    assert found is not None
    assert (found.sessions, found.messages, found.models, found.days) == (
        Comparison(0, 0, 0),
        Comparison(0, 0, 0),
        {},
        [],
    )


def test_statistics_of_version_1_have_days_and_no_totals(compare: Compare) -> None:
    days = [{"date": "2026-03-04", "messageCount": 5, "sessionCount": 2, "toolCallCount": 1}]
    found = compare({"version": 1, "lastComputedDate": "2026-03-05", "dailyActivity": days})
    assert found is not None
    assert (found.messages, found.sessions, found.tool_calls) == (
        Comparison(5, 4, -1),
        Comparison(2, 1, -1),
        Comparison(1, 1, 0),
    )
    assert found.models["m-1"]["input_tokens"] == Comparison(None, 20, None)


def test_statistics_that_say_nothing_are_compared_with_nothing(compare: Compare) -> None:
    found = compare({})
    assert found is not None
    assert (found.messages, found.last_computed_date) == (Comparison(None, 4, None), None)
