"""`unspool restore`, and what else can be done with a session whose file has gone."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Run
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "10000000-0000-4000-8000-000000000001"
PERIODS = ["daily", "session", "model", "project", "branch", "agent", "blocks"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A session with an agent, what is said of it, and a result that was too long; and another session."""
    folder = tmp_path / "config"
    path = session(
        user("Fix the cache"),
        assistant(tool_use("Task", prompt="look", subagent_type="Explore")),
        tool_result("found", structured={"agentId": "a1b2c3d", "status": "completed"}),
        assistant("Done."),
        id=ID,
    ).save(folder)
    with path.open("ab") as file:
        file.write(b'{"type":"user","torn')
    inside = path.with_suffix("")
    for name, data in {
        "subagents/agent-a1b2c3d.jsonl": session(user("look"), assistant("Seen."), id=ID, agent="a1b2c3d").data,
        "subagents/agent-a1b2c3d.meta.json": b'{"agentType":"Explore"}',
        "tool-results/toolu_1.txt": b"long\r\n\0\xff",
    }.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(data)
    session(user("Other"), assistant("Ja."), id="20000000-0000-4000-8000-000000000002").save(folder)
    return folder


def files(config: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(config.rglob("*")) if path.is_file() and ID in str(path)}


def done(ran: Ran) -> Ran:
    assert (ran.code, ran.err) == (0, ""), ran.err
    return ran


def data(run: Run, *arguments: str | Path) -> Any:
    return json.loads(done(run(*arguments, TZ="UTC")).out)


@pytest.fixture
def gone(run: Run, config: Path) -> dict[Path, bytes]:
    """The files of the session, which were synced and deleted."""
    done(run("sync", "--config-dir", config))
    were = files(config)
    assert len(were) == 4
    for path in were:
        path.unlink()
    return were


def test_a_session_that_has_gone_can_still_be_listed_shown_exported_and_counted(run: Run, config: Path) -> None:
    commands: list[list[str | Path]] = [
        ["show", ID],
        ["show", "cache"],
        ["stats", ID, "--json"],
        ["export", ID, "--md"],
        ["export", ID, "--json"],
        ["export", ID, "--messages"],
        ["export", ID, "--jsonl"],
        ["export", "a1b2c3d", "--jsonl"],
    ]
    commands += [["usage", period, "--json"] for period in PERIODS]
    before = [printed(run, command, config) for command in commands]
    listed = data(run, "ls", "--json", "--config-dir", config)["items"]
    for path in files(config):
        path.unlink()
    for command, expected in zip(commands, before, strict=True):
        assert printed(run, command, config) == expected, command
    for row in listed:
        row["gone"] = row["session_id"] == ID
    assert data(run, "ls", "--json", "--config-dir", config)["items"] == listed
    assert f"{ID[:8]}†" in done(run("ls", "--config-dir", config)).out


def printed(run: Run, command: list[str | Path], config: Path) -> str:
    """Return what a command prints, without how to resume: a session that has gone has to be restored first."""
    lines = done(run(*command, "--config-dir", config, TZ="UTC")).out.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("resume: "))


def test_it_comes_back_byte_for_byte_with_all_that_belongs_to_it(
    run: Run, config: Path, gone: dict[Path, bytes]
) -> None:
    out = data(run, "restore", ID[:5], "--json", "--config-dir", config)
    assert files(config) == gone
    assert {row["path"]: row["bytes"] for row in out["files"]} == {str(path): len(data) for path, data in gone.items()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in gone} == {0o600}
    listed = data(run, "ls", "--json", "--config-dir", config)["items"]
    assert not any(row["gone"] for row in listed)


def test_what_came_back_is_known_and_not_read_again(run: Run, config: Path, gone: dict[Path, bytes]) -> None:
    before = data(run, "usage", "session", "--json", "--config-dir", config)
    done(run("restore", ID, "--config-dir", config))
    report = data(run, "sync", "--json", "--config-dir", config)
    assert (report["bytes_read"], report["generations"], report["gone"]) == (0, 0, 0)
    assert data(run, "usage", "session", "--json", "--config-dir", config) == before
    path = next(path for path in gone if path.stem == ID)
    with path.open("ab") as file:
        file.write(b'"}\n' + session(user("more"), assistant("more"), id=ID, start="2026-02-01T00:00:00Z").lines[0])
    report = data(run, "sync", "--json", "--config-dir", config)
    assert (report["lines_parsed"], report["generations"]) == (2, 0)
    path_bytes = path.read_bytes()
    path.unlink()
    exported = run("export", ID, "--jsonl", "--config-dir", config)
    assert exported.out.encode() == path_bytes


def test_a_dry_run_writes_nothing(run: Run, config: Path, gone: dict[Path, bytes]) -> None:
    out = data(run, "restore", ID, "--dry-run", "--json", "--config-dir", config)
    assert {row["path"]: row["bytes"] for row in out["files"]} == {str(path): len(data) for path, data in gone.items()}
    assert files(config) == {}
    assert "would write" in done(run("restore", ID, "--dry-run", "--config-dir", config)).out


def test_files_that_are_there_are_left_as_they_are(run: Run, config: Path, gone: dict[Path, bytes]) -> None:
    agent = next(path for path in gone if path.name == "agent-a1b2c3d.jsonl")
    agent.write_bytes(b"mine\n")
    done(run("restore", ID, "--config-dir", config))
    assert files(config) == {**gone, agent: b"mine\n"}
    nothing = run("restore", ID, "--config-dir", config)
    assert (nothing.code, nothing.out, nothing.err) == (
        1,
        "",
        f"unspool: nothing to restore: no file of `{ID}` is missing\n",
    )


def test_a_session_that_nobody_knows_is_not_found(run: Run, config: Path, gone: dict[Path, bytes]) -> None:
    missing = run("restore", "nobody", "--config-dir", config)
    assert (missing.code, missing.out) == (3, "")
    assert "no session matches `nobody`" in missing.err


def test_a_whole_config_folder_that_has_gone_is_listed_and_comes_back(
    run: Run, config: Path, gone: dict[Path, bytes]
) -> None:
    done(run("ls", "--config-dir", config))
    config.rename(config.with_name("away"))
    listed = data(run, "ls", "--json", "--config-dir", config)["items"]
    assert [row["gone"] for row in listed] == [True, True]
    done(run("restore", ID, "--config-dir", config))
    assert files(config) == gone


def test_a_link_that_leads_out_is_refused(run: Run, config: Path, gone: dict[Path, bytes], tmp_path: Path) -> None:
    folder = next(path for path in gone if path.stem == ID).parent
    done(run("ls", "--config-dir", config))
    (tmp_path / "outside").mkdir()
    folder.rename(tmp_path / "was")
    folder.symlink_to(tmp_path / "outside")
    refused = run("restore", ID, "--config-dir", config)
    assert refused.code == 5
    assert "is outside" in refused.err
    assert list((tmp_path / "outside").iterdir()) == []
