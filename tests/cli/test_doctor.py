"""`unspool doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.testing.build import assistant, note, raw, session, tool_result, tool_use, user

EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"


def test_a_healthy_session_is_told_in_a_few_lines(run: Run, tmp_path: Path) -> None:
    session(user("hi"), assistant("look", tool_use("Read")), tool_result("x")).save(tmp_path / "c")
    done = run("doctor", tmp_path / "c")
    assert done.code == 0
    assert done.err == ""
    assert done.out.replace(str(tmp_path), "TMP") == snapshot("""\
TMP/c
  files       1 (1 session, 0 sub-agents)
  lines       4
  bytes       2.5 kB, every byte accounted for
  side files  0 (0 bytes)
  versions    2.1.325

records
  user       2
  assistant  2

nothing unknown, nothing damaged
""")


def test_damage_is_a_finding_and_the_exit_code_is_0(run: Run, tmp_path: Path) -> None:
    session(
        user("hi"),
        note("brand-new"),
        raw(b'{"type":"mode","mode":5}\n'),
        raw(b"[1]\n"),
        raw(b'{"type":"mode"}{"type":"mode"}\n'),
        raw(b'{"torn'),
    ).save(tmp_path / "c")
    done = run("doctor", tmp_path / "c")
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(tmp_path), "TMP") == snapshot("""\
TMP/c
  files       1 (1 session, 0 sub-agents)
  lines       7
  bytes       455 bytes, every byte accounted for
  side files  0 (0 bytes)
  versions    2.1.325

records
  mode       3
  user       1
  brand-new  1

unknown, kept as they are
  brand-new  1

bad lines, kept by place: 2
  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:414  4 bytes, not an object: a list
  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:449  6 bytes, torn: the object has no end

mended: 1
  unexpected type: mode  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:389
""")


def test_the_json_has_the_promised_fields(run: Run, tmp_path: Path) -> None:
    path = session(user("hi"), raw(b"[1]\n"), note("brand-new")).save(tmp_path / "c")
    done = run("doctor", tmp_path / "c", "--json")
    data = json.loads(done.out)
    size = path.stat().st_size
    assert (data["files"], data["sessions"], data["lines"]) == (1, 1, 3)
    assert data["bytes"] == data["accounted_bytes"] == size
    assert data["records"] == {"user": 1, "brand-new": 1}
    assert data["unknown"] == {"brand-new": 1}
    (bad,) = data["bad_lines"]
    assert bad == {"file": str(path), "offset": bad["offset"], "length": 4, "reason": "not an object: a list"}
    assert path.read_bytes()[bad["offset"] : bad["offset"] + bad["length"]] == b"[1]\n"
    assert data["warnings"] == []


def test_one_file_is_enough(run: Run, tmp_path: Path) -> None:
    path = session(user("hi")).save(tmp_path / "c")
    assert json.loads(run("doctor", path, "--json").out)["lines"] == 1


def test_without_a_path_the_config_folder_is_read(run: Run, tmp_path: Path) -> None:
    session(user("hi")).save(tmp_path / "c")
    session(user("hi"), user("ho")).save(tmp_path / "home" / ".claude")
    lines = [
        json.loads(done.out)["lines"]
        for done in (
            run("doctor", "--json"),
            run("doctor", "--json", CLAUDE_CONFIG_DIR=str(tmp_path / "c")),
            run("--config-dir", tmp_path / "c", "doctor", "--json"),
            run("doctor", "--json", "--config-dir", tmp_path / "c"),
        )
    ]
    assert lines == [2, 1, 1, 1]


def test_a_folder_with_nothing_in_it_is_said_to_be_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run("doctor", tmp_path / "empty")
    assert done.code == 0
    assert "nothing of Claude Code's here" in done.out
    assert json.loads(run("doctor", tmp_path / "empty", "--json").out)["files"] == 0


def test_what_a_transcript_says_cannot_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    folder = tmp_path / "c"
    session(note(EVIL), user("x", version=EVIL), raw(b'{"type":"mode","mode":{"' + b'\\u001b[2J":1}}\n')).save(folder)
    (folder / f"agent-{EVIL.replace('/', '')}.jsonl").write_bytes(b"[1]\n")
    for arguments in (["doctor", folder], ["doctor", folder, "--json"]):
        sent = on_terminal(*arguments).decode()
        for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
            assert harm not in sent
        assert "gnp.exe" in sent
