"""Parser safety, row by row: files as they are found while somebody writes them. Deviations are named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from unspool.live.followed_file import FollowedFile
from unspool.live.session_files import SessionFileName, read_stamp
from unspool.live.state.events import LiveEvent
from unspool.live.state.model import SessionStatus
from unspool.live.state.status import Phase
from unspool.testing.build import assistant, note, progress, raw, session, snapshot, text, thinking, tool_use, user

NOW = datetime(2026, 1, 5, 9, 0, 20, tzinfo=UTC)
ID = "00000000-0000-4000-8000-000000000001"


class File:
    """A file that is followed while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"")
        self.followed = FollowedFile(str(path), SessionFileName(ID))

    def append(self, data: bytes) -> list[LiveEvent]:
        with self.path.open("ab") as file:
            file.write(data)
        return self.read()

    def read(self) -> list[LiveEvent]:
        stamp = read_stamp(str(self.path))
        assert stamp is not None
        return list(self.followed.read(stamp, NOW))

    @property
    def goal(self) -> str:
        return self.followed.metadata.goal

    @property
    def status(self) -> SessionStatus:
        return self.followed.state.status


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / f"{ID}.jsonl")


def test_lines_over_a_megabyte_are_read_deviation_from_skipped(file: File) -> None:
    """A pasted image is such a line: skipping it would lose a prompt. Lines are held up to 64 MiB."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}}
    file.append(session(user(text("What is this?"), image)).data)
    assert (file.goal, file.status) == ("What is this?", SessionStatus.WORKING)


def test_malformed_json_is_skipped(file: File) -> None:
    file.append(session(user("a"), raw(b'{"type":"assistant", nonsense}\n'), user("b")).data)
    assert (file.goal, file.status) == ("a", SessionStatus.WORKING)


def test_a_last_line_that_is_not_whole_waits_for_its_end(file: File) -> None:
    data = session(user("a"), assistant("Done.")).data
    told = [[event.event for event in file.append(part)] + [file.status.value] for part in (data[:-20], data[-20:])]
    assert told == [["prompt", "working"], ["message", "waiting_for_input"]]


def test_lines_without_session_id_count_deviation_from_skipped(file: File) -> None:
    """Titles, modes and snapshots have none, and 16,363 of 610,673 lines of real files."""
    file.append(b'{"type":"user","message":{"role":"user","content":"a"}}\n')
    file.append(b'{"type":"custom-title","customTitle":"Mine"}\n')
    assert (file.goal, file.status, file.followed.metadata.title) == ("a", SessionStatus.WORKING, "Mine")


def test_a_line_without_a_type_changes_nothing(file: File) -> None:
    file.append(session(user("a")).data + b'{"sessionId":"x","message":{"content":"b"}}\n')
    assert (file.goal, file.status) == ("a", SessionStatus.WORKING)


def test_a_file_that_was_truncated_starts_again(file: File) -> None:
    file.append(session(user("a"), assistant(tool_use("Bash"))).data)
    assert file.status is SessionStatus.APPROVAL
    file.path.write_bytes(session(user("b")).data)
    assert file.read() == []
    assert (file.goal, file.status, file.followed.state.open_calls) == ("b", SessionStatus.WORKING, ())
    assert [event.text for event in file.append(session(user("c")).data)] == ["c"]


def test_a_file_that_was_replaced_starts_again(file: File, tmp_path: Path) -> None:
    file.append(session(user("a")).data)
    (tmp_path / "new").write_bytes(session(user("b"), assistant("Done."), user("c" * 500)).data)
    (tmp_path / "new").replace(file.path)
    file.read()
    assert file.goal == "b"


def test_a_character_cut_in_two_is_read_when_it_is_whole(file: File) -> None:
    data = session(user("größer 😀")).data
    for at in range(len(data)):
        file.append(data[at : at + 1])
    assert file.goal == "größer 😀"


def test_unrecognised_types_are_no_events(file: File) -> None:
    file.append(session(user("a"), note("a-type-of-tomorrow", value=1)).data)
    assert file.status is SessionStatus.WORKING


def test_thinking_progress_and_snapshots_are_recognised_and_change_nothing(file: File) -> None:
    file.append(session(user("a")).data)
    before = file.status
    more = session(snapshot(), assistant(thinking("hm")), progress("bash_progress"), version="2.0.60").data
    assert file.append(more) == []
    assert (file.status, before) == (SessionStatus.WORKING, SessionStatus.WORKING)
    assert file.followed.state.phase is Phase.CONTINUES


def test_a_file_that_has_gone_tells_nothing(file: File) -> None:
    stamp = read_stamp(str(file.path))
    file.path.unlink()
    assert stamp is not None
    assert list(file.followed.read(stamp, NOW)) == []


def test_only_what_was_appended_is_told(file: File) -> None:
    file.append(session(user("a"), assistant("One")).data)
    told = file.append(session(user("b")).data)
    assert [(event.event, event.text, event.end) for event in told] == [("prompt", "b", file.path.stat().st_size)]
    assert told[0].offset is not None
    with file.path.open("rb") as lines:
        lines.seek(told[0].offset)
        assert b'"b"' in lines.readline()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(1, 400), max_size=12))
def test_where_a_write_ends_does_not_matter(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    data = session(user("a"), assistant(thinking("hm"), "I look.", tool_use("Bash", command="make")), user("b")).data
    folder = tmp_path_factory.mktemp("cut")
    whole, cut = File(folder / "whole.jsonl"), File(folder / "cut.jsonl")
    expected = [(event.event, event.offset) for event in whole.append(data)]
    found, at = [], 0
    for size in [*sizes, len(data)]:
        found += [(event.event, event.offset) for event in cut.append(data[at : at + size])]
        at = min(at + size, len(data))
    assert found == expected
    assert cut.followed.state == whole.followed.state
    assert cut.followed.metadata == whole.followed.metadata
