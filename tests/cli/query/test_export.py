"""`unspool export`."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.demo import write_demo
from unspool.testing.build import assistant, raw, session, thinking, tool_result, tool_use, user

S1 = "11111111-1111-4111-8111-111111111111"
S2 = "12222222-2222-4222-8222-222222222222"
UGLY = [raw(b'{"torn'), raw(b"\0\xff\r\n\n"), raw(b"\xef\xbb\xbf{}{}\n"), raw(b'{"no end":1}')]


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The made-up config folder."""
    write_demo(tmp_path / "demo")
    return tmp_path / "demo"


def exported(*arguments: str | Path) -> bytes:
    command = [sys.executable, "-m", "unspool", "export", *map(str, arguments), "--jsonl"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


def test_a_file_comes_out_as_it_is(tmp_path: Path) -> None:
    path = session(user("hi"), *UGLY).save(tmp_path)
    assert exported(path) == path.read_bytes()
    path.write_bytes(b"")
    assert exported(path) == b""


def test_a_session_or_agent_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    path = session(user("hi"), id=S1).save(tmp_path)
    agent = path.parent / "agent-abcdef1.jsonl"
    agent.write_bytes(b"{}\n")
    assert exported("11", "--config-dir", tmp_path) == path.read_bytes()
    assert exported("abc", "--config-dir", tmp_path) == b"{}\n"


def test_a_new_file_is_private_and_an_old_one_is_kept(run: Run, tmp_path: Path) -> None:
    path = session(user("hi")).save(tmp_path / "c")
    target = tmp_path / "out.jsonl"
    assert run("export", path, "--jsonl", "-o", target).code == 0
    assert target.read_bytes() == path.read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    again = run("export", path, "--jsonl", "-o", target)
    assert (again.code, again.err.splitlines()[1]) == (5, "hint: choose another name, or delete it first")


def test_a_title_will_do_too(tmp_path: Path) -> None:
    path = session(user("Fix the cache"), id=S1).save(tmp_path)
    session(user("Something else"), id=S2).save(tmp_path)
    assert exported("the cache", "--config-dir", tmp_path) == path.read_bytes()


def test_the_messages_are_what_the_api_would_be_sent(run: Run, tmp_path: Path) -> None:
    path = session(user("hi"), assistant(tool_use("Bash", id="a", command="ls")), tool_result("x"), assistant("ho"))
    done = run("export", path.save(tmp_path / "c"), "--messages")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == snapshot(
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}],
                },
                {"role": "user", "content": [{"tool_use_id": "a", "type": "tool_result", "content": "x"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
            ]
        }
    )


def test_the_data_has_every_part(run: Run, tmp_path: Path) -> None:
    session(user("hi"), assistant("ho"), id=S1).save(tmp_path / "c")
    done = run("export", "1111", "--json", "--config-dir", tmp_path / "c")
    assert (done.code, done.err) == (0, "")
    exported = json.loads(done.out)
    assert list(exported)[-6:] == ["turns", "messages", "tool_calls", "threads", "agents", "compactions"]
    assert (exported["schema"], exported["session_id"]) == ("unspool/export/1", S1)


def test_a_transcript_is_markdown(run: Run, tmp_path: Path) -> None:
    path = session(user("Why?"), assistant("Because.", tool_use("Bash", command="echo `date`")), tool_result("x"))
    done = run("export", path.save(tmp_path / "c"), "--md", TZ="UTC")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
# Why?

- session: `00000000-0000-4000-8000-000000000001`
- project: `/home/me/project`
- branch: `main`
- when: `2026-01-05 09:00`
- model: `claude-opus-4-5-20251101`
- version: `2.1.325`

## 1 · 2026-01-05 09:00

> Why?

Because.

✓ **Bash** `` echo `date` `` (1.0 s)
""")


@pytest.mark.parametrize("form", ["--md", "--json", "--messages"])
def test_every_form_can_go_to_a_new_private_file(run: Run, tmp_path: Path, form: str) -> None:
    path = session(user("hi"), assistant("ho")).save(tmp_path / "c")
    target = tmp_path / "out"
    done = run("export", path, form, "-o", target)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert target.read_text() == run("export", path, form).out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert run("export", path, form, "-o", target).code == 5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["export", "none.jsonl", "--jsonl", "--config-dir", "c"],
            3,
            snapshot("""\
unspool: file not found: `none.jsonl`
hint: list sessions with `unspool --config-dir c ls`
"""),
        ),
        (
            ["export", "abc", "--jsonl", "--config-dir", "c"],
            3,
            snapshot("""\
unspool: no session matches `abc`
hint: list sessions with `unspool --config-dir c ls`
"""),
        ),
        (
            ["export", "1", "--jsonl", "--config-dir", "c"],
            2,
            snapshot("""\
unspool: `1` matches 2 files: `11111111-1111-4111-8111-111111111111`, `12222222-2222-4222-8222-222222222222`
hint: use more characters of the id
"""),
        ),
        (
            ["export", "c", "--jsonl"],
            4,
            snapshot("""\
