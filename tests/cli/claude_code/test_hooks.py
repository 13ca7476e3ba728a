"""`unspool hooks`: shown before it is done, done only when agreed to, undone byte for byte."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from unspool.live.hook_signals import HOOK_EVENTS
from unspool.testing.build import session, user

OWN = b'{\n   "model": "opus", "env": {"TOKEN": "s"},\n   "hooks": {}\n}'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    return tmp_path / "claude"


@pytest.fixture
def settings(config: Path) -> Path:
    path = config / "settings.json"
    path.write_bytes(OWN)
    path.chmod(0o640)
    return path


def test_installing_shows_what_changes_keeps_a_copy_and_can_be_undone(run: Run, config: Path, settings: Path) -> None:
    done = run("hooks", "install", "--yes", "--config-dir", config)
    assert (done.code, done.err) == (0, "")
    assert f"+++ {settings}" in done.out
    assert all(f'+      "{event}": [' in done.out for event in HOOK_EVENTS)
    assert (config / "settings.json.unspool-backup").read_bytes() == OWN
    assert settings.stat().st_mode & 0o777 == 0o640
    assert set(json.loads(settings.read_bytes())["hooks"]) == set(HOOK_EVENTS)
    assert run("hooks", "remove", "--yes", "--config-dir", config).code == 0
    assert settings.read_bytes() == OWN
    assert [path.name for path in config.iterdir() if path.is_file()] == ["settings.json"]


def test_a_file_that_was_not_there_is_gone_again(run: Run, config: Path) -> None:
    assert run("hooks", "install", "--yes", "--config-dir", config).code == 0
    assert (config / "settings.json").stat().st_mode & 0o777 == 0o600
    assert run("hooks", "remove", "--yes", "--config-dir", config).code == 0
    assert list(config.glob("settings*")) == []


def test_what_a_person_changed_meanwhile_stays(run: Run, config: Path, settings: Path) -> None:
    run("hooks", "install", "--yes", "--config-dir", config)
    settings.write_bytes(settings.read_bytes().replace(b"opus", b"haiku"))
    run("hooks", "remove", "--yes", "--config-dir", config)
    assert json.loads(settings.read_bytes()) == {"model": "haiku", "env": {"TOKEN": "s"}}


def test_installing_twice_changes_nothing(run: Run, config: Path, settings: Path) -> None:
    run("hooks", "install", "--yes", "--config-dir", config)
    before = settings.read_bytes()
    done = run("hooks", "install", "--config-dir", config)
    assert (done.code, done.out) == (0, "the hooks are already installed\n")
    assert settings.read_bytes() == before


def test_without_a_terminal_nobody_can_agree(run: Run, config: Path, settings: Path) -> None:
    done = run("hooks", "install", "--config-dir", config)
    assert (done.code, done.err) == (
        5,
        "unspool: not a terminal; pass --yes to confirm\nhint: add `--yes`\n",
    )
    assert settings.read_bytes() == OWN


@pytest.mark.parametrize(("answer", "changes"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_a_person_is_asked(config: Path, settings: Path, answer: str, changes: bool) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "unspool", "hooks", "install", "--config-dir", str(config)],
        stdin=follower, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(follower)
    os.write(leader, answer.encode() + b"\n")
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # the other end is closed
        pass
    process.wait(60)
    os.close(leader)
    assert b"Change the settings?" in shown
    assert (settings.read_bytes() != OWN) is changes


@pytest.mark.parametrize("data", [b"// mine\n{}\n", b'{"a": 1,}', b"[]"])
def test_settings_that_are_no_json_are_refused_and_stay(run: Run, config: Path, data: bytes) -> None:
    (config / "settings.json").write_bytes(data)
    done = run("hooks", "install", "--yes", "--config-dir", config)
    assert done.code == 5
    assert "hint: fix the file first" in done.err
    assert (config / "settings.json").read_bytes() == data


def test_settings_behind_a_link_are_changed_where_they_are(run: Run, config: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_bytes(OWN)
    (config / "settings.json").symlink_to(tmp_path / "dotfiles.json")
    done = run("hooks", "install", "--yes", "--config-dir", config)
    assert f"is a symbolic link to {tmp_path / 'dotfiles.json'}" in done.out
    assert (config / "settings.json").is_symlink()
    assert "PreToolUse" in json.loads((tmp_path / "dotfiles.json").read_bytes())["hooks"]
    run("hooks", "remove", "--yes", "--config-dir", config)
    assert (tmp_path / "dotfiles.json").read_bytes() == OWN


def test_an_old_program_is_given_only_events_that_it_knows(run: Run, config: Path) -> None:
    session(user("a"), version="2.0.36").save(config)
    run("hooks", "install", "--yes", "--config-dir", config)
    assert "PermissionRequest" not in json.loads((config / "settings.json").read_bytes())["hooks"]


def test_status_says_what_is_there(run: Run, config: Path, tmp_path: Path) -> None:
    assert run("hooks", "--config-dir", config).out.startswith(
        f"hooks: not installed; add them with `unspool --config-dir {config} hooks install`\n"
    )
    run("hooks", "install", "--yes", "--config-dir", config)
    done = json.loads(run("hooks", "status", "--json", "--config-dir", config).out)
    assert (done["installed"], set(done["events"]), done["sessions"]) == (True, set(HOOK_EVENTS), 0)
    assert Path(done["signals"]).stat().st_mode & 0o777 == 0o700


def test_there_is_nothing_to_remove(run: Run, config: Path, settings: Path) -> None:
    done = run("hooks", "remove", "--yes", "--config-dir", config)
    assert (done.code, done.err) == (1, "unspool: the settings contain no hooks of unspool\n")
    assert settings.read_bytes() == OWN
