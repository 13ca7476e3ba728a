"""What people expect of a command line: phrases, times in words, aliases, suggestions, short flags, pasted commands."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Run, make_runner
from unspool.cli.session_argument import unique_length
from unspool.demo.write import write_demo
from unspool.display import parse_time_expression
from unspool.errors import UsageError
from unspool.testing.build import assistant, session, user

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)  # a Wednesday
ONE, OTHER = "abcdef12-3000-4000-8000-000000000001", "abcdef12-4000-4000-8000-000000000002"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the demo."""
    folder = tmp_path_factory.mktemp("habits")
    write_demo(folder / "demo")
    return folder


@pytest.fixture(scope="module")
def ask(place: Path) -> Run:
    """Return a function that runs `unspool` on the demo."""
    run = make_runner(place)
    return lambda *words, **environment: run("--config-dir", place / "demo", *words, **environment)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-11-18", "2026-11-19"),
        ("Yesterday", "2026-11-17", "2026-11-18"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last  week", "2026-11-09", "2026-11-16"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("2026-12", "2026-12-01", "2027-01-01"),
        ("2025", "2025-01-01", "2026-01-01"),
        ("monday", "2026-11-16", "2026-11-17"),
        ("wednesday", "2026-11-18", "2026-11-19"),
        ("2026-11-01", "2026-11-01", "2026-11-02"),
    ],
)
def test_a_period_has_a_start_and_an_end(text: str, start: str, end: str) -> None:
    first, last = (parse_time_expression(text, NOW, UTC, end=is_end) for is_end in (False, True))
    assert first == datetime.fromisoformat(f"{start}T00:00:00+00:00")
    assert last is not None
    assert last < datetime.fromisoformat(f"{end}T00:00:00+00:00")
    assert (datetime.fromisoformat(f"{end}T00:00:00+00:00") - last).total_seconds() < 0.001


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("3d", "2026-11-15T15:30"), ("3 days ago", "2026-11-15T15:30"), ("12h", "2026-11-18T03:30"),
        ("90 min", "2026-11-18T14:00"), ("2w", "2026-11-04T15:30"), ("now", "2026-11-18T15:30"),
        ("2026-11-02T08:00", "2026-11-02T08:00"),
    ],
)  # fmt: skip
def test_an_age_or_a_time_is_a_moment(text: str, time: str) -> None:
    expected = datetime.fromisoformat(f"{time}:00+00:00")
    assert [parse_time_expression(text, NOW, UTC, end=end) for end in (False, True)] == [expected, expected]


@pytest.mark.parametrize("text", ["", "soon", "2026-13", "2026-02-30", "0000", "last", "-3d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid time"):
        parse_time_expression(text, NOW, UTC)


@pytest.mark.parametrize("command", ["ls", "usage", "search tide", "watch --once", "collect --dry-run --to file:///x"])
def test_every_option_for_a_time_takes_words(run: Run, tmp_path: Path, command: str) -> None:
    session(user("tide"), assistant("low")).save(tmp_path / "c")
    done = run(*command.split(), "--since", "last week", "--config-dir", tmp_path / "c", UNSPOOL_ORG="a", USER="b")
    assert done.code in (0, 1), done.err
    wrong = run(*command.split(), "--since", "soon", "--config-dir", tmp_path / "c", UNSPOOL_ORG="a", USER="b")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "unspool: invalid time `soon`")


def test_an_argument_with_a_blank_is_a_phrase(run: Run, tmp_path: Path) -> None:
    session(user("high water at noon"), assistant("x"), id=ONE).save(tmp_path / "c")
    session(user("water is high"), assistant("x"), id=OTHER).save(tmp_path / "c")

    def found(*words: str) -> set[str]:
        done = run("search", *words, "--jsonl", "--config-dir", tmp_path / "c")
        return {id for id in (ONE, OTHER) if id in done.out}

    assert found("high water") == {ONE}
    assert found("high", "water") == {ONE, OTHER}
    assert found("high wat*") == {ONE}
    assert found('"high water" noon') == {ONE}


