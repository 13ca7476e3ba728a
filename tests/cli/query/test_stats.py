"""`unspool stats`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.testing.build import (
    assistant,
    image,
    note,
    queued,
    raw,
    result_block,
    session,
    thinking,
    tool_result,
    tool_use,
    user,
)

S1 = "10000000-0000-4000-8000-000000000001"
S2 = "20000000-0000-4000-8000-000000000002"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two sessions, one of them with something of everything."""
    folder = tmp_path / "c"
    session(
        user("hi"),
        assistant(thinking("hm"), "Look.", tool_use("Read", id="a"), tool_use("Read", id="b")),
        tool_result("x", id="a"),
        user("And this?", image()),
        queued("wait", taken=False),
        user(result_block("gone", "y")),
        assistant("Done."),
        note("brand-new"),
        raw(b"[1]\n\n"),
        id=S1,
        version="2.0.76",
    ).save(folder)
    session(user("ho"), assistant("ha"), id=S2).save(folder)
    return folder


def test_a_session_is_counted(run: Run, config: Path) -> None:
    done = run("stats", "10", "--json", "--config-dir", config)
    assert (done.code, done.err) == (0, "")
    counted = json.loads(done.out)
    assert (counted.pop("session_id"), counted.pop("title")) == (S1, "hi")
    assert counted.pop("path").endswith(f"/{S1}.jsonl")
    assert counted == snapshot(
        {
            "schema": "unspool/stats-session/1",
            "lines": 12,
            "bytes": 5880,
            "versions": {"2.0.76": 9},
            "entries": {"assistant": 5, "user": 4, "queue-operation": 1, "brand-new": 1},
            "stop_reasons": {"null": 5},
            "blocks": {"text": 3, "tool_use": 2, "tool_result": 2, "thinking": 1, "image": 1},
            "messages": 6,
            "tool_calls": 2,
            "tool_results": 2,
            "paired": 1,
            "uses_without_result": 1,
            "results_without_use": 1,
            "human_turns": 3,
            "command_turns": 0,
            "text_prompts": 1,
            "seed_human_turns": 1,
            "models": ["claude-opus-4-5-20251101"],
            "agents": 0,
        }
    )


def test_a_file_is_counted_alone(run: Run, config: Path) -> None:
    path = config / "projects" / "-home-me-project" / f"{S1}.jsonl"
    data = json.loads(run("stats", path, "--json").out)
    assert data == json.loads(run("stats", S1, "--json", "--config-dir", config).out)
    assert data["bytes"] == path.stat().st_size


def test_the_counts_are_there_for_people_too(run: Run, config: Path) -> None:
    done = run("stats", "20", "--config-dir", config)
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
ho
  lines                       2
  size                        1.1 kB
  messages                    2
  tool calls                  0
  tool results                0
  calls with a result         0
  calls without a result      0
  results without a call      0
  turns started by a prompt   1
  turns started by a command  0
  sub-agents                  0
  models                      claude-opus-4-5-20251101

versions
  2.1.325  2

lines
  user       1
  assistant  1

stop reasons
  end turn  1

content blocks
  text  1
""")


def test_without_a_session_there_are_three_tables(run: Run, config: Path) -> None:
    done = run("stats", "--config-dir", config)
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
session inventory
id        lines  versions  user  assistant  calls  turns  backups  summary  system  queued
20000000      2  2.1.325      1          1      0      1        0        0       0       0
10000000     12  2.0.76       4          5      2      3        0        0       0       1

stop reasons
id        end_turn  tool_use  stop_sequence  none
20000000         1         0              0     0
10000000         0         0              0     5

content blocks
id        text  tool_use  tool_result  thinking  image
20000000     1         0            0         0      0
10000000     3         2            2         1      1
""")


def test_the_tables_are_three_lists_in_json(run: Run, config: Path) -> None:
    data = json.loads(run("stats", "--json", "--config-dir", config).out)
    assert data.pop("schema") == "unspool/stats/1"
    assert data["items"] == data["sessions"]
    assert {name: len(rows) for name, rows in data.items()} == {
        "items": 2,
        "sessions": 2,
        "stop_reasons": 2,
        "blocks": 2,
        "skipped": 0,
    }
    assert data["items"][0] == snapshot(
        {
            "session_id": "20000000-0000-4000-8000-000000000002",
            "id": "20000000-0000-4000-8000-000000000002",
            "lines": 2,
            "versions": ["2.1.325"],
            "user": 1,
            "assistant": 1,
            "tool_calls": 0,
            "human_turns": 1,
            "file_history": 0,
            "summary": 0,
            "system": 0,
            "queue_operation": 0,
        }
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["stats", "3", "--config-dir", "c"],
            3,
            snapshot("""\
unspool: no session matches `3`
hint: list sessions with `unspool --config-dir c ls`
"""),
        ),
        (
            ["stats", "none.jsonl", "--config-dir", "c"],
            3,
            snapshot("""\
unspool: file not found: `none.jsonl`
hint: list sessions with `unspool --config-dir c ls`
"""),
        ),
        (
            ["stats", "c"],
            4,
            snapshot("""\
unspool: `TMP/c` is not a regular file
hint: name a regular file
"""),
        ),
        (["stats", "--config-dir", "empty"], 1, snapshot("unspool: no sessions found\n")),
    ],
)
def test_a_wrong_request_is_one_line_and_a_hint(
    run: Run, config: Path, arguments: list[str], code: int, words: str
) -> None:
    (config.parent / "empty").mkdir()
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.replace(str(config.parent), "TMP") == words
