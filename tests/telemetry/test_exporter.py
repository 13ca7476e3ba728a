"""What a receiver has is what `unspool usage` and `unspool stats` say, however often it was sent."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path

import pytest

from tests import planted
from tests.money_trees import TREES
from tests.real_files import corpus
from tests.telemetry.receiver import Prepared, Received, receiving, rejection
from tests.telemetry.sending import assert_equal_to_usage, open_files, send
from unspool.demo import write_demo
from unspool.errors import Refused, TelemetryFailed, Unreadable
from unspool.export import counts
from unspool.files import hold_lock
from unspool.testing.build import assistant, session, tool_result, tool_use, user

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("telemetry") / "claude"
    write_demo(folder)
    return folder


def test_sums_of_the_demo_are_what_usage_says(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        report = send(demo, tmp_path / "own", received)
        assert_equal_to_usage(demo, tmp_path / "own", received)
        assert report.spans == len(received.spans)
        assert report.points == len(received.points)
        assert report.rejected == 0


@pytest.mark.parametrize("tree", TREES)
def test_each_response_counts_once_whichever_session_pays(tree: str, tmp_path: Path) -> None:
    config = tmp_path / "claude"
    config.mkdir()
    TREES[tree](config)
    with receiving() as received:
        send(config, tmp_path / "own", received)
        assert_equal_to_usage(config, tmp_path / "own", received)
        assert_tree(received)


def test_spans_of_the_demo_are_what_stats_counts(demo: Path, tmp_path: Path) -> None:
    access = open_files(demo, tmp_path / "own")
    counted = {one.id: counts.count_session(one) for one in access.home.sessions()}
    with receiving() as received:
        send(demo, tmp_path / "own", received)
    for root in received.of(None):
        said, found = counted[root["attributes"]["gen_ai.conversation.id"]], root["attributes"]
        for name in ("human_turns", "command_turns", "tool_calls", "agents"):
            assert found[f"unspool.session.{name}"] == said[name]
    for id, said in counted.items():
        assert (
            received.total("unspool.turns", gen_ai__conversation__id=id) == said["human_turns"] + said["command_turns"]
        )
    calls = Counter(span["attributes"]["gen_ai.conversation.id"] for span in received.of("execute_tool"))
    assert all(calls[id] >= said["tool_calls"] for id, said in counted.items())
    assert received.total("unspool.tool_calls") == len(received.of("execute_tool"))


def test_the_spans_of_the_demo_are_trees_in_the_order_of_the_conventions(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        send(demo, tmp_path / "own", received)
    assert_tree(received)
    operations = {
        key: span["attributes"].get("gen_ai.operation.name", "session") for key, span in received.spans.items()
    }
    links = {
        (operations[key], operations[span["trace"], span["parent"]])
        for key, span in received.spans.items()
        if span["parent"]
    }
    assert {("invoke_agent", "session"), ("chat", "invoke_agent"), ("execute_tool", "chat")} <= links
    assert ("invoke_agent", "execute_tool") in links


def test_what_is_sent_twice_is_the_same(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        send(demo, tmp_path / "own", received)
        spans, points, posted = dict(received.spans), dict(received.points), len(received.posted)
        again = send(demo, tmp_path / "own", received, again=True)
        assert again.spans == len(spans)
        assert len(received.posted) == 2 * posted
        assert (received.spans, received.points) == (spans, points)
        elsewhere = send(demo, tmp_path / "other", received)  # another machine, or a lost position file
        assert elsewhere.spans == len(spans)
        assert (received.spans, received.points) == (spans, points)


def test_what_the_receiver_has_is_not_sent_again(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        first = send(demo, tmp_path / "own", received)
        posted = len(received.posted)
        report = send(demo, tmp_path / "own", received)
        assert (report.sessions, report.unchanged, report.spans) == (0, first.sessions, 0)
        assert len(received.posted) == posted


def test_of_a_session_that_grew_only_what_is_new_is_sent(tmp_path: Path) -> None:
    config, steps = tmp_path / "claude", [user("one"), assistant("two", model="claude-haiku-4-5")]
    save(config, *steps)
    with receiving() as received:
        send(config, tmp_path / "own", received)
        save(config, *steps, user("three"), assistant(tool_use("Bash", command="ls")), tool_result("a"))
        report = send(config, tmp_path / "own", received)
        assert_equal_to_usage(config, tmp_path / "own", received)
    assert report.sessions == 1
    assert len(received.spans) == 6  # a root, two turns, two requests, a call
    assert report.spans == 4  # the root ends later; the first turn and its request are as they were


def test_a_run_that_fails_in_the_middle_is_continued(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    for number in range(4):
        save(config, *(step for _ in range(200) for step in (user("go on"), assistant("yes"))), number=number)
    with receiving() as received, receiving() as whole:
        send(config, tmp_path / "whole", whole)
        for failing in (1, 0, 1):
            received.prepared = [Prepared(200, keeps=True)] * failing + [Prepared(400)]
            with pytest.raises(TelemetryFailed, match=r"answered 400"):
                send(config, tmp_path / "own", received)
        assert 0 < len(received.spans) < len(whole.spans)
        report = send(config, tmp_path / "own", received)
        assert report.spans < len(whole.spans)
        assert (received.spans, received.points) == (whole.spans, whole.points)
        assert_equal_to_usage(config, tmp_path / "own", received)


def test_a_request_whose_answer_was_lost_counts_once(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        received.prepared = [Prepared(503, keeps=True), Prepared(502, keeps=True)]
        send(demo, tmp_path / "own", received)
        assert_equal_to_usage(demo, tmp_path / "own", received)


def test_a_receiver_that_is_busy_is_given_the_time_it_asks_for(tmp_path: Path) -> None:
    config, waits = tmp_path / "claude", list[float]()
    save(config, user("one"), assistant("two"))
    with receiving() as received:
        received.prepared = [Prepared(429, {"Retry-After": "7"}), Prepared(503, {"Retry-After": "2"})]
        send(config, tmp_path / "own", received, waits=waits)
        assert waits == [7.0, 2.0]
        received.prepared = [Prepared(429, {"Retry-After": "3600"})]
        with pytest.raises(TelemetryFailed, match=r"/v1/traces` answered 429$"):
            send(config, tmp_path / "own", received, again=True)


def test_a_receiver_that_is_not_there_is_tried_a_few_times_and_named(tmp_path: Path) -> None:
    save(tmp_path / "claude", user("one"), assistant("two"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and nobody answers
        gone, waits = Received(f"http://127.0.0.1:{taken.getsockname()[1]}"), list[float]()
        with pytest.raises(TelemetryFailed, match=rf"^cannot send to `{gone.address}/v1/traces`: .*refused") as error:
            send(tmp_path / "claude", tmp_path / "own", gone, waits=waits)
    assert waits == [0.5, 1.0, 2.0]
    assert error.value.hint == "run the command again: what was sent is not sent twice"


def test_an_answer_of_any_bytes_and_length_is_an_error_of_one_line(tmp_path: Path) -> None:
    save(tmp_path / "claude", user("one"), assistant("two"))
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}"}
    with receiving() as received:
        for body in (b"\x1b[2J\n", b"x" * 1_000_000, SECRET.encode(), b"\xff\xfe"):
            received.prepared = [Prepared(400, body=body)]
            with pytest.raises(TelemetryFailed) as error:
                send(tmp_path / "claude", tmp_path / "own", received, environment=environment)
            assert error.value.message.isprintable()
            assert len(error.value.message) < 400
            assert SECRET not in error.value.message
        for body in (b"<html>fine</html>", b"\xff" * 200_000, b"{}"):
            received.prepared = [Prepared(200, body=body, keeps=True)]
            assert send(tmp_path / "claude", tmp_path / "own", received, again=True).rejected == 0


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    save(tmp_path / "claude", user("one"), assistant("two"))
    with receiving() as received, receiving() as other:
        received.prepared = [Prepared(307, {"location": f"{other.address}/v1/traces"})]
        with pytest.raises(TelemetryFailed, match="answered 307"):
            send(tmp_path / "claude", tmp_path / "own", received)
        assert other.posted == []


def test_a_request_that_is_too_large_is_divided(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        received.prepared = [Prepared(413), Prepared(413)]
        send(demo, tmp_path / "own", received)
        assert_equal_to_usage(demo, tmp_path / "own", received)


def test_what_a_receiver_rejects_is_counted_and_not_sent_again(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    save(config, user("one"), assistant("two"))
    with receiving() as received:
        received.prepared = [rejection(2, "too old")]
        report = send(config, tmp_path / "own", received)
        assert (report.rejected, report.notes) == (2, ["too old"])
        assert send(config, tmp_path / "own", received).unchanged == 1


def test_two_processes_do_not_send_at_the_same_time(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    with (
        receiving() as received,
        hold_lock(tmp_path / "own" / "otlp.lock"),
        pytest.raises(Refused, match="another unspool process is sending telemetry"),
    ):
        send(demo, tmp_path / "own", received)


def test_a_damaged_position_file_is_named_with_what_to_do(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "otlp.db").write_bytes(b"no database" * 500)
    with receiving() as received, pytest.raises(Unreadable, match=r"cannot use `.*otlp\.db`") as error:
        send(demo, tmp_path / "own", received)
    assert error.value.hint is not None
    assert "same ids" in error.value.hint


def test_no_text_of_a_session_is_sent_unless_it_is_asked_for(tmp_path: Path) -> None:
    planted.plant(tmp_path / "claude")
    with receiving() as received:
        send(tmp_path / "claude", tmp_path / "own", received)
        sent = received.raw
        send(tmp_path / "claude", tmp_path / "own", received, content=True)
    assert [word for word in planted.PLANTED if word.encode() in sent] == []
    assert {"wordprompt", "wordinput", "wordresult"} <= {
        word for word in planted.PLANTED if word.encode() in received.raw
    }


@pytest.mark.parametrize("content", [False, True])
def test_no_secret_is_sent_wherever_it_is(tmp_path: Path, content: bool) -> None:
    steps = [
        user(f"my token is {SECRET}"),
        assistant(
            f"I see {SECRET}",
            tool_use(
                "Bash", id=f"call {SECRET}", command=f"curl -H 'Authorization: Bearer {SECRET}'", password="hunter2!x"
            ),
            model=f"model {SECRET}",
        ),
        tool_result(f"token={SECRET}"),
        assistant(tool_use(f"mcp__{SECRET}__do")),
    ]
    save(tmp_path / "claude", *steps, branch=f"fix/{SECRET}", cwd=f"/home/me/{SECRET}")
    with receiving() as received:
        report = send(tmp_path / "claude", tmp_path / "own", received, content=content)
    assert received.spans
    assert SECRET.encode() not in received.raw
    assert b"hunter2!x" not in received.raw
    assert report.redactions


def test_content_has_the_shape_of_the_conventions(tmp_path: Path) -> None:
    long = "word " * 10_000
    steps = [user(long), assistant("done", tool_use("Read", file_path="/a")), tool_result("text of it")]
    save(tmp_path / "claude", *steps)
    with receiving() as received:
        send(tmp_path / "claude", tmp_path / "own", received, content=True)
    (turn,), (request,), (call,) = (received.of(name) for name in ("invoke_agent", "chat", "execute_tool"))
    (message,) = json.loads(turn["attributes"]["gen_ai.input.messages"])
    assert message["role"] == "user"
    assert message["parts"][0]["content"].endswith("… [34,000 characters left out]")
    (answer,) = json.loads(request["attributes"]["gen_ai.output.messages"])
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call"]
    assert answer["parts"][1]["arguments"] == {"file_path": "/a"}
    assert json.loads(call["attributes"]["gen_ai.tool.call.arguments"]) == {"file_path": "/a"}
    assert json.loads(call["attributes"]["gen_ai.tool.call.result"]) == "text of it"


def test_points_are_sums_since_the_session_began_and_never_fall(demo: Path, tmp_path: Path) -> None:
    with receiving() as received:
        send(demo, tmp_path / "own", received)
    starts: dict[str, set[int]] = {}
    series: dict[tuple[str, tuple[tuple[str, object], ...]], list[tuple[int, float]]] = {}
    for (metric, labels, time), point in received.points.items():
        starts.setdefault(dict(labels)["gen_ai.conversation.id"], set()).add(point["start"])
        assert point["start"] < time
        series.setdefault((metric, labels), []).append((time, point["value"]))
    assert {len(found) for found in starts.values()} == {1}
    assert any(len(points) > 1 for points in series.values())
    for points in series.values():
        values = [value for _, value in sorted(points)]
        assert values == sorted(values)


def test_sums_of_real_sessions_are_what_usage_and_stats_say(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-real"
    folder.mkdir(parents=True)
    files = sorted(corpus().rglob("*.jsonl"), key=lambda path: (path.stat().st_size, path))[:120]
    for number, path in enumerate(files):
        (folder / f"{number:08}-0000-4000-8000-000000000000.jsonl").write_bytes(path.read_bytes())
    with receiving() as received:
        send(tmp_path, tmp_path / "own", received)
        assert_equal_to_usage(tmp_path, tmp_path / "own", received)
        assert_tree(received)
    turns = Counter(span["attributes"]["gen_ai.conversation.id"] for span in received.of("invoke_agent"))
    calls = Counter(span["attributes"]["gen_ai.conversation.id"] for span in received.of("execute_tool"))
    for one in open_files(tmp_path, tmp_path / "own").home.sessions():
        said = counts.count_session(one)
        assert turns[one.id] == said["human_turns"] + said["command_turns"]
        assert calls[one.id] == said["tool_calls"]


def assert_tree(received: Received) -> None:
    """Every span leads to a root of its trace, and ends no earlier than it begins."""
    for span in received.spans.values():
        assert 0 < span["start"] <= span["end"]
        seen, at = set[bytes](), span
        while at["parent"]:
            assert at["id"] not in seen
            seen.add(at["id"])
            at = received.spans[span["trace"], at["parent"]]


def save(config: Path, *steps: object, number: int = 1, **options: object) -> None:
    folder = config / "projects" / "-home-me-project"
    folder.mkdir(parents=True, exist_ok=True)
    id = f"{number:08}-0000-4000-8000-000000000001"
    data = session(*steps, id=id, **options).data  # type: ignore[arg-type]
    (folder / f"{id}.jsonl").write_bytes(data)
