"""`unspool show --file`."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.demo import session_builder
from unspool.testing.build import session, user

S1 = "11111111-1111-4111-8111-111111111111"
EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m\n"
ONE, TWO = b"a\nb\nc\n", b"a\nB\nc\xff\x0bd"


def kept(name: str | None, version: int, minute: int = 0) -> dict[str, Any]:
    return {"backupFileName": name, "version": version, "backupTime": f"2026-01-05T09:{minute:02}:00.000Z"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session that changed some files."""
    files = {
        "src/a.py": [kept("a@v1", 1), kept("a@v2", 2, 5), kept("a@v3", 3, 6)],
        "tests/a.py": [kept(None, 1), kept("t@v2", 2, 5)],
        "logo.png": [kept("l@v1", 1), kept("l@v2", 2, 5)],
        "odd@v1": [kept("o@v1", 1)],
        "same": [kept("s@v1", 1), kept("s@v2", 2)],
    }
    notes = [session_builder.snapshot(**{name: one}) for name, known in files.items() for one in known]
    path = session(user("hi"), *notes, id=S1).save(tmp_path / "c")
    folder = tmp_path / "c" / "file-history" / S1
    folder.mkdir(parents=True)
    copies = {"a@v1": ONE, "a@v2": TWO, "t@v2": b"t\n", "l@v1": b"\x89PNG\0", "l@v2": b"\0", "o@v1": EVIL.encode()}
    for name, data in {**copies, "s@v1": b"s", "s@v2": b"s"}.items():
        (folder / name).write_bytes(data)
    return path


def shown(run: Run, path: Path, *words: str) -> str:
    done = run("show", path, "--file", *words, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    return done.out


def written(path: Path, *words: str) -> bytes:
    command = [sys.executable, "-m", "unspool", "show", str(path), "--file", *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


def test_the_versions_of_a_file_are_listed(run: Run, path: Path) -> None:
    assert shown(run, path, "src/a.py") == snapshot("""\
file      version  time                 size  copy
src/a.py  v1       2026-01-05 09:00  6 bytes  present
src/a.py  v2       2026-01-05 09:05  8 bytes  present
src/a.py  v3       2026-01-05 09:06           gone
""")


def test_the_end_of_a_path_lists_all_files_that_fit(run: Run, path: Path) -> None:
    assert shown(run, path, "a.py") == snapshot("""\
file        version  time                 size  copy
src/a.py    v1       2026-01-05 09:00  6 bytes  present
src/a.py    v2       2026-01-05 09:05  8 bytes  present
src/a.py    v3       2026-01-05 09:06           gone
tests/a.py  v1       2026-01-05 09:00           none (the file did not exist)
tests/a.py  v2       2026-01-05 09:05  2 bytes  present
""")


def test_a_path_in_the_folder_of_the_session_will_do(run: Run, path: Path) -> None:
    assert shown(run, path, "/home/me/project/src/a.py") == shown(run, path, "src/a.py")
    assert shown(run, path, "./src/a.py") == shown(run, path, "src/a.py")


def test_the_list_can_be_data(run: Run, path: Path) -> None:
    assert json.loads(shown(run, path, "tests/a.py", "--json"))["items"] == snapshot(
        [
            {
                "path": "tests/a.py",
                "file": "tests/a.py",
                "version": 1,
                "time": "2026-01-05T09:00:00.000Z",
                "name": None,
                "bytes": None,
                "copy": "none",
            },
            {
                "path": "tests/a.py",
                "file": "tests/a.py",
                "version": 2,
                "time": "2026-01-05T09:05:00.000Z",
                "name": "t@v2",
                "bytes": 2,
                "copy": "present",
            },
        ]
    )


def test_a_version_comes_out_byte_for_byte(path: Path) -> None:
    assert written(path, "src/a.py@v1") == ONE
    assert written(path, "src/a.py@v2") == TWO
    assert written(path, "logo.png@v1") == b"\x89PNG\0"


def test_a_name_that_looks_like_a_version_is_a_name_first(run: Run, path: Path) -> None:
    assert "o@v1" in shown(run, path, "odd@v1", "--json")
    assert written(path, "odd@v1@v1") == EVIL.encode()


def test_two_versions_are_compared(path: Path) -> None:
    assert written(path, "src/a.py@v1..v2").split(b"\n") == snapshot(
        [
            b"--- src/a.py@v1\t2026-01-05T09:00:00.000Z",
            b"+++ src/a.py@v2\t2026-01-05T09:05:00.000Z",
            b"@@ -1,3 +1,3 @@",
            b" a",
            b"-b",
            b"-c",
            b"+B",
            b"+c\xff\x0bd",
            b"\\ No newline at end of file",
            b"",
        ]
    )
    assert written(path, "src/a.py@v1..2") == written(path, "src/a.py@v1..v2")
    assert written(path, "src/a.py@v2", "--diff") == written(path, "src/a.py@v1..v2")
    assert written(path, "src/a.py@v2..v1").count(b"\n+b\n") == 1


def test_a_file_that_did_not_exist_is_compared_as_empty(run: Run, path: Path) -> None:
    assert shown(run, path, "tests/a.py", "--diff") == snapshot("""\
--- tests/a.py@v1	2026-01-05T09:00:00.000Z
+++ tests/a.py@v2	2026-01-05T09:05:00.000Z
@@ -0,0 +1 @@
+t
""")


def test_binary_files_are_not_compared(run: Run, path: Path) -> None:
    assert shown(run, path, "logo.png", "--diff") == snapshot("binary files logo.png@v1 and logo.png@v2 differ\n")


def test_versions_that_are_the_same_are_said_to_be(run: Run, path: Path) -> None:
    done = run("show", path, "--file", "same", "--diff")
    assert (done.code, done.out, done.err) == (0, "", "no difference: same@v1 and same@v2\n")


def test_a_version_goes_to_a_new_private_file(run: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert shown(run, path, "src/a.py@v2", "-o", str(target)) == ""
    assert target.read_bytes() == TWO
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    again = run("show", path, "--file", "src/a.py@v1", "-o", target)
    assert (again.code, again.err.splitlines()[1]) == (5, "hint: choose another name, or delete it first")
    assert target.read_bytes() == TWO
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert run("show", path, "--file", "src/a.py@v1", "-o", tmp_path / "link").code == 5
    assert shown(run, path, "src/a.py@v1..v2", "-o", str(tmp_path / "diff")) == ""
    assert (tmp_path / "diff").read_bytes() == written(path, "src/a.py@v1..v2")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ["b.py"],
            3,
            snapshot("""\
unspool: this session changed no file that matches `b.py`
hint: the session has versions of `src/a.py`, `tests/a.py`, `logo.png` and 2 more
"""),
        ),
        (
            ["b.py@v1"],
            3,
            snapshot("""\
unspool: this session changed no file that matches `b.py`
hint: the session has versions of `src/a.py`, `tests/a.py`, `logo.png` and 2 more
"""),
        ),
        (
            ["src/a.py@v3"],
            3,
            snapshot("""\
unspool: the copy of `src/a.py@v3` was deleted
hint: Claude Code deletes old copies; list the remaining ones with `--file` without a version
"""),
        ),
        (
            ["tests/a.py@v1"],
            3,
            snapshot("""\
unspool: the file did not exist in `tests/a.py@v1`
hint: try a later version
"""),
        ),
        (
            ["src/a.py@v4"],
            3,
            snapshot("""\
unspool: `src/a.py` has no version `v4`
hint: it has v1, v2, v3
"""),
        ),
        (
            ["src/a.py@old"],
            2,
            snapshot("""\
unspool: invalid version `old`
hint: use for example `--file src/a.py@v1` or `--file src/a.py@v1..v2`
"""),
        ),
        (
            ["a.py@v1"],
            2,
            snapshot("""\
unspool: the path matches 2 files: `src/a.py`, `tests/a.py`
hint: use more of the path
"""),
        ),
        (
            ["src/a.py@v1", "--diff"],
            3,
            snapshot("""\
unspool: no earlier version than `src/a.py@v1`
hint: compare two versions with `--file PATH@v1..v2`
"""),
        ),
        (
            ["src/a.py", "-o", "out"],
            2,
            snapshot("""\
unspool: missing version
hint: use for example `--file src/a.py@v1 -o FILE`
"""),
        ),
        (
            ["src/a.py@v1", "--json"],
            2,
            snapshot("""\
unspool: --json prints only the list of versions
hint: use `--file PATH --json`, without a version or `--diff`
"""),
        ),
        (
            ["src/a.py", "--turn", "1"],
            2,
            snapshot("""\
unspool: --file cannot be combined with --turn or --tree
hint: remove `--turn` and `--tree`
"""),
        ),
    ],
)
def test_a_wrong_request_is_one_line_and_a_hint(run: Run, path: Path, words: list[str], code: int, said: str) -> None:
    done = run("show", path, "--file", *words)
    assert (done.code, done.out) == (code, "")
    assert done.err == said


