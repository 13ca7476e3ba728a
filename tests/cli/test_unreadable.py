"""What cannot be read is said in one line on stderr and in the JSON, the same with a store and without."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Ran, Run
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
READING = [
    ("usage", "--json"), ("ls", "--all", "--json"), ("stats", "--json"), ("search", "tide", "--json"),
    ("sql", "--json", "SELECT count(*) AS n FROM sessions"), ("usage", "--explain", "--json"),
]  # fmt: skip


class Closed(NamedTuple):
    """A config folder of which something cannot be read, and what."""

    root: Path
    path: Path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a config folder with two sessions in two projects, one with an agent."""
    root = tmp_path / "config"
    session(user("one tide"), assistant("low"), id=S[1], cwd="/home/me/one").save(root)
    session(user("two tides"), assistant("high"), id=S[2], cwd="/home/me/two").save(root)
    folder = root / "projects" / "-home-me-two" / S[2] / "subagents"
    folder.mkdir(parents=True)
    agent = session(user("count the tide"), assistant("3"), id=S[2], cwd="/home/me/two").save(root.parent / "spare")
    text = agent.read_text().replace('"isSidechain":false', '"isSidechain":true,"agentId":"a1"')
    (folder / "agent-a1.jsonl").write_text(text.replace("msg_", "msg_a"))
    (root / "todos").mkdir()
    (root / "todos" / f"{S[1]}-agent-{S[1]}.json").write_text("[]")
    return root


PARTS = {
    "a session": f"projects/-home-me-two/{S[2]}.jsonl",
    "an agent": f"projects/-home-me-two/{S[2]}/subagents/agent-a1.jsonl",
    "a folder of agents": f"projects/-home-me-two/{S[2]}/subagents",
    "a project": "projects/-home-me-two",
    "a side file": f"todos/{S[1]}-agent-{S[1]}.json",
}


@pytest.fixture(params=PARTS, ids=[name.replace(" ", "-") for name in PARTS])
def closed(request: pytest.FixtureRequest, config: Path) -> Iterator[Closed]:
    """Take away the right to read a part of the config folder."""
    path = config / PARTS[request.param]
    mode = path.stat().st_mode
    path.chmod(0)
    yield Closed(config, path)
    path.chmod(mode)


def line(path: Path, reason: str = "permission denied") -> str:
    return f"unspool: skipped `{path}`: {reason}\n"


def answer(done: Ran) -> Any:
    assert done.code in (0, 1), done
    return json.loads(done.out)


@pytest.mark.parametrize("command", READING, ids=lambda command: " ".join(command[:2]))
def test_every_command_says_it_and_answers_the_same_with_and_without_a_store(
    run_bound: Run, closed: Closed, command: tuple[str, ...]
) -> None:
    with_store = run_bound(*command, "--config-dir", closed.root)
    without = run_bound(*command, "--no-store", "--config-dir", closed.root)
    again = run_bound(*command, "--config-dir", closed.root)
    assert with_store.err == without.err == again.err == line(closed.path)
    if command[0] != "search":  # whose scores come from the index
        assert answer(with_store) == answer(without) == answer(again)
    data = answer(with_store)
    assert data["skipped"] == [{"path": str(closed.path), "reason": "permission denied"}]


@pytest.mark.parametrize("part", PARTS)
def test_what_the_store_has_read_stays_in_the_answers_when_it_can_no_longer_be_read(
    run_bound: Run, config: Path, tmp_path: Path, part: str
) -> None:
    total = answer(run_bound("usage", "--json", "--config-dir", config))["totals"]["cost_micros"]
    (config / PARTS[part]).chmod(0)  # before the text index and the column files have read it
    for command in (
        ("search", "tide"),
        ("sync",),
        ("sql", "SELECT 1"),
        ("insights",),
        ("compare", S[1], S[1]),
        ("export", "--parquet", tmp_path / "tables"),
        ("collect", "--once", "--to", (tmp_path / "objects").as_uri()),
    ):
        done = run_bound(*command, "--config-dir", config)
        assert done.code == 0, (command, done)
        assert done.err.count("\n") <= 1 + (command[0] == "collect"), (command, done.err)
    rows = answer(run_bound("sql", "--json", "SELECT sum(cost_micros) AS n FROM responses", "--config-dir", config))
    assert rows["items"] == [{"n": total}]


def test_doctor_lists_it_and_accounts_for_every_byte_that_it_could_read(run_bound: Run, closed: Closed) -> None:
    for store in ((), ("--no-store",)):
        done = run_bound("doctor", "--json", *store, "--config-dir", closed.root)
        assert (done.code, done.err) == (0, "")
        report = json.loads(done.out)
        assert report["bytes"] == report["accounted_bytes"]
        assert report["skipped"] == [{"path": str(closed.path), "reason": "permission denied"}]
        told = [each for each in report["warnings"] if each["kind"] in ("skipped", "unreadable")]
        assert [(each["file"], each["message"]) for each in told] == [(str(closed.path), "permission denied")]
        text = run_bound("doctor", *store, "--config-dir", closed.root).out
        assert "every byte was read" in text
        assert "were not read" not in text
        assert closed.path.name in text


