"""Which folders and which store a page answers from: several folders, a store that knows more, and no store at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.pseudo_terminal import until
from tests.serving import Served, serving
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
SAME = (
    "/sessions.json?hidden=1", "/sessions/values.json?facet=project", "/usage.json?range=all",
    "/usage.json?period=session&range=all", "/search.json?q=tide", "/search/errors.json?since=all",
    "/library.json", "/library/plans.json", "/library/settings.json", "/cost.json?since=1970-01-02",
    f"/sql.json?q={quote('SELECT session_id, title FROM sessions ORDER BY ALL')}",
    f"/session/{S[1]}.json", f"/session/{S[1]}/cost.json", f"/notes/{S[1]}.json", "/files.json?path=harbour",
)  # fmt: skip
"""Pages without the time of day in them."""


def read_pages(served: Served, wait: float = 60.0) -> dict[str, Any]:
    """Return the JSON of pages, once the server has read and indexed everything."""
    until(
        lambda: served.get("/inbox.json").json["failures"] and not served.get("/sessions.json").json["undigested"],
        lambda: "the store was not filled in time",
        patience=wait,
    )
    inbox = served.get("/inbox.json").json
    found = {path: served.get(path) for path in SAME}
    assert {path: answer.status for path, answer in found.items()} == dict.fromkeys(SAME, 200)
    # Of places that weigh the same, the first by their numbers in the store are named: each store has its own.
    assert served.get("/insights.json?since=1970-01-02").status == 200
    kinds = [{"kind": one["kind"], "count": one["count"], "places": one["places"]} for one in inbox["failures"]]
    data: dict[str, Any] = {path: answer.json for path, answer in found.items()} | {"failures": kinds}
    data[SAME[0]].pop("live")  # what each is doing, and for how many seconds
    return data


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up config folder, and a session in which a call has failed just now."""
    config = tmp_path_factory.mktemp("folders") / "claude"
    write_demo(config)
    failed = tool_result("Exit code 1\nno such harbour", id="call", error=True)
    call = assistant(tool_use("Bash", id="call", command="make harbour"))
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    session(user("Build the harbour"), call, failed, id=S[1], start=start).save(config)
    return config


