"""What the store tells of sessions and of what they cost is what the files tell, however they came to be read."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.world import synced
from tests.profiles import examples
from unspool.demo.write import write_demo
from unspool.export import counts
from unspool.home import open as open_home
from unspool.read.source_tree import Kind, scan
from unspool.store.archive.archive import Archive
from unspool.store.catalog.session_list import (
    OwnedAgentFile,
    list_sessions,
    missing_session_row,
    read_session_costs,
)
from unspool.store.database import open_archive, open_store
from unspool.store.usage import five_hour_windows
from unspool.store.usage.ledger import Ledger, StoreLedger, UsageQuery
from unspool.store.usage.ledger_files import FileLedger, read_lines, read_stored_lines
from unspool.store.usage.report import PERIODS, UsageRequest, build_report
from unspool.testing.build import (
    Step,
    assistant,
    attachment,
    compaction,
    image,
    note,
    progress,
    queued,
    raw,
    rewind,
    session,
    snapshot,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

Json = dict[str, Any]
COMPARED = ("last", "project", "cwd", "started", "branch", "models", "errors", "images", "compactions", "pull_requests")
"""The fields that `unspool ls` may filter by."""
S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]


def agent_answer(output: int) -> Json:
    usage = {"output_tokens": output, "input_tokens": 3}
    message = {"id": f"msg_agent_{output}", "role": "assistant", "model": "claude-haiku-4-5", "usage": usage}
    return {"type": "assistant", "uuid": f"u{output}", "message": {**message, "content": [text("told")]}}


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(user, st.sampled_from(["hi", "Warmup", "<command-name>/x</command-name>", "", "  ", "again"])),
    st.builds(
        lambda words, model, output, reason: assistant(
            *words, model=model, usage={"output_tokens": output}, stop_reason=reason
        ),
        st.lists(st.sampled_from(["Ja.", thinking("hm"), tool_use("Bash", command="x")]), min_size=1, max_size=3),
        st.sampled_from(["claude-opus-4-5-20251101", "glm-4.7", "<synthetic>", ""]),
        st.integers(0, 5000),
        st.sampled_from([None, "end_turn"]),
    ),
    st.builds(lambda error: tool_result("ok", id="toolu_1", error=error), st.booleans()),
    st.builds(lambda: user("look", image())),
    st.builds(lambda taken: queued("later", taken=taken), st.booleans()),
    st.builds(lambda: compaction("Sum.", keep=1)),
    st.builds(lambda title: note("custom-title", customTitle=title), st.sampled_from(["A", "B", ""])),
    st.builds(lambda title: note("ai-title", aiTitle=title), st.sampled_from(["C", ""])),
    st.builds(lambda title: note("summary", summary=title, leafUuid="none"), st.sampled_from(["D", "E"])),
    st.builds(lambda url: note("pr-link", prUrl=url), st.sampled_from(["https://a.example", "https://b.example"])),
    st.builds(lambda: system("api_error", "no")),
    st.builds(snapshot),
    st.builds(lambda: attachment("queued_command", prompt="later")),
    st.builds(lambda output: progress("agent_progress", agentId="a1", message=agent_answer(output)), st.integers(1, 4)),
    st.builds(lambda: raw(b'{"type":"user","message":{"content":"no\n')),
    st.builds(lambda: raw(b"\n")),
    st.builds(lambda time: user("then", timestamp=time), st.sampled_from(["2025-01-01T00:00:00Z", "bad", ""])),
    st.builds(lambda: assistant(text("5-hour limit reached ∙ resets 3pm"), model="<synthetic>")),
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, bytes]:
    """Draw a session, a copy of a part of it that goes on by itself, an agent's file, and one that has nothing."""
    version = draw(st.sampled_from(["2.0.76", "2.1.20", "2.1.325"]))
    made = session(*draw(st.lists(steps, max_size=12)), id=S[1], version=version)
    more = session(*draw(st.lists(steps, max_size=4)), id=S[2], version=version, start="2026-01-06T00:00:00.000Z")
    agent = session(*draw(st.lists(steps, max_size=4)), id=S[1], agent="a1", version=version)
    part = made.lines[: draw(st.integers(0, len(made.lines)))]
    summary = b""
    if uuids := [record.uuid for record in made.records if record.uuid]:  # a title that points into the file
        summary = b'{"type":"summary","summary":"Of it","leafUuid":"%s"}\n' % uuids[0].encode()
    return {
        f"projects/-p/{S[1]}.jsonl": made.data + draw(st.sampled_from([b"", summary])),
        f"projects/-p/{S[2]}.jsonl": b"".join(part) + more.data,
        f"projects/-p/{draw(st.sampled_from(['', S[1] + '/subagents/']))}agent-a1.jsonl": agent.data,
        f"projects/-p/{S[3]}.jsonl": draw(st.sampled_from([b"", b"{", b"{}"])),
    }