unspool: `TMP/c` is not a regular file
hint: name a regular file
"""),
        ),
        (
            ["export", "c"],
            2,
            snapshot("""\
unspool: missing output format
hint: add --md, --html, --json, --messages or --jsonl; or export all sessions with --parquet or --duckdb
"""),
        ),
    ],
)
def test_a_wrong_request_is_one_line_and_a_hint(
    run: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    for one in (S1, S2):
        session(user("hi"), id=one).save(tmp_path / "c")
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.replace(str(tmp_path), "TMP") == words


def test_on_a_terminal_the_text_is_made_harmless(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    path = session(user("hi"), raw(b'\x1b]0;owned\x07{"a":"\xc2\x9b2J"}\n')).save(tmp_path)
    sent = on_terminal("export", path, "--jsonl")
    assert b"owned" not in sent
    assert b"\x1b]" not in sent
    assert b"\xc2\x9b" not in sent
    assert b"redirect the output for the exact bytes" in sent


@pytest.mark.parametrize("form", ["--md", "--json", "--messages"])
def test_no_form_can_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path, form: str) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"
    steps = [user(evil), assistant(thinking(evil), evil, tool_use(evil, x=evil)), tool_result(evil, error=True)]
    path = session(*steps, branch=evil).save(tmp_path)
    sent = on_terminal("export", path, form).decode()
    for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
        assert harm not in sent
    assert "gnp.exe" in sent


def test_one_html_file_is_private_and_has_what_was_chosen(run: Run, tmp_path: Path) -> None:
    lines = [user("one"), assistant("answer A", thinking("hm")), user("two"), assistant("answer B"), user("three")]
    path = session(*lines).save(tmp_path / "c")
    target = tmp_path / "out.html"
    assert run("export", path, "--html", "-o", target).code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    whole = target.read_text()
    assert whole.startswith("<!doctype html>")
    assert whole.endswith("</html>\n")
    assert all(words in whole for words in ("answer A", "answer B", "three"))
    some = run("export", path, "--html", "--turns", "2..", "--depth", "prompts").out
    assert "two" in some
    assert "three" in some
    assert "answer A" not in some
    assert "answer B" not in some


def test_markdown_has_the_chosen_turns_and_depth(run: Run, tmp_path: Path) -> None:
    lines = [user("one"), assistant("first"), user("two"), assistant("second", tool_use("Bash", command="ls"))]
    path = session(*lines, tool_result("a result")).save(tmp_path)
    assert run("export", path, "--md", "--turns", "-1", "--depth", "answers").out.splitlines()[-3:] == [
        "> two",
        "",
        "second",
    ]
    assert "a result" in run("export", path, "--md", "--depth", "all").out
    assert "a result" not in run("export", path, "--md").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--json", "--turns", "1"], 2, "--turns and --depth need --md or --html"),
        (["--md", "--turns", "x"], 2, "not turns: `x`"),
        (["--html", "--turns", "9"], 3, "no turn matches `9`"),
    ],
)
def test_turns_that_are_none_are_named(run: Run, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    path = session(user("hi")).save(tmp_path)
    done = run("export", path, *arguments)
    assert (done.code, done.err.splitlines()[0]) == (code, f"unspool: {words}")


def test_a_session_that_only_the_archive_has_becomes_html_too(run: Run, tmp_path: Path) -> None:
    lines = [
        user("one"),
        *[assistant(tool_use("Bash", command="ls")), tool_result("x" * 2_000)] * 300,
        user("last words"),
    ]
    path = session(*lines, id=S1).save(tmp_path / "c")
    assert run("sync", "--config-dir", tmp_path / "c").code == 0
    whole = run("export", S1, "--html", "--config-dir", tmp_path / "c").out
    path.unlink()
    again = run("export", S1, "--html", "--config-dir", tmp_path / "c")
    assert again.code == 0
    assert "last words" in again.out
    assert again.out == whole


def test_a_project_is_exported_as_pages_and_brought_up_to_date(run: Run, demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    code, out, err = run("export", "--html", "--project", "tidewatch", "-o", folder, "--config-dir", demo)
    assert (code, err) == (0, "")
    assert out.startswith("wrote 5 pages, 0 unchanged; open ")
    code, out, _ = run("export", "--html", "--all", "-o", folder, "--config-dir", demo)
    assert ", 5 unchanged; open " in out
    assert 'href="sessions/' in (folder / "index.html").read_text()


@pytest.mark.parametrize(
    "words",
    [["--all"], ["--html", "--all"], ["--md", "--all", "-o", "x"], ["3fe", "--html", "--project", "a", "-o", "x"]],
)
def test_pages_need_html_and_a_folder_and_no_session(words: list[str], run: Run, demo: Path) -> None:
    code, out, err = run("export", *words, "--config-dir", demo)
    assert (code, out) == (2, "")
    assert f"unspool --config-dir {demo} export --html --all -o DIR" in err
