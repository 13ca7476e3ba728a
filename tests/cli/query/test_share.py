"""`unspool share` in the terminal: a preview first, a file for the owner alone, and nothing that was not asked for."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.pseudo_terminal import ENTER, PseudoTerminal
from unspool.testing.build import assistant, session, tool_result, tool_use, user

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"[:36]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    session(
        user(f"Use {TOKEN}."),
        assistant("I use it.", tool_use("Bash", id="t1", command="cat a")),
        tool_result("RESULT", id="t1"),
        assistant("Done."),
        id="5ba4e000-0000-4000-8000-000000000000",
        cwd="/home/ann/shop",
    ).save(folder)
    return folder


@pytest.mark.parametrize("form", ["html", "md", "jsonl"])
def test_a_file_is_written_for_its_owner_alone(form: str, run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / f"out.{form}"
    done = run("share", "5ba4e", "--yes", "-o", path, "--config-dir", config)
    assert done.code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    words = path.read_text()
    assert "Done." in words
    for secret in (TOKEN, "/home/ann", "RESULT", str(tmp_path)):
        assert secret not in words
    assert "replaced: github-token × 1" in done.out
    assert "turn 1, line 1, message.content: Use […]." in done.out


def test_a_file_that_exists_is_not_overwritten_unless_forced(run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    path.write_text("mine")
    refused = run("share", "5ba4e", "--yes", "-o", path, "--config-dir", config)
    assert (refused.code, path.read_text()) == (5, "mine")
    assert run("share", "5ba4e", "--yes", "--force", "-o", path, "--config-dir", config).code == 0
    assert "Done." in path.read_text()


def test_without_a_terminal_and_without_yes_nothing_is_written(run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    assert run("share", "5ba4e", "-o", path, "--config-dir", config).code == 5
    assert not path.exists()


def test_the_preview_is_a_document(run: Run, config: Path, tmp_path: Path) -> None:
    done = run("share", "5ba4e", "--md", "--json", "--config-dir", config)
    document = json.loads(done.out)
    assert (document["schema"], document["path"], document["format"]) == ("unspool/share/1", None, "md")
    assert document["shared"] == {"prompts": 1, "answers": 2, "tool calls": 1}
    token = next(one for one in document["items"] if one["kind"] == "github-token")
    assert (token["count"], token["kept"]) == (1, False)
    path = tmp_path / "out.jsonl"
    run("share", "5ba4e", "--yes", "--keep", token["id"], "-o", path, "--config-dir", config)
    assert TOKEN in path.read_text()
    assert "/home/ann" not in path.read_text()


def test_what_is_shared_as_lines_can_be_shown(run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    run("share", "5ba4e", "--yes", "--results", "-o", path, "--config-dir", config)
    assert "Done." in run("show", path).out


def test_on_a_terminal_it_asks_and_a_replacement_can_be_switched_off(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    command = [sys.executable, "-m", "unspool", "share", "5ba4e", "-o", str(path), "--config-dir", str(config)]
    around = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UNSPOOL_HOME": str(tmp_path / "data"),
        "TERM": "xterm",
    }
    with PseudoTerminal(command, around, size=(160, 60)) as terminal:
        terminal.see("Write ")
        number = next(line.strip()[0] for line in terminal.seen.splitlines() if "replaced: github-token" in line)
        terminal.press(number + ENTER)
        terminal.see("KEPT: github-token")
        terminal.press("y" + ENTER)
        terminal.see("wrote ")
    assert TOKEN in path.read_text()
    assert "/home/ann" not in path.read_text()