@contextmanager
def ledgers(own: Path, root: Path) -> Iterator[tuple[Ledger, list[Json], Ledger, list[Json]]]:
    """Give what the store says of a folder, and what its files say."""
    with closing(open_store(own)) as database, closing(open_archive(own)) as archive:
        lines = FileLedger(read_stored_lines(database, root, lambda: Archive(archive)))
        store: Ledger = StoreLedger(database, root, lambda: lines)
        sources = scan(root).of(Kind.SESSION, Kind.AGENT)
        plain: Ledger = FileLedger([read_lines(source.place, source.project, source.session_id) for source in sources])
        home = open_home(root)
        agents = [OwnedAgentFile(file.place, owner, file.project) for file, owner in home.agent_owners()]
        listed = [counts.session_row(one) for one in home.sessions() if not one.is_missing]
        costs = read_session_costs(plain, [(row["path"], row["id"]) for row in listed], agents)
        rows = [{**row, **costs.of(row["path"]), "gone": False} for row in listed]
        rows += [missing_session_row(one) | costs.of(one.own_path) for one in costs.missing]
        found = list_sessions(database, root, store)
        check_chosen(database, root, store, found)
        yield store, found, plain, rows


def check_chosen(database: sqlite3.Connection, root: Path, ledger: Ledger, found: list[Json]) -> None:
    """Check that rows that are chosen are those of the whole list, and that filters see what the list has."""
    seen: list[Json] = []

    def choose(rows: list[Json]) -> list[Json]:
        seen.extend(dict(row) for row in rows)
        return rows[::-2]

    assert list_sessions(database, root, ledger, choose, COMPARED) == found[::-2]
    names = ("id", "path", "gone", "project_key", "hidden", "agents", *COMPARED)
    assert [{name: row[name] for name in names} for row in seen] == [
        {name: row[name] for name in names} for row in found
    ]


def add_up(ledger: Ledger) -> dict[tuple[str | None, str | None], tuple[int, int]]:
    """Return what each file cost, by the session that pays, with one row for each."""
    costs: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for file, session_id, cost, unpriced in ledger.file_costs():
        before = costs.get((file, session_id), (0, 0))
        costs[file, session_id] = (before[0] + cost, before[1] + unpriced)
    return costs


def reports(ledger: Ledger) -> dict[str, Json]:
    """Return every report there is."""
    found = {}
    for name, period in PERIODS.items():
        sums = ledger.sums(UsageQuery(period.keys, exact=period.exact))
        if name == "blocks":
            request = UsageRequest(name, datetime.fromtimestamp(0, UTC), UTC)
            found[name] = five_hour_windows.build_window_report(sums, sums, ledger.limits(), request).data()
        else:
            found[name] = build_report(name, sums, UTC).data()
    return found


def check_same(own: Path, root: Path) -> None:
    with ledgers(own, root) as (store, found, plain, expected):
        assert sorted(found, key=lambda row: row["path"]) == sorted(expected, key=lambda row: row["path"])
        assert reports(store) == reports(plain)
        assert add_up(store) == add_up(plain)


