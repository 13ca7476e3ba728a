"""Translated sessions are kept up to date: what is new is read on, what was rewritten is translated anew."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import make_runner
from tests.other_agents.agent_folders import PROGRAMS, WRITTEN, make_folder, read_tables, session_files
from unspool.other_agents import Mirror, find_program, read_originals, recognise, translate_folder

LINES = ("codex", "gemini", "pi")


def translated(folder: Path, data: Path) -> list[Path]:
    """Return the translated files of a folder, after it was brought up to date."""
    root, skipped = translate_folder(folder, data)
    assert not skipped
    return sorted(root.glob("projects/*/*.jsonl"))


def originals(folder: Path, data: Path) -> list[bytes]:
    return [read_originals(path.read_bytes()) for path in translated(folder, data)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_folder_is_recognised_by_what_is_in_it(program: str, tmp_path: Path) -> None:
    folder = make_folder(program, tmp_path)
    found = recognise(folder)
    assert found is not None
    assert found.program == program
    (path,) = translated(folder, tmp_path / "data")
    assert find_program(path) == program
    assert recognise(path.parents[2]) is None
    assert find_program(folder) is None


def test_a_folder_of_claude_code_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    (tmp_path / "sessions/2026/11/18").mkdir(parents=True)
    (tmp_path / "sessions/2026/11/18/rollout-x.jsonl").write_text("{}\n")
    assert recognise(tmp_path) is None
    assert translate_folder(tmp_path, tmp_path / "data") == (tmp_path, [])
    assert not (tmp_path / "data").exists()


def test_a_file_with_the_name_of_the_project_folder_makes_no_folder_claude_codes(tmp_path: Path) -> None:
    (tmp_path / "projects").write_text("a list of projects")
    (tmp_path / "sessions/2026/11/18").mkdir(parents=True)
    (tmp_path / "sessions/2026/11/18/rollout-x.jsonl").write_text("{}\n")
    assert recognise(tmp_path) == ("codex", tmp_path)


@pytest.mark.parametrize("program", LINES)
def test_a_file_that_grows_is_read_on_whatever_its_pieces(program: str, tmp_path: Path) -> None:
    folder, data = make_folder(program, tmp_path), tmp_path / "data"
    (file,) = session_files(program, folder)
    whole = file.read_bytes()
    (path,) = translated(folder, tmp_path / "whole")
    expected = path.read_bytes()
    file.write_bytes(b"")
    # Cut within lines, at their ends, and between a line and its end.
    ends = sorted({*range(0, len(whole), 997), whole.find(b"\n"), whole.find(b"\n") + 1, len(whole) - 1, len(whole)})
    inode = None
    for end in ends[1:]:
        with file.open("ab") as growing:
            growing.write(whole[growing.tell() : end])
        (path,) = translated(folder, data)
        assert read_originals(path.read_bytes()) == whole[:end]
        if end > whole.find(b"\n"):
            assert inode in (None, path.stat().st_ino)
            inode = path.stat().st_ino
    assert without_originals(path.read_bytes()) == without_originals(expected)


def without_originals(lines: bytes) -> list[object]:
    """Return translated lines without what they keep, and without those of blank lines."""
    values = [json.loads(line) for line in lines.splitlines()]
    names = {"originalLine", "originalBytes"}
    return [
        {name: value[name] for name in value if name not in names} for value in values if value.get("kind") != "blank"
    ]


def test_what_is_appended_is_seen_by_the_next_command(tmp_path: Path) -> None:
    run, folder = make_runner(tmp_path), make_folder("codex", tmp_path)
    (file,) = session_files("codex", folder)
    assert run("search", "flamingo", "--config-dir", folder).code == 1
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and a flamingo"}]}
    with file.open("a") as lines:
        lines.write(json.dumps({"timestamp": "2026-11-18T20:00:00Z", "type": "response_item", "payload": item}) + "\n")
    found = json.loads(run("search", "flamingo", "--json", "--config-dir", folder).out)
    assert len(found["items"]) == 1
    (session,) = json.loads(run("ls", "--json", "--config-dir", folder).out)["items"]
    assert session["turns"] == 3


@pytest.mark.parametrize("program", LINES)
def test_a_file_that_is_rewritten_is_translated_anew(program: str, tmp_path: Path) -> None:
    folder, data = make_folder(program, tmp_path), tmp_path / "data"
    (file,) = session_files(program, folder)
    translated(folder, data)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], *lines[4:]]) + b"{torn")
    assert originals(folder, data) == [file.read_bytes()]


@pytest.mark.parametrize("program", LINES)
def test_a_session_that_is_deleted_is_listed_as_gone(program: str, tmp_path: Path) -> None:
    run, folder = make_runner(tmp_path), make_folder(program, tmp_path)
    (file,) = session_files(program, folder)
    run("ls", "--config-dir", folder)
    copy = file.with_name(file.name.replace("11-18", "11-19").replace("01a1f03", "01a1f04"))
    copy.write_bytes(file.read_bytes().replace(b"38185774", b"48185774"))  # Gemini's file has the id inside
    file.unlink()
    listed = json.loads(run("ls", "--json", "--config-dir", folder).out)["items"]
    assert sorted(item["gone"] for item in listed) == [False, True]


def test_nothing_is_written_if_nothing_has_changed(tmp_path: Path) -> None:
    for program in PROGRAMS:
        folder, data = make_folder(program, tmp_path), tmp_path / "data"
        translated(folder, data)
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
        translated(folder, data)
        assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


def test_a_lost_state_or_a_lost_translation_is_made_again(tmp_path: Path) -> None:
    folder, data = make_folder("pi", tmp_path), tmp_path / "data"
    (file,), (path,) = session_files("pi", folder), translated(folder, data)
    expected = path.read_bytes()
    (path.parents[2] / "state.json").write_text("{")
    assert translated(folder, data)[0].read_bytes() == expected
    path.unlink()
    with file.open("ab") as lines:
        lines.write(b"\n")
    assert originals(folder, data) == [file.read_bytes()]


def test_a_killed_update_is_repeated(tmp_path: Path) -> None:
    folder, data = make_folder("pi", tmp_path), tmp_path / "data"
    (file,), (path,) = session_files("pi", folder), translated(folder, data)
    # The lines were written, and the state was not.
    with path.open("ab") as lines:
        lines.write(b'{"type":"pi/torn","originalLine":"half')
    with file.open("ab") as lines:
        lines.write(b'{"type":"label"}\n')
    assert originals(folder, data) == [file.read_bytes()]


def test_two_files_with_one_session_id_are_two_sessions(tmp_path: Path) -> None:
    folder = make_folder("codex", tmp_path)
    (file,) = session_files("codex", folder)
    (folder / "archived_sessions").mkdir()
    (folder / "archived_sessions" / file.name).write_bytes(file.read_bytes())
    assert originals(folder, tmp_path / "data") == [file.read_bytes()] * 2


def test_a_compressed_session_of_codex_is_read(tmp_path: Path) -> None:
    folder = make_folder("codex", tmp_path)
    (file,) = session_files("codex", folder)
    plain = file.read_bytes()
    file.unlink()
    file.with_name(f"{file.name}.zst").write_bytes(zstd.compress(plain))
    assert originals(folder, tmp_path / "data") == [plain]
    file.with_name(f"{file.name}.zst").write_bytes(zstd.compress(plain)[:-9] + b"damaged!!")
    _, skipped = translate_folder(folder, tmp_path / "data")
    assert [one.reason for one in skipped] == ["damaged zstd data"]


def test_a_change_in_the_database_of_opencode_is_seen(tmp_path: Path) -> None:
    folder, data = make_folder("opencode", tmp_path), tmp_path / "data"
    before = originals(folder, data)[0]
    with sqlite3.connect(folder / "opencode.db") as database:
        database.execute("UPDATE part SET data = replace(data, 'herons', 'egrets'), time_updated = time_updated + 1")
    database.close()
    after = originals(folder, data)[0]
    assert after != before
    assert len(after) == len(before)
    assert b"list the egrets" in after
    with sqlite3.connect(folder / "opencode.db") as database:
        database.execute("DELETE FROM session")
    database.close()
    assert translated(folder, data) == []


def test_the_older_storage_of_opencode_is_read_as_its_database_is(tmp_path: Path) -> None:
    tables = {table["table"]: table["rows"] for table in read_tables()}
    (session,) = tables["session"]
    files = {f"session/global/{session['id']}": json.dumps({"directory": session["directory"]})}
    files |= {f"message/{row['session_id']}/{row['id']}": row["data"] for row in tables["message"]}
    files |= {f"part/{row['message_id']}/{row['id']}": row["data"] for row in tables["part"]}
    for name, text in files.items():
        path = tmp_path / "folder/storage" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (written,) = originals(tmp_path / "folder", tmp_path / "data")
    assert sorted(json.dumps(value) for value in read_values(written)) == sorted(
        json.dumps(json.loads(text)) for text in files.values()
    )


def read_values(text: bytes) -> Iterator[object]:
    """Yield the JSON values that stand one after the other."""
    decoder, left = json.JSONDecoder(), text.decode()
    while left:
        value, end = decoder.raw_decode(left)
        yield value
        left = left[end:]


def test_a_database_that_is_none_or_would_never_end_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/opencode.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    root, skipped = translate_folder(tmp_path / "folder", tmp_path / "data")
    assert root != tmp_path / "folder"
    assert [one.path.name for one in skipped] == ["opencode.db"]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_come_back_from_the_folder_also_if_more_follow(first: bytes, more: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        folder = Path(place) / "pi/sessions/--x--"
        folder.mkdir(parents=True)
        file = folder / "2026-01-01T00-00-00-000Z_a.jsonl"
        head = next(iter((WRITTEN / "pi").rglob("*.jsonl"))).read_bytes()[:700]
        file.write_bytes(head + first)
        for text in (head + first, head + first + more):
            file.write_bytes(text)
            os.utime(file, ns=(0, len(text)))
            assert originals(Path(place) / "pi", Path(place) / "data") == [text]


def test_a_mirror_names_the_folder_that_it_is_of(tmp_path: Path) -> None:
    found = recognise(make_folder("gemini", tmp_path))
    assert found is not None
    mirror = Mirror(found, tmp_path / "data")
    assert mirror.root.parent == tmp_path / "data/other-agents"