def test_a_filter_alone_lists_the_newest_first(ask: Run) -> None:
    for options in (["--tool", "Bash"], ["--errors"], ["--in", "prompt"], ["--path", "*.py"]):
        with_store, without = (
            json.loads(ask("search", *options, *store, "--json").out)["items"] for store in ([], ["--no-store"])
        )
        times = [item["time"] or "" for item in with_store]
        assert with_store
        assert times == sorted(times, reverse=True)
        assert {(item["path"], item["offset"]) for item in with_store} == {
            (item["path"], item["offset"]) for item in without
        }
    assert ask("search").code == 2


def test_aliases_and_suggestions(ask: Run) -> None:
    assert ask("list", "-n", "2").out == ask("ls", "--limit", "2").out
    assert ask("list", "--help").out.startswith("Usage: unspool ls ")
    assert ask("serch").err.startswith("unspool: no such command `serch`; did you mean `search`?\n")
    assert ask("edit", "tirm", "x").err.startswith("unspool: no such command `tirm`; did you mean `trim`?\n")
    assert ask("3f2a91c0").err.startswith("unspool: no such command `3f2a91c0`; did you mean `show 3f2a91c0`?\n")


def test_an_ambiguous_name_is_listed_with_time_project_and_title(run: Run, tmp_path: Path) -> None:
    session(user("First title"), assistant("x"), id=ONE, cwd="/home/me/one").save(tmp_path / "c")
    session(user("Second title"), assistant("x"), id=OTHER, cwd="/home/me/two").save(tmp_path / "c")
    for command in (["show", "abc"], ["stats", "abc"], ["restore", "abc"], ["search", "x", "--session", "abc"]):
        done = run(*command, "--config-dir", tmp_path / "c")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("unspool: `abc` matches 2 sessions\nhint: use more characters of the id:\n")
        assert all(word in done.err for word in ("First title", "Second title", "one", "two", "2026-01-05"))
    listed = run("ls", "--config-dir", tmp_path / "c").out
    names = [line.split()[0] for line in listed.splitlines()[1:]]
    assert sorted(names) == [ONE[:10], OTHER[:10]]
    assert all(run("show", name, "--config-dir", tmp_path / "c").code == 0 for name in names)
    assert run("show", "", "--config-dir", tmp_path / "c").code == 2


def test_ids_are_as_long_as_it_takes() -> None:
    assert unique_length(["a" * 36]) == 8
    assert unique_length(["a" * 12 + "b", "a" * 12 + "c", "d" * 13]) == 13


def test_the_suffix_of_a_file_names_the_format(ask: Run, tmp_path: Path) -> None:
    for suffix, start in ((".md", "# "), (".json", "{"), (".jsonl", '{"'), (".html", "<!")):
        target = tmp_path / f"x{suffix}"
        assert ask("export", "e40e4e4a", "-o", target).code == 0
        assert target.read_text().lower().startswith(start)
    target = tmp_path / "x.csv"
    assert ask("sql", "SELECT 1 AS one", "-o", target).code == 0
    assert target.read_text() == "one\n1\n"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("export e40e4e4a --md --json", "--md and --json"),
        ("export e40e4e4a --html --messages", "--html and --messages"),
        ("ls --json --jsonl", "--json and --jsonl"),
        ("sql x --json --format csv", "--json and --format csv"),
        ("show e40e4e4a --tree --json", "--tree and --json"),
    ],
)
def test_options_that_exclude_each_other_are_refused(ask: Run, words: str, names: str) -> None:
    done = ask(*words.split())
    assert (done.code, done.out, done.err.splitlines()[0]) == (2, "", f"unspool: {names} cannot be used together")