@pytest.mark.parametrize("option", [["--diff"], ["-o", "out"]])
def test_what_is_for_files_needs_a_file(run: Run, path: Path, option: list[str]) -> None:
    done = run("show", path, *option)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        snapshot("""\
unspool: --diff and -o need --file
hint: write a whole session with `unspool export`
"""),
    )


def test_a_session_without_versions_says_so(run: Run, tmp_path: Path) -> None:
    done = run("show", session(user("hi")).save(tmp_path / "c"), "--file", "a")
    assert (done.code, done.err) == (
        3,
        snapshot("""\
unspool: this session changed no file that matches `a`
hint: the session has no versions: it changed no file, or Claude Code was older than 2.0.36
"""),
    )


def test_on_a_terminal_a_version_is_made_harmless(on_terminal: Callable[..., bytes], path: Path) -> None:
    sent = on_terminal("show", path, "--file", "odd@v1@v1").decode()
    for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
        assert harm not in sent
    assert "gnp.exe" in sent
    assert "redirect the output for the exact bytes" in sent


def test_on_a_terminal_a_binary_file_is_not_printed(on_terminal: Callable[..., bytes], path: Path) -> None:
    sent = on_terminal("show", path, "--file", "logo.png@v1")
    assert b"binary file, 5 bytes" in sent
    assert b"PNG" not in sent


def test_no_name_in_the_list_can_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    steps = [
        session_builder.snapshot(**{f"{EVIL}/a.py": {**kept("a@v1", number), "backupTime": EVIL}}) for number in (1, 2)
    ]
    path = session(user("hi"), *steps, id=S1).save(tmp_path / "c")
    (tmp_path / "c" / "file-history" / S1).mkdir(parents=True)
    (tmp_path / "c" / "file-history" / S1 / "a@v1").write_bytes(b"a")
    for words in (["a.py"], ["a.py", "--json"], ["a.py", "--diff"], ["none"]):
        sent = on_terminal("show", path, "--file", *words).decode()
        for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
            assert harm not in sent
        assert "gnp.exe" in sent
