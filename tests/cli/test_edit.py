"""`unspool edit` as people type it: what it prints, what it refuses, what `--json` promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.edit.sessions import open_loop, work
from unspool.testing.api import scripted

ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / ".claude"
    work().save(config)
    backup = config / "file-history" / ID / "abc@v1"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(b"as it was")
    return config


def run(config: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(config.parent),
        "UNSPOOL_HOME": str(config.parent / "own"),
        "LANG": "C.UTF-8",
    }
    command = [sys.executable, "-m", "unspool", "--config-dir", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**own, **environment}, check=False, timeout=120)


def said(config: Path, *arguments: str, **environment: str) -> Any:
    done = run(config, *arguments, "--json", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(config: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in config.rglob("*") if path.is_file()}


def test_an_applied_edit_says_what_is_promised(config: Path) -> None:
    edited = said(config, "edit", "trim", ID, "--results")
    assert edited["source"] == ID
    assert edited["operation"] == "trim"
    assert Path(edited["path"]).stem == edited["session"] != ID
    assert edited["verified"] == {"invariants": True, "replay": True, "claude": None}
    assert edited["removed"] == {"result": 3}
    for name in ("lines", "file_bytes", "context_tokens"):
        assert len(edited[name]) == 2
    assert edited["context_tokens"][1] < edited["context_tokens"][0]
    assert "changes" not in edited
    undone = said(config, "edit", "undo", edited["undo_id"])
    assert undone["session"] == edited["session"]
    assert not Path(edited["path"]).exists()


def test_a_plan_says_more_and_writes_nothing(config: Path) -> None:
    before = files(config.parent)
    planned = said(config, "edit", "trim", ID, "--results", "--plan")
    assert planned["undo_id"] is None
    assert {change["kind"] for change in planned["changes"]} == {"result"}
    assert all(change["reason"] and change["entry"] for change in planned["changes"])
    assert files(config.parent) == before


def test_people_get_a_table_and_the_way_back(config: Path) -> None:
    done = run(config, "edit", "trim", ID, "--results", "--superseded-reads")
    assert done.returncode == 0
    assert "BEFORE" in done.stdout
    assert "context tokens (estimate)" in done.stdout
    assert "checked: rules kept, API takes it" in done.stdout
    assert " edit undo " in done.stdout
    log = run(config, "edit", "log")
    assert "trim" in log.stdout
    assert "done" in log.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("trim", ID), 2, "nothing to trim was named"),
        (("trim", ID, "--to", "40%", "--results"), 2, "cannot be combined with other selections"),
        (("trim", ID, "--to", "much"), 2, "invalid size"),
        (("trim", ID, "--to", "nan"), 2, "invalid size"),
        (("trim", ID, "--to", "inf"), 2, "invalid size"),
        (("trim", ID, "--to", "nan%"), 2, "invalid size"),
        (("trim", ID, "--older-than", "3"), 2, "need --results"),
        (("trim", ID, "--results", "--larger-than", "big"), 2, "invalid size"),
        (("trim", ID, "--results", "--larger-than", "nan"), 2, "invalid size"),
        (("trim", ID, "--results", "--larger-than", "inf"), 2, "invalid size"),
        (("trim", ID, "--range", "a..b"), 2, "invalid range of turns"),
        (("trim", ID, "--range", "1..5"), 5, "remove the whole conversation"),
        (("trim", ID, "--tools", "Nothing"), 5, "nothing to trim with these options"),
        (("trim", ID, "--to", "1"), 5, "the minimum is"),
        (("fork", ID, "--at", "99"), 3, "no turn matches"),
        (("fork", ID, "--at", "zzz"), 3, "no line id starts with"),
        (("move", ID, "--to", "/no/such/folder"), 3, "folder not found"),
        (("compress", ID), 2, "no model given for the summary"),
        (("compress", ID, "--no-model", "--keep-last", "9"), 5, "nothing to compress"),
        (("undo",), 5, "no edit to undo"),
        (("clone", "nobody"), 3, "no session matches"),
        (("clone", ID, "--claude=/no/such/program"), 3, "program not found"),
    ],
)
def test_what_is_refused_says_why_and_writes_nothing(
    config: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = files(config)
    done = run(config, "edit", *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert files(config) == before


def test_a_session_with_an_open_call_is_refused_in_place(config: Path) -> None:
    data = open_loop().data.splitlines(keepends=True)
    path = next(config.glob("projects/*/*.jsonl"))
    path.write_bytes(b"".join(data[:-1]))
    done = run(config, "edit", "trim", ID, "--results", "--in-place")
    assert done.returncode == 5
    assert "the session is in use: its last tool call has no result yet" in done.stderr


def test_a_fork_and_a_move_are_found_where_they_should_be(config: Path, tmp_path: Path) -> None:
    forked = said(config, "edit", "fork", ID, "--at", "2")
    shown = run(config, "show", forked["session"])
    assert "Both done." in shown.stdout
    assert "A dot." not in shown.stdout
    (tmp_path / "other").mkdir()
    moved = said(config, "edit", "move", ID, "--to", str(tmp_path / "other"))
    assert Path(moved["path"]).parent.name.endswith("-other")


def test_a_moved_session_is_resumed_in_the_folder_it_was_moved_to(config: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for options in ([], ["--in-place"]):
        moved = run(config, "edit", "move", ID, "--to", str(tmp_path / "other"), *options).stdout
        assert f"resume with   cd {tmp_path.resolve() / 'other'} && " in moved
        assert run(config, "edit", "undo").returncode == 0
    copied = run(config, "edit", "clone", ID).stdout
    assert "resume with   cd /home/me/project && " in copied


def test_a_scripted_model_writes_the_summary(config: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["<analysis>Hm.</analysis><summary>They read a file.</summary>"]))
    edited = said(config, "edit", "compress", ID, "--keep-last", "2", "--model", f"script:{script}")
    text = Path(edited["path"]).read_text()
    assert "They read a file." in text
    assert "Hm." not in text
    assert "Do two things." in text.split('"isCompactSummary":true')[0].rsplit("\n", 1)[-1]
    assert edited["verified"] == {"invariants": True, "replay": True, "claude": None}


def test_a_model_that_says_nothing_changes_nothing(config: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"error": {"status": 400}}]))
    before = files(config)
    done = run(config, "edit", "compress", ID, "--model", f"script:{script}")
    assert done.returncode == 6
    assert files(config) == before


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"content": "I cannot help with that.", "stop_reason": "refusal"}, "the model declined"),
        ("<summary> </summary>", "the response is empty"),
    ],
)
def test_an_answer_that_declines_or_says_nothing_is_no_summary(
    config: Path, tmp_path: Path, answer: object, why: str
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([answer]))
    before = files(config)
    done = run(config, "edit", "compress", ID, "--model", f"script:{script}")
    assert (done.returncode, f"the model wrote no summary: {why}" in done.stderr) == (6, True)
    assert files(config) == before


def test_exact_numbers_come_from_the_api(config: Path) -> None:
    with scripted({"count_tokens": 4321, "default": "No."}) as api:
        planned = said(
            config, "edit", "trim", ID, "--results", "--plan", "--exact",
            ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="none",
        )  # fmt: skip
    assert planned["context_tokens"] == [4321, 4321]
    assert planned["exact_tokens"] is True


def test_doctor_names_every_rule_that_a_session_breaks(config: Path) -> None:
    assert said(config, "doctor", "--session", ID)["violations"] == []
    path = next(config.glob("projects/*/*.jsonl"))
    path.write_bytes(path.read_bytes() + b'{"type":"user","uuid":"x","parentUuid":"nowhere"}\n')
    (found,) = said(config, "doctor", "--session", ID)["violations"]
    assert found["rule"] == "G2"
    assert found["file"] == str(path)
    assert path.read_bytes()[found["offset"] :].startswith(b'{"type":"user","uuid":"x"')
    assert "missing parent" in run(config, "doctor", "--session", ID).stdout


def test_ten_clones_leave_the_usage_unchanged(config: Path) -> None:
    before = run(config, "usage", "--json").stdout
    for _ in range(10):
        assert run(config, "edit", "clone", ID).returncode == 0
    assert run(config, "usage", "--json").stdout == before


def test_undo_and_log_are_about_the_edits_of_one_config_folder(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    work().save(other)
    home = str(config.parent / "own")
    first, second = (said(folder, "edit", "clone", ID, UNSPOOL_HOME=home) for folder in (config, other))
    assert [edit["undo_id"] for edit in said(config, "edit", "log")["items"]] == [first["undo_id"]]
    assert "1 edit in other config folders" in run(config, "edit", "log").stderr
    assert run(config, "edit", "undo", second["undo_id"]).returncode == 3
    assert said(config, "edit", "undo")["undo_id"] == first["undo_id"]
    assert Path(second["path"]).exists()
    assert said(other, "edit", "undo", UNSPOOL_HOME=home)["undo_id"] == second["undo_id"]
    assert not Path(second["path"]).exists()


def test_undo_says_what_has_become_of_the_session(config: Path) -> None:
    edited = said(config, "edit", "trim", ID, "--results", "--in-place")
    with Path(edited["path"]).open("a") as file:
        file.write('{"type":"custom-title","customTitle":"new"}\n')
    assert run(config, "edit", "undo", "--yes").returncode == 5
    words = f"undid trim {edited['undo_id']}: {ID} is restored with the lines that were added since, 1 file\n"
    assert run(config, "edit", "undo", "--yes", "--merge").stdout == words
    edited = said(config, "edit", "trim", ID, "--results", "--in-place")
    words = f"undid trim {edited['undo_id']}: {ID} is restored, 1 file\n"
    assert run(config, "edit", "undo", "--yes").stdout == words


def test_undo_takes_the_id_of_a_session_for_its_last_edit(config: Path) -> None:
    before = files(config)
    edits = [said(config, "edit", "trim", ID, *what, "--in-place") for what in (["--thinking"], ["--results"])]
    assert said(config, "edit", "undo", ID[:13])["undo_id"] == edits[1]["undo_id"]
    assert said(config, "edit", "undo", ID)["undo_id"] == edits[0]["undo_id"]
    assert files(config) == before


def test_an_edit_as_the_first_command_makes_a_data_folder_for_the_user_alone(config: Path) -> None:
    command = f"umask 000; exec {sys.executable} -m unspool --config-dir {config} edit clone {ID}"
    own = config.parent / "new" / "own"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(config.parent), "UNSPOOL_HOME": str(own)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, capture_output=True, timeout=120)
    assert own.stat().st_mode & 0o777 == 0o700
    assert own.parent.stat().st_mode & 0o777 == 0o700


def test_the_temporary_file_of_an_edit_follows_no_planted_link(config: Path) -> None:
    victim = config.parent / "victim"
    victim.write_text("mine")
    (path,) = config.glob(f"projects/*/{ID}.jsonl")
    path.with_name(f".{path.name}.unspool.tmp").symlink_to(victim)
    path.with_name(f".{path.name}.unspool.old").symlink_to(victim)
    said(config, "edit", "trim", ID, "--results", "--in-place")
    assert victim.read_text() == "mine"
    assert not path.is_symlink()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"id": {}}', b"\0" * 10])
def test_a_journal_that_cannot_be_read_is_named_and_what_it_kept_stays(config: Path, damage: bytes) -> None:
    edited = said(config, "edit", "trim", ID, "--results", "--in-place")
    (journal,) = (config.parent / "own" / "edits").glob("*/journal.json")
    kept = {path: path.read_bytes() for path in journal.parent.iterdir() if path != journal}
    journal.write_bytes(damage)
    done = run(config, "edit", "log")
    assert done.returncode in (0, 1)
    assert f"cannot read the journal of an edit; its backups are in `{journal.parent}`" in done.stderr
    assert run(config, "edit", "undo", "--yes").returncode == 5
    assert kept
    assert {path: path.read_bytes() for path in journal.parent.iterdir() if path != journal} == kept
    assert edited["session"] == ID


def test_the_command_that_resumes_the_result_works_from_any_folder(config: Path) -> None:
    lines = [line.split(maxsplit=1) for line in run(config, "edit", "clone", ID).stdout.splitlines()]
    new = next(rest for name, *others in filter(None, lines) if name == "session" for rest in others)
    resumed = next(rest for name, *others in filter(None, lines) if name == "resume" for rest in others)
    assert resumed.split(maxsplit=1)[1] == f"cd /home/me/project && CLAUDE_CONFIG_DIR={config} claude --resume {new}"