def test_commands_to_be_pasted_carry_the_config_folder(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "my folder"
    session(user("tide"), assistant("low")).save(root)
    found = run("search", "tide", "--config-dir", root).out
    (command,) = {line.strip() for line in found.splitlines() if line.strip().startswith("unspool ")}
    words = shlex.split(command)
    assert words[:3] == ["unspool", "--config-dir", str(root)]
    assert run(*words[1:]).code == 0
    edited = run("edit", "clone", "tide", "--config-dir", root).out
    (command,) = (line[line.index("unspool ") :] for line in edited.splitlines() if "unspool " in line)
    assert run(*shlex.split(command)[1:]).code == 0
    hint = run("show", "nope", "--config-dir", root).err
    assert f"`unspool --config-dir '{root}' ls`" in hint
    assert "`unspool ls`" in run("show", "nope", CLAUDE_CONFIG_DIR=str(root)).err


def test_a_list_of_folders_in_the_environment_is_their_union(run: Run, tmp_path: Path) -> None:
    for name, id in (("one", ONE), ("two", OTHER)):
        session(user("tide"), assistant("low"), id=id).save(tmp_path / name)
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    for command in ("ls", "usage session", "search tide", "stats", "watch --once --since 3650d"):
        done = run(*command.split(), "--json", CLAUDE_CONFIG_DIR=both)
        assert ONE in done.out, command
        assert OTHER in done.out, command
    session(user("tide"), assistant("low"), id=ONE).save(tmp_path / "a,b")
    assert ONE in run("ls", "--json", CLAUDE_CONFIG_DIR=str(tmp_path / "a,b")).out
    assert run("hooks", CLAUDE_CONFIG_DIR=both).code == 2


def test_limit_0_is_all_and_turn_and_turns_are_one(ask: Run) -> None:
    assert ask("ls", "--limit", "0").out == ask("ls").out
    assert ask("usage", "-n", "0").out == ask("usage").out
    assert ask("show", "e40e4e4a", "--turns", "2").out == ask("show", "e40e4e4a", "--turn", "2").out
    assert ask("export", "e40e4e4a", "--md", "--turn", "2").out == ask("export", "e40e4e4a", "--md", "--turns", "2").out
    assert ask("show", "e40e4e4a", "--turn", "99").code == ask("export", "e40e4e4a", "--md", "--turns", "99").code == 3


def test_a_session_says_what_it_cost(ask: Run, place: Path) -> None:
    assert ", $0.52" in ask("show", "e40e4e4a").out
    assert ", $0.52" in ask("show", "e40e4e4a", "--no-store").out
    (file,) = (place / "demo").glob("projects/*/e40e4e4a*.jsonl")
    assert ", $0.52" in ask("show", file).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_ids_and_shows_their_titles(ask: Run, place: Path, shell: str) -> None:
    assert "_UNSPOOL_COMPLETE" in ask("completion", shell).out
    ask("sync")
    words = ["unspool", "--config-dir", str(place / "demo"), "show", "e4"]
    current = "e4" if shell == "fish" else str(len(words) - 1)
    done = make_runner(place)(_UNSPOOL_COMPLETE=f"{shell}_complete", COMP_WORDS=shlex.join(words), COMP_CWORD=current)
    assert done.code == 0, done.err
    assert "e40e4e4a-8a42-4517-866c-af38a4050bcd" in done.out
    assert shell == "bash" or "tide-cache" in done.out


def test_long_output_is_paged_and_short_output_is_not(
    on_terminal: Callable[..., bytes], place: Path, tmp_path: Path
) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o755)
    demo, size = str(place / "demo"), {"LINES": "10", "COLUMNS": "100", "PAGER": str(pager)}
    assert b"PAGED" in on_terminal("--config-dir", demo, "ls", **size)
    assert b"PAGED" in on_terminal("--config-dir", demo, "search", "tide", **size)
    assert b"PAGED" in on_terminal("--config-dir", demo, "usage", "--since", "2000", **size)
    assert b"PAGED" not in on_terminal("--config-dir", demo, "ls", "-n", "3", **size)
    assert b"PAGED" not in on_terminal("--no-pager", "--config-dir", demo, "ls", **size)
    assert b"PAGED" not in on_terminal("--config-dir", demo, "ls", **{**size, "UNSPOOL_PAGER": "cat"})


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", ["ls", "usage", "usage session", "usage blocks", "stats", "config", "doctor"])
def test_tables_fit_and_cut_no_heading_date_or_number(ask: Run, command: str, width: int) -> None:
    lines = ask(*command.split(), COLUMNS=str(width)).out.splitlines()
    wide = ask(*command.split(), COLUMNS="1000").out.splitlines()
    if command not in ("doctor", "config"):  # which also write sentences and paths
        assert max(len(line) for line in lines if not line.endswith(("it", "them")) and "response" not in line) <= width
    if command in ("usage", "usage session"):  # titles in `ls` may have numbers too
        words = {word for line in wide for word in line.split() if word[:1].isdigit() or word[:1] == "$"}
        cut = [word for line in lines for word in line.split() if word.endswith("…") and word[:1].isdigit()]
        assert [word for word in cut if any(other.startswith(word[:-1]) for other in words)] == []


