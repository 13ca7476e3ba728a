"""`unspool show`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.demo.write import write_demo
from unspool.testing.build import (
    Step,
    assistant,
    compaction,
    image,
    queued,
    rewind,
    session,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)

EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"
FILE = "/home/me/project/src/a.py"
PATCH = [{"oldStart": 1, "oldLines": 4, "newStart": 1, "newLines": 4, "lines": [" a", " b", "-c", "+d", " e", " f"]}]
EDIT = {"filePath": FILE, "oldString": "c", "newString": "d", "structuredPatch": PATCH}


def shown(run: Run, tmp_path: Path, *steps: Step, options: tuple[str, ...] = (), **more: Any) -> str:
    """Return what is shown of a session, without the head."""
    path = session(*steps, **more).save(tmp_path / "c")
    done = run("show", path, *options, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    return done.out.partition("\n\n")[2]


def test_a_session_is_shown_turn_by_turn(run: Run, tmp_path: Path) -> None:
    path = session(
        user("Fix it.\nPlease."),
        assistant(thinking("x" * 1240), "I'll look.", tool_use("Read", file_path=FILE, offset=10, limit=5)),
        tool_result("…"),
        assistant(tool_use("Edit", file_path=FILE, old_string="c", new_string="d")),
        tool_result("ok", structured=EDIT),
        assistant(tool_use("Bash", command="make\nmake test")),
        tool_result("Exit code 2\nno rule\nto make", error=True),
        assistant(
            tool_use("Grep", pattern="x+", path="/home/me/project/src"), tool_use("WebFetch", url="https://a.example")
        ),
        tool_result("src/a.py"),
        assistant("It is **fixed**."),
        user("Thanks"),
        assistant(""),
    ).save(tmp_path / "c")
    done = run("show", path, TZ="UTC", CLAUDE_CONFIG_DIR=str(tmp_path / "c"))
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
Fix it. Please.
00000000-0000-4000-8000-000000000001
/home/me/project · main · 2026-01-05 09:00
claude-opus-4-5-20251101 · 2.1.325
2 turns, 5 tool calls, 1 error, $0.06
resume: cd /home/me/project && claude --resume 00000000-0000-4000-8000-000000000001

1 · 09:00
  > Fix it.
  > Please.

  · thinking, 1,240 characters

  I'll look.

  ✓ Read src/a.py:10-14  1.0 s
  ✓ Edit src/a.py  +1 -1  1.0 s
      @@ -1,4 +1,4 @@
       b
      -c
      +d
       e
  ✗ Bash make …  1.0 s  Exit code 2
      no rule
      to make
  ✓ Grep x+ in src  2.0 s
  … WebFetch https://a.example  no result

  It is **fixed**.

2 · 09:00
  > Thanks
""")


