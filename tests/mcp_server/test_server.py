"""The server itself: many calls at once, stores that are absent or busy, empty folders, projects, and HTTP."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import pytest
from mcp.client.session import ClientSession

from tests.mcp_server.asking import Told, ask, call, run_client
from unspool.mcp_server.tools import TOOLS
from unspool.testing.build import assistant, session, user

SEARCH: dict[str, Any] = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "search_sessions", "arguments": {"query": "boats"}},
}  # fmt: skip
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A config folder with two projects."""
    session(user("Paint the harbour wall."), assistant("It is blue."), id=ONE, cwd="/home/me/harbour").save(
        tmp_path / "claude"
    )
    session(user("Count the boats."), assistant("Seven boats."), id=TWO, cwd="/home/me/boats").save(tmp_path / "claude")
    return tmp_path


def test_every_tool_is_read_only_and_has_a_schema_that_names_its_budget(demo: Path, own: Path) -> None:
    async def use(client: ClientSession) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == list(TOOLS)
        for tool in tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert tool.input_schema["type"] == "object"
            assert "token_budget" in tool.input_schema["properties"]
            assert tool.input_schema["additionalProperties"] is False

    run_client(demo, own, use)


def test_calls_at_once_are_all_answered_as_if_they_came_alone(demo: Path, own: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_sessions", {"query": "tide"}),
        ("read_session", {"session": "tide-cache"}),
        ("read_session", {"session": "tide-cache", "turn": 1}),
        ("find_file_history", {"path": "table.py"}),
        ("recall_decisions", {"topic": "offline mode"}),
        ("usage", {"period": "model"}),
        ("sql", {"query": "SELECT count(*) FROM sessions"}),
    ] * 3

    async def use(client: ClientSession) -> list[tuple[Told, Told]]:
        alone = [await call(client, tool, **arguments) for tool, arguments in calls[:7]]
        found: dict[int, Told] = {}

        async def run(number: int) -> None:
            tool, arguments = calls[number]
            found[number] = await call(client, tool, **arguments)

        async with anyio.create_task_group() as tasks:
            for number in range(len(calls)):
                tasks.start_soon(run, number)
        return [(alone[number % 7], told) for number, told in found.items()]

    pairs = run_client(demo, own, use)
    assert len(pairs) == len(calls)
    for alone, told in pairs:
        assert not told.failed
        assert told.inside == alone.inside


def test_an_empty_folder_is_answered_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_sessions", {}),
        ("search_sessions", {"query": "x"}),
        ("recall_decisions", {"topic": "x"}),
        ("find_file_history", {"path": "x"}),
        ("list_running", {}),
        ("read_session", {"session": "none"}),
    ]
    answers = ask(tmp_path / "claude", tmp_path / "own", *calls)
    assert [told.failed for told in answers] == [False, False, False, False, False, True]
    assert "No sessions." in answers[0].text


def test_what_was_written_since_the_last_call_is_found(world: Path) -> None:
    async def use(client: ClientSession) -> tuple[Told, Told]:
        before = await call(client, "search_sessions", query="lighthouse")
        later = "33333333-3333-4333-8333-333333333333"
        session(user("Build a lighthouse."), assistant("Built."), id=later, cwd="/home/me/harbour").save(
            world / "claude"
        )
        after, deadline = before, time.monotonic() + 60
        # The store is brought up to date beside the calls, at most every two seconds.
        while "Build a lighthouse" not in after.text and time.monotonic() < deadline:
            after = await call(client, "search_sessions", query="lighthouse")
        return before, after

    before, after = run_client(world / "claude", world / "own", use)
    assert "Nothing found" in before.text
    assert "Build a lighthouse" in after.inside


def test_sql_knows_a_session_that_was_written_between_two_queries(world: Path) -> None:
    count = "SELECT count(*) AS sessions, max(title) AS title FROM sessions"

    async def use(client: ClientSession) -> list[str]:
        # The engine and its tables are kept from one to the next.
        before, after = await call(client, "sql", query=count), await call(client, "sql", query=count)
        assert before.inside == after.inside
        assert "2 | " in before.inside
        session(user("Build a lighthouse."), assistant("Built."), id=ONE.replace("1", "3")).save(world / "claude")
        deadline = time.monotonic() + 60
        while "3 | " not in after.inside and time.monotonic() < deadline:
            after = await call(client, "sql", query=count)
        return after.inside.splitlines()

    assert any(line.startswith("3 | ") for line in run_client(world / "claude", world / "own", use))


def test_without_a_store_the_files_answer(world: Path) -> None:
    (world / "own").write_text("a file where the data folder should be")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_sessions", {}),
        ("search_sessions", {"query": "boats"}),
        ("read_session", {"session": ONE}),
        ("recall_decisions", {"topic": "harbour wall"}),
        ("usage", {}),
        ("find_file_history", {"path": "x.py"}),
        ("sql", {"query": "SELECT 1"}),
    ]
    answers = ask(world / "claude", world / "own", *calls)
    assert "Paint the harbour wall." in answers[0].inside
    assert "Seven boats." in answers[1].inside
    assert "Paint the harbour wall." in answers[2].inside
    assert "blue" in answers[3].inside
    assert [told.failed for told in answers] == [False, False, False, False, False, True, True]


