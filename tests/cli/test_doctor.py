"""`unspool doctor`."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.display.units import size
from unspool.sandbox import MECHANISM_NAMES, find_mechanism
from unspool.store.database import STORE, VERSIONS
from unspool.testing.build import assistant, note, raw, session, tool_result, tool_use, user

S1 = "11111111-1111-4111-8111-111111111111"
DAY = 86_400
EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"


def words(out: str, place: Path) -> str:
    """Return what was said, without what differs between machines: places, how much SQLite takes, the sandbox."""
    out = re.sub(r"(sandbox of commands in `unspool chat`: ).*", r"\1IT", out)
    return re.sub(r"(size     )[\d.]+ kB, and the archive [\d.]+ kB", r"\1N kB, and the archive N kB", out).replace(
        str(place), "TMP"
    )


def save(config: Path, days: float, *, id: str = S1) -> Path:
    """Write a session that last changed some days ago."""
    path = session(user("Find the leak"), assistant("ho"), id=id).save(config)
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))
    return path


def test_the_sandbox_of_this_machine_is_named(run: Run, tmp_path: Path) -> None:
    session(user("hi"), assistant("ho")).save(tmp_path / "c")
    mechanism = find_mechanism()
    assert json.loads(run("doctor", tmp_path / "c", "--json").out)["sandbox"] == mechanism
    line = run("doctor", tmp_path / "c").out.splitlines()[-1]
    name = MECHANISM_NAMES[mechanism] if mechanism else "none works here: unspool asks before every command"
    assert line == f"sandbox of commands in `unspool chat`: {name}"


def test_a_healthy_session_is_told_in_a_few_lines(run: Run, tmp_path: Path) -> None:
    session(user("hi"), assistant("look", tool_use("Read")), tool_result("x")).save(tmp_path / "c")
    done = run("doctor", tmp_path / "c")
    assert done.code == 0
    assert done.err == ""
    assert words(done.out, tmp_path) == snapshot("""\
TMP/c
  files       1 (1 session, 0 sub-agents)
  lines       4
  bytes       2.5 kB, every byte was read
  side files  0 (0 bytes)
  versions    2.1.325

records
  user       2
  assistant  2

no unknown or damaged data

store
  folder   TMP/home/.local/share/unspool
  files    1 (0 gone, 0 older versions)
  size     471.6 kB; archive 20.5 kB
  archive  on, 2.5 kB kept
  index    0 texts, 2.5 kB to go
  state    sound