def test_what_comes_between_is_shown_as_what_it_is(run: Run, tmp_path: Path) -> None:
    assert shown(
        run,
        tmp_path,
        user("<command-name>/model</command-name>\n<command-args>opus</command-args>"),
        user("<local-command-stdout>Set model to opus</local-command-stdout>"),
        user("Look at this", image()),
        queued("And hurry"),
        assistant("API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True),
        system("api_error", error={"status": 529, "error": {"error": {"message": "Overloaded"}}}),
        user("[Request interrupted by user]"),
        compaction("All was well.\nSo far.", keep=2, postTokens=2_000),
        assistant({"type": "hologram", "data": 1}),
    ) == snapshot("""\
  · command: /model opus
  · output: Set model to opus

1 · 09:00
  > Look at this
  > [image 1×1 png, 70 bytes]

2 · 09:00
  queued during the turn:
  > And hurry

  ✗ API error: 529 overloaded
  ✗ API error: Overloaded
  ■ interrupted  [Request interrupted by user]
  ── compacted: auto, 160,000 tokens to 2,000, 2 lines kept ──
  · summary: All was well. …
  · block: [hologram]
""")


def test_a_branch_that_was_left_is_marked(run: Run, tmp_path: Path) -> None:
    steps = [user("one"), assistant("1"), user("two"), assistant("2"), rewind(), user("three"), assistant("3")]
    assert shown(run, tmp_path, *steps) == snapshot("""\
1 · 09:00
  > one

  1

2 · 09:00  on an abandoned branch
  > two

  2

3 · 09:00  a branch begins
  > three

  3
""")
    assert shown(run, tmp_path, *steps, user("four"), options=("--tree",)) == snapshot("""\
1  01-05 09:00  one
├─ 2  01-05 09:00  two  (left)
└─ 3  01-05 09:00  three
   4  01-05 09:00  four
""")


def test_the_tree_of_a_rewound_session_is_drawn(run: Run, tmp_path: Path) -> None:
    steps = [user("one"), assistant("1"), user("two"), assistant("2"), rewind(2), user("three"), rewind(), user("four")]
    assert shown(run, tmp_path, *steps, user("five"), options=("--tree",)) == snapshot("""\
├─ 1  01-05 09:00  one  (left)
│  2  01-05 09:00  two  (left)
├─ 3  01-05 09:00  three  (left)
└─ 4  01-05 09:00  four
   5  01-05 09:00  five
""")


@pytest.mark.parametrize(
    ("depth", "words"),
    [
        (
            "prompts",
            snapshot("""\
1 · 09:00
  > Write it.
"""),
        ),
        (
            "answers",
            snapshot("""\
1 · 09:00
  > Write it.

  I'll write.

  Written.
"""),
        ),
        (
            "steps",
            snapshot("""\
1 · 09:00
  > Write it.

  · thinking, 11 characters

  I'll write.

  ✓ Write src/a.py  +12 -0  1.0 s
      +line 0
      +line 1
      +line 2
      +line 3
      +line 4
      +line 5
      +line 6
      … 5 more lines
  ✓ Bash cat src/a.py  1.0 s

  Written.
"""),
        ),
        (
            "all",
            snapshot("""\
1 · 09:00
  > Write it.

  · thinking, 11 characters
      First
      this.

  I'll write.

  ✓ Write src/a.py  +12 -0  1.0 s
      +line 0
      +line 1
      +line 2
      +line 3
      +line 4
      +line 5
      +line 6
      +line 7
      +line 8
      +line 9
      +line 10
      +line 11
  ✓ Bash cat src/a.py  1.0 s
      line 0
      line 1

  Written.
"""),
        ),
    ],
)
def test_the_depth_says_how_much_is_told(run: Run, tmp_path: Path, depth: str, words: str) -> None:
    content = "".join(f"line {number}\n" for number in range(12))
    steps = [
        user("Write it."),
        assistant(thinking("First\nthis."), "I'll write.", tool_use("Write", file_path=FILE, content=content)),
        tool_result("ok", structured={"type": "create", "filePath": FILE, "content": content, "structuredPatch": []}),
        assistant(tool_use("Bash", command="cat src/a.py")),
        tool_result("line 0\nline 1"),
        assistant("Written."),
    ]
    assert shown(run, tmp_path, *steps, options=("--depth", depth)) == words


def test_agents_are_nested_under_the_call_that_started_them(run: Run, tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    done = run("show", "e457", "--config-dir", tmp_path / "demo", "--turn", "1", TZ="UTC")
    assert done.out == snapshot("""\
1 · 13:05
  > Where do we assume that local time is UTC? Use agents, I want to be sure nothing is missed.

  · thinking, 68 characters

  I'll send three agents: code, tests, documents.

  ✓ Agent Search the code (Explore)  22 s
    └ agent aae25d42b8f654953 (Explore): 2 calls
  ✓ Agent Search the tests (general-purpose)  40 s
    └ agent aec636f7edf944781 (general-purpose): 2 calls
  ✓ Agent Search the documents (Explore)  1.0 s
    └ agent a5f453c5afc8f4705 (Explore): 2 calls

  Code and tests are back; the documents are still being read.

  · notification: Agent "Search the documents" finished

  Three places assume UTC:

  1. `table` combines a date with midnight, without a zone.
  2. `EPOCH` in `harmonics.py` has none either.
  3. README promises local times; nothing makes them local.
""")
    whole = run("show", "e457", "--config-dir", tmp_path / "demo", "--depth", "all", TZ="UTC").out
    assert "        └ agent a7126834e412f41e7 (Explore): 1 call\n          > How many tides" in whole


def test_an_agent_inside_the_file_is_nested_too(run: Run, tmp_path: Path) -> None:
    steps = [
        user("go"),
        assistant(tool_use("Task", description="look", prompt="Look.", id="t")),
        user("Look.", isSidechain=True, parentUuid=None),
        assistant(tool_use("LS", path="/home/me/project/src", id="l"), isSidechain=True),
        tool_result("a.py", id="l", isSidechain=True),
        tool_result("done", id="t"),
    ]
    assert shown(run, tmp_path, *steps, version="1.0.56", options=("--depth", "all")) == snapshot("""\
1 · 09:00
  > go

  ✓ Task look  4.0 s
      done
    └ an agent: 1 call
      > Look.

      ✓ LS src  1.0 s
          a.py
""")


@pytest.mark.parametrize(
    ("turn", "numbers"),
    [("2", "2"), ("-1", "4"), ("2..3", "23"), ("3..", "34"), ("..2", "12"), ("-2..-1", "34"), ("3..9", "34")],
)
def test_some_turns_may_be_chosen(run: Run, tmp_path: Path, turn: str, numbers: str) -> None:
    path = session(*[step for n in range(1, 5) for step in (user(f"prompt {n}"), assistant("ok"))]).save(tmp_path)
    done = run("show", path, "--turn", turn, "--depth", "prompts")
    assert [line[-1] for line in done.out.splitlines() if "prompt" in line] == list(numbers)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["--turn", "7"],
            3,
            snapshot("""\
unspool: no turn matches `7`
hint: the session has 1 turn
"""),
        ),
        (
            ["--turn", "a..b"],
            2,
            snapshot("""\
unspool: not a turn: `a..b`
hint: use for example `--turn 3`, `--turn -1` or `--turn 2..5`
"""),
        ),
        (
            ["--turn", ""],
            2,
            snapshot("""\
unspool: not a turn: ``
hint: use for example `--turn 3`, `--turn -1` or `--turn 2..5`
"""),
        ),
        (
            ["--depth", "deep"],
            2,
            snapshot("""\
unspool: invalid value for `--depth`: `deep` is not one of `prompts`, `answers`, `steps`, `all`
hint: see `unspool show --help`
"""),
        ),
    ],
)
def test_a_wrong_request_is_one_line_and_a_hint(
    run: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    path = session(user("hi")).save(tmp_path / "c")
    done = run("show", path, *arguments)
    assert (done.code, done.out, done.err) == (code, "", words)


def test_an_empty_file_has_nothing_to_show(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    done = run("show", tmp_path / "x.jsonl")
    assert (done.code, done.err) == (1, "unspool: the session `x` is empty\n")


def test_a_session_is_found_by_id_agent_and_title(run: Run, tmp_path: Path) -> None:
    path = session(user("Fix the cache/index")).save(tmp_path / "c")
    agent = path.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("Go."), assistant("Gone."), agent="a1b2c3d").data)
    for name in ("0000", "a1b2c3d", "fix the cache/index"):
        assert "Fix the cache/index" in run("show", name, "--config-dir", tmp_path / "c").out
    alone = run("show", agent).out
    assert "> Go." in alone
    assert "Gone." in alone