def test_a_session_whose_agent_cannot_be_read_is_shown_without_it(run_bound: Run, config: Path) -> None:
    path = config / PARTS["an agent"]
    path.chmod(0)
    for store in ((), ("--no-store",)):
        for command in (("show", S[2]), ("export", S[2], "--json"), ("export", S[2], "--md"), ("stats", S[2])):
            done = run_bound(*command, *store, "--config-dir", config)
            assert (done.code, done.err) == (0, line(path)), command
            assert done.out
    file = config / PARTS["a session"]
    done = run_bound("export", file, "--md")
    assert (done.code, done.err) == (0, line(path))


def test_the_cost_of_agents_stays_if_their_session_cannot_be_read(run_bound: Run, config: Path) -> None:
    (config / PARTS["a session"]).chmod(0)
    for store in ((), ("--no-store",)):
        total = answer(run_bound("usage", "--json", *store, "--config-dir", config))["totals"]
        rows = answer(run_bound("ls", "--all", "--json", *store, "--config-dir", config))["items"]
        assert total["responses"] == 2
        assert sum(row["cost_micros"] or 0 for row in rows) == total["cost_micros"]


def test_watch_sync_and_export_of_tables_say_it(run_bound: Run, config: Path, tmp_path: Path) -> None:
    path = config / PARTS["a project"]
    path.chmod(0)
    done = run_bound("watch", "--once", "--json", "--since", "99999d", "--config-dir", config)
    assert (done.code, done.err) == (0, line(path))
    assert [row["session_id"] for row in json.loads(done.out)["items"]] == [S[1]]
    done = run_bound("sync", "--json", "--config-dir", config)
    assert (done.code, done.err) == (0, line(path))
    assert json.loads(done.out)["failed"] == [{"path": str(path), "reason": "permission denied"}]
    done = run_bound("export", "--parquet", tmp_path / "tables", "--config-dir", config)
    assert (done.code, done.err) == (0, line(path))


@pytest.mark.parametrize("part", ["projects", "."])
def test_a_config_folder_that_cannot_be_listed_is_no_empty_one(run_bound: Run, config: Path, part: str) -> None:
    path = (config / part).resolve()
    path.chmod(0)
    try:
        for command in READING:
            for store in ((), ("--no-store",)):
                done = run_bound(*command, *store, "--config-dir", config)
                assert done.code in (0, 1), done
                assert line(path) in done.err, (command, store)
                assert "Traceback" not in done.err
        assert line(path) in run_bound("watch", "--once", "--config-dir", config).err
    finally:
        path.chmod(0o700)


def test_of_many_things_that_cannot_be_read_one_line_tells(run_bound: Run, tmp_path: Path) -> None:
    write_demo(tmp_path / "claude")
    closed = sorted((tmp_path / "claude" / "projects").glob("*/*.jsonl"))[:5]
    for path in closed:
        path.chmod(0)
    for store in ((), ("--no-store",)):
        done = run_bound("usage", "--json", *store, "--config-dir", tmp_path / "claude")
        assert done.err == (
            f"unspool: skipped 5 unreadable files or folders: `{closed[0]}` (permission denied) and "
            "4 more; list them with `unspool doctor`\n"
        )
        assert [one["path"] for one in json.loads(done.out)["skipped"]] == [str(path) for path in closed]


def test_pipes_sockets_and_links_to_nothing_never_block(run: Run, config: Path) -> None:
    folder = config / "projects" / "-home-me-one"
    os.mkfifo(folder / f"{S[3]}.jsonl")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is short
        try:
            listener.bind(f"{S[4]}.jsonl")
        finally:
            os.chdir(here)
        (folder / f"{S[5]}.jsonl").symlink_to(folder / "nothing")
        (folder / f"{S[6]}.jsonl").symlink_to(folder / f"{S[6]}.jsonl")
        (folder / f"{S[7]}.jsonl").mkdir()
        expected = [
            (str(folder / f"{S[3]}.jsonl"), "not a regular file"),
            (str(folder / f"{S[4]}.jsonl"), "not a regular file"),
            (str(folder / f"{S[5]}.jsonl"), "broken symbolic link"),
            (str(folder / f"{S[6]}.jsonl"), "broken symbolic link"),
        ]
        for store in ((), ("--no-store",)):
            data = answer(run("usage", "--json", *store, "--config-dir", config))
            assert [(one["path"], one["reason"]) for one in data["skipped"]] == expected
            assert data["totals"]["responses"] == 3
            for command in (*READING, ("doctor",), ("watch", "--once"), ("show", S[1])):
                stores = () if command[0] == "watch" else store
                assert run(*command, *stores, "--config-dir", config).code == 0, command
        for named in (S[3], S[4], S[5]):
            assert run("show", folder / f"{named}.jsonl").code in (3, 4)
