"""`unspool export --otlp` and `unspool serve --otlp` from outside: what they send, say, and never say."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, make_runner
from tests.serving import serving
from tests.telemetry.receiver import Prepared, Received, receiving
from tests.telemetry.sending import COMPARED
from unspool.demo import write_demo
from unspool.testing.build import assistant, session, user

KEY = "k3y-of-the-whole-team"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("otlp") / "claude"
    write_demo(folder)
    return folder


@pytest.fixture
def received() -> Iterator[Received]:
    with receiving() as found:
        yield found


def test_the_sums_are_those_of_usage_and_later_runs_send_nothing(demo: Path, run: Run, received: Received) -> None:
    sent = run("export", "--otlp", received.address, "--config-dir", demo)
    assert (sent.code, sent.err) == (0, "")
    count = len(received.of(None))
    assert sent.out == f"sent {count} sessions: {len(received.spans)} spans, {len(received.points)} data points\n"
    totals = json.loads(run("usage", "--json", "--config-dir", demo).out)["totals"]
    assert {name: received.figures()[name] for name in COMPARED} == {name: totals[name] for name in COMPARED}
    assert {name: received.metric_figures()[name] for name in COMPARED} == {name: totals[name] for name in COMPARED}
    posted = len(received.posted)
    again = run("export", "--otlp", received.address, "--config-dir", demo)
    assert again.out == f"nothing new: the receiver has {count} sessions\n"
    assert len(received.posted) == posted


def test_the_document_says_what_was_sent(demo: Path, run: Run, received: Received) -> None:
    said = json.loads(run("export", "--otlp", "--json", "--config-dir", demo, **address(received)).out)
    assert said["schema"] == "unspool/export-otlp/1"
    assert said["traces_url"] == f"{received.address}/v1/traces"
    assert (said["sessions"], said["spans"], said["points"]) == (
        len(received.of(None)),
        len(received.spans),
        len(received.points),
    )


def test_filters_choose_whole_sessions(demo: Path, run: Run, received: Received) -> None:
    rows = json.loads(run("ls", "--json", "--all", "--config-dir", demo).out)["items"]
    named = next(row for row in rows if row["project"] == "tidewatch")
    run("export", named["session_id"], "--otlp", received.address, "--config-dir", demo)
    assert ids(received) == {named["session_id"]}
    run("export", "--otlp", received.address, "--project", "tidewatch", "--config-dir", demo)
    assert ids(received) == {row["session_id"] for row in rows if row["project"] == "tidewatch"}
    assert run("export", "--otlp", received.address, "--since", "2099-01-01", "--config-dir", demo).code == 1


def test_bodies_are_compressed_unless_the_environment_says_otherwise(demo: Path, run: Run, received: Received) -> None:
    run("export", "--otlp", received.address, "--config-dir", demo)
    assert {posted.headers["content-encoding"] for posted in received.posted} == {"gzip"}
    assert {posted.headers["content-type"] for posted in received.posted} == {"application/x-protobuf"}
    small, received.posted = sum(posted.size for posted in received.posted), []
    run("export", "--otlp", received.address, "--again", "--config-dir", demo, OTEL_EXPORTER_OTLP_COMPRESSION="none")
    assert not any("content-encoding" in posted.headers for posted in received.posted)
    assert sum(posted.size for posted in received.posted) > 3 * small


@pytest.mark.slow
def test_a_receiver_that_is_not_there_is_named_in_one_line(demo: Path, run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and nobody answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        failed = run("export", "--otlp", url, "--config-dir", demo)
    assert failed.code == 6
    assert failed.out == ""
    assert f"unspool: cannot send to `{url}/v1/traces`: " in failed.err
    assert "refused" in failed.err
    assert len(failed.err.splitlines()) == 2


def test_keys_are_sent_and_shown_nowhere(demo: Path, run: Run, received: Received, tmp_path: Path) -> None:
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {KEY},x-key={KEY}"}
    received.prepared = [Prepared(401, {"x-echo": KEY}, f"no such key: {KEY}".encode())]
    refused = run("export", "--otlp", received.address, "--config-dir", demo, **headers)
    assert refused.code == 6
    assert "answered 401: no such key: (hidden)" in refused.err
    assert received.posted[0].headers["authorization"] == f"Bearer {KEY}"
    sent = run("export", "--otlp", received.address, "--config-dir", demo, **headers)
    assert sent.code == 0
    assert KEY not in refused.err + refused.out + sent.err + sent.out
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert kept == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--content", "--md", "x"], "--since, --content and --again need --otlp"),
        (["--otlp", "http://h", "--md", "x"], "--otlp writes no file"),
        (["--otlp", "http://h", "-o", "file"], "--otlp writes no file"),
        (["--otlp", "not-an-address"], "--otlp is not a URL"),
        (["--otlp"], "no address to send telemetry to"),
        (["x", "--otlp", "http://h", "--since", "7d"], "SESSION cannot be used with --project or --since"),
    ],
)
def test_options_that_do_not_fit_are_refused(demo: Path, run: Run, words: list[str], message: str) -> None:
    failed = run("export", *words, "--config-dir", demo)
    assert failed.code == 2
    assert message in failed.err


@pytest.mark.slow
def test_a_run_that_is_killed_is_continued_by_the_next(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    for number in range(4):
        save(config, 300, number)
    with receiving() as received, receiving() as whole:
        runs = {name: make_runner(tmp_path / name) for name in map(make_folder(tmp_path), ("killed", "whole"))}
        runs["whole"]("export", "--otlp", whole.address, "--config-dir", config)
        command = [sys.executable, "-m", "unspool", "export", "--otlp", received.address, "--config-dir", str(config)]
        home = {"HOME": str(tmp_path / "killed" / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        with subprocess.Popen(command, env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            assert received.changed.wait(PATIENCE)
            process.kill()
        assert len(received.spans) < len(whole.spans)
        assert runs["killed"]("export", "--otlp", received.address, "--config-dir", config).code == 0
        assert (received.spans, received.points) == (whole.spans, whole.points)


@pytest.mark.slow
def test_the_server_sends_what_is_new_while_it_serves(tmp_path: Path, received: Received) -> None:
    config = tmp_path / "claude"
    path = save(config, 1)
    around = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with serving(config, "--otlp", received.address, home=tmp_path / "own", environment=around) as served:
        wait_for(received, lambda: len(received.of("chat")) == 1)
        served.enter()
        assert served.get("/sessions").status == 200
        path.write_bytes(path.read_bytes() + more(path))
        wait_for(received, lambda: len(received.of("chat")) == 2)
    assert received.total("unspool.responses") == 2


def test_a_server_whose_receiver_refuses_everything_serves_on(tmp_path: Path) -> None:
    save(tmp_path / "claude", 1)
    with receiving() as received:
        received.prepared = [Prepared(400)] * 50
        around = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        config, own = tmp_path / "claude", tmp_path / "own"
        with serving(config, "--otlp", received.address, home=own, environment=around) as served:
            wait_for(received, lambda: bool(received.posted))
            served.enter()
            assert served.get("/sessions").status == 200


def address(received: Received) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": received.address}


def ids(received: Received) -> set[Any]:
    return {span["attributes"]["gen_ai.conversation.id"] for span in received.spans.values()}


def make_folder(place: Path) -> Callable[[str], str]:
    def make(name: str) -> str:
        (place / name).mkdir()
        return name

    return make


def wait_for(received: Received, is_there: Callable[[], bool]) -> None:
    """Wait until a receiver has something; each request wakes."""
    while not is_there():
        received.changed.clear()
        if not is_there():
            assert received.changed.wait(PATIENCE)


def save(config: Path, turns: int, number: int = 1) -> Path:
    folder = config / "projects" / "-home-me-project"
    folder.mkdir(parents=True, exist_ok=True)
    id = f"{number:08}-0000-4000-8000-000000000001"
    steps = [step for _ in range(turns) for step in (user("go on"), assistant("yes"))]
    path = folder / f"{id}.jsonl"
    path.write_bytes(session(*steps, id=id).data)
    return path


def more(path: Path) -> bytes:
    """Return the lines of another turn."""
    longer = session(user("go on"), assistant("yes"), user("go on"), assistant("yes"), id=path.stem).data
    return longer[path.stat().st_size :]