def test_sql_on_a_narrow_terminal_shows_whole_dates_and_headings(
    on_terminal: Callable[..., bytes], place: Path
) -> None:
    query = (
        "SELECT TIMESTAMP '2026-11-18 15:30:00' AS started, DATE '2026-11-18' AS day, "
        "12345678901 AS cache_write_tokens, 1 AS cache_write_5m_tokens, "
        "2 AS cache_write_1h_tokens, 'a long text that may be cut' AS title"
    )
    for width in ("60", "80", "120"):
        shown = on_terminal("--config-dir", str(place / "demo"), "sql", query, COLUMNS=width).decode()
        for whole in ("cache_write_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "2026-11-18", "15:30:00"):
            assert whole in shown
        assert "12345678901" in shown


def _is_started(ask: Run, item: dict[str, str]) -> bool:
    """Tell whether a tool call started the agent of a hit: Claude Code starts some by itself."""
    shown = json.loads(ask("show", item["session_id"], "--depth", "prompts", "--json").out)
    return any(agent["agent_id"] == item["agent_id"] and agent["call_id"] for agent in shown["agents"])


def test_a_hit_inside_an_agent_leads_to_the_turn_that_started_it(ask: Run) -> None:
    items = json.loads(ask("search", "the", "--json").out)["items"]
    agents = [item for item in items if item["agent_id"] and item["session_id"] and _is_started(ask, item)]
    assert agents
    found = ask("search", "the", "--session", agents[0]["session_id"], "-n", "0").out
    blocks = [block for block in found.split("\n\n") if f"agent {agents[0]['agent_id']}" in block]
    command = blocks[0].splitlines()[-1].strip()
    shown = ask(*shlex.split(command)[3:])
    assert shown.code == 0, os.linesep.join([command, shown.err])
    assert agents[0]["agent_id"] in shown.out


def test_a_hit_inside_an_agent_without_times_has_its_turn_in_json_too(ask: Run, tmp_path: Path) -> None:
    items = json.loads(ask("search", "the", "--json").out)["items"]
    hit = next(item for item in items if item["agent_id"] and item["session_id"] and _is_started(ask, item))
    write_demo(tmp_path / "demo")
    run = make_runner(tmp_path)
    (path,) = (tmp_path / "demo").rglob(f"*{hit['agent_id']}.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "timestamp": None}) + "\n" for line in lines))
    again = json.loads(run("--config-dir", tmp_path / "demo", "search", "the", "--json").out)["items"]
    turns = {item["turn"] for item in again if item["path"] == str(path)}
    assert turns
    assert None not in turns


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize("option", [("sql", "SELECT 1", "--timeout"), ("chat", "-p", "hi", "--max-cost")])
def test_a_limit_is_a_finite_number(ask: Run, option: tuple[str, ...], number: str) -> None:
    # Nothing is more than `nan`, so it would be no limit.
    refused = ask(*option, number)
    assert refused.code == 2
    assert "is not a finite number" in refused.err
