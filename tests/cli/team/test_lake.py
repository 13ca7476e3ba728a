"""`unspool lake`, as people run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import unspool
from tests.cli.conftest import Run
from tests.faults.world import World
from unspool.cli.team.lake import _NOT_FOR_SERVICE, ingest
from unspool.testing.build import assistant, session, user


@pytest.fixture
def sent(run: Run, tmp_path: Path) -> str:
    """What a collector has sent, and an empty lake beside it."""
    world = World(tmp_path / "config")
    for count in (4, 9):
        world.append(world.create(), count)
    url = (tmp_path / "segments").as_uri()
    done = run("collect", "--to", url, "--once", "--config-dir", world.root, "--org", "acme", "--user", "ada", "--json")
    assert done.code == 0, done.err
    assert run("lake", "init", tmp_path / "lake").code == 0
    return url


def test_from_a_collector_to_an_answer(run: Run, sent: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = run("lake", "ingest", "--from", sent, "--to", lake, "--json")
    told = json.loads(done.out)
    assert (done.code, told["streams"], told["bad"]) == (0, 2, [])
    lines = sum(path.read_bytes().count(b"\n") for path in (tmp_path / "config").rglob("*.jsonl"))
    query = "SELECT org, user, count(*) AS lines FROM entries GROUP BY ALL"
    rows = json.loads(run("lake", "sql", "--lake", lake, query, "--format", "json").out)
    assert rows == [{"org": "acme", "user": "ada", "lines": lines}]
    assert run("lake", "verify", "--lake", lake, "--from", sent).out.endswith(": whole\n")
    for command in (("compact", "--older-than", "0"), ("vacuum",), ("vacuum", "--hours", "0", "--yes")):
        assert run("lake", command[0], "--lake", lake, *command[1:], "--json").code == 0
    assert json.loads(run("lake", "sql", "--lake", lake, query, "--json").out)["items"] == rows
    assert run("lake", "verify", "--lake", lake, "--from", sent).code == 0


def test_status_says_what_each_device_has_sent_and_what_is_not_in_the_tables(
    run: Run, sent: str, tmp_path: Path
) -> None:
    arguments = ("lake", "status", "--lake", tmp_path / "lake", "--from", sent)
    (before,) = json.loads(run(*arguments, "--json").out)["items"]
    assert (before["sent_segments"], before["segments"], before["backlog_segments"]) == (1, 0, 1)
    assert before["backlog_lines"] == before["sent_lines"] > 0
    assert (before["org"], before["user"], before["collector"]) == ("acme", "ada", unspool.__version__)
    assert before["claude_code"] in ("2.0.76", "2.1.325")
    assert before["seen_at"] is not None
    assert run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake").code == 0
    (after,) = json.loads(run(*arguments, "--json").out)["items"]
    assert (after["segments"], after["backlog_segments"], after["backlog_lines"]) == (1, 0, 0)
    assert (after["lag_seconds"], after["failed"], after["redactions"]) == (0.0, 0, 0)
    assert run(*arguments).out.splitlines()[1].split()[-4:] == ["1", "1", "0", "0"]
    metrics = run(*arguments, "--prometheus").out.splitlines()
    labels = f'org="acme",user="ada",device="{after["device"]}"'
    assert f"unspool_lake_device_ingested_segments{{{labels}}} 1" in metrics
    assert "# TYPE unspool_lake_device_backlog_segments gauge" in metrics


def test_status_says_how_far_the_tables_are_behind_and_what_was_redacted(run: Run, sent: str, tmp_path: Path) -> None:
    assert run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake").code == 0
    session(user(f"use ghp_{'a1B2' * 9}"), assistant("Done.")).save(tmp_path / "config")
    assert run("collect", "--to", sent, "--config-dir", tmp_path / "config").code == 0
    # The device's clock, as its heartbeat has it: an hour later.
    (path,) = (tmp_path / "segments").glob("manifests/*/*.heartbeat")
    beat = json.loads(path.read_bytes())
    later = datetime.fromisoformat(beat["written"]) + timedelta(hours=1)
    path.write_text(json.dumps({**beat, "written": f"{later:%Y-%m-%dT%H:%M:%SZ}"}))
    arguments = ("lake", "status", "--lake", tmp_path / "lake", "--from", sent)
    (behind,) = json.loads(run(*arguments, "--json").out)["items"]
    assert (behind["backlog_segments"], behind["redactions"]) == (1, 0)
    assert 3600 <= behind["lag_seconds"] < 3700
    assert "  1 h  " in run(*arguments, COLUMNS="240").out
    assert run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake").code == 0
    (after,) = json.loads(run(*arguments, "--json").out)["items"]
    assert (after["lag_seconds"], after["redactions"]) == (0.0, 1)
    labels = f'org="acme",user="ada",device="{after["device"]}"'
    assert f"unspool_lake_device_redactions{{{labels}}} 1" in run(*arguments, "--prometheus").out.splitlines()


def test_a_machine_that_leaves_tells_the_store_and_forgets_its_key(run: Run, sent: str, tmp_path: Path) -> None:
    (own,) = tmp_path.rglob("enrolment.json")
    done = run("collect", "leave")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("left acme; what device ")
    assert not own.exists()
    assert list(own.parent.glob("collect.db*")) == []
    assert run("collect", "leave").code == 1
    (device,) = json.loads(run("lake", "status", "--lake", tmp_path / "lake", "--from", sent, "--json").out)["items"]
    assert (device["left"], device["sent_segments"]) == (True, 1)
    assert (
        "unspool_lake_devices 0"
        in run("lake", "status", "--lake", tmp_path / "lake", "--from", sent, "--prometheus").out
    )
    again = run("collect", "--to", sent, "--config-dir", tmp_path / "config", "--org", "acme", "--json")
    assert json.loads(again.out)["segments"] == 1  # another device: nothing of the old one is continued


def test_the_system_is_told_how_to_start_an_ingest_with_every_option(run: Run, tmp_path: Path) -> None:
    given = ["--from", "s3://b/in", "--to", "s3://b/lake", "--every", "30.0", "--workers", "2", "--shard", "1/4"]
    given += ["--memory", str(2 << 30), "--pseudonyms", f"{tmp_path}/a key", "--env-file", f"{tmp_path}/env"]
    printed = run("lake", "ingest", *given, "--install", "--print")
    (line,) = [line for line in printed.out.splitlines() if line.startswith("ExecStart=")]
    words = line.removeprefix("ExecStart=").strip('"').split('" "')
    assert words[1:6] == ["-m", "unspool", "lake", "ingest", "--follow"]
    assert words[6:] == given
    takes_part = {option.opts[0] for option in ingest.params if option.name not in _NOT_FOR_SERVICE}
    assert takes_part - {"--uninstall"} == set(given[::2])
    assert not (tmp_path / "home" / ".config").exists()


def test_the_ingest_is_installed_and_removed(run: Run, tmp_path: Path) -> None:
    unit = tmp_path / "home" / ".config" / "systemd" / "user" / "unspool-ingest.service"
    assert run("lake", "ingest", "--uninstall").code == 1
    done = run("lake", "ingest", "--from", "s3://b/in", "--to", "lake", "--install")
    assert done.out == f"wrote {unit}\nstart it: systemctl --user enable --now unspool-ingest.service\n"
    text = unit.read_text()
    assert "--memory" not in text  # the default stays the default
    assert re.search(r'"--to" "/.*/lake"', text)  # the system starts it in another folder
    assert run("lake", "ingest", "--uninstall").out.startswith(f"removed {unit}\n")
    assert not unit.exists()
    assert run("lake", "ingest", "--from", "s3://b/in", "--to", "lake", "--print").code == 2
    assert run("lake", "ingest", "--from", "s3://b/in", "--to", "lake", "--install", "--again").code == 2


def test_sums_are_those_of_usage(run: Run, sent: str, tmp_path: Path) -> None:
    assert run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake", "--workers", "2").code == 0
    query = "SELECT count(*) AS responses, sum(cost_micros)::BIGINT AS cost_micros FROM responses"
    (ours,) = json.loads(run("lake", "sql", "--lake", tmp_path / "lake", query, "--format", "json").out)
    theirs = json.loads(run("usage", "--json", "--config-dir", tmp_path / "config").out)["totals"]
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_follows_has_what_comes(run: Run, sent: str, tmp_path: Path, workers: str) -> None:
    arguments = (
        "lake",
        "ingest",
        "--follow",
        "--every",
        "0.2",
        "--from",
        sent,
        "--to",
        str(tmp_path / "lake"),
        "--json",
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "unspool", *arguments, "--workers", workers]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        there = 0
        while there < 2:
            there += json.loads(process.stdout.readline())["streams"]
        session = next((tmp_path / "config").rglob("*.jsonl"))
        with session.open("ab") as file:
            file.write(session.read_bytes().split(b"\n")[0] + b"\n")
        assert run("collect", "--to", sent, "--once", "--config-dir", tmp_path / "config").code == 0
        assert json.loads(process.stdout.readline())["lines"] == 1
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert run("lake", "verify", "--lake", tmp_path / "lake", "--from", sent).code == 0


def test_what_is_not_ingested_is_named(run: Run, sent: str, tmp_path: Path) -> None:
    done = run("lake", "verify", "--lake", tmp_path / "lake", "--from", sent)
    assert (done.code, done.out.count("not in the tables")) == (4, 1)
    told = json.loads(run("lake", "verify", "--lake", tmp_path / "lake", "--from", sent, "--json").out)
    assert (told["whole"], len(told["problems"])) == (False, 1)


def test_a_segment_that_has_gone_is_named(run: Run, sent: str, tmp_path: Path) -> None:
    run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake")
    gone = next((tmp_path / "segments" / "segments").rglob("*.zst"))
    gone.unlink()
    done = run("lake", "verify", "--lake", tmp_path / "lake", "--from", sent)
    assert done.code == 4
    assert "missing segments: acme/" in done.out
    assert "rows without a segment: " in done.out


def test_a_bad_segment_is_told_and_what_was_sent_before_is_there(run: Run, sent: str, tmp_path: Path) -> None:
    session = next((tmp_path / "config").rglob("*.jsonl"))
    with session.open("ab") as file:
        file.write(session.read_bytes().split(b"\n")[0] + b"\n")
    assert run("collect", "--to", sent, "--once", "--config-dir", tmp_path / "config").code == 0
    bad = max((tmp_path / "segments" / "segments").rglob("*.zst"), key=lambda path: path.name)
    bad.write_bytes(bad.read_bytes()[:50])
    done = run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake")
    assert done.code == 4
    assert done.err.startswith("unspool: skipped `segments/acme/")
    query = "SELECT count(DISTINCT stream) AS streams, (SELECT count(*) FROM quarantine) AS bad FROM entries"
    told = json.loads(run("lake", "sql", "--lake", tmp_path / "lake", query, "--format", "json").out)
    assert told == [{"streams": 2, "bad": 1}]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sql", "--lake", "nowhere", "SELECT 1"), 3, "no lake at `nowhere`"),
        (("ingest", "--from", "file:///nowhere/at/all", "--to", "lake"), 3, "folder not found: `/nowhere/at/all`"),
        (("ingest", "--from", "file:///tmp", "--to", "lake", "--memory", "lots"), 2, "invalid size `lots`"),
        (("ingest", "--from", "file:///tmp", "--to", "lake", "--memory", "64MiB"), 2, "too little memory"),
        (("spark-ingest", "--from", "file:///tmp", "--to", "lake"), 3, "PySpark is not installed"),
        (("init", "config"), 5, "`config` is not empty and not a lake"),
        (("init", "ftp://a/b"), 2, "not an object store URL"),
        (("sql", "--lake", "lake", "DROP TABLE entries"), 2, "not a read-only statement"),
        (("sql", "--lake", "lake", "SELECT * FROM read_text('/etc/passwd')"), 2, "file system operations"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    run: Run, sent: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run("lake", *arguments)
    assert done.code == code
    assert words.lower() in done.err.lower()
    assert not Path("nowhere").exists()


def test_the_name_of_a_bad_segment_does_not_reach_the_terminal_as_it_is(run: Run, sent: str, tmp_path: Path) -> None:
    segment = next((tmp_path / "segments" / "segments").rglob("*.zst"))
    segment.with_name("a\u202eb.zst").write_bytes(segment.read_bytes())
    done = run("lake", "ingest", "--from", sent, "--to", tmp_path / "lake")
    assert done.code == 4
    assert done.err.endswith("a<U+202E>b.zst`: its name is not a segment name\n")