def test_a_store_that_another_process_writes_is_read_meanwhile(world: Path) -> None:
    ask(world / "claude", world / "own", ("search_sessions", {"query": "boats"}))
    database = sqlite3.connect(next((world / "own").glob("*.db")), isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        (told,) = ask(world / "claude", world / "own", ("search_sessions", {"query": "boats"}))
    finally:
        database.close()
    assert "Seven boats." in told.inside


def test_with_a_project_nothing_of_others_is_told(world: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_sessions", {}),
        ("search_sessions", {"query": "boats"}),
        ("read_session", {"session": TWO}),
        ("recall_decisions", {"topic": "boats"}),
        ("sql", {"query": "SELECT title FROM sessions"}),
        ("usage", {"period": "session"}),
        ("list_running", {"all": True}),
    ]
    for name in ("harbour", "/home/me/harbour"):
        answers = ask(world / "claude", world / "own", *calls, options=("--project", name))
        assert all("boats." not in told.text for told in answers)
        assert all(TWO[:8] not in told.text for number, told in enumerate(answers) if number != 2)
        assert "Paint the harbour wall." in answers[0].inside
        assert "Paint the harbour wall." in answers[4].inside
        assert answers[2].failed


class Http(NamedTuple):
    """A server over HTTP."""

    host: str
    port: int
    token: str

    def post(self, body: dict[str, Any], **headers: str) -> tuple[int, str]:
        with closing(HTTPConnection(self.host, self.port, timeout=60)) as connection:
            return self._send(connection, body, headers)

    def _send(self, connection: HTTPConnection, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
        sent = {
            "Host": f"{self.host}:{self.port}", "Content-Type": "application/json",
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18", **headers,
        }  # fmt: skip
        connection.request("POST", "/mcp", json.dumps(body), {name: value for name, value in sent.items() if value})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def serve_http(config: Path, own: Path, token_file: Path) -> Iterator[Http]:
    command = [
        sys.executable,
        "-m",
        "unspool",
        "mcp",
        "--http",
        "--token-file",
        str(token_file),
        "--config-dir",
        str(config),
    ]
    environment = {"UNSPOOL_HOME": str(own), "PATH": os.environ["PATH"], "HOME": str(own.parent)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        watch = threading.Timer(120, process.kill)
        watch.start()
        try:
            assert process.stdout
            parts = urlsplit(process.stdout.readline().strip())
            assert parts.hostname
            assert parts.port
            yield Http(parts.hostname, parts.port, token_file.read_text().strip())
        finally:
            watch.cancel()
            process.terminate()


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    root = tmp_path_factory.mktemp("http")
    session(user("Count the boats."), assistant("Seven boats."), id=TWO).save(root / "claude")
    with serve_http(root / "claude", root / "own", root / "token") as served:
        assert "Seven boats." in served.post(SEARCH)[1]
        yield served


def test_over_http_only_programs_with_the_token_are_answered(world: Path) -> None:
    body = SEARCH
    with serve_http(world / "claude", world / "own", world / "token") as http:
        assert http.host.startswith("127.")
        assert http.host != "127.0.0.1"
        status, text = http.post(body)
        assert (status, "Seven boats." in json.loads(text)["result"]["content"][0]["text"]) == (200, True)
        assert http.post(body, Authorization="")[0] == 401
        assert http.post(body, Authorization="Bearer wrong")[0] == 401
        assert http.post(body, Authorization="", Cookie=f"unspool_{http.port}={http.token}")[0] == 401
        assert http.post(body, Host="evil.example")[0] == 403
        assert http.post(body, Origin="http://evil.example")[0] == 403
        assert http.post(body, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert (world / "token").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:{port}"},
        {"Host": "127.0.0.1:{port}"},
        {"Host": "{host}.evil.example:{port}"},
        {"Host": "{host}:{port}@evil.example"},
        {"Host": "{host}:1"},
        {"Origin": "null"},
        {"Origin": "http://{host}.evil.example:{port}"},
        {"Authorization": "", "Content-Type": "text/plain", "Origin": "http://evil.example"},
        {"Authorization": "Basic {token}"},
        {"Authorization": "Bearer {token} x"},
        {"Authorization": "Bearer  "},
    ],
)
def test_another_site_that_reaches_the_address_is_told_nothing(http: Http, headers: dict[str, str]) -> None:
    values = {name: value.format(**http._asdict()) for name, value in headers.items()}
    status, text = http.post(SEARCH, **values)
    assert status in (400, 401, 403)
    assert "boats" not in text


def test_other_methods_paths_and_bodies_are_refused_and_the_server_goes_on(http: Http) -> None:
    sent = {"Host": f"{http.host}:{http.port}", "Authorization": f"Bearer {http.token}"}
    for method, path in (
        ("GET", "/"),
        ("GET", "/mcp/../etc/passwd"),
        ("PUT", "/mcp"),
        ("DELETE", "/x"),
        ("POST", "//mcp"),
    ):
        with closing(HTTPConnection(http.host, http.port, timeout=60)) as connection:
            connection.request(method, path, headers=sent)
            assert connection.getresponse().status >= 400, (method, path)
    accepted = {**sent, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for body in (b"", b"{", b"[]", b"null", b"[" * 100_000, b"{" + b" " * 400_000, b"\xff\xfe", b'{"jsonrpc": 2.0}'):
        with closing(HTTPConnection(http.host, http.port, timeout=60)) as connection:
            connection.request("POST", "/mcp", body, accepted)
            answer = connection.getresponse()
            assert answer.status >= 400, body[:20]
            assert b"Traceback" not in answer.read()
    assert "Seven boats." in http.post(SEARCH)[1]


def test_many_requests_at_once_are_answered(http: Http) -> None:
    with ThreadPoolExecutor(24) as threads:
        found = [*threads.map(lambda _: http.post(SEARCH), range(72))]
    assert all("Seven boats." in text for status, text in found if status == 200)
    assert {status for status, _ in found} <= {200, 429, 503}
    assert "Seven boats." in http.post(SEARCH)[1]
