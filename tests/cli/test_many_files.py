"""A folder of 100,000 session files: every command answers, and counts each of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from unspool.testing.build import assistant, session, user

FILES = int(os.environ.get("UNSPOOL_MANY_FILES", "100000"))
PROJECTS = 100


def write_many(config: Path) -> None:
    made = session(user("the tide"), assistant("water"))
    text = b"".join(made.lines)
    message = json.loads(made.lines[-1])["message"]["id"].encode()
    for number in range(FILES):
        id = f"{number:08x}-0000-4000-8000-000000000000"
        folder = config / "projects" / f"-home-me-p{number % PROJECTS}"
        if number < PROJECTS:
            folder.mkdir(parents=True)
        data = text.replace(made.id.encode(), id.encode()).replace(message, b"msg_%d" % number)
        (folder / f"{id}.jsonl").write_bytes(data)


@pytest.mark.slow
def test_every_command_answers_on_a_hundred_thousand_files(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "claude"
    write_many(config)
    (config / "history.jsonl").touch()
    last = f"{FILES - 1:08x}-0000-4000-8000-000000000000"

    def ask(*words: str) -> str:
        done = run(*words, CLAUDE_CONFIG_DIR=str(config))
        assert done.code == 0, f"{words}: {done.err}"
        return done.out

    assert json.loads(ask("sync", "--json"))["files_changed"] == FILES + 1  # with the prompts
    responses = {json.loads(ask("usage", "--json", *how))["totals"]["responses"] for how in ([], ["--no-store"])}
    assert responses == {FILES}
    assert len(json.loads(ask("ls", "--json"))["items"]) == FILES
    assert last in ask("search", "tide", "--session", last, "--json")
    assert "tide" in ask("show", last)
    assert json.loads(ask("doctor", "--json"))["sessions"] == FILES
    assert f"{FILES}" in ask("sql", "SELECT count(*) FROM sessions", "--format", "csv")
    ask("watch", "--once")
    ask("stats", "--json")