status line: not installed in TMP/c/settings.json
sandbox of commands in `unspool chat`: IT
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
    assert words(done.out, tmp_path) == snapshot("""\
TMP/c
  files       1 (1 session, 0 sub-agents)
  lines       7
  bytes       455 bytes, every byte was read
  side files  0 (0 bytes)
  versions    2.1.325

records
  mode       3
  user       1
  brand-new  1

unknown records (kept)
  brand-new  1

unreadable lines: 2
  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:414  4 bytes, not an object: a list
  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:449  6 bytes, truncated JSON object

mended: 1
  unexpected type: mode  projects/-home-me-project/00000000-0000-4000-8000-000000000001.jsonl:389

store
  folder   TMP/home/.local/share/unspool
  files    1 (0 gone, 0 older versions)
  size     451.0 kB; archive 20.5 kB
  archive  on, 455 bytes kept
  index    0 texts, 449 bytes to go
  state    sound

status line: not installed in TMP/c/settings.json
sandbox of commands in `unspool chat`: IT
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
    assert bad.pop("path") == str(path)
    assert bad == {"file": str(path), "offset": bad["offset"], "length": 4, "reason": "not an object: a list"}
    assert path.read_bytes()[bad["offset"] : bad["offset"] + bad["length"]] == b"[1]\n"
    assert data["warnings"] == []


def test_what_nobody_described_is_counted_with_its_versions(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "c"
    novel = {"type": "text", "text": "a", "sparkle": 1}
    for number, version in enumerate(("2.1.326", "2.1.400")):
        lines = [
            user("hi", shiny=True),
            assistant(novel, tool_use("Bash", id="b"), tool_use("Levitate", id="l"), tool_use("mcp__a__b", id="m")),
            tool_result("x", id="b", structured={"stdout": "x", "stderr": "", "interrupted": False, "glow": 1}),
            tool_result("y", id="l", structured={"height": 3}),
            assistant(tool_use("Glob", id="g")),
            tool_result("z", id="g", structured={"filenames": "no list"}),
        ]
        session(*lines, id=f"{number}{S1[1:]}", version=version).save(config)
    data = json.loads(run("doctor", config, "--json").out)
    both = {"count": 2, "versions": {"2.1.326": 1, "2.1.400": 1}}
    assert data["undeclared_fields"] == {"user.shiny": both, "block/text.sparkle": both, "Bash.glow": both}
    assert data["unknown_tools"] == {"Levitate": both}
    assert data["misfit_results"] == {"Glob": both}
    out = run("doctor", config).out
    assert "unknown fields (kept): 3" in out
    assert re.search(r"user\.shiny +2 times, 2\.1\.326 to 2\.1\.400", out)
    assert "no unknown or damaged data" not in out


def test_the_history_of_another_program_is_not_taken_for_claude_code_s(run: Run, tmp_path: Path) -> None:
    codex = b'{"session_id":"a","ts":1754000000,"text":"hi"}\n'
    (tmp_path / "c" / ".codex").mkdir(parents=True)
    (tmp_path / "c" / ".codex" / "history.jsonl").write_bytes(codex)
    assert json.loads(run("doctor", tmp_path / "c", "--json").out)["files"] == 0
    data = json.loads(run("doctor", tmp_path / "c" / ".codex", "--json").out)
    assert data["unknown"] == {"history line of another program": 1}


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
    assert "no Claude Code data here" in done.out
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


# The store


def test_the_store_is_brought_up_to_date_and_told_of(run: Run, tmp_path: Path) -> None:
    length = save(tmp_path / "c", 1).stat().st_size
    data = json.loads(run("doctor", tmp_path / "c", "--json", UNSPOOL_HOME=str(tmp_path / "u")).out)
    store = data["store"]
    assert store["folder"] == str(tmp_path / "u")
    assert (store["sound"], store["message"], store["hint"], store["synced"]) == (True, None, None, True)
    assert (store["version"], store["archive"], store["files"], store["gone_files"]) == (VERSIONS[STORE], True, 1, 0)
    assert store["raw_bytes"] == length
    assert 0 < store["archived_bytes"] < length
    assert min(store["store_bytes"], store["archive_bytes"]) > 0
    assert (data["deleted_soon"], data["archive_only"], data["stats_difference"]) == ([], [], None)


def test_nobody_else_can_read_the_store(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    run("doctor", tmp_path / "c", UNSPOOL_HOME=str(tmp_path / "u"))
    run("config", "timezone", "UTC", UNSPOOL_HOME=str(tmp_path / "u"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "u", *(tmp_path / "u").iterdir())}
    assert modes == {"u": 0o700, "store.db": 0o600, "archive.db": 0o600, "sync.lock": 0o600, "settings.json": 0o600}


def test_without_the_store_nothing_is_written_and_nothing_of_it_is_told(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "c", 40)
    data = json.loads(run("doctor", tmp_path / "c", "--json", "--no-store", UNSPOOL_HOME=str(tmp_path / "u")).out)
    assert not (tmp_path / "u").exists()
    assert (data["store"], data["archive_only"], data["stats_difference"]) == (None, None, None)
    assert [one["archived"] for one in data["deleted_soon"]] == [None]
    assert data["lines"] == 2


def test_without_a_sync_the_store_is_told_of_as_it_is(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "c", 40)
    data = json.loads(run("doctor", tmp_path / "c", "--json", "--no-sync").out)
    assert (data["store"]["files"], data["lines"]) == (0, 2)
    assert [one["archived"] for one in data["deleted_soon"]] == [False]


def test_a_session_that_goes_soon_and_one_that_went_are_named(run: Run, tmp_path: Path) -> None:
    soon = save(tmp_path / "c", 28, id="33333333-3333-4333-8333-333333333333")
    went = save(tmp_path / "c", 40)
    first = json.loads(run("doctor", tmp_path / "c", "--json").out)
    assert [one["path"] for one in first["deleted_soon"]] == [str(went), str(soon)]
    went.unlink()
    data = json.loads(run("doctor", tmp_path / "c", "--json").out)
    (one,) = data["deleted_soon"]
    assert (one["session"], one["path"], one["days"], one["archived"]) == (soon.stem, str(soon), 30, True)
    assert time.time() + 1.9 * DAY < seconds(one["when"]) < time.time() + 2.1 * DAY
    (kept,) = data["archive_only"]
    assert (kept["session"], kept["path"], kept["title"]) == (S1, str(went), "Find the leak")
    assert data["store"]["gone_files"] == 1
    shown = run("doctor", tmp_path / "c", TZ="UTC").out
    assert "deleted by Claude Code within 7 days: 1\n" in shown
    assert f"  {soon.stem}  on {one['when'][:10]}, in the archive\n" in shown
    assert f"  {S1}  {size(kept['bytes'])}  Find the leak\n" in shown


def seconds(when: str) -> float:
    return datetime.fromisoformat(when).timestamp()


def test_a_folder_that_went_is_known_to_the_archive(run: Run, tmp_path: Path) -> None:
    path = save(tmp_path / "c", 1)
    run("sync", "--config-dir", tmp_path / "c")
    path.unlink()
    for folder in (path.parent, path.parent.parent, tmp_path / "c"):
        folder.rmdir()
    done = run("doctor", tmp_path / "c", "--json")
    data = json.loads(done.out)
    assert (done.code, data["files"]) == (0, 0)
    assert [one["session"] for one in data["archive_only"]] == [S1]


@pytest.mark.parametrize("name", ["store.db", "archive.db"])
@pytest.mark.parametrize("start", [0, 8192])
def test_a_damaged_store_is_a_finding_and_stops_nothing(run: Run, tmp_path: Path, name: str, start: int) -> None:
    save(tmp_path / "c", 40)
    run("sync", "--config-dir", tmp_path / "c", UNSPOOL_HOME=str(tmp_path / "u"))
    path = tmp_path / "u" / name
    path.write_bytes(path.read_bytes()[:start] + b"\xff" * (path.stat().st_size - start))
    done = run("doctor", tmp_path / "c", "--json", UNSPOOL_HOME=str(tmp_path / "u"))
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["lines"] == 2
    assert data["store"]["sound"] is False
    assert "damaged" in data["store"]["message"]
    assert "unspool sync --rebuild" in data["store"]["hint"]
    known = True if name == "store.db" else None
    assert [one["archived"] for one in data["deleted_soon"]] == [known]
    shown = run("doctor", tmp_path / "c", UNSPOOL_HOME=str(tmp_path / "u"))
    assert (shown.code, shown.err) == (0, "")
    assert data["store"]["message"] in shown.out
    assert data["store"]["hint"] in shown.out


def test_settings_that_cannot_be_read_are_a_finding_too(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "settings.json").write_text("{")
    data = json.loads(run("doctor", tmp_path / "c", "--json", UNSPOOL_HOME=str(tmp_path / "u")).out)
    assert data["lines"] == 2
    assert (data["store"]["sound"], data["store"]["synced"]) == (False, False)
    assert "settings are not valid JSON" in data["store"]["message"]


def test_the_own_statistics_of_the_program_are_compared(run: Run, tmp_path: Path) -> None:
    session(
        user("hi"),
        assistant("look", tool_use("Read"), model="m-1", usage={"input_tokens": 10, "output_tokens": 5}),
        tool_result("x"),
        start="2026-03-04T09:00:00.000Z",
    ).save(tmp_path / "c")
    day = {"date": "2026-03-04", "messageCount": 5, "sessionCount": 1, "toolCallCount": 1}
    stats = {"version": 2, "lastComputedDate": "2026-03-04", "totalSessions": 1, "totalMessages": 5}
    (tmp_path / "c" / "stats-cache.json").write_text(json.dumps({**stats, "dailyActivity": [day]}))
    found = json.loads(run("doctor", tmp_path / "c", "--json").out)["stats_difference"]
    assert found["messages"] == {"theirs": 5, "ours": 3, "difference": -2}
    assert found["models"]["m-1"]["output_tokens"] == {"theirs": None, "ours": 5, "difference": None}
    assert [one["date"] for one in found["days"]] == ["2026-03-04"]
    shown = run("doctor", tmp_path / "c").out
    assert words(shown[shown.index("statistics up to") :], tmp_path) == snapshot("""\
statistics up to 2026-03-04: Claude Code and the store
               Claude Code   store  difference
messages                 5       3          -2
sessions                 1       1
tool calls               1       1
tokens of m-1               12,215
1 of 1 day common figures differ; list them with `--json`

status line: not installed in TMP/c/settings.json
sandbox of commands in `unspool chat`: IT
""")
