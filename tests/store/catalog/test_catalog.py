"""The catalogue of sessions: its rows, filters, order and facets, beside what a plain reading of them gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.world import synced
from tests.profiles import examples
from unspool.demo.write import write_demo
from unspool.store.archive.archive import Archive
from unspool.store.catalog.catalog import (
    GROUPS,
    SORTS,
    TEXT_SORTS,
    CatalogCache,
    CatalogPage,
    CatalogRequest,
    cut_page,
    read_sessions,
    select_sessions,
)
from unspool.store.catalog.facets import HAS, CatalogRow, SessionFilters
from unspool.store.catalog.session_list import read_session_costs
from unspool.store.database import open_archive, open_store
from unspool.store.preferences import Preferences
from unspool.store.sync.rebuild import set_aside
from unspool.store.sync.sync import SyncOptions, sync_folder
from unspool.store.usage.ledger import StoreLedger
from unspool.testing.build import assistant, image, note, session, tool_result, tool_use, user

Json = dict[str, Any]
S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
ALL = CatalogRequest(limit=10_000)
PATCH = {"structuredPatch": [{"lines": ["-y", "+z", "+w"]}]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo folder with a store beside it, a fork in it and a session that has gone."""
    place = tmp_path_factory.mktemp("catalog")
    write_demo(place / "config")
    first = sorted((place / "config" / "projects").glob("*/*.jsonl"))[0]
    lines = first.read_bytes().splitlines(keepends=True)
    more = session(user("Go another way"), assistant("Yes."), id=S[9], start="2026-03-01T00:00:00.000Z", branch="fork")
    (first.parent / f"{S[9]}.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]) + more.data)
    gone = session(user("Gone soon"), assistant("Yes."), id=S[8]).save(place / "config")
    session(id=S[7]).save(place / "config")
    synced(place / "own", place / "config")
    gone.unlink()
    synced(place / "own", place / "config")
    return place


@contextmanager
def asking(place: Path) -> Iterator[Any]:
    """Give what answers from a store."""
    with closing(open_store(place / "own")) as database:
        ledger = StoreLedger(database, place / "config", lambda: None)  # type: ignore[arg-type,return-value]

        def answer(wanted: CatalogRequest) -> CatalogPage:
            every = read_sessions(database, place / "config", ledger)
            return cut_page(database, select_sessions(database, every, wanted.filters, UTC), wanted, UTC)

        yield answer


def ask(place: Path, wanted: CatalogRequest = ALL) -> CatalogPage:
    with asking(place) as asked:
        found: CatalogPage = asked(wanted)
        return found


def alone(found: CatalogPage) -> set[str]:
    """Return the sessions of a part of the list, the folded ones too."""
    return {id for row in found.rows for id in (row.id, *row.folded)}


def test_every_session_is_in_one_row_with_the_cost_that_usage_counts(demo: Path) -> None:
    found = ask(demo, CatalogRequest(limit=10_000, filters=SessionFilters(hidden=True)))
    with closing(open_store(demo / "own")) as database:
        rows = database.execute(
            "SELECT path, sessions.session_id FROM sessions JOIN sources ON id = source_id"
        ).fetchall()
        ids = [id for _, id in rows]
        ledger = StoreLedger(database, demo / "config", lambda: None)  # type: ignore[arg-type,return-value]
        costs = read_session_costs(ledger, rows)
    listed = [id for row in found.rows for id in (row.id, *row.folded)]
    assert sorted(listed) == sorted(ids)
    assert found.sessions == len(ids)
    assert [row.cost_micros for row in found.rows] == [costs.of(row.path)["cost_micros"] for row in found.rows]
    assert found.undigested == 0


def test_hidden_ones_are_counted_by_reason_and_shown_if_asked_for(demo: Path) -> None:
    found = ask(demo)
    assert found.hidden["empty"] >= 1
    shown = ask(demo, CatalogRequest(limit=10_000, filters=SessionFilters(hidden=True)))
    assert shown.hidden == {}
    assert shown.sessions == found.sessions + sum(found.hidden.values())
    assert S[7] in alone(shown) - alone(found)


def test_a_fork_is_folded_under_the_session_that_went_on_last(demo: Path) -> None:
    found = ask(demo)
    (row,) = [row for row in found.rows if S[9] in (row.id, *row.folded)]
    assert len(row.folded) == 1
    unfolded = ask(demo, CatalogRequest(filters=SessionFilters(thread=S[9])))
    assert [one.id for one in unfolded.rows] == [row.id, *row.folded]
    assert all(one.folded == () for one in unfolded.rows)
    assert found.total == found.sessions - sum(len(one.folded) for one in found.rows)


def test_a_session_that_says_it_was_forked_is_of_the_thread_it_was_forked_from(tmp_path: Path) -> None:
    session(user("Hi"), assistant("Yes."), id=S[1]).save(tmp_path / "config")
    session(user("Hi again"), assistant("No."), id=S[2], forkedFrom={"sessionId": S[1]}).save(tmp_path / "config")
    session(user("Another"), id=S[3], forkedFrom={"sessionId": "nobody"}).save(tmp_path / "config")
    session(user("Odd"), id=S[4], forkedFrom=["no", "object"]).save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    assert sorted(len(row.folded) for row in ask(tmp_path).rows) == [0, 0, 1]


def test_sessions_that_share_an_answer_but_not_their_beginning_are_apart(tmp_path: Path) -> None:
    first = session(user("Hi"), assistant("Yes."), user("On"), assistant("Done."), id=S[1])
    path = first.save(tmp_path / "config")
    (path.parent / f"{S[2]}.jsonl").write_bytes(first.lines[3])
    synced(tmp_path / "own", tmp_path / "config")
    assert ask(tmp_path).total == 2


def test_a_session_id_in_two_folders_is_one_row_that_pays_once_and_names_both(tmp_path: Path) -> None:
    session(user("Hi"), assistant("Yes."), id=S[1], cwd="/p/one").save(tmp_path / "config")
    session(user("Hi"), assistant("Yes."), id=S[1], cwd="/p/two", start="2026-02-01T00:00:00Z").save(
        tmp_path / "config"
    )
    synced(tmp_path / "own", tmp_path / "config")
    found = ask(tmp_path)
    (row,) = found.rows
    assert (found.total, found.sessions, row.project, row.also_in) == (1, 1, "two", ("one",))
    assert [Path(path).parent.name for path in row.copies] == ["-p-one"]
    with asking(tmp_path) as asked:
        assert asked(ALL).cost_micros == row.cost_micros
        for project in ("one", "two"):
            assert asked(CatalogRequest(filters=SessionFilters(project=(project,)))).sessions == 1


def test_groups_are_in_order_and_their_rows_stand_together(demo: Path) -> None:
    with asking(demo) as asked:
        for group in GROUPS:
            found = asked(CatalogRequest(group=group, limit=10_000, sort="cost"))
            assert list(found.row_groups) == sorted(found.row_groups)
            assert sum(one.rows for one in found.groups) == len(found.rows) == found.total
            assert sum(one.cost_micros for one in found.groups) == found.cost_micros
            names = [found.groups[number].name for number in found.row_groups]
            if group != "day":
                assert names == [getattr(row, group) or None for row in found.rows]
            first = asked(CatalogRequest(group=group, limit=3, sort="cost"))
            rest = asked(CatalogRequest(group=group, limit=10_000, offset=3, sort="cost"))
            assert [*first.rows, *rest.rows] == found.rows


def test_all_values_of_a_facet_are_there_however_many(tmp_path: Path) -> None:
    for number in range(30):
        session(user("Hi"), assistant("Yes."), id=f"{number:08}-0000-4000-8000-000000000000", cwd=f"/p/n{number}").save(
            tmp_path / "config"
        )
    synced(tmp_path / "own", tmp_path / "config")
    found = ask(tmp_path)
    assert len(found.facets["project"]) == found.facets["totals"]["project"] == 30


def test_one_that_has_gone_says_so(demo: Path) -> None:
    assert {row.id for row in ask(demo).rows if row.gone} == {S[8]}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_rows_are_in_order_and_what_is_not_known_is_last(demo: Path, sort: str, reverse: bool) -> None:
    rows = ask(demo, CatalogRequest(sort=sort, reverse=reverse, limit=10_000)).rows
    column = {"active_seconds": "active_seconds", "peak": "peak_tokens"}.get(SORTS[sort], SORTS[sort])

    def cell(row: CatalogRow) -> Any:
        found = (row.added or 0) + (row.removed or 0) if column == "lines" else getattr(row, column)
        return found.casefold() if isinstance(found, str) else found

    certain = [cell(row) for row in rows if cell(row) is not None]
    assert certain == sorted(certain, reverse=(sort in TEXT_SORTS) == reverse)
    assert [cell(row) for row in rows][len(certain) :] == [None] * (len(rows) - len(certain))
    same = [row for row in rows if cell(row) == cell(rows[0])]
    assert [row.last or "" for row in same] == sorted((row.last or "" for row in same), reverse=True)


@given(st.integers(1, 7), st.sampled_from(sorted(SORTS)), st.booleans())
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_one_after_the_other_are_the_whole(demo: Path, size: int, sort: str, reverse: bool) -> None:
    with asking(demo) as asked:
        whole = asked(CatalogRequest(sort=sort, reverse=reverse, limit=10_000))
        pages = [
            row
            for start in range(0, whole.total + size, size)
            for row in asked(CatalogRequest(sort=sort, reverse=reverse, offset=start, limit=size)).rows
        ]
    assert pages == whole.rows


def test_a_number_in_a_facet_is_what_one_would_get(demo: Path) -> None:
    with asking(demo) as asked:
        for filters in (
            SessionFilters(),
            SessionFilters(has=("error",)),
            SessionFilters(text="the"),
            SessionFilters(tool=("Edit",), branch=("main",)),
        ):
            facets = asked(CatalogRequest(filters=filters)).facets
            told = [(name, value.value, value.sessions) for name in ("project", "branch", "model", "tool")
                    for value in facets[name]]  # fmt: skip
            assert told
            for name, value, count in told:
                chosen = changed(filters, **{name: (value,)})
                assert asked(CatalogRequest(filters=chosen)).sessions == count, (name, value)
            for name, count in facets["has"].items():
                chosen = changed(filters, has=tuple({*filters.has, name}))
                assert asked(CatalogRequest(filters=chosen)).sessions == count, name
            for path, count in facets["file"]:
                assert asked(CatalogRequest(filters=changed(filters, file=(path,)))).sessions >= count > 0
            for month, count in facets["month"]:
                within = [row for row in rows_of(asked, filters) if (row.last or "")[:7] == month]
                assert len(within) == count


def changed(filters: SessionFilters, **changes: Any) -> SessionFilters:
    return msgspec.structs.replace(filters, **changes)


def rows_of(asked: Any, filters: SessionFilters) -> list[CatalogRow]:
    """Return every session that filters let pass, each for itself."""
    found: list[CatalogRow] = []
    for row in asked(CatalogRequest(filters=filters, limit=10_000)).rows:
        if not row.folded:
            found.append(row)
            continue
        found += asked(CatalogRequest(filters=changed(filters, thread=row.id), limit=10_000)).rows
    return found


def test_filters_let_pass_what_has_it(tmp_path: Path) -> None:
    edit = [assistant(tool_use("Edit", file_path="/p/src/main.py")), tool_result("ok", structured=PATCH)]
    session(user("Fix the Login", image()), *edit, id=S[1], cwd="/p/shop", branch="main").save(tmp_path / "config")
    failed = [assistant(tool_use("Bash", command="x"), model="claude-haiku-4-5"), tool_result("no", error=True)]
    later = session(
        user("Look at login"), *failed, id=S[2], cwd="/p/shop-api", branch="dev", start="2026-02-01T00:00:00Z"
    )
    later.save(tmp_path / "config")
    link = note("pr-link", prNumber=1, prUrl="https://git.example/1", prRepository="a/b")
    session(user("Else"), link, id=S[3], cwd="/p/other").save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")

    def ids(**filters: Any) -> str:
        found = ask(tmp_path, CatalogRequest(filters=SessionFilters(**filters), sort="started", reverse=True))
        return "".join(sorted(row.id[0] for row in found.rows))

    assert ids(text="LOGIN fix") == "1"
    assert ids(text="login") == "12"
    assert (ids(project=("shop",)), ids(project=("sho",)), ids(project=("/p/",))) == ("1", "12", "123")
    assert (ids(branch=("dev",)), ids(model=("haiku",)), ids(model=("claude-haiku-4-5",))) == ("2", "2", "2")
    assert (ids(tool=("Edit",)), ids(tool=("Bash",)), ids(tool=("Nothing",))) == ("1", "2", "")
    assert (ids(file=("src/main",)), ids(file=("*.py",)), ids(file=("main",)), ids(file=("MAIN.py",))) == (
        "1",
        "1",
        "1",
        "1",
    )
    assert (ids(has=("error",)), ids(has=("image",)), ids(has=("pr",)), ids(has=("pr", "error"))) == ("2", "1", "3", "")
    assert ids(since=datetime(2026, 1, 20, tzinfo=UTC)) == "2"
    assert ids(until=datetime(2026, 1, 20, tzinfo=UTC)) == "13"
    assert (ids(project=("shop", "other")), ids(tool=("Edit", "Bash")), ids(month=("2026-02",))) == ("13", "12", "2")
    (row,) = ask(tmp_path, CatalogRequest(filters=SessionFilters(tool=("Edit",)))).rows
    assert (row.files, row.added, row.removed, row.tools, row.images) == (1, 2, 1, {"Edit": 1}, 1)


def test_a_file_that_only_an_agent_has_changed_is_found_by_its_session(tmp_path: Path) -> None:
    path = session(user("Hi"), assistant("ok"), id=S[1]).save(tmp_path / "config")
    steps = [user("Do"), assistant(tool_use("Write", file_path="/p/new.md", content="x")), tool_result("ok")]
    inside = path.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(session(*steps, id=S[1], agent="a1b2c3d").data)
    synced(tmp_path / "own", tmp_path / "config")
    found = ask(tmp_path, CatalogRequest(filters=SessionFilters(file=("new.md",), has=("agent",))))
    assert [row.id for row in found.rows] == [S[1]]
    assert found.facets["file"] == [("/p/new.md", 1)]


def test_without_an_index_what_needs_it_is_not_known_and_the_rest_is(tmp_path: Path) -> None:
    path = session(user("Hi"), assistant(tool_use("Edit", file_path="/a")), id=S[1]).save(tmp_path / "config")
    with closing(open_store(tmp_path / "own")) as database, closing(open_archive(tmp_path / "own")) as kept:
        sync_folder(database, Archive(kept), tmp_path / "config", SyncOptions())
    assert path.exists()
    for sort in ("last", "context", "files"):
        found = ask(tmp_path, CatalogRequest(sort=sort))
        (row,) = found.rows
        assert (row.files, row.added, row.removed, row.tools, found.undigested) == (None, None, None, None, 1)
        assert row.peak_tokens == row.context_tokens is not None
        assert len(row.curve.points) == 1


def test_a_shelf_tells_what_the_catalogue_tells_and_notices_what_changes(tmp_path: Path) -> None:
    write_demo(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    shelf = CatalogCache((tmp_path / "config").resolve(), tmp_path / "own", Preferences())
    chance = random.Random(1)
    for _ in range(12):
        has = tuple(chance.sample(sorted(HAS), k=chance.randint(0, 2)))
        wanted = CatalogRequest(
            filters=SessionFilters(has=has), sort=chance.choice(sorted(SORTS)), limit=chance.randint(1, 9)
        )
        assert shelf.catalog(wanted, UTC).data() == ask(tmp_path, wanted).data()
    before = shelf.catalog(ALL, UTC).sessions
    session(user("New"), id=S[5]).save(tmp_path / "config")
    synced(tmp_path / "own", tmp_path / "config")
    found = shelf.catalog(ALL, UTC)
    assert found.sessions == before + 1
    assert S[5] in alone(found)
    shelf.close()
    assert shelf.catalog(ALL, UTC).sessions == before + 1
    set_aside(tmp_path / "own", "store.db")
    assert shelf.catalog(ALL, UTC).sessions == 0
    synced(tmp_path / "own", tmp_path / "config")
    assert shelf.catalog(ALL, UTC).sessions == before + 1
