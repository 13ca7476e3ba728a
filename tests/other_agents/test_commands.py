"""The reading commands work on sessions of other agents; those that change or resume a session refuse them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.cli.conftest import Run, make_runner
from tests.other_agents.agent_folders import CALLED, PROGRAMS, SAID, make_folder, read_tables, session_files
from tests.serving import serving

EACH_PROGRAM = pytest.mark.parametrize("program", PROGRAMS)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs `unspool` in an empty home folder."""
    return make_runner(tmp_path)


def asked(run: Run, *arguments: str | Path) -> Any:
    done = run(*arguments, "--json", TZ="UTC")
    assert (done.code, done.err) == (0, ""), done
    return json.loads(done.out)


@EACH_PROGRAM
@pytest.mark.parametrize("store", [(), ("--no-store",)], ids=["store", "no-store"])
def test_ls_lists_a_session_with_the_agent_that_wrote_it(
    program: str, store: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    (item,) = asked(run, "ls", *store, "--config-dir", make_folder(program, tmp_path))["items"]
    assert (item["agent_program"], item["cwd"], item["turns"]) == (program, "/home/you/herons", 2)
    assert (item["tool_calls"], item["errors"], item["cost_micros"]) == (1, 0, None)


def test_the_list_has_a_column_for_the_agent_only_if_another_one_wrote_a_session(run: Run, tmp_path: Path) -> None:
    run("demo", tmp_path / "demo")
    both = run("ls", "--config-dir", make_folder("pi", tmp_path), "--config-dir", tmp_path / "demo")
    assert "program" in both.out.splitlines()[0]
    assert {line.split()[1] for line in both.out.splitlines()[1:] if line.strip() and "hidden" not in line} == {
        "pi", "claude",
    }  # fmt: skip
    assert "program" not in run("ls", "--config-dir", tmp_path / "demo").out.splitlines()[0]


@EACH_PROGRAM
def test_usage_is_what_the_server_said(program: str, run: Run, tmp_path: Path) -> None:
    folder, said = make_folder(program, tmp_path), SAID[program]
    for store in ((), ("--no-store",)):
        totals = asked(run, "usage", *store, "--config-dir", folder)["totals"]
        counted = (totals["input_tokens"], totals["cache_read_tokens"], totals["output_tokens"])
        assert counted == (said.fresh, said.cached, said.output)
        assert (totals["responses"], totals["estimated_responses"]) == (3, 0)
        assert totals["unpriced_tokens"] == totals["total_tokens"] == sum(said)
    query = "SELECT sum(input_tokens), sum(cache_read_tokens), sum(output_tokens) FROM responses"
    (row,) = json.loads(run("sql", query, "--config-dir", folder, "--json").out)["items"]
    assert [*row.values()] == [*said]


@EACH_PROGRAM
def test_show_has_prompts_answers_reasoning_and_the_tool_call_with_its_result(
    program: str, run: Run, tmp_path: Path
) -> None:
    folder = make_folder(program, tmp_path)
    (item,) = asked(run, "ls", "--config-dir", folder)["items"]
    shown = asked(run, "show", item["session_id"], "--depth", "all", "--config-dir", folder)
    first, second = (turn for turn in shown["turns"] if turn["number"])
    assert "Please list the herons" in first["prompt"]
    assert "How many are there?" in second["prompt"]
    steps = first["steps"] + second["steps"]
    (call,) = [step for step in steps if step["type"] == "tool_call"]
    assert call["name"] == CALLED[program]
    assert call["result"]
    assert [step["type"] for step in second["steps"]] == ["prompt", "answer"]
    assert any(step["type"] == "thinking" for step in first["steps"])
    assert (shown["agent_program"], shown["resume_command"]) == (program, None)


@EACH_PROGRAM
def test_search_finds_each_answer_once(program: str, run: Run, tmp_path: Path) -> None:
    hits = asked(run, "search", "egret.txt", "--in", "answer", "--config-dir", make_folder(program, tmp_path))
    assert [hit["kind"] for hit in hits["items"]] == ["answer", "answer"]


@EACH_PROGRAM
def test_the_page_and_the_html_file_show_the_session(program: str, run: Run, tmp_path: Path) -> None:
    folder = make_folder(program, tmp_path)
    (item,) = asked(run, "ls", "--config-dir", folder)["items"]
    done = run("export", item["session_id"], "--html", "-o", tmp_path / "page.html", "--config-dir", folder)
    assert done.code == 0, done
    page = (tmp_path / "page.html").read_text()
    assert "Please list the herons" in page
    assert "originalLine" not in page


@EACH_PROGRAM
def test_the_original_is_written_back_byte_for_byte_also_if_it_is_gone(program: str, run: Run, tmp_path: Path) -> None:
    folder = make_folder(program, tmp_path)
    (item,) = asked(run, "ls", "--config-dir", folder)["items"]
    if program == "opencode":
        texts = [row["data"] for table in read_tables() for row in table["rows"] if "data" in row]
        done = run("export", item["session_id"], "--original", "--config-dir", folder)
        assert sorted(done.out.splitlines()[1:]) == sorted(texts)
        return
    (file,) = session_files(program, folder)
    written = file.read_bytes()
    for name in (item["session_id"], item["path"]):
        done = run("export", name, "--original", "-o", tmp_path / Path(name).name, "--config-dir", folder)
        assert (done.code, (tmp_path / Path(name).name).read_bytes()) == (0, written)
    file.rename(tmp_path / "elsewhere")
    (folder / "tmp/x/chats").mkdir(parents=True)
    (folder / "sessions/2026/11/18").mkdir(parents=True, exist_ok=True)
    file.with_name(file.name.replace("11-18", "11-19").replace("01a1f03", "01a1f04")).write_bytes(b"{}\n")
    run("export", item["session_id"], "--original", "-o", tmp_path / "back", "--config-dir", folder)
    assert (tmp_path / "back").read_bytes() == written


def test_a_session_of_claude_code_has_no_other_original(run: Run, tmp_path: Path) -> None:
    run("demo", tmp_path / "demo")
    id = json.loads(run("ls", "--json", "--config-dir", tmp_path / "demo").out)["items"][0]["session_id"]
    done = run("export", id, "--original", "--config-dir", tmp_path / "demo")
    assert (done.code, done.err) == (
        2,
        "unspool: --original is for sessions of other agents\nhint: use --jsonl\n",
    )


def test_the_environment_names_the_folders_of_several_agents(run: Run, tmp_path: Path) -> None:
    folders = ",".join(str(make_folder(program, tmp_path)) for program in PROGRAMS)
    done = run("ls", "--json", CLAUDE_CONFIG_DIR=folders)
    assert {item["agent_program"] for item in json.loads(done.out)["items"]} == {*PROGRAMS}
    done = run("usage", "--json", CLAUDE_CONFIG_DIR=folders)
    assert json.loads(done.out)["totals"]["total_tokens"] == sum(map(sum, SAID.values()))


def test_the_server_shows_the_session_without_a_resume_command(tmp_path: Path) -> None:
    with serving(make_folder("codex", tmp_path), home=tmp_path / "unspool") as served:
        served.enter()
        page = served.get("/session/01a1f034-fd3b-7a01-9ebc-41b55974df3c")
        listed = served.get("/sessions")
    assert (page.status, listed.status) == (200, 200)
    assert "Please list the herons" in page.text
    assert "Please list the herons" in listed.text
    assert "claude --resume" not in page.text


@EACH_PROGRAM
def test_a_file_of_an_agent_can_be_named_itself(program: str, run: Run, tmp_path: Path) -> None:
    folder = make_folder(program, tmp_path)
    path = folder / "opencode.db" if program == "opencode" else session_files(program, folder)[0]
    assert asked(run, "show", path)["agent_program"] == program
    assert asked(run, "ls", "--config-dir", path)["items"][0]["agent_program"] == program


@EACH_PROGRAM
def test_the_library_opens_the_folder(program: str, tmp_path: Path) -> None:
    home = unspool.open(make_folder(program, tmp_path))
    (session,) = home.sessions()
    assert "Please list the herons" in session.turns[0].text
    assert (session.usage.input, session.usage.cache_read, session.usage.output) == SAID[program]


@EACH_PROGRAM
def test_commands_that_change_or_resume_refuse_in_one_line(program: str, run: Run, tmp_path: Path) -> None:
    folder = make_folder(program, tmp_path)
    (item,) = asked(run, "ls", "--config-dir", folder)["items"]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for arguments in (
        ("edit", "trim", item["session_id"], "--results"),
        ("edit", "trim", item["path"], "--results"),
        ("edit", "redact", item["session_id"], "--text", "heron"),
        ("restore", item["session_id"]),
        ("chat", "-p", "hello", "--resume", item["session_id"]),
        ("hooks", "install", "--yes"),
        ("collect", "--to", f"file://{tmp_path}", "--org", "acme", "--user", "me"),
    ):
        done = run(*arguments, "--config-dir", folder)
        message, hint = done.err.splitlines()
        assert (done.code, done.out) == (5, ""), done
        assert "works on Claude Code's sessions only" in message
        assert hint.startswith("hint: ")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@EACH_PROGRAM
def test_what_is_translated_is_for_the_user_alone(program: str, run: Run, tmp_path: Path) -> None:
    (item,) = asked(run, "ls", "--config-dir", make_folder(program, tmp_path))["items"]
    path = Path(item["path"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert {above.stat().st_mode & 0o777 for above in [*path.parents][:4]} == {0o700}
    assert path.is_relative_to(tmp_path / "home")


def test_a_folder_that_cannot_be_translated_is_an_error_of_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("ls", "--config-dir", make_folder("pi", tmp_path), UNSPOOL_HOME=str(tmp_path / "file" / "data"))
    assert done.code == 4, done
    assert "Traceback" not in done.err
    assert "UNSPOOL_HOME" in done.err


def test_what_cannot_be_read_is_named_and_costs_nothing_else(run: Run, tmp_path: Path) -> None:
    folder = make_folder("codex", tmp_path)
    day = session_files("codex", folder)[0].parent
    os.mkfifo(day / "rollout-2026-11-18T20-00-00-00000000-0000-4000-8000-000000000001.jsonl")
    (day / "rollout-2026-11-18T20-00-00-00000000-0000-4000-8000-000000000002.jsonl").symlink_to("/etc/passwd")
    done = run("ls", "--json", "--config-dir", folder)
    found = json.loads(done.out)
    assert len(found["items"]) == 1
    assert len(found["skipped"]) == 2
    assert done.err.startswith("unspool: ")
