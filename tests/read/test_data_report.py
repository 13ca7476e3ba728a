"""What a tree holds, counted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from unspool.format.codec import decode
from unspool.format.json_edit import REMOVE, patch
from unspool.format.records import Entry
from unspool.read.data_report import Report, missing_fields, survey
from unspool.read.source_tree import scan
from unspool.testing.build import (
    assistant,
    attachment,
    note,
    progress,
    raw,
    result_block,
    session,
    system,
    tool_use,
    user,
)

S1 = "11111111-1111-4111-8111-111111111111"
S2 = "22222222-2222-4222-8222-222222222222"


def report(root: Path) -> Report:
    return survey(scan(root))


def findings(report: Report) -> Counter[tuple[str, str]]:
    return Counter({(w.kind, w.message): w.count for w in report.warnings})


def test_every_line_is_counted_by_type_and_kind(tmp_path: Path) -> None:
    session(
        user("hi"),
        assistant("a", tool_use("Read")),
        user(result_block("t", [{"type": "hologram"}])),
        system("turn_duration", durationMs=1),
        system(None, "old"),
        system("brand_new"),
        attachment("file", filename="x"),
        attachment("brand_new"),
        progress("bash_progress", output="x"),
        progress("brand_new"),
        note("mode", mode="normal"),
        note("brand-new"),
        raw(b'{"a":1}\n'),
        raw(b"[]\n"),
        raw(b"\n"),
        raw(b'{"torn'),
    ).save(tmp_path)
    found = report(tmp_path)
    assert found.lines == sum(found.records.values()) + len(found.bad_lines) == 16
    assert found.accounted_bytes == found.bytes > 0
    assert found.records == {
        "user": 2, "assistant": 2, "system": 3, "attachment": 2, "progress": 2, "mode": 1, "brand-new": 1,
        "(no type)": 1,
    }  # fmt: skip
    assert found.kinds["system/turn_duration"] == found.kinds["attachment/file"] == 1
    assert found.unknown == {
        "block/hologram": 1, "system/brand_new": 1, "attachment/brand_new": 1, "progress/brand_new": 1,
        "brand-new": 1, "(no type)": 1,
    }  # fmt: skip
    assert [bad.reason for bad in found.bad_lines] == ["not an object: a list", "truncated JSON object"]
    assert found.versions == {"2.1.325": 4}


def test_files_sessions_and_agents_are_counted(tmp_path: Path) -> None:
    path = session(user("hi"), id=S1).save(tmp_path)
    (path.parent / "agent-a1.jsonl").write_bytes(session(user("hi"), id=S1, agent="a1").data)
    (path.parent / f"{S2}.jsonl").touch()
    (tmp_path / "history.jsonl").write_bytes(b'{"display":"hi","timestamp":1,"project":"/p"}\n')
    (tmp_path / "stats-cache.json").write_bytes(b"{}")
    found = report(tmp_path)
    assert (found.files, found.sessions, found.agent_files, found.lines) == (4, 2, 1, 3)
    assert found.records == {"user": 2, "history": 1}
    assert found.side_files == {"stats": 1}


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    session(user("hi")).save(tmp_path)
    (tmp_path / "stats-cache.json").write_bytes(b"{}")
    done: list[int] = []
    tree = scan(tmp_path)
    survey(tree, done.append)
    assert sum(done) == sum(source.size for source in tree.sources)


def test_what_was_mended_is_told_once_per_file(tmp_path: Path) -> None:
    session(raw(b'{"type":"mode","mode":5}\n'), raw(b'{"type":"mode","mode":6}\n')).save(tmp_path)
    found = report(tmp_path)
    assert findings(found) == {("mended", "unexpected type: mode"): 2}
    assert found.warnings[0].offset == 0


def test_an_unreadable_file_is_a_finding(tmp_path: Path) -> None:
    path = session(user("hi"), id=S1).save(tmp_path)
    tree = scan(tmp_path)
    path.unlink()
    found = survey(tree)
    assert (found.files, found.lines) == (1, 0)
    assert [w.kind for w in found.warnings] == ["unreadable"]


def test_skipped_paths_are_findings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert findings(report(tmp_path)) == {("skipped", "not a regular file"): 1}


def _lacking(line: bytes, *path: str) -> list[str]:
    (entry,) = decode(patch(line, {path: REMOVE}))
    assert isinstance(entry, Entry)
    return missing_fields(entry)


USER, ASSISTANT = session(user("hi"), assistant("ho")).lines
EVERYWHERE = ["uuid", "parentUuid", "sessionId", "timestamp"]


@pytest.mark.parametrize("field", [*EVERYWHERE, "message", "isSidechain", "userType", "cwd", "version"])
def test_a_user_line_should_have(field: str) -> None:
    assert _lacking(USER, field) == [field]


@pytest.mark.parametrize("field", [*EVERYWHERE, "message", "requestId"])
def test_an_assistant_line_should_have(field: str) -> None:
    assert _lacking(ASSISTANT, field) == [field]


@pytest.mark.parametrize("field", ["role", "content"])
def test_a_user_message_should_have(field: str) -> None:
    assert _lacking(USER, "message", field) == [f"message.{field}"]


@pytest.mark.parametrize("field", ["model", "id", "role", "content", "stop_reason", "usage"])
def test_an_assistant_message_should_have(field: str) -> None:
    assert _lacking(ASSISTANT, "message", field) == [f"message.{field}"]


@pytest.mark.parametrize("line", [USER, ASSISTANT, *session(system("x"), note("mode")).lines])
def test_a_line_as_the_program_writes_it_lacks_nothing(line: bytes) -> None:
    (entry,) = decode(line)
    assert isinstance(entry, Entry)
    assert missing_fields(entry) == []


def test_null_is_not_absent_where_it_may_be() -> None:
    line = patch(ASSISTANT, {("message", "stop_reason"): None, ("parentUuid",): None, ("message", "content"): []})
    (entry,) = decode(line)
    assert isinstance(entry, Entry)
    assert missing_fields(entry) == []


def test_missing_fields_are_counted_per_file(tmp_path: Path) -> None:
    line = patch(USER, {("cwd",): REMOVE})
    session(raw(line), raw(line)).save(tmp_path)
    assert findings(report(tmp_path)) == {("missing field", "user line without `cwd`"): 2}


def _index(*entries: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode({"version": 1, "entries": list(entries)})


def test_an_index_is_compared_with_the_files_beside_it(tmp_path: Path) -> None:
    first = session(user("hi"), id=S1).save(tmp_path)
    second = session(user("hi"), id=S2).save(tmp_path)
    os.utime(first, ns=(0, 1_000_000_000_000_000))
    gone = "33333333-3333-4333-8333-333333333333"
    index = first.parent / "sessions-index.json"
    index.write_bytes(
        _index({"sessionId": S1, "fileMtime": 1_000_000_000}, {"sessionId": gone, "fullPath": str(second)})
    )
    assert findings(report(tmp_path)) == {
        ("index entry without file", f"`{gone}` is listed but does not exist"): 1,
        ("file without index entry", f"`{S2}` exists but is not listed"): 1,
    }
    index.write_bytes(_index({"sessionId": S1, "fileMtime": 900_000_000}, {"sessionId": S2}))
    assert findings(report(tmp_path)) == {("stale index time", f"`{S1}` changed after it was listed"): 1}


@pytest.mark.parametrize("document", [b"", b"[", b"[]", b"\xff", b"[" * 100_000])
def test_a_side_file_that_is_no_json_is_a_finding(tmp_path: Path, document: bytes) -> None:
    (tmp_path / "sessions-index.json").write_bytes(document)
    (finding,) = report(tmp_path).warnings
    assert finding.kind == "unreadable"