@pytest.fixture(scope="module")
def with_store(config: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON of pages that are read from a store."""
    with serving(config, home=tmp_path_factory.mktemp("home") / "unspool") as served:
        served.enter()
        return read_pages(served)


@pytest.fixture(params=["a file in its place", "--no-store"])
def unstored(request: pytest.FixtureRequest, config: Path, tmp_path: Path) -> Iterator[Served]:
    """A server that cannot have a store in the data folder, or must not; it leaves nothing behind."""
    temporary, home = tmp_path / "tmp", tmp_path / "unspool"
    temporary.mkdir()
    if request.param == "--no-store":
        options = ["--no-store"]
    else:  # permissions do not stop a test that runs as root
        home.write_text("no folder")
        options = []
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with serving(config, *options, home=home, environment=environment) as served:
        served.enter()
        yield served
        (store,) = temporary.glob("unspool-*")
        assert store.stat().st_mode & 0o777 == 0o700
    assert [one for one in temporary.iterdir() if one.name.startswith("unspool-")] == []
    assert not home.is_dir() or not list(home.glob("*.db"))


def test_pages_answer_the_same_without_a_store_and_say_what_is_missing(
    unstored: Served, with_store: dict[str, Any]
) -> None:
    assert read_pages(unstored) == with_store
    assert "sessions that Claude Code has deleted are missing" in unstored.get("/sessions").text


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_no_temporary_store_outlives_its_server_however_that_is_ended(
    config: Path, tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "UNSPOOL_HOME": str(tmp_path / "unspool")}
    command = [sys.executable, "-m", "unspool", "serve", "--no-browser", "--no-store", "--port", "0"]
    # Tests that `nohup` runs ignore SIGHUP, and so would the server.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            [*command, "--config-dir", str(config)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    finally:
        signal.signal(number, before)
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # the link: the store is there, and the server about to run
            assert list(temporary.glob("unspool-*"))
            process.send_signal(number)
            assert process.wait(60) in (-number, 128 + number)
        finally:
            process.kill()
    assert not list(temporary.glob("unspool-*"))


def test_a_star_is_kept_without_a_store(config: Path, tmp_path: Path) -> None:
    for options in (["--no-store"], []):
        with serving(config, *options, home=tmp_path / "unspool") as served:
            served.enter()
            read_pages(served)
            if options:
                form = {**served.own_headers, "Content-Type": "application/x-www-form-urlencoded"}
                assert served.ask("POST", "/notes/star", {**form, "Origin": served.address}, b"star=" + S[1].encode())
            assert served.get(f"/notes/{S[1]}.json").json["starred"] is True


def build_pair(place: Path) -> tuple[Path, Path]:
    """Write two config folders that have a session with the same id, and nothing else in common."""
    own, other = place / "own", place / "other"
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    failed = tool_result("Exit code 1\nno such harbour", id="call", error=True)
    call = tool_use("Bash", id="call", command="make harbour")
    session(user("Mine"), assistant(call), failed, id=S[1], start=start, cwd="/p/mine").save(own)
    more = assistant("Secret.", usage={"output_tokens": 900_000})
    session(user("The secret of others"), more, id=S[1], start=start, cwd="/p/others").save(other)
    for config in (own, other):
        todos = config / "todos"
        todos.mkdir()
        todo = [{"content": "Dig", "status": "pending", "activeForm": "Digging"}]
        (todos / f"{S[1]}-agent-{S[1]}.json").write_text(json.dumps(todo))
    return own, other


def test_a_session_of_another_folder_with_the_same_id_is_on_no_page(tmp_path: Path) -> None:
    own, other = build_pair(tmp_path)
    home = tmp_path / "unspool"
    with serving(own, "--config-dir", str(other), home=home) as served:  # the store knows both
        served.enter()
        until(lambda: served.get("/sessions.json").json["sessions"] >= 1, patience=60)
        until(lambda: bool(served.get("/inbox.json").json["failures"]), patience=60)
    with serving(own, home=home) as served:
        served.enter()
        until(lambda: bool(served.get("/inbox.json").json["failures"]), patience=60)
        total = served.get("/usage.json?range=all").json["totals"]["cost_micros"]
        inbox = served.get("/inbox.json").json
        rows = [row for name in ("needs_you", "working", "finished", "waiting") for row in inbox[name]]
        assert {row["costToday"] for row in rows} == {total}
        assert served.get(f"/session/{S[1]}/cost.json").json["cost_micros"] == total
        paths = [
            "/", "/inbox.json", "/sessions", "/search?q=harbour", "/search/errors?since=all", "/library/todos",
            "/cost", "/insights", f"/session/{S[1]}/cost", f"/sql?q={quote('SELECT session_id FROM sessions')}",
            f"/session/{S[1]}", f"/session/{S[1]}/same?step=",
        ]  # fmt: skip
        for path in paths:
            text = served.get(path).text
            assert "secret of others" not in text.lower(), path
            assert "/p/others" not in text, path


def test_sql_names_no_file_that_holds_the_rows_of_another_folder(tmp_path: Path) -> None:
    own, other = build_pair(tmp_path)
    home = tmp_path / "unspool"
    with serving(other, home=home) as served:
        served.enter()
        until(lambda: not served.get(f"/sql.json?q={quote('FROM messages')}").json.get("error"), patience=60)
    with serving(own, home=home) as served:
        served.enter()
        assert served.get(f"/sql.json?q={quote('SELECT text FROM messages')}").status == 200
        path = next(str(path) for path in home.rglob("messages*.parquet"))
        for query in (f"FROM '{path}'", f"FROM read_parquet('{path}')", f"SUMMARIZE FROM '{path}'"):
            answer = served.get(f"/sql.json?q={quote(query)}")
            assert (answer.status, answer.json["rows"]) == (400, []), query
            assert "secret of others" not in answer.text.lower()
        assert served.get(f"/sql/rows.csv?q={quote(query)}").status == 400
