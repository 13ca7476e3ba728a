"""`unspool edit redact`: what is removed is nowhere any more, the session resumes, and it can be taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.edit.planted_secrets import ID, OTHER, SECRETS, build_config, find_secrets, needles, words
from unspool.api.rules import find_problems
from unspool.edit import read_session_text
from unspool.edit.rules.check import resume_context, resume_request
from unspool.testing.build import assistant, image, session, thinking, tool_result, tool_use, user

MODES = {
    "text": [argument for secret in SECRETS.values() for argument in ("--text", secret)]
    + [argument for row in SECRETS["key"].split("\n")[1:-1] for argument in ("--text", row)],
    "secrets": ["--secrets"],
    "regex": [
        "--regex",
        "|".join(
            [needle.replace("+", "\\+").replace(".", "\\.") for needle in needles()] + ["-----BEGIN [A-Z ]*KEY-----"]
        ),
    ],
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / ".claude"
    build_config(config)
    return config


def own(config: Path) -> Path:
    return config.parent / "own"


def run(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(config.parent), "UNSPOOL_HOME": str(own(config))}
    command = [sys.executable, "-m", "unspool", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**environment, "LANG": "C.UTF-8", "CLAUDE_CONFIG_DIR": str(config)},
        check=False,
        timeout=600,
    )


def ran(config: Path, *arguments: str) -> str:
    done = run(config, *arguments)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def tree(config: Path) -> dict[str, bytes]:
    return {str(path.relative_to(config)): path.read_bytes() for path in config.rglob("*") if path.is_file()}


def fill_store(config: Path) -> None:
    """Let everything that unspool keeps hold the secrets: two generations, the index, column files, notes, an edit."""
    path = next(config.glob(f"projects/*/{ID}.jsonl"))
    ran(config, "sync")
    ran(config, "edit", "trim", ID, "--thinking", "--in-place")
    path.write_bytes(path.read_bytes().replace(b"What now?", b"What then?"))
    ran(config, "sync")
    ran(config, "search", "prompt")
    ran(config, "sql", "SELECT count(*) FROM blocks")
    ran(config, "usage")
    lines = [{"session_id": ID, "starred": True, "note": words("note")}, {"session_id": OTHER, "note": "mine"}]
    (own(config) / "annotations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (own(config) / "sql_history").write_text(f"\n# now\n+SELECT '{SECRETS['github']}'\n")


@pytest.mark.parametrize("mode", MODES)
def test_a_removed_secret_is_in_no_byte_of_any_file_and_the_session_resumes(config: Path, mode: str) -> None:
    fill_store(config)
    places = find_secrets(config, own(config))
    assert any("frame of" in place for place in places)
    assert any("parquet" in place for place in places)
    assert any("edits" in place for place in places)
    assert any("index" in place for place in places)
    usage = json.loads(ran(config, "usage", "--json"))["totals"]
    done = json.loads(ran(config, "edit", "redact", ID, *MODES[mode], "--shred", "--json"))
    assert done["left"] == []
    assert done["undo_id"] is None
    assert find_secrets(config, own(config)) == []
    assert (own(config) / "store.db-wal").stat().st_size == 0 if (own(config) / "store.db-wal").exists() else True
    text = read_session_text(unspool.open(config).session(ID))
    assert find_problems(resume_request(resume_context(text).messages)) == []
    assert b"Nothing to hide here." in next(config.glob(f"projects/*/{OTHER}.jsonl")).read_bytes()
    assert '"a prompt of another session"' in (config / "history.jsonl").read_text()
    assert "and so on" in (config / "plans" / "calm-blue-sea.md").read_text()
    # What is read again from all that was made anew holds none, and everything is still counted.
    assert json.loads(ran(config, "usage", "--json"))["totals"] == usage
    ran(config, "sql", "SELECT * FROM blocks")
    ran(config, "search", "prompt")
    assert ran(config, "doctor", "--session", ID).count("follows every rule") == 1
    assert find_secrets(config, own(config)) == []
    assert run(config, "edit", "undo", ID, "--yes").returncode in (3, 5)


def test_until_it_is_shredded_a_redaction_can_be_undone(config: Path) -> None:
    ran(config, "sync")
    before = tree(config)
    done = json.loads(ran(config, "edit", "redact", ID, "--secrets", "--json"))
    assert find_secrets(config) == []
    assert all(f"{own(config)}/edits/" in place for place in find_secrets(own(config)))
    assert "archive stay redacted" in ran(config, "edit", "undo", done["undo_id"])
    assert tree(config) == before
    assert done["files"]
    ran(config, "search", "prompt")


def test_after_shredding_no_backup_is_left_and_undo_says_so(config: Path) -> None:
    done = json.loads(ran(config, "edit", "redact", ID, "--secrets", "--json"))
    again = json.loads(ran(config, "edit", "redact", ID, "--secrets", "--shred", "--json"))
    assert again["shredded"] == [done["undo_id"]]
    refused = run(config, "edit", "undo", done["undo_id"])
    assert refused.returncode == 5
    assert "--shred" in refused.stderr
    assert find_secrets(config, own(config)) == []
    assert "shredded" in ran(config, "edit", "log")


def test_a_plan_writes_nothing(config: Path) -> None:
    before = tree(config)
    planned = json.loads(ran(config, "edit", "redact", ID, "--secrets", "--plan", "--json"))
    assert tree(config) == before
    assert sum(planned["found"].values()) >= len(SECRETS)
    assert not any(needle in json.dumps(planned) for needle in needles())
    assert len(planned["files"]) >= 12


def test_turns_lose_every_text_and_keep_their_lines(tmp_path: Path) -> None:
    config = tmp_path / ".claude"
    built = session(
        user("The first prompt of all."),
        assistant("The first answer."),
        user("The embarrassing prompt is this.", image()),
        assistant(thinking("An embarrassing thought."), tool_use("Bash", id="toolu_1", command="embarrassing command")),
        tool_result("embarrassing output", id="toolu_1", structured={"stdout": "embarrassing output"}),
        assistant("The embarrassing answer."),
        user("The last prompt."),
        assistant("The last answer."),
    )
    path = built.save(config)
    history = config / "history.jsonl"
    history.write_text(json.dumps({"display": "The embarrassing prompt is this.", "sessionId": ID}) + "\n")
    ran(config, "sync")
    for _ in range(2):  # turns keep their numbers: again, it changes nothing more
        run(config, "edit", "redact", ID, "--turns", "2", "--shred")
        text = path.read_text()
        assert "mbarrassing" not in text
        assert "The first answer." in text
        assert "The last answer." in text
    assert "mbarrassing" not in history.read_text()
    assert b"mbarrassing" not in b"".join(file.read_bytes() for file in own(config).rglob("*") if file.is_file())
    read = read_session_text(unspool.open(config).session(ID))
    assert find_problems(resume_request(resume_context(read).messages)) == []
    assert len(unspool.open(config).session(ID).turns) == 3


def test_copies_in_other_sessions_are_named_and_stay(config: Path) -> None:
    copy = session(user(f"A copy of {SECRETS['github']}."), assistant("I see."), id=OTHER)
    copy.save(config)
    done = json.loads(ran(config, "edit", "redact", ID, "--text", SECRETS["github"], "--json"))
    assert [Path(path).stem for path in done["elsewhere"]] == [OTHER]
    assert SECRETS["github"] in next(config.glob(f"projects/*/{OTHER}.jsonl")).read_text()


def test_texts_can_come_from_a_file(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text(f"{SECRETS['github']}\n\n{SECRETS['npm']}\n")
    ran(config, "edit", "redact", ID, "--text-file", str(file), "--shred")
    data = b"".join(tree(config).values())
    assert SECRETS["github"].encode() not in data
    assert SECRETS["npm"].encode() not in data
    assert SECRETS["stripe"].encode() in data


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["--regex", "("], 2),
        (["--regex", ".*"], 2),
        (["--text", "x"], 2),
        (["--turns", "99"], 3),
        (["--text", "what nobody ever said"], 1),
        (["--text", "user"], 1),
        (["--text", "tool_use"], 1),
        (["--text", "Done."], 0),
    ],
)
def test_wrong_requests_are_refused_in_words(config: Path, arguments: list[str], code: int) -> None:
    done: Any = run(config, "edit", "redact", ID, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    # The structure of lines is never changed, whatever words it is made of.
    assert find_problems(resume_request(resume_context(_text(config)).messages)) == []


def _text(config: Path) -> Any:
    return read_session_text(unspool.open(config).session(ID))


@pytest.mark.parametrize("project", [["/home/me/project"], {"x": 1}, 7, None])
def test_prompts_of_no_known_project_stop_no_redaction(tmp_path: Path, project: object) -> None:
    config = tmp_path / ".claude"
    session(user("The tide is high."), assistant("It is."), id=ID).save(config)
    line = json.dumps({"display": "high tide", "project": project}) + "\n"
    (config / "history.jsonl").write_text(line)
    ran(config, "edit", "redact", ID, "--secrets", "--text", "high")
    assert (config / "history.jsonl").read_text() == line
