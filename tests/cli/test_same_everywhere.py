"""`watch`, `ls`, the board and the list of the page say the same of a session: title, status, activity, context."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.serving import serving
from unspool.demo.write import write_demo
from unspool.testing.build import Step, assistant, session, tool_result, tool_use, user

NAMES = ("status", "kind", "title")
SECTIONS = ("needs_you", "working", "finished", "waiting")
"""Of the inbox."""


def make_id(number: int) -> str:
    return f"{number:08}-0000-4000-8000-000000000000"


class Tree:
    """A config folder with a session in every state that lines and processes can tell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "projects").mkdir(parents=True)
        (root / "sessions").mkdir()
        self.ids: list[str] = []

    def add(self, *steps: Step, ago: timedelta = timedelta(seconds=20), version: str = "2.1.29", **how: Any) -> str:
        """Write a session whose last line is so long ago."""
        id = make_id(len(self.ids) + 1)
        self.ids.append(id)
        start = datetime.now(UTC) - ago - timedelta(milliseconds=len(steps))
        text = start.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        path = session(*steps, id=id, start=text, step=0.001, version=version, **how).save(self.root)
        moment = (datetime.now(UTC) - ago).timestamp()
        os.utime(path, (moment, moment))
        return id

    def append(self, id: str, *records: dict[str, Any]) -> None:
        """Append records as they are, without touching the time of the file."""
        (path,) = (self.root / "projects").glob(f"*/{id}.jsonl")
        status = path.stat()
        with path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def prepend(self, id: str, *records: dict[str, Any]) -> None:
        (path,) = (self.root / "projects").glob(f"*/{id}.jsonl")
        status = path.stat()
        path.write_text("".join(json.dumps(record) + "\n" for record in records) + path.read_text())
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def process(self, id: str, pid: int, **fields: Any) -> None:
        entry = {"pid": pid, "sessionId": id, "cwd": "/home/me", "startedAt": 1, **fields}
        (self.root / "sessions" / f"{pid}.json").write_text(json.dumps(entry))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Write the sessions."""
    tree = Tree(tmp_path / "claude")
    day, hour = timedelta(days=1), timedelta(hours=1)
    tree.add(user("waits"), assistant("done", stop_reason="end_turn"))
    tree.add(user("thinks"))
    tree.add(user("asks"), assistant(tool_use("Bash", id="toolu_1", command="rm x")))
    tree.add(user("reads"), assistant(tool_use("Read", id="toolu_2", file_path="/home/me/a")))
    tree.add(user("quiet for long"), assistant("done"), ago=2 * hour)
    tree.add(user("a call open for long"), assistant(tool_use("Bash", id="toolu_3", command="x")), ago=3 * day)
    tree.add(user("[Request interrupted by user]"), user("then more"), ago=timedelta(minutes=2))
    tree.add(user("a result"), assistant(tool_use("Bash", id="toolu_4", command="ls")), tool_result("a", id="toolu_4"))
    dead = tree.add(user("its process has gone"), assistant("done"), version="2.1.325")
    tree.process(dead, 2**22 - 3, status="busy", procStart="1")
    old = tree.add(user("gone for days"), assistant("done"), ago=5 * day, version="2.1.325")
    tree.process(old, 2**22 - 4, status="busy", procStart="1")
    named = tree.add(user("\n\n  a prompt\nof  many\tlines " + "and words " * 60), assistant("done"))
    tree.append(named, {"type": "ai-title", "aiTitle": "by a model", "sessionId": named})
    titled = tree.add(user("named by a person"), assistant("done"))
    tree.append(titled, {"type": "custom-title", "customTitle": "mine", "sessionId": titled})
    tree.add(user("\n\n  a prompt\nof  many\tlines " + "and  words " * 60), assistant("done"))
    summed = tree.add(user("summed up"), assistant("done"))
    (path,) = (tree.root / "projects").glob(f"*/{summed}.jsonl")
    leaf = json.loads(path.read_text().splitlines()[-1])["uuid"]
    tree.prepend(summed, {"type": "summary", "summary": "what it was about", "leafUuid": leaf})
    other = tree.add(user("summed up wrongly"), assistant("done"))
    tree.append(other, {"type": "summary", "summary": "of another session", "leafUuid": "nobody"})
    queued = tree.add(assistant("first"))
    ahead = {"type": "queue-operation", "operation": "enqueue", "content": "typed ahead", "sessionId": queued}
    tree.prepend(queued, {**ahead, "timestamp": "2026-01-05T09:00:00.000Z"})
    return tree


def listed(run: Run, root: Path, *options: str) -> dict[str, dict[str, Any]]:
    done = run("ls", "--all", "--status", "--json", *options, "--config-dir", root)
    assert (done.code, done.err) == (0, "")
    return {row["id"]: row for row in json.loads(done.out)["items"]}


def watched(run: Run, root: Path, since: str = "60d") -> dict[str, dict[str, Any]]:
    done = run("watch", "--once", "--json", "--since", since, "--config-dir", root)
    assert done.code == 0
    return {row["session_id"]: row for row in json.loads(done.out)["items"] if row["agent_id"] is None}


def test_all_say_the_same_of_a_session(run: Run, tree: Tree, tmp_path: Path) -> None:
    rows, plain, board = listed(run, tree.root), listed(run, tree.root, "--no-store"), watched(run, tree.root)
    assert set(rows) == set(plain) == set(board) == set(tree.ids)
    for id in tree.ids:
        expected = {name: rows[id][name] for name in NAMES}
        assert {name: plain[id][name] for name in NAMES} == expected
        assert {name: board[id][name] for name in NAMES} == expected
        assert board[id]["context_tokens"] == rows[id]["context_tokens"]
        assert (board[id]["project"], board[id]["branch"]) == (rows[id]["project"], rows[id]["branch"])
    assert {row["status"] for row in rows.values()} == {"working", "waiting_for_approval", "waiting_for_input", "idle"}
    assert {"waiting", "thinking", "permission", "idle", "ended"} <= {row["kind"] for row in rows.values()}
    with serving(tree.root, home=tmp_path / "own") as served:
        served.enter()
        on_page: dict[str, Any] = {}
        sessions: dict[str, Any] = {}
        titles: dict[str, str] = {}
        active = {id for id, row in rows.items() if row["status"] != "idle"}
        for _ in range(200):
            page = served.get("/board.json").json
            on_page = {row["sessionId"]: row for name in SECTIONS for row in page[name] if not row["agentId"]}
            sessions = served.get("/sessions.json?hidden=1&limit=200").json
            titles = {row["id"]: row["title"] for row in sessions["rows"]}
            # The store is filled in the background.
            if active <= set(on_page) and titles and titles == {id: rows[id]["title"] for id in titles}:
                break
        # Sessions that nobody waits for are not in the inbox; the list below has all of them.
        assert active <= set(on_page)
        assert {id: [row[name] for name in NAMES] for id, row in on_page.items()} == {
            id: [rows[id][name] for name in NAMES] for id in on_page
        }
        assert titles
        assert titles == {id: rows[id]["title"] for id in titles}
        assert {id: (live["status"], live["kind"]) for id, live in sessions["live"].items()} == {
            id: (rows[id]["status"], rows[id]["kind"]) for id in titles
        }


def test_all_say_the_same_of_the_demo(run: Run, tmp_path: Path) -> None:
    write_demo(tmp_path / "claude")
    rows, board = listed(run, tmp_path / "claude"), watched(run, tmp_path / "claude", "9999d")
    assert board
    for id, row in board.items():
        assert [row[name] for name in NAMES] == [rows[id][name] for name in NAMES]


def test_a_list_has_no_status_unless_it_is_asked_for(run: Run, tree: Tree) -> None:
    done = run("ls", "--json", "--config-dir", tree.root)
    assert "status" not in json.loads(done.out)["items"][0]
    assert "asking permission for Bash rm x" in run("ls", "--status", "--config-dir", tree.root, COLUMNS="200").out
