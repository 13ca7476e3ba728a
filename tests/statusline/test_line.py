"""The status line as a process: it always ends well, and starts at most one sync."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.world import synced
from tests.pseudo_terminal import until
from tests.statusline.test_agreement import BEGIN, append
from tests.statusline.test_status_input import anything, sent
from unspool.demo import write_demo
from unspool.folders import data_folder_name
from unspool.format import milliseconds_of
from unspool.paths import data_folder
from unspool.statusline import background_sync
from unspool.statusline.line import build_status_line, read_line_settings
from unspool.statusline.session_tail import read_tail

ANSWER: dict[str, Any] = {
    "minute": 0, "id": 1, "session": 0, "model": 0, "input": 0, "output": 1000, "read": 0, "short": 0, "long": 0,
    "split": True, "stop": True, "speed": None, "geo": None, "searches": 0,
}  # fmt: skip
NOW = milliseconds_of(BEGIN) + 30 * 60_000


def environment(tmp_path: Path) -> dict[str, str]:
    return {"UNSPOOL_HOME": str(tmp_path / "own"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def quiet(tmp_path: Path, **settings: Any) -> dict[str, str]:
    """Return an environment whose status lines start no sync."""
    (tmp_path / "own").mkdir(exist_ok=True)
    values = {"background": False, "timezone": "UTC", **settings}
    (tmp_path / "own" / "settings.json").write_text(json.dumps(values))
    return environment(tmp_path)


def said(path: Path, **fields: Any) -> bytes:
    return json.dumps({**sent(), "transcript_path": str(path), "cwd": "/", "workspace": {}, **fields}).encode()


def run(tmp_path: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "unspool", "statusline", *arguments]
    return subprocess.run(command, input=data, env=environment(tmp_path), capture_output=True, check=False, timeout=60)


def test_the_line_has_everything_when_the_store_is_up_to_date(tmp_path: Path) -> None:
    variables, root = quiet(tmp_path), tmp_path / ".claude"
    append(root, {**ANSWER, "minute": -60 * 24, "id": 3})
    path = append(root, ANSWER)
    append(root, {**ANSWER, "session": 1, "id": 2, "minute": 10})
    synced(tmp_path / "own", root)
    line = build_status_line(said(path), variables, NOW)
    # $25 per million: 1,000 tokens cost 2.5 cents; the day before had one window of one response.
    assert line == (
        "Opus 5.5 | context 52k, 95% left | session ~$0.05 | today ~$0.05 | 5h ~$0.05, ~0% left, 4h 30m left | ~$0.30/h"
    )


def test_a_store_that_is_a_minute_old_is_not_marked(tmp_path: Path) -> None:
    variables, root = quiet(tmp_path), tmp_path / ".claude"
    path = append(root, ANSWER)
    synced(tmp_path / "own", root)
    now = int(time.time() * 1000)
    assert "session $0.03" in build_status_line(said(path), variables, now + 50_000)
    assert "session ~$0.03" in build_status_line(said(path), variables, now + 61_000)


def test_limits_of_the_api_are_shown_before_those_that_were_learned(tmp_path: Path) -> None:
    variables, root = quiet(tmp_path), tmp_path / ".claude"
    path = append(root, ANSWER)
    synced(tmp_path / "own", root)
    limits = {"five_hour": {"used_percentage": 38, "resets_at": NOW // 1000 + 3600}}
    assert "62% left, 1h 0m left" in build_status_line(said(path, rate_limits=limits), variables, NOW)


def test_a_limit_that_is_set_is_what_the_share_is_of(tmp_path: Path) -> None:
    variables, root = quiet(tmp_path, limits={"five_hour_cost": 0.1}), tmp_path / ".claude"
    path = append(root, ANSWER)
    synced(tmp_path / "own", root)
    assert "5h ~$0.03, ~75% left" in build_status_line(said(path), variables, NOW)


def test_a_template_is_taken_from_the_settings(tmp_path: Path) -> None:
    variables = quiet(tmp_path, statusline={"template": "{model_id} at {effort}"})
    assert build_status_line(json.dumps(sent()).encode(), variables, NOW) == "claude-opus-5-5 at medium"


def test_without_a_store_the_session_file_answers(tmp_path: Path) -> None:
    path = append(tmp_path / ".claude", ANSWER)
    assert "session ~$0.03" in build_status_line(said(path), quiet(tmp_path), NOW)


def test_without_anything_there_is_what_claude_code_says(tmp_path: Path) -> None:
    line = build_status_line(json.dumps(sent()).encode(), quiet(tmp_path), NOW)
    assert line.startswith("Opus 5.5 | ")
    assert "session ~$1.23" in line or "session ~$0.00" in line


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b"\xff", b'{"transcript_path": "/dev/zero"}', b'{"cwd": 7}']
)
def test_the_command_ends_well_whatever_it_is_given(tmp_path: Path, data: bytes) -> None:
    quiet(tmp_path)
    done = run(tmp_path, data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") <= 1


@pytest.mark.parametrize("what", ["damaged", "folder", "newer", "empty"])
def test_a_store_that_cannot_be_read_is_as_none(tmp_path: Path, what: str) -> None:
    variables = quiet(tmp_path)
    path, store = append(tmp_path / ".claude", ANSWER), tmp_path / "own" / "store.db"
    match what:
        case "damaged":
            store.write_bytes(b"SQLite format 3\0" + b"x" * 9000)
        case "folder":
            store.mkdir()
        case "newer":
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"import sqlite3; sqlite3.connect({str(store)!r}).execute('CREATE TABLE homes (id)')",
                ],
                check=True,
            )
        case _:
            store.write_bytes(b"")
    assert "session ~$0.03" in build_status_line(said(path), variables, NOW)


@given(st.lists(anything, max_size=4), anything)
def test_any_lines_at_the_end_of_a_session_are_read(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], inner: Any
) -> None:
    path = tmp_path_factory.mktemp("tail") / "s.jsonl"
    usage = {"type": "assistant", "message": {"usage": {"input_tokens": inner, "cache_creation": inner}, "id": "m"}}
    message = {"type": "assistant", "message": {"usage": inner, "id": inner, "model": inner, "usage ": inner}}
    progress = {"type": "progress", "data": {"type": "agent_progress", "message": inner}, "usage": 1}
    path.write_text("".join(json.dumps(value) + "\n" for value in [*values, usage, message, progress]))
    read_tail(str(path), None)


@given(anything, st.sampled_from(["timezone", "statusline", "limits", "prices", "background"]))
def test_any_settings_are_read(tmp_path_factory: pytest.TempPathFactory, value: Any, name: str) -> None:
    folder = tmp_path_factory.mktemp("own")
    for content in ({name: value}, {name: {"template": value, "five_hour_cost": value, "m": value}}, value):
        (folder / "settings.json").write_text(json.dumps(content))
        read_line_settings(str(folder))


def test_a_sync_is_started_once_and_brings_the_store_up_to_date(tmp_path: Path) -> None:
    write_demo(tmp_path / ".claude")
    own = str(tmp_path / "own")
    os.environ["UNSPOOL_HOME"], before = own, os.environ.get("UNSPOOL_HOME")
    try:
        started = [background_sync.start_sync(own, str(tmp_path / ".claude")) for _ in range(3)]
    finally:
        os.environ.pop("UNSPOOL_HOME") if before is None else os.environ.update(UNSPOOL_HOME=before)
    assert started == [True, False, False]
    until(lambda: (tmp_path / "own" / "archive.db").exists() and not background_sync._is_locked(f"{own}/sync.lock"))


def test_the_command_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    quiet(tmp_path)
    code = """
import os, sys
sys.argv = ["unspool", "statusline"]
real = os._exit
def report(code):
    print(*sorted(sys.modules), file=sys.stderr)
    sys.stderr.flush()
    real(code)
os._exit = report
from unspool.__main__ import main
main()
"""
    data = said(append(tmp_path / ".claude", ANSWER))
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, env=environment(tmp_path), capture_output=True, check=True
    )
    loaded = set(done.stderr.decode().split())
    assert done.stdout
    assert not loaded & {
        "click",
        "msgspec",
        "pathlib",
        "subprocess",
        "threading",
        "asyncio",
        "logging",
        "unspool.cli.main",
    }
    assert {"json", "sqlite3"} <= loaded


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize(
    "variables",
    [{}, {"UNSPOOL_HOME": "~/x"}, {"XDG_DATA_HOME": "/d"}, {"XDG_DATA_HOME": "rel"}, {"LOCALAPPDATA": "/l"}],
)
def test_the_data_folder_is_named_alike_as_text_and_as_a_path(platform: str, variables: dict[str, str]) -> None:
    variables = {"HOME": "/home/me", **variables}
    assert Path(data_folder_name(variables, platform)) == data_folder(variables, platform)
