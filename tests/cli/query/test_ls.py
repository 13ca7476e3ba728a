"""`unspool ls`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.demo.write import write_demo
from unspool.display.units import parse_time_expression
from unspool.errors import UsageError
from unspool.testing.build import assistant, compaction, image, note, session, tool_result, tool_use, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Three sessions of two projects, an empty file and a warm-up."""
    folder = tmp_path / "c"
    session(
        user("Fix the cache, please, and tell me in some detail what was wrong with it all the time"),
        assistant(tool_use("Bash", command="make")),
        tool_result("no", error=True),
        assistant("Done."),
        id=S[1],
        start="2024-01-05T09:00:00.000Z",
        branch="cache",
    ).save(folder)
    session(
        user("Look", image()),
        compaction("Looked."),
        assistant("I see.", model="claude-haiku-4-5"),
        note("pr-link", prUrl="https://git.example.com/1"),
        note("custom-title", customTitle="新しい題名"),
        id=S[2],
        start="2024-02-05T09:00:00.000Z",
        cwd="/home/me/other",
    ).save(folder)
    old = session(user("hi"), assistant("ho"), id=S[3], start="2023-12-01T09:00:00.000Z").save(folder)
    os.utime(old)
    session(note("mode", mode="normal"), id=S[4]).save(folder)
    session(user("Warmup", isSidechain=True), assistant("Ready.", isSidechain=True), id=S[5]).save(folder)
    agent = session(user("go"), id=S[3], agent="a1b2c3d").data
    (folder / "projects" / "-home-me-project" / "agent-a1b2c3d.jsonl").write_bytes(agent)
    return folder