def test_what_a_transcript_says_cannot_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{EVIL}", f"+{EVIL}"]}
    path = session(
        user(EVIL),
        assistant(thinking(EVIL), EVIL, tool_use(EVIL, x=EVIL), tool_use("Edit", file_path=EVIL)),
        tool_result(EVIL, error=True),
        tool_result(EVIL, structured={**EDIT, "structuredPatch": [hunk]}),
        user(f"<command-name>/x</command-name><command-args>{EVIL}</command-args>"),
        user(f"[Request interrupted by user]{EVIL}"),
        compaction(EVIL, trigger=EVIL),
        branch=EVIL,
        version=EVIL,
    ).save(tmp_path / "c")
    for options in (["--depth", "all"], ["--tree"], ["--depth", "prompts"]):
        for pager in ({}, {"PAGER": "cat"}):
            sent = on_terminal("show", path, *options, **pager).decode()
            for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
                assert harm not in sent
            assert "gnp.exe" in sent


def test_on_a_terminal_it_is_paged(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    path = session(user("hi"), assistant("ho")).save(tmp_path)
    paged = on_terminal("show", path, PAGER="sed 's/^/PAGED /'", LINES="4")
    assert b"PAGED   > hi" in re.sub(rb"\x1b\[\d*m", b"", paged)
    assert b"PAGED" not in on_terminal("show", path)


def test_the_command_that_resumes_the_session_is_in_the_head_and_in_the_document(run: Run, tmp_path: Path) -> None:
    made = session(user("Go on"), assistant("Yes."), cwd="/home/me/my shop")
    path = made.save(tmp_path / "c")
    done = run("--config-dir", tmp_path / "c", "show", made.id)
    command = f"cd '/home/me/my shop' && CLAUDE_CONFIG_DIR={tmp_path / 'c'} claude --resume {made.id}"
    assert f"resume: {command}\n" in done.out
    document = json.loads(run("--config-dir", tmp_path / "c", "show", made.id, "--json").out)
    assert document["resume_command"] == command
    assert (
        f"resume: cd '/home/me/my shop' && claude --resume {made.id}\n"
        in run("show", made.id, CLAUDE_CONFIG_DIR=str(tmp_path / "c")).out
    )
    path.unlink()
    gone = run("--config-dir", tmp_path / "c", "show", made.id)
    assert gone.code == 0
    assert "resume:" not in gone.out  # Claude Code does not have it any more: `unspool restore` writes it back


def test_a_file_outside_of_a_config_folder_has_no_command_that_resumes_it(run: Run, tmp_path: Path) -> None:
    made = session(user("Go on"), assistant("Yes."))
    path = tmp_path / f"{made.id}.jsonl"
    path.write_bytes(made.data)
    assert "resume:" not in run("show", path).out
