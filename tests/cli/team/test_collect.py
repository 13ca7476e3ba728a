"""`unspool collect` and `unspool redact` as people run them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Run
from tests.collect.machine import folder_place, rows
from unspool.cli.team.collect import _NOT_FOR_SERVICE, collect
from unspool.cli.team.credentials import CredentialsFile
from unspool.collect.segments import decode_part_header, unpack_device_segment
from unspool.collect.state import collector_lock
from unspool.testing.build import assistant, session, user

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A session with a secret in it."""
    root = tmp_path / ".claude"
    session(user(f"use {SECRET}"), assistant("Done.")).save(root)
    return root


def test_the_contract(run: Run, config: Path, tmp_path: Path) -> None:
    to = f"file://{tmp_path}/lake"
    done = run("collect", "--to", to, "--once", "--config-dir", config, "--json", UNSPOOL_ORG="acme", USER="me")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert {name: told[name] for name in ("segments", "lines", "redactions", "pending")} == {
        "segments": 1,
        "lines": 2,
        "redactions": 1,
        "pending": 0,
    }
    (found,) = tmp_path.glob("lake/segments/acme/*/*/*.zst")
    assert told["bytes"] == found.stat().st_size
    ((made,),) = rows(folder_place(tmp_path / "lake")).values()
    assert [row.raw.count("[redacted:github-token:") for row in made] == [1, 0]
    again = run("collect", "--to", to, "--config-dir", config)
    assert again.out == "0 segments, 0 lines, 0 bytes; redacted: nothing; waiting: 0\n"
    (status,) = json.loads(run("collect", "--status", "--json").out)["items"]
    assert (status["segments"], status["lines"], status["pending"]) == (1, 2, 0)


@pytest.mark.parametrize(
    ("modified", "words"),
    [(1_767_571_200.25, "2026-01-05T00:00:00.250Z"), (-86400.0, "1969-12-31T00:00:00.000Z")],
)
def test_a_part_says_when_its_file_changed_and_where(
    run: Run, config: Path, tmp_path: Path, modified: float, words: str
) -> None:
    (file,) = config.glob("projects/*/*.jsonl")
    os.utime(file, (modified, modified))
    done = run("collect", "--to", f"file://{tmp_path}/lake", "--config-dir", config, TZ="Asia/Kathmandu")
    assert done.code == 0, done.err
    (segment,) = tmp_path.glob("lake/segments/*/*/*/*.zst")
    _, (part,) = unpack_device_segment(segment.read_bytes())
    header = decode_part_header(part.text)
    assert (header.modified, header.zone) == (words, "+05:45")


def test_a_dry_run_sends_nothing(run: Run, config: Path, tmp_path: Path) -> None:
    done = run("collect", "--to", f"file://{tmp_path}/lake", "--dry-run", "--json", "--config-dir", config)
    assert json.loads(done.out)["lines"] == 2
    assert list(tmp_path.glob("lake/**/*.zst")) == []


def test_a_second_collector_says_that_there_is_one(run: Run, config: Path, tmp_path: Path) -> None:
    with collector_lock(tmp_path / "own"):
        done = run("collect", "--to", f"file://{tmp_path}/lake", "--config-dir", config, UNSPOOL_HOME=f"{tmp_path}/own")
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith("unspool: another collector is running in ")
    assert done.err.count("\n") == 2