@given(files(), st.lists(st.floats(0, 1), max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_files_that_grow_are_told_of_as_if_they_were_read_at_once(
    files: dict[str, bytes], shares: list[float], chance: random.Random
) -> None:
    with TemporaryDirectory() as place:
        own, root = Path(place) / "own", Path(place) / "config"
        for share in [*sorted(shares), 1.0]:
            for name, data in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                length = path.stat().st_size if path.exists() else 0
                end = len(data) if share == 1 else max(length, min(len(data), int(len(data) * share * chance.random())))
                with path.open("ab") as file:
                    file.write(data[length:end])
            synced(own, root)
        check_same(own, root)


@pytest.mark.parametrize("seed", range(4))
def test_a_realistic_folder_that_grows_is_told_of_as_if_it_were_read_at_once(tmp_path: Path, seed: int) -> None:
    chance, root = random.Random(seed), tmp_path / "config"
    write_demo(tmp_path / "demo")
    shutil.copytree(tmp_path / "demo", root)
    whole = {path: path.read_bytes() for path in sorted(root.rglob("*.jsonl"))}
    for path in whole:
        path.write_bytes(b"")
    for number in range(4):
        for path, data in whole.items():
            length = path.stat().st_size
            end = len(data) if number == 3 else chance.randint(length, len(data))
            with path.open("ab") as file:
                file.write(data[length:end])
        synced(tmp_path / "own", root)
        if number:
            check_same(tmp_path / "own", root)


def test_a_summary_at_the_top_is_the_title_once_the_line_it_points_to_has_come(tmp_path: Path) -> None:
    made = session(user("hi"), assistant("ho"), id=S[1], version="2.0.76")
    path = made.save(tmp_path / "config")
    summary = b'{"type":"summary","summary":"Of it","leafUuid":"%s"}\n' % str(made.records[1].uuid).encode()
    for data in (summary + made.lines[0], summary + made.data):
        path.write_bytes(data)
        synced(tmp_path / "own", tmp_path / "config")
        check_same(tmp_path / "own", tmp_path / "config")


def test_a_session_that_has_gone_is_listed_still_unless_another_file_has_it(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    first = session(user("hi"), assistant("ho"), rewind(), user("again"), id=S[1]).save(root)
    second = session(user("hi"), assistant("ho"), id=S[2]).save(root)
    synced(own, root)
    with ledgers(own, root) as (_, before, _, _):
        pass
    first.unlink()
    moved = root / "projects" / "-moved" / second.name
    moved.parent.mkdir()
    second.rename(moved)
    synced(own, root)
    with ledgers(own, root) as (_, found, _, _):
        by_path = {row["path"]: row for row in found}
    assert by_path.keys() == {str(first), str(moved)}
    old = next(row for row in before if row["path"] == str(first))
    assert by_path[str(first)] == {**old, "gone": True}
    assert not by_path[str(moved)]["gone"]


def test_costs_are_those_of_a_session_with_its_agents(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    path = session(user("hi"), assistant("ho"), id=S[1]).save(root)
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("go"), assistant("gone"), id=S[1], agent="a1").data)
    synced(own, root)
    with ledgers(own, root) as (store, (row,), _, _):
        each = [one.bill.cost_micros for one in store.sums(UsageQuery(exact=True))]
    assert len(each) == 2
    assert row["cost_micros"] == sum(each) > max(each)
    assert row["agents"] == 1


def test_only_sessions_that_are_chosen_are_read_in_full(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    for number in range(1, 6):
        session(user("hi"), assistant("ho"), id=S[number]).save(root)
    synced(own, root)
    given: list[set[str]] = []

    def choose(rows: list[Json]) -> list[Json]:
        given.extend(set(row) for row in rows)
        return [row for row in rows if row["id"] == S[2]]

    with closing(open_store(own)) as database:
        ledger = StoreLedger(database, root, lambda: FileLedger(()))
        (row,) = list_sessions(database, root, ledger, choose, ["branch"])
        whole = next(row for row in list_sessions(database, root, ledger) if row["id"] == S[2])
    known = {"id", "path", "gone", "source_id", "project_key", "last", "hidden", "agents", "branch"}
    assert given == [known] * 5
    assert row == whole