def listed(run: Run, config: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run("ls", "--json", "--config-dir", config, *arguments, TZ="UTC")
    assert done.code == 0, done.err
    items = json.loads(done.out)["items"]
    assert isinstance(items, list)
    return items


def test_the_sessions_are_a_table_newest_first(run: Run, config: Path) -> None:
    done = run("ls", "--config-dir", config, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
session   last        title                   project  branch  turns  calls  errors    size     cost
20000000  2024-02-05  新しい題名              other    main        1      0       0  2.4 kB  $0.0021
10000000  2024-01-05  Fix the cache, please…  project  cache       1      1       1  2.6 kB    $0.02
30000000  2023-12-01  hi                      project  main        1      0       0  1.1 kB    $0.01
2 hidden: 1 empty, 1 warm-up; --all shows them
""")


def test_a_narrow_terminal_gets_a_narrow_table(run: Run, config: Path) -> None:
    done = run("ls", "--config-dir", config, TZ="UTC", COLUMNS="72")
    assert done.out == snapshot("""\
session   last        title                      project  turns     cost
20000000  2024-02-05  新しい題名                 other        1  $0.0021
10000000  2024-01-05  Fix the cache, please, a…  project      1    $0.02
30000000  2023-12-01  hi                         project      1    $0.01
2 hidden: 1 empty, 1 warm-up; --all shows them
""")


def test_the_json_has_the_promised_fields(run: Run, config: Path) -> None:
    rows = listed(run, config)
    assert [row["id"] for row in rows] == [S[2], S[1], S[3]]
    path = config / "projects" / "-home-me-project" / f"{S[1]}.jsonl"
    assert rows[1] == {
        "session_id": S[1],
        "started_at": "2024-01-05T09:00:00.000Z",
        "ended_at": "2024-01-05T09:00:03.000Z",
        "id": S[1],
        "path": str(path),
        "title": "Fix the cache, please, and tell me in some detail what was wrong with it all the time",
        "project": "project",
        "cwd": "/home/me/project",
        "branch": "cache",
        "versions": ["2.1.325"],
        "models": ["claude-opus-4-5-20251101"],
        "started": "2024-01-05T09:00:00.000Z",
        "last": "2024-01-05T09:00:03.000Z",
        "turns": 1,
        "command_turns": 0,
        "messages": 4,
        "tool_calls": 1,
        "errors": 1,
        "agents": 0,
        "bytes": path.stat().st_size,
        "cost_micros": 20_540,
        "unpriced_tokens": 0,
        "context_tokens": 12_204,
        "gone": False,
        "agent_program": None,
    }
    assert rows[2]["agents"] == 1


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--project", "other"], [2]),
        (["--project", "me/proj"], [1, 3]),
        (["--project", "-home-me-other"], [2]),
        (["--branch", "cache"], [1]),
        (["--model", "HAIKU"], [2]),
        (["--since", "2024-01-05"], [2, 1]),
        (["--since", "2024-01-05T10:00"], [2]),
        (["--until", "2024-01-05"], [1, 3]),
        (["--until", "2w"], [2, 1, 3]),
        (["--has", "error"], [1]),
        (["--has", "image,compaction,pr"], [2]),
        (["--has", "agent"], [3]),
        (["--limit", "2"], [2, 1]),
        (["--all", "--project", "project"], [5, 1, 3, 4]),
    ],
)
def test_only_what_is_wanted_is_listed(run: Run, config: Path, arguments: list[str], found: list[int]) -> None:
    assert [S.index(row["id"]) for row in listed(run, config, *arguments)] == found


@pytest.mark.parametrize("source", [[], ["--no-store"]])
def test_a_limit_gives_the_first_of_the_whole_list(run: Run, config: Path, source: list[str]) -> None:
    for arguments in ([], ["--all", "--until", "2024-01-31"]):
        whole = listed(run, config, *arguments)
        for limit in range(1, len(whole) + 2):
            assert listed(run, config, *arguments, "--limit", str(limit), *source) == whole[:limit]


def test_a_list_of_sessions_that_have_not_changed_reads_none_of_their_files(run: Run, config: Path) -> None:
    before = listed(run, config)
    for path in config.rglob("*.jsonl"):
        stat = path.stat()
        with path.open("r+b") as file:
            file.write(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert listed(run, config) == before


def test_what_is_hidden_is_counted(run: Run, config: Path) -> None:
    shown = run("ls", "--json", "--config-dir", config)
    assert shown.err == "2 hidden: 1 empty, 1 warm-up; --all shows them\n"
    assert run("ls", "--all", "--json", "--config-dir", config).err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--project", "none"], 1, snapshot("unspool: no sessions found\n")),
        (["--branch", "none"], 1, snapshot("unspool: no sessions found; 2 hidden: 2 empty; --all shows them\n")),
        (
            ["--since", "soon"],
            2,
            snapshot("""\
unspool: invalid time `soon`
hint: use a date (`2026-01-05`, `2026-01`), a time (`2026-01-05T09:00`), `today`, `last week`, or an age (`12h`, `7d`)
"""),
        ),
        (
            ["--has", "error,fun"],
            2,
            snapshot("""\
unspool: unknown filter `fun` for --has
hint: use one of: error, image, agent, compaction, pr
"""),
        ),
    ],
)
def test_nothing_found_and_a_wrong_request_are_told_apart(
    run: Run, config: Path, arguments: list[str], code: int, words: str
) -> None:
    os.truncate(config / "projects" / "-home-me-project" / f"{S[5]}.jsonl", 0)
    done = run("ls", "--config-dir", config, *arguments)
    assert (done.code, done.out, done.err) == (code, "", words)


def test_a_time_may_be_a_day_a_moment_or_a_while_ago() -> None:
    now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert parse_time_expression(None, now) is None
    assert parse_time_expression("12h", now) == datetime(2026, 1, 4, 21, tzinfo=UTC)
    assert parse_time_expression("7d", now) == datetime(2025, 12, 29, 9, tzinfo=UTC)
    assert parse_time_expression("2w", now) == datetime(2025, 12, 22, 9, tzinfo=UTC)
    assert parse_time_expression("2026-01-01T00:00:00Z", now) == datetime(2026, 1, 1, tzinfo=UTC)
    day, end = parse_time_expression("2026-01-01", now), parse_time_expression("2026-01-01", now, end=True)
    assert day is not None
    assert end is not None
    assert 86_399 < (end - day).total_seconds() < 86_400
    with pytest.raises(UsageError):
        parse_time_expression("99999w and more", now)


def test_the_demo_is_listed(run: Run, tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    rows = listed(run, tmp_path / "demo")
    assert len(rows) == 15
    assert [row["last"] for row in rows] == sorted((row["last"] for row in rows), reverse=True)
    assert len(listed(run, tmp_path / "demo", "--all")) == 16


def test_what_a_transcript_says_cannot_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    session(user(EVIL), cwd=f"/home/{EVIL}", branch=EVIL, id=S[1]).save(tmp_path / "c")
    for arguments in (["ls"], ["ls", "--json"]):
        sent = on_terminal(*arguments, "--config-dir", tmp_path / "c", COLUMNS="150").decode()
        for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
            assert harm not in sent
        assert "gnp.exe" in sent