def test_a_store_that_cannot_be_reached_is_named_and_what_waits_is_sent_later(
    run: Run, config: Path, tmp_path: Path
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        names = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "x"}
        done = run("collect", "--to", "s3://b/p", "--json", "--config-dir", config,
                   AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", **names)  # fmt: skip
    assert done.code == 6
    assert done.err.startswith("unspool: unexpected response from the store at `s3://b/p`: http error")
    assert "waiting: 1 part (0.0 MB)" in done.err
    assert done.err.count("\n") == 2
    assert SECRET not in done.err
    assert json.loads(done.out)["pending"] == 1


def test_a_machine_does_not_leave_while_something_waits(run: Run, config: Path, tmp_path: Path) -> None:
    names = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    assert run("collect", "--to", "s3://b/p", "--config-dir", config, **names).code == 6
    refused = run("collect", "leave")
    assert (refused.code, refused.out) == (5, "")
    assert "1 parts wait to be sent" in refused.err
    done = run("collect", "leave", "--yes", "--json", **names)
    assert "`s3://b/p` was not told" in done.err
    assert (json.loads(done.out)["dropped"], json.loads(done.out)["told"]) == (1, [])


def test_status_is_told_to_prometheus(run: Run, config: Path, tmp_path: Path) -> None:
    assert run("collect", "--to", f"file://{tmp_path}/lake", "--config-dir", config, "--org", "acme").code == 0
    lines = run("collect", "--status", "--prometheus").out.splitlines()
    (segments,) = [line for line in lines if line.startswith("unspool_collect_segments{")]
    assert f'{{to="file://{tmp_path}/lake",org="acme",device="' in segments
    assert segments.endswith("} 1")
    assert "# TYPE unspool_collect_confirmed_timestamp_seconds gauge" in lines
    (redactions,) = [line for line in lines if line.startswith("unspool_collect_redactions{")]
    assert redactions.endswith("} 1")


def test_status_counts_attempts_that_failed(run: Run, config: Path) -> None:
    names = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for count in (1, 2):
        assert run("collect", "--to", "s3://b/p", "--config-dir", config, **names).code == 6
        (status,) = json.loads(run("collect", "--status", "--json").out)["items"]
        assert (status["failed_attempts"], status["failed_files"], status["redactions"]) == (count, 0, 0)
        assert (status["looked_at"] is None, status["confirmed_at"]) == (False, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "missing destination"),
        (("--to", "ftp://x"), "not an object store URL"),
        (("--to", "file:///tmp/x", "--once", "--follow"), "cannot be used together"),
        (("--to", "file:///tmp/x", "--with", "everything"), "unknown kind `everything`"),
        (("--to", "file:///tmp/x", "--since", "soon"), "invalid time"),
    ],
)
def test_a_wrong_request_is_named(run: Run, config: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run("collect", *arguments, "--config-dir", config)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_machine_is_enrolled_once(run: Run) -> None:
    made = json.loads(run("collect", "enrol", "--org", "acme", "--user", "me", "--json").out)
    assert (made["org"], made["user"]) == ("acme", "me")
    assert "key" not in made
    again = run("collect", "enrol", "--org", "other")
    assert (again.code, again.out) == (5, "")


def test_a_machine_is_not_enrolled_for_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    """Whoever pastes a part of docs/collect.md in another folder must not enrol the machine for made-up sessions."""
    done = run("collect", "enrol", "--org", "acme", "--user", "me", "--config-dir", "demo")
    assert (done.code, done.out) == (3, "")
    assert not list(tmp_path.rglob("enrolment.json"))


def test_the_system_is_told_how_to_start_it(run: Run, tmp_path: Path) -> None:
    printed = run("collect", "install", "--to", "s3://b/100%", "--exclude", "my project", "--print")
    assert '"--to" "s3://b/100%%" "--follow" "--exclude" "my project"' in printed.out
    assert not (tmp_path / "home" / ".config").exists()
    done = run("collect", "install", "--to", "s3://b")
    assert done.out.endswith("start it: systemctl --user enable --now unspool-collect.service\n")
    assert (tmp_path / "home" / ".config" / "systemd" / "user" / "unspool-collect.service").exists()
    assert run("collect", "uninstall").code == 0
    assert run("collect", "uninstall").code == 1


def test_the_service_runs_with_every_option_of_the_command(run: Run, tmp_path: Path) -> None:
    values = {
        click.STRING: "name",
        click.INT: "5000",
        click.FLOAT: "7.5",
    }
    given: list[str] = []
    for option in collect.params:
        if not isinstance(option, click.Option) or option.name in _NOT_FOR_SERVICE:
            continue
        given.append(option.opts[0])
        if not option.is_flag:
            kind = next((kind for kind in values if kind.name.split()[0] in option.type.name), click.STRING)
            is_path = isinstance(option.type, click.Path) or option.name == "config_dirs"
            given.append(f"{tmp_path}/{option.name}" if is_path else values[kind])
    printed = run("collect", "install", "--to", "s3://b", "--print", *given)
    (line,) = [line for line in printed.out.splitlines() if line.startswith("ExecStart=")]
    words = line.removeprefix("ExecStart=").strip('"').split('" "')
    assert words[words.index("--follow") + 1 :] == given
    assert {"--segment-size", "--outbox-size", "--every", "--deep", "--org", "--emails"} <= set(given)


def test_credentials_come_from_a_file_that_nobody_else_may_read(run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "secret.env"
    path.write_text("# for the team\nexport AWS_ACCESS_KEY_ID='x'\n")
    path.chmod(0o644)
    arguments = ("collect", "--to", f"file://{tmp_path}/lake", "--config-dir", config, "--env-file", path)
    assert run(*arguments).code == 5
    path.chmod(0o600)
    assert run(*arguments).code == 0


def test_credentials_are_read_again_when_their_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret.env"

    def write(text: str, mode: int = 0o600) -> None:
        new = tmp_path / "new"
        new.write_text(text)
        new.chmod(mode)
        new.replace(path)

    for name in ("T_SET", "T_ONE", "T_TWO"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("T_SET", "before")
    write("T_SET=file\nT_ONE=1\n")
    credentials = CredentialsFile(path)
    credentials.load()
    assert (os.environ["T_SET"], os.environ["T_ONE"], credentials.refresh()) == ("before", "1", False)
    write("export T_ONE='2'\nT_TWO=3\n")
    assert credentials.has_changed()
    assert credentials.refresh()
    assert (os.environ["T_SET"], os.environ["T_ONE"], os.environ["T_TWO"]) == ("before", "2", "3")
    assert not credentials.refresh()
    for text, mode in (("T_TWO=4\n", 0o644), ("nonsense\n", 0o600)):
        write(text, mode)
        assert not credentials.refresh()
        assert (os.environ["T_ONE"], os.environ["T_TWO"]) == ("2", "3")
        assert "the credentials from before stay" in capsys.readouterr().err
        assert not credentials.refresh()  # said once
    write("T_TWO=5\n")
    assert credentials.refresh()
    assert ("T_ONE" in os.environ, os.environ["T_TWO"]) == (False, "5")
    write("")
    assert credentials.refresh()
    assert "T_TWO" not in os.environ


def test_offsets_are_kept_for_another_collector(run: Run, config: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"other": 1, "claude_code": {"files": {"/gone.jsonl": {"offset": 5, "mtime": 1}}}}')
    assert run("collect", "--to", f"file://{tmp_path}/lake", "--config-dir", config, "--state", path).code == 0
    told = json.loads(path.read_text())
    (file,) = config.glob("projects/*/*.jsonl")
    assert told["other"] == 1
    assert told["claude_code"]["files"]["/gone.jsonl"] == {"offset": 5, "mtime": 1}
    assert told["claude_code"]["files"][str(file)]["offset"] == file.stat().st_size


def test_redact_writes_files_without_their_secrets_and_says_where_they_are(run: Run, config: Path) -> None:
    (file,) = config.glob("projects/*/*.jsonl")
    done = run("redact", file)
    assert SECRET not in done.out
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == ["user", "assistant"]
    checked = run("redact", "--check", file)
    assert checked.out == f"{file}:1: github-token × 1 in message.content\n"
    assert SECRET not in checked.out + checked.err
    told = json.loads(run("redact", "--check", "--json", file).out)
    assert (told["kinds"], told["found"][0]["line"]) == ({"github-token": 1}, 1)
    assert run("redact", "/nowhere").code == 3
    plan = file.with_name("plan.md")
    plan.write_text("-----BEGIN PRIVATE KEY-----\n" + "MIIEabcdefgh\n" * 3 + "-----END PRIVATE KEY-----\n")
    assert "MIIE" not in run("redact", plan).out
    assert run("redact", "--check", plan).out == f"{plan}: private-key × 1\n"


def test_rules_of_ones_own_are_read_and_checked(run: Run, config: Path, tmp_path: Path) -> None:
    (file,) = config.glob("projects/*/*.jsonl")
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"kind": "done", "pattern": "Done\\\\.", "literal": "Done"}]}')
    assert run("redact", "--rules", rules, file).out.count("[redacted:done:") == 1
    for wrong in (
        '{"rules": [{"kind": "x", "pattern": "(?=a)"}]}',
        '{"rules": [{"kind": "x", "pattern": ".*"}]}',
        "{",
        '{"a":1}',
    ):
        rules.write_text(wrong)
        assert run("redact", "--rules", rules, file).code in (2, 4)
