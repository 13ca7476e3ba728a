"""Versions of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.strategies import json_values
from unspool.demo.write import write_demo
from unspool.errors import NotFound, Refused, Unreadable
from unspool.export.file_versions import FileHistoryVersion, find_backup, find_versions, read_version, version_size
from unspool.home import Session
from unspool.testing.build import Step, note, session, snapshot, user

S1 = "11111111-1111-4111-8111-111111111111"
S2 = "12222222-2222-4222-8222-222222222222"
T1, T2 = "2026-01-05T09:00:00.000Z", "2026-01-05T09:10:00.000Z"


def kept(name: str | None, version: int | None, time: str | None = T1) -> dict[str, Any]:
    return {"backupFileName": name, "version": version, "backupTime": time}


def opened(place: Path, *steps: Step, id: str = S1) -> Session:
    session(user("hi"), *steps, id=id).save(place)
    return unspool.open(place).session(id)


def put(place: Path, name: str, data: bytes = b"x", id: str = S1) -> Path:
    path = place / "file-history" / id / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_snapshots_repeat_and_extend_what_was_said(tmp_path: Path) -> None:
    found = opened(
        tmp_path,
        snapshot(**{"src/b.py": kept(None, 1)}),
        snapshot(**{"src/b.py": kept("b@v2", 2, T2), "a.py": kept("a@v1", 1)}),
        snapshot(**{"src/b.py": kept("b@v2", 2, T2), "a.py": kept("a@v1", 1)}),
    )
    assert find_versions(found) == {
        "src/b.py": [FileHistoryVersion("src/b.py", 1, None, T1), FileHistoryVersion("src/b.py", 2, "b@v2", T2)],
        "a.py": [FileHistoryVersion("a.py", 1, "a@v1", T1)],
    }


def test_newer_sessions_say_it_in_a_line_for_each_file(tmp_path: Path) -> None:
    found = opened(
        tmp_path,
        note("file-history-delta", trackingPath="a.py", backup=kept("a@v1", 1)),
        note("file-history-delta", trackingPath="b.py"),
        note("file-history-delta", backup=kept("c@v1", 1)),
    )
    assert find_versions(found) == {"a.py": [FileHistoryVersion("a.py", 1, "a@v1", T1)]}


def test_versions_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    steps = [snapshot(**{"a": kept(f"a@v{number}", number)}) for number in (3, 1, 2)]
    assert [version.number for version in find_versions(opened(tmp_path, *steps))["a"]] == [1, 2, 3]


def test_a_number_that_is_missing_is_read_from_the_name(tmp_path: Path) -> None:
    found = opened(tmp_path, snapshot(a=kept("a@v4", None), b=kept("b", None), c=kept(None, None)))
    assert find_versions(found) == {"a": [FileHistoryVersion("a", 4, "a@v4", T1)]}


def test_a_session_that_keeps_nothing_has_no_versions(tmp_path: Path) -> None:
    assert find_versions(opened(tmp_path, snapshot())) == {}


@given(st.dictionaries(st.text(max_size=5), json_values | st.builds(kept, st.text(), st.integers(), st.text())))
def test_whatever_a_snapshot_holds_costs_nothing_else(tmp_path_factory: pytest.TempPathFactory, files: Any) -> None:
    place = tmp_path_factory.mktemp("c")
    known = find_versions(opened(place, snapshot(**files), snapshot(**{"a": kept("a@v999", 999)})))
    assert FileHistoryVersion("a", 999, "a@v999", T1) in known["a"]
    for version in (version for listed in known.values() for version in listed):
        assert version_size(unspool.open(place).session(S1), version) is None


def test_a_copy_lies_in_the_folder_of_its_session(tmp_path: Path) -> None:
    found = opened(tmp_path, snapshot(a=kept("a@v1", 1)))
    path = put(tmp_path, "a@v1", b"\xff\0one\r\n")
    (version,) = find_versions(found)["a"]
    assert find_backup(found, version) == path.resolve()
    assert (version_size(found, version), read_version(found, version)) == (7, b"\xff\0one\r\n")


def test_a_fork_finds_the_copies_of_the_session_it_came_from(tmp_path: Path) -> None:
    found = opened(tmp_path, user("copied", sessionId=S2), user("odd", sessionId="../.."), snapshot(a=kept("a@v1", 1)))
    (version,) = find_versions(found)["a"]
    put(tmp_path, "a@v1", b"theirs", S2)
    assert read_version(found, version) == b"theirs"
    put(tmp_path, "a@v1", b"own", S1)
    assert read_version(found, version) == b"own"


def test_the_copies_of_an_agent_are_those_of_its_session(tmp_path: Path) -> None:
    main = session(user("hi"), id=S1).save(tmp_path)
    agent = main.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("go"), snapshot(a=kept("a@v1", 1)), id=S1, agent="a1b2c3d").data)
    put(tmp_path, "a@v1", b"kept")
    found = unspool.open(main).session(str(agent))
    (version,) = find_versions(found)["a"]
    assert read_version(found, version) == b"kept"


def test_a_copy_that_is_gone_or_never_was_is_not_found(tmp_path: Path) -> None:
    found = opened(tmp_path, snapshot(a=kept("a@v1", 1), b=kept(None, 1)))
    for path in ("a", "b"):
        (version,) = find_versions(found)[path]
        assert (find_backup(found, version), version_size(found, version)) == (None, None)
        with pytest.raises(NotFound):
            read_version(found, version)


def test_a_loose_file_has_no_copies(tmp_path: Path) -> None:
    path = tmp_path / "loose.jsonl"
    path.write_bytes(session(user("hi"), snapshot(a=kept("a@v1", 1))).data)
    found = unspool.open(path).session(str(path))
    assert find_backup(found, find_versions(found)["a"][0]) is None


@pytest.mark.parametrize("name", ["../../secret", "..", "/etc/passwd", "a\\b", "a\0b", ""])
def test_a_name_that_is_no_plain_name_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, "a@v1")
    (tmp_path / "secret").write_bytes(b"hush")
    found = opened(tmp_path, snapshot(a=kept(name, 1)))
    (version,) = find_versions(found)["a"]
    assert version_size(found, version) is None
    with pytest.raises(Refused):
        read_version(found, version)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hush")
    put(tmp_path, "b@v1", b"b", S2)
    found = opened(tmp_path, snapshot(a=kept("a@v1", 1)))
    (version,) = find_versions(found)["a"]
    own = tmp_path / "file-history" / S1
    own.symlink_to(tmp_path / "file-history" / S2)
    (own / "a@v1").write_bytes(b"hush")
    assert find_backup(found, version) is None
    own.unlink()
    own.mkdir()
    (own / "a@v1").symlink_to(tmp_path / "secret")
    assert version_size(found, version) is None
    with pytest.raises(Refused):
        read_version(found, version)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    found = opened(tmp_path, snapshot(a=kept("a@v1", 1)))
    (version,) = find_versions(found)["a"]
    folder = tmp_path / "file-history" / S1
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a@v1")
    assert version_size(found, version) is None
    with pytest.raises(Unreadable):
        read_version(found, version)


def test_every_copy_of_the_demo_is_found_by_the_lines_that_name_it(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    home = unspool.open(tmp_path / "demo")
    named = [
        find_backup(found, version)
        for found in home.sessions()
        for known in find_versions(found).values()
        for version in known
        if version.name
    ]
    kept = {source.path for source in home.tree.of(unspool.Kind.FILE_BACKUP)}
    assert kept
    assert set(named) == kept
